package discover

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	vendorAMD   = 0x1002
	vendorIntel = 0x8086
)

// accelerator is a PCI function with the name of its class.
type accelerator struct {
	driver.PCIFunction
	class string
}

// findUnclaimed looks for accelerators that are in none of the reports.
func (d *discovery) findUnclaimed(ctx context.Context, tree driver.Tree, reports []driver.Report) error {
	known := make(map[string]bool)
	for _, report := range reports {
		maps.Copy(known, report.Addresses())
	}
	view := driver.NewView(tree)
	functions, _, _ := view.PCIFunctions(ctx) // what cannot be read is in the list of problems
	for _, f := range functions {
		if class := className(view, f); class != "" && !known[f.Address.String()] {
			d.unclaimed = append(d.unclaimed, accelerator{f, class})
		}
	}
	return ctx.Err()
}

// className is lspci's name of a class of accelerators, and "" for any other function. A VGA controller
// is one if its vendor makes GPUs for computing, since the others are displays of servers. FPGAs with a
// Device Feature List are of several classes.
func className(view *driver.View, f driver.PCIFunction) string {
	switch class := f.DeviceClass(); {
	case isDFL(view, f):
		return "FPGA with a Device Feature List"
	case class == 0x0300 && (f.Vendor == vendorAMD || f.Vendor == vendorIntel):
		return "VGA compatible controller"
	case class == 0x0302:
		return "3D controller"
	case class == 0x0380:
		return "Display controller"
	case class == 0x0b40:
		return "Co-processor"
	case class>>8 == 0x12:
		return "Processing accelerators"
	}
	return ""
}

// isDFL reports whether a function belongs to an FPGA of the kernel's driver dfl-pci, by Intel's
// ids or by the driver.
func isDFL(view *driver.View, f driver.PCIFunction) bool {
	if f.Vendor == vendorIntel {
		return slices.Contains([]uint16{0xbcbd, 0xbcbf, 0xbcc0, 0xbcc1, 0x09c4, 0x09c5, 0x0b30, 0x0b2b, 0x0b2c, 0xbcce, 0xbccf}, f.Product)
	}
	target, err := view.Readlink(f.Dir() + "/driver")
	return err == nil && path.Base(target) == "dfl-pci"
}
