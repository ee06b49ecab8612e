package builtin_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// All drivers look at one machine. A real machine is the tree of sysfs.OpenDir("/sys", ...).
func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:3b:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "vfio-pci"},
		{Address: "0000:5e:00.0", Vendor: "8086", Product: "1520", Class: "0200", Driver: "vfio-pci"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	config, err := builtin.ParseConfig([]byte(`{
		"enabled_drivers": ["nvidia_gpu_driver", "pci_driver"], "host": "compute1",
		"pci": {"passthrough_whitelist": {"vendor_id": "8086", "product_id": "1520"}}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	drivers, err := builtin.New(config, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, report := range driver.DiscoverAll(context.Background(), drivers) {
		for _, device := range report.Devices {
			fmt.Println(drivers[i].Name(), device.Deployables[0].Name, device.Deployables[0].Class)
		}
	}
	// Output:
	// nvidia compute1_0000:3b:00.0 PGPU
	// pci compute1_0000:5e:00.0 CUSTOM_PCI
}
