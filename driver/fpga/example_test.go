package fpga_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// A card with two regions, each reached by a virtual function.
func ExampleNewIntel() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{{
		Address: "0000:5e:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
		VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "09c5", Driver: "vfio-pci"},
		FPGA: &sysfs.FPGA{
			Regions: []sysfs.FPGARegion{{Number: 0, InterfaceID: strings.Repeat("1", 32)}, {Number: 1, InterfaceID: strings.Repeat("2", 32)}},
			Ports:   []sysfs.FPGAPort{{Number: 0, VF: 1, AFUID: strings.Repeat("a", 32)}, {Number: 1, VF: 2}},
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := fpga.NewIntel(fpga.Config{Host: "compute1"}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, part := range report.Devices[0].Deployables {
		fmt.Println(part.Name)
		for _, trait := range part.Traits {
			fmt.Println(" ", trait)
		}
	}
	fmt.Println("left out:", report.LeftOut[0].Address, report.LeftOut[0].Reason)
	// Output:
	// compute1_0000:5e:00.0_region0
	//   CUSTOM_FPGA_INTEL
	//   CUSTOM_FPGA_INTEL_PAC_ARRIA10
	//   CUSTOM_FPGA_FUNCTION_ID_INTEL_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
	//   CUSTOM_FPGA_REGION_INTEL_11111111111111111111111111111111
	//   CUSTOM_PROGRAMMABLE
	// compute1_0000:5e:00.0_region1
	//   CUSTOM_FPGA_INTEL
	//   CUSTOM_FPGA_INTEL_PAC_ARRIA10
	//   CUSTOM_FPGA_REGION_INTEL_22222222222222222222222222222222
	//   CUSTOM_PROGRAMMABLE
	// left out: 0000:5e:00.0 physical function with virtual functions enabled (2)
}
