package pci

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
)

const (
	name       = "pci"
	baseBridge = 0x06
	netDir     = "class/net"
)

// Config is the configuration of the driver. Upstream's option is named with each field.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	// PassthroughWhitelist lists what is offered ([pci] passthrough_whitelist). An empty
	// one offers nothing.
	PassthroughWhitelist Whitelist `json:"passthrough_whitelist,omitempty"`
}

// Driver offers the whitelisted PCI functions of one host.
type Driver struct {
	config   Config
	matchers []matcher
	tree     driver.Tree
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver for a host's tree. The error wraps ErrConfig and names the
// entry of the whitelist.
func New(config Config, tree driver.Tree) (*Driver, error) {
	if config.Host == "" {
		return nil, fmt.Errorf("%w: no host name", ErrConfig)
	}
	d := &Driver{config: config, tree: tree}
	for i, spec := range config.PassthroughWhitelist {
		m, err := newMatcher(spec)
		if err != nil {
			return nil, fmt.Errorf("%w: passthrough_whitelist entry %d: %w", ErrConfig, i, err)
		}
		d.matchers = append(d.matchers, m)
	}
	return d, nil
}

// Name returns "pci".
func (d *Driver) Name() string { return name }

// Discover reports the whitelisted functions. Without a whitelist it looks at nothing.
// The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	if len(d.matchers) == 0 {
		return driver.Report{}, ctx.Err()
	}
	functions, problems, err := driver.PCIFunctions(ctx, d.tree)
	if err != nil {
		return driver.Report{}, fmt.Errorf("pci: discover: %w", err)
	}
	report := driver.Report{Problems: problems}
	interfaces := d.interfaces(&report)
	for _, f := range functions {
		if err := ctx.Err(); err != nil {
			return driver.Report{}, fmt.Errorf("pci: discover: %w", err)
		}
		if d.admits(f, interfaces) {
			d.offer(f, &report)
		}
	}
	return report, nil
}

func (d *Driver) admits(f driver.PCIFunction, interfaces map[string]driver.PCIAddress) bool {
	for _, m := range d.matchers {
		if m.fits(f, interfaces) {
			return true
		}
	}
	return false
}

// interfaces finds the functions of the network interfaces that the whitelist names.
func (d *Driver) interfaces(report *driver.Report) map[string]driver.PCIAddress {
	found := make(map[string]driver.PCIAddress)
	for _, m := range d.matchers {
		if m.devName == "" {
			continue
		}
		file := path.Join(netDir, m.devName, "device")
		target, err := d.tree.Readlink(file)
		if err == nil {
			found[m.devName], err = driver.ParsePCIAddress(path.Base(target))
		}
		if err != nil {
			delete(found, m.devName)
			report.Problems = append(report.Problems, driver.Problem{File: file,
				Err: fmt.Errorf("%w: devname %s has no PCI function: %w", ErrConfig, m.devName, err)})
		}
	}
	return found
}

// offer reports one function, or why it must not be.
func (d *Driver) offer(f driver.PCIFunction, report *driver.Report) {
	state, problems := driver.ReadPCIState(d.tree, f)
	if len(problems) > 0 {
		report.Problems = append(report.Problems, problems...)
		return
	}
	if reason := refuse(f, state); reason != "" {
		report.LeftOut = append(report.LeftOut, driver.LeftOut{Address: f.Address.String(), Driver: name, Reason: reason})
		return
	}
	device, err := d.device(f)
	if err != nil {
		report.Problems = append(report.Problems, driver.Problem{Address: f.Address.String(), Err: err})
		return
	}
	report.Devices = append(report.Devices, device)
}

// refuse says why a function must not be offered, or "".
func refuse(f driver.PCIFunction, state driver.PCIState) string {
	if f.DeviceClass()>>8 == baseBridge {
		return "a bridge cannot be given to a guest"
	}
	if reason := state.HostUse(f); reason != "" {
		return reason
	}
	return state.Divided()
}

// device is a function as upstream reports it: a GPU, whatever it is.
func (d *Driver) device(f driver.PCIFunction) (driver.Device, error) {
	traits := []string{driver.TraitOwnerCyborg}
	vendor := vendorName(f.Vendor)
	if vendor != "" {
		traits = append(traits, "CUSTOM_PCI_"+vendor)
	} else {
		vendor = strings.ToUpper(f.VendorID())
	}
	product, err := driver.CustomName("PCI", "PRODUCT", "ID", f.ProductID())
	if err != nil {
		return driver.Device{}, err
	}
	return driver.Device{
		Vendor:          f.VendorID(),
		Model:           f.ProductID(),
		Type:            driver.TypeGPU,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": null}`, f.ProductID()),
		VendorBoardInfo: "miss_vb_info",
		ControlPath:     f.Address.ControlPath(),
		Deployables: []driver.Deployable{{
			Name:            d.config.Host + "_" + f.Address.String(),
			NumAccelerators: 1,
			DriverName:      vendor,
			Attributes:      driver.Attributes("CUSTOM_PCI", append(traits, product)...),
			AttachHandles:   []driver.AttachHandle{{Type: driver.HandlePCI, Info: f.Address.Info()}},
		}},
	}, nil
}

// vendorName knows the vendors that upstream's driver knows, in the form of a trait.
func vendorName(vendor uint16) string {
	switch vendor {
	case 0x10de:
		return "NVIDIA"
	case 0x102b:
		return "MATROX"
	case 0x8086:
		return "INTEL"
	case 0x1bd4:
		return "INSPUR"
	case 0x10ee:
		return "XILINX"
	case 0x19e5:
		return "HUAWEI"
	}
	return ""
}
