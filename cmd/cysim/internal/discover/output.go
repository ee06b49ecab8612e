package discover

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
)

// discovery is the JSON document of cysim discover.
type discovery struct {
	Devices  []foundDevice   `json:"devices"`
	LeftOut  []driver.Notice `json:"left_out"`
	Problems []foundProblem  `json:"problems"`

	// unclaimed are accelerators that no report mentions. Only the tables have them, as
	// suggestions for a whitelist.
	unclaimed []accelerator
	// vgpuTypes are the types of cards without an offered device. Only the tables have them.
	vgpuTypes []makableVGPU
	// groupsKnown is set if the tree has a directory of IOMMU groups.
	groupsKnown bool
}

// foundDevice is one resource provider that Cyborg's agent would report: a deployable of
// a device. A device of several regions or functions has several.
type foundDevice struct {
	// Address is the address of the function that a guest gets, or of the card if there are several.
	Address       string `json:"address"`
	ResourceClass string `json:"resource_class"`
	// Traits are never null.
	Traits []string `json:"traits"`
	// Units is the total of the inventory.
	Units int    `json:"units"`
	Name  string `json:"name"`
	// Type, Vendor and Model are as Cyborg stores them. Product is the id in four
	// hexadecimal digits, empty if the driver does not report it.
	Type    string `json:"type"`
	Vendor  string `json:"vendor"`
	Product string `json:"product"`
	Model   string `json:"model"`
	Driver  string `json:"driver"`
	// IOMMUGroup is the group of the first handle and NUMANode the node of the device. Both are
	// null if the tree does not show them.
	IOMMUGroup *int `json:"iommu_group"`
	NUMANode   *int `json:"numa_node"`
	// Health is the health of the function at Address, null if Address is not a PCI function.
	Health *driver.Health `json:"health"`
	// Handles are the attach handles; a guest gets one.
	Handles []foundHandle `json:"attach_handles"`
	// Resources are further inventories, such as local memory in MiB.
	Resources map[string]int `json:"resources,omitempty"`
	// Warnings are reasons why a guest may not start with the device.
	Warnings []string `json:"warnings,omitempty"`
}

type foundHandle struct {
	Type string      `json:"type"`
	Info driver.Info `json:"info"`
}

type foundProblem struct {
	Address string `json:"address"`
	File    string `json:"file"`
	Driver  string `json:"driver"`
	Reason  string `json:"reason"`
}

// newDiscovery collects the reports of the drivers, in their order. A driver that failed is
// a problem; one for all that failed by the same cause, such as a bus that cannot be read.
func newDiscovery(drivers []driver.Driver, reports []driver.Report) discovery {
	d := discovery{Devices: []foundDevice{}, LeftOut: []driver.Notice{}, Problems: []foundProblem{}}
	for i, report := range reports {
		name := drivers[i].Name()
		for _, device := range report.Devices {
			d.Devices = append(d.Devices, foundDevices(name, device, report.Warnings)...)
		}
		d.LeftOut = append(d.LeftOut, report.LeftOut...)
		for _, p := range report.Problems {
			d.Problems = append(d.Problems, foundProblem{p.Address, p.File, name, command.OneLine(p.Err.Error())})
		}
		if err := report.Err; err != nil {
			reason := strings.TrimPrefix(command.OneLine(err.Error()), name+": ")
			if !slices.ContainsFunc(d.Problems, func(p foundProblem) bool { return p.Address == "" && p.File == "" && p.Reason == reason }) {
				d.Problems = append(d.Problems, foundProblem{Driver: name, Reason: reason})
			}
		}
	}
	return d
}

func foundDevices(name string, device driver.Device, warnings []driver.Notice) []foundDevice {
	card := device.ControlPath.Address().String()
	var list []foundDevice
	for _, p := range device.Deployables {
		address := card
		if len(p.AttachHandles) == 1 && p.AttachHandles[0].Type == driver.HandlePCI {
			if at, err := driver.PCIAddressOf(p.AttachHandles[0].Info); err == nil {
				address = at.String()
			}
		}
		f := foundDevice{
			Address: address, ResourceClass: p.Class, Traits: append([]string{}, p.Traits...),
			Units: p.NumAccelerators, Name: p.Name, Type: device.Type, Vendor: device.Vendor, Product: device.ProductID(), Model: device.Model,
			Driver: name, Handles: []foundHandle{}, Resources: p.Resources,
		}
		for _, h := range p.AttachHandles {
			f.Handles = append(f.Handles, foundHandle{h.Type, h.Info})
		}
		for _, w := range warnings {
			switch {
			case w.Address == address:
				f.Warnings = append(f.Warnings, w.Reason)
			case w.Address == card, slices.Contains(driver.Device{Deployables: []driver.Deployable{p}}.Addresses(), driver.ParseAddress(w.Address)):
				f.Warnings = append(f.Warnings, w.Address+": "+w.Reason)
			}
		}
		list = append(list, f)
	}
	if len(list) > 0 && len(device.Resources) > 0 { // shared by all; shown once
		list[0].Resources = maps.Clone(list[0].Resources)
		if list[0].Resources == nil {
			list[0].Resources = make(map[string]int)
		}
		maps.Copy(list[0].Resources, device.Resources)
	}
	return list
}

