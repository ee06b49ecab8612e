package cyborgconf_test

import (
	"fmt"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/cyborgconf"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func Example() {
	config, err := cyborgconf.Parse([]byte(`
[DEFAULT]
host = compute1
[agent]
enabled_drivers = nvidia_gpu_driver, pci_driver
[pci]
passthrough_whitelist = {"vendor_id": "8086", "product_id": "1520"}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := sysfs.Generate(sysfs.Description{})
	if err != nil {
		fmt.Println(err)
		return
	}
	drivers, err := builtin.New(config, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range drivers {
		fmt.Println(config.Host, d.Name())
	}
	// Output:
	// compute1 nvidia
	// compute1 pci
}
