package builtin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/ascend"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/ssd"
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

// Names lists the entry points of all drivers.
func Names() []string {
	return []string{Fake, NVIDIA, IntelFPGA, XilinxFPGA, InspurFPGA, IntelQAT, IntelNIC, InspurSSD, Ascend, HPTS, PCI, Mdev}
}

// New loads the enabled drivers for a host's tree, in the order in which they are
// enabled. All faults are joined; each wraps
// driver.ErrConfig and names the driver.
func New(c Config, tree driver.Tree) ([]driver.Driver, error) {
	enabled := c.EnabledDrivers
	if enabled == nil {
		enabled = []string{Fake}
	}
	var (
		drivers []driver.Driver
		faults  []error
	)
	for i, name := range enabled {
		if slices.Contains(enabled[:i], name) {
			faults = append(faults, fmt.Errorf("%w: enabled_drivers: %s appears twice", driver.ErrConfig, name))
			continue
		}
		d, err := c.load(name, tree)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		drivers = append(drivers, d)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return drivers, nil
}

// load makes one driver.
func (c Config) load(name string, tree driver.Tree) (driver.Driver, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("%w: enabled_drivers: unknown driver (known: %s)", driver.ErrConfig, strings.Join(Names(), ", "))
	}
	if c.Host == "" {
		return nil, fmt.Errorf("%w: no host name", driver.ErrConfig)
	}
	if tree == nil && name != Fake {
		return nil, fmt.Errorf("%w: the driver reads a sysfs tree, and there is none", driver.ErrConfig)
	}
	host, policy, section, load := c.section(name, tree)
	if err := c.complete(section, host, policy); err != nil {
		return nil, err
	}
	return load()
}

// section finds the section of a driver, whose host and policy are completed before the
// driver is loaded.
func (c *Config) section(name string, tree driver.Tree) (
	host *string, policy *driver.Policy, section string, load func() (driver.Driver, error),
) {
	switch name {
	case NVIDIA:
		return &c.NVIDIA.Host, &c.NVIDIA.Policy, "gpu_devices", loader(nvidia.New, &c.NVIDIA, tree)
	case IntelFPGA:
		return &c.FPGA.Host, &c.FPGA.Policy, "fpga_devices", loader(fpga.NewIntel, &c.FPGA, tree)
	case XilinxFPGA:
		return &c.FPGA.Host, &c.FPGA.Policy, "fpga_devices", loader(fpga.NewXilinx, &c.FPGA, tree)
	case InspurFPGA:
		return &c.FPGA.Host, &c.FPGA.Policy, "fpga_devices", loader(fpga.NewInspur, &c.FPGA, tree)
	case IntelQAT:
		return &c.QAT.Host, &c.QAT.Policy, "qat_devices", loader(qat.New, &c.QAT, tree)
	case IntelNIC:
		return &c.NIC.Host, &c.NIC.Policy, "nic_devices", loader(nic.New, &c.NIC, tree)
	case InspurSSD:
		return &c.SSD.Host, &c.SSD.Policy, "ssd_devices", loader(ssd.New, &c.SSD, tree)
	case Ascend:
		return &c.Ascend.Host, &c.Ascend.Policy, "ascend_devices", loader(ascend.New, &c.Ascend, tree)
	case HPTS:
		return &c.HPTS.Host, &c.HPTS.Policy, "hpts_devices", loader(hpts.New, &c.HPTS, tree)
	case PCI:
		return &c.PCI.Host, &c.PCI.Policy, "pci", loader(pci.New, &c.PCI, tree)
	case Mdev:
		return &c.Mdev.Host, &c.Mdev.Policy, "mdev_devices", loader(mdev.New, &c.Mdev, tree)
	}
	return &c.Host, &c.Policy, "", func() (driver.Driver, error) { return fake.New(c.Host), nil }
}

// loader returns what makes a driver of a section. It keeps a nil pointer of a driver from
// becoming an interface that is not nil.
func loader[C any, D driver.Driver](newDriver func(C, driver.Tree) (D, error), section *C, tree driver.Tree) func() (driver.Driver, error) {
	return func() (driver.Driver, error) {
		d, err := newDriver(*section, tree)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}
