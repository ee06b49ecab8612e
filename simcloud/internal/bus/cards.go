package bus

import "github.com/gocyborg/gocyborg/driver/sysfs"

// WholeGPU is a Tesla P100.
func WholeGPU(address string, iommuGroup int) sysfs.PCIDevice {
	node := 0
	return sysfs.PCIDevice{
		Address: address, Vendor: "10de", Product: "15f8", SubsystemVendor: "10de", SubsystemProduct: "118f",
		Class: "0302", Revision: "a1", Driver: "vfio-pci", NUMANode: &node, IOMMUGroup: &iommuGroup,
	}
}

// TeslaT4 has 16 GiB: sixteen vGPUs of 1 GiB or eight of 2 GiB.
func TeslaT4(address string, iommuGroup int) sysfs.PCIDevice {
	node := 1
	return sysfs.PCIDevice{
		Address: address, Vendor: "10de", Product: "1eb8", SubsystemVendor: "10de", SubsystemProduct: "12a2",
		Class: "0302", Revision: "a1", Driver: "nvidia", NUMANode: &node, IOMMUGroup: &iommuGroup,
		MdevTypes: []sysfs.MdevType{
			{Type: "nvidia-222", Name: "GRID T4-1B", AvailableInstances: 16},
			{Type: "nvidia-223", Name: "GRID T4-2B", AvailableInstances: 8},
		},
	}
}

// IntelFPGA is a programmable acceleration card with an Arria 10. Its one region waits for a function.
func IntelFPGA(address string, iommuGroup int) sysfs.PCIDevice {
	node := 1
	return sysfs.PCIDevice{
		Address: address, Vendor: "8086", Product: "09c4", SubsystemVendor: "8086", Class: "1200",
		Driver: "intel-fpga-pci", NUMANode: &node, IOMMUGroup: &iommuGroup,
		FPGA: &sysfs.FPGA{InterfaceID: "9926ab6d6c925a68aabca7d84c545738", Ports: []sysfs.FPGAPort{{}}},
	}
}

// DualFPGA is such a card with a Stratix 10, with two virtual functions that lead into its one region.
func DualFPGA(address string, iommuGroup int) sysfs.PCIDevice {
	const hello = "c6aa954a9b914a37abc11d9f0709dcc3"
	node := 1
	return sysfs.PCIDevice{
		Address: address, Vendor: "8086", Product: "0b2b", SubsystemVendor: "8086", Class: "1200",
		Driver: "intel-fpga-pci", NUMANode: &node, IOMMUGroup: &iommuGroup,
		VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "0b2c", Driver: "intel-fpga-pci"},
		FPGA: &sysfs.FPGA{
			Dev: 1, InterfaceID: "bfac4d851ee856fe8c95865ce1bbaa2d",
			Ports: []sysfs.FPGAPort{{Number: 1, AFUID: hello, VF: 1}, {Number: 2, AFUID: hello, VF: 2}},
		},
	}
}
