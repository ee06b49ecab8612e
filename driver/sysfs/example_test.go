package sysfs_test

import (
	"fmt"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func ExampleGenerate() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{{
		Address: "0000:84:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia",
		MdevTypes: []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 16}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	typ := "class/mdev_bus/0000:84:00.0/mdev_supported_types/nvidia-35"
	fmt.Println(tree.WriteFile(typ+"/create", []byte("91ac1606-427e-44bb-8233-f4ff4bf3d241")))
	left, err := tree.ReadFile(typ + "/available_instances")
	fmt.Printf("%q %v\n", left, err)
	fmt.Println(tree.Mdevs())
	// Output:
	// <nil>
	// "15\n" <nil>
	// [{91ac1606-427e-44bb-8233-f4ff4bf3d241 0000:84:00.0 nvidia-35}]
}
