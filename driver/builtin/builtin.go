package builtin

import (
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// The drivers, by their entry points.
const (
	Fake       = "fake_driver"
	NVIDIA     = "nvidia_gpu_driver"
	IntelFPGA  = "intel_fpga_driver"
	XilinxFPGA = "xilinx_fpga_driver"
	InspurFPGA = "inspur_fpga_driver"
	IntelQAT   = "intel_qat_driver"
	IntelNIC   = "intel_nic_driver"
	InspurSSD  = "inspur_nvme_ssd_driver"
	Ascend     = "huawei_ascend_driver"
	HPTS       = "hpts_driver"
	PCI        = "pci_driver"
	Mdev       = "mdev_driver"
)

// Names lists the entry points of all drivers of this module.
func Names() []string {
	return []string{Fake, NVIDIA, IntelFPGA, XilinxFPGA, InspurFPGA, IntelQAT, IntelNIC, InspurSSD, Ascend, HPTS, PCI, Mdev}
}

// Hardware lists the entry points of the drivers that look for hardware: all but the fake one. Drivers
// that need a configuration find nothing without it.
func Hardware() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return name == Fake })
}

// New loads the enabled drivers of this module for a host's tree, as [Registry.New] does.
func New(c Config, tree driver.Tree) ([]driver.Driver, error) { return new(Registry).New(c, tree) }
