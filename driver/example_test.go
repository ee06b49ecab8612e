package driver_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// sharkDriver offers the network processors of a vendor that this module does not know.
type sharkDriver struct {
	host string
	tree driver.Tree
}

func (d sharkDriver) Name() string { return "shark" }

func (d sharkDriver) Discover(ctx context.Context) (driver.Report, error) {
	view := driver.NewView(d.tree)
	functions, problems, err := view.PCIFunctions(ctx)
	report := driver.Report{Problems: problems}
	for _, f := range functions {
		if f.VendorID() != "1d55" {
			continue
		}
		state, problems := view.PCIState(f)
		report.Problems = append(report.Problems, problems...)
		if reason := state.Divided(); reason != "" {
			report.LeftOut = append(report.LeftOut, driver.Notice{Address: f.Address.String(), Driver: d.Name(), Reason: reason})
			continue
		}
		report.Devices = append(report.Devices, driver.Device{
			Vendor: f.VendorID(), Model: "Shark", Type: driver.TypeNIC,
			ControlPath: f.Address.ControlPath(),
			Deployables: []driver.Deployable{{
				Name: d.host + "_" + f.Address.String(), NumAccelerators: 1, DriverName: d.Name(),
				Class: "CUSTOM_NIC", Traits: []string{"CUSTOM_SHARK"},
				AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: f.Address.Info()}},
			}},
		})
	}
	return report, err
}

// A driver outside this module needs the interface, a tree and nothing else.
func ExampleDriver() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:05:00.0", Vendor: "1d55", Product: "1000", Class: "0200", VFs: &sysfs.VFs{Total: 2, Enabled: 1, Product: "1001"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var d driver.Driver = sharkDriver{host: "compute1", tree: tree}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, device := range report.Devices {
		fmt.Println(device.Deployables[0].Name, device.Deployables[0].Traits, device.Validate())
	}
	for _, l := range report.LeftOut {
		fmt.Println(l.Address, l.Reason)
	}
	// Output:
	// compute1_0000:05:00.1 [CUSTOM_SHARK] <nil>
	// 0000:05:00.0 physical function with virtual functions enabled (1)
}

// All drivers of a host share one view of its hardware. If two drivers claim a device, both
// report a problem and neither offers it.
func ExampleDiscoverAll() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:05:00.0", Vendor: "1d55", Product: "1000", Class: "0200"},
		{Address: "0000:06:00.0", Vendor: "10de", Product: "15f8", Class: "0302"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	everything, err := pci.New(pci.Config{Host: "compute1", PassthroughWhitelist: []pci.Spec{{}}}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, report := range driver.DiscoverAll(context.Background(), []driver.Driver{sharkDriver{host: "compute1", tree: tree}, everything}) {
		for _, device := range report.Devices {
			fmt.Println(device.ControlPath.Address())
		}
		for _, problem := range report.Problems {
			fmt.Println(problem)
		}
	}
	// Output:
	// driver: device 0000:05:00.0: driver: two drivers report one device: shark and pci report the device, and none of them may offer it
	// 0000:06:00.0
	// driver: device 0000:05:00.0: driver: two drivers report one device: shark and pci report the device, and none of them may offer it
}
