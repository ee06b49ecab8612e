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
// enabled. Options are for the FPGA drivers. All faults are joined; each wraps ErrConfig
// and names the driver.
func New(c Config, tree driver.Tree, options ...fpga.Option) ([]driver.Driver, error) {
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
			faults = append(faults, fmt.Errorf("%w: enabled_drivers: %s is there twice", ErrConfig, name))
			continue
		}
		d, err := c.load(name, tree, options)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: %s: %w", ErrConfig, name, err))
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
func (c Config) load(name string, tree driver.Tree, options []fpga.Option) (driver.Driver, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("enabled_drivers: unknown driver (known: %s)", strings.Join(Names(), ", "))
	}
	if c.Host == "" {
		return nil, errors.New("no host name")
	}
	if tree == nil && name != Fake {
		return nil, errors.New("the driver looks at a sysfs, and there is none")
	}
	host, policy, section, load := c.section(name, tree, options)
	if err := c.settle(section, host, policy); err != nil {
		return nil, err
	}
	return load()
}

// section finds the section of a driver, whose host and policy may be settled before the
// driver is loaded.
func (c *Config) section(name string, tree driver.Tree, options []fpga.Option) (
	host *string, policy *driver.Policy, section string, load func() (driver.Driver, error),
) {
	switch name {
	case NVIDIA:
		return &c.NVIDIA.Host, &c.NVIDIA.Policy, "gpu_devices", loader(func() (*nvidia.Driver, error) { return nvidia.New(c.NVIDIA, tree) })
	case IntelFPGA:
		return &c.FPGA.Host, &c.FPGA.Policy, "fpga_devices", loader(func() (*fpga.Intel, error) { return fpga.NewIntel(c.FPGA, tree, options...) })
	case XilinxFPGA:
		return &c.FPGA.Host, &c.FPGA.Policy, "fpga_devices", loader(func() (*fpga.Xilinx, error) { return fpga.NewXilinx(c.FPGA, tree, options...) })
	case InspurFPGA:
		return &c.FPGA.Host, &c.FPGA.Policy, "fpga_devices", loader(func() (*fpga.Inspur, error) { return fpga.NewInspur(c.FPGA, tree) })
	case IntelQAT:
		return &c.QAT.Host, &c.QAT.Policy, "qat_devices", loader(func() (*qat.Driver, error) { return qat.New(c.QAT, tree) })
	case IntelNIC:
		return &c.NIC.Host, &c.NIC.Policy, "nic_devices", loader(func() (*nic.Driver, error) { return nic.New(c.NIC, tree) })
	case InspurSSD:
		return &c.SSD.Host, &c.SSD.Policy, "ssd_devices", loader(func() (*ssd.Driver, error) { return ssd.New(c.SSD, tree) })
	case Ascend:
		return &c.Ascend.Host, &c.Ascend.Policy, "ascend_devices", loader(func() (*ascend.Driver, error) { return ascend.New(c.Ascend, tree) })
	case HPTS:
		return &c.HPTS.Host, &c.HPTS.Policy, "hpts_devices", loader(func() (*hpts.Driver, error) { return hpts.New(c.HPTS, tree) })
	case PCI:
		return &c.PCI.Host, &c.PCI.Policy, "pci", loader(func() (*pci.Driver, error) { return pci.New(c.PCI, tree) })
	case Mdev:
		return &c.Mdev.Host, &c.Mdev.Policy, "mdev_devices", loader(func() (*mdev.Driver, error) { return mdev.New(c.Mdev, tree) })
	}
	return &c.Host, &c.Policy, "", loader(func() (*fake.Driver, error) { return fake.New(c.Host), nil })
}

// loader keeps a nil pointer of a driver from becoming an interface that is not nil.
func loader[D driver.Driver](load func() (D, error)) func() (driver.Driver, error) {
	return func() (driver.Driver, error) {
		d, err := load()
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}