// writeTables writes the document as text.
func (d discovery) writeTables(w io.Writer, sysfs string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "What Cyborg's agent would offer of %s\n\n", sysfs)
	if len(d.Devices) == 0 {
		b.WriteString("Nothing: no driver found a device that can be given to a guest.\n")
	} else {
		b.WriteString(d.offered())
	}
	if len(d.LeftOut) > 0 {
		t := command.NewTable("address", "driver", "reason")
		for _, l := range shortened(d.LeftOut) {
			t.AppendRow(table.Row{l.Address, l.Driver, l.Reason})
		}
		fmt.Fprintf(&b, "\nLeft out, and why\n\n%s\n", t.Render())
	}
	if len(d.Problems) > 0 {
		t := command.NewTable("address", "file", "driver", "reason")
		for _, p := range d.Problems {
			t.AppendRow(table.Row{p.Address, p.File, p.Driver, p.Reason})
		}
		fmt.Fprintf(&b, "\nNot understood\n\n%s\n", t.Render())
	}
	if len(d.unclaimed) > 0 {
		t := command.NewTable("address", "class", "whitelist entry")
		for _, f := range d.unclaimed {
			t.AppendRow(table.Row{f.Address, f.class, fmt.Sprintf(`{"vendor_id": "%s", "product_id": "%s"}`, f.VendorID(), f.ProductID())})
		}
		fmt.Fprintf(&b, "\nAccelerators that no driver takes; pci_driver offers what [pci] passthrough_whitelist lists\n\n%s\n", t.Render())
	}
	if len(d.vgpuTypes) > 0 {
		t := command.NewTable("card", "type", "vgpu_name")
		for _, v := range d.vgpuTypes {
			t.AppendRow(table.Row{v.card, fmt.Sprint("nvidia-", v.ID), v.Name})
		}
		fmt.Fprintf(&b, "\nvGPU types that the cards can make; nvidia_gpu_driver offers what [gpu_devices] enabled_vgpu_types lists\n\n%s\n", t.Render())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// minRun is the number of rows from which on those alike are one.
const minRun = 4

// shortened merges consecutive functions that were skipped for the same reason into one row, for
// example the virtual functions of a card.
func shortened(list []driver.Notice) (rows []driver.Notice) {
	for len(list) > 0 {
		first, n := list[0], 1
		for n < len(list) && list[n].Driver == first.Driver && list[n].Reason == first.Reason {
			n++
		}
		if n >= minRun {
			first.Address = fmt.Sprintf("%s to %s (%d)", first.Address, list[n-1].Address, n)
			rows = append(rows, first)
		} else {
			rows = append(rows, list[:n]...)
		}
		list = list[n:]
	}
	return rows
}

// offered is the table of devices, with an example of a device profile.
func (d discovery) offered() string {
	t := command.NewTable("address", "device", "resource class", "units", "traits", "group", "numa", "driver")
	for _, f := range d.Devices {
		t.AppendRow(table.Row{f.Address, f.description(), f.classes(), strconv.Itoa(f.Units), strings.Join(f.Traits, "\n"), f.groupText(d.groupsKnown), numberOr(f.NUMANode, "-"), f.Driver})
	}
	text := t.Render() + "\n"
	for _, f := range d.Devices {
		for _, warning := range f.Warnings {
			text += fmt.Sprintf("\nWarning: %s is offered, but %s.\n", f.Address, warning)
		}
	}
	return text + fmt.Sprintf("\nA device profile asks for one with [{\"resources:%s\": \"1\"}]; section 1 of docs/operators.md has more.\n", d.Devices[0].ResourceClass)
}

// description of a device: its type, its ids as lspci shows them, and its model unless that
// only repeats the id.
func (f foundDevice) description() string {
	ids := strings.TrimPrefix(strings.ToLower(f.Vendor), "0x")
	if f.Product != "" {
		ids += ":" + f.Product
	}
	model := f.Model
	if strings.HasPrefix(model, "miss") || strings.EqualFold(model, f.Product) { // upstream's words for none
		model = ""
	}
	return strings.Join(strings.Fields(f.Type+" "+ids+" "+model), " ")
}

// classes are the classes of all inventories.
func (f foundDevice) classes() string {
	lines := []string{f.ResourceClass}
	for _, class := range slices.Sorted(maps.Keys(f.Resources)) {
		lines = append(lines, fmt.Sprintf("%s (%d)", class, f.Resources[class]))
	}
	return strings.Join(lines, "\n")
}
