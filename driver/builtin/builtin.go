package builtin

import (
	"errors"
	"fmt"
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

// Names lists the entry points of all drivers.
func Names() []string {
	return []string{Fake, NVIDIA, IntelFPGA, XilinxFPGA, InspurFPGA, IntelQAT, IntelNIC, InspurSSD, Ascend, HPTS, PCI, Mdev}
}

// New loads the enabled drivers for a host's tree, in the order in which they are
// enabled. All faults are joined; each wraps driver.ErrConfig and names the field.
func New(c Config, tree driver.Tree) ([]driver.Driver, error) {
	faults := c.checkEnabled()
	if c.Host == "" {
		faults = append(faults, errors.New("host: no host name"))
	}
	var drivers []driver.Driver
	sections := c.sections()
	enabled := c.enabled(sections)
	for i, name := range enabled {
		at := slices.IndexFunc(sections, func(s section) bool { return slices.Contains(s.names, name) })
		if at < 0 || slices.Contains(enabled[:i], name) {
			continue // a fault already
		}
		s := sections[at]
		if tree == nil && name != Fake {
			faults = append(faults, fmt.Errorf("enabled_drivers: %s reads a sysfs tree, and there is none", name))
			continue
		}
		if err := s.checkHost(c.Host); err != nil {
			faults = append(faults, err)
			continue
		}
		d, err := s.load(name, tree)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", s.field, err))
			continue
		}
		drivers = append(drivers, d)
	}
	for i, err := range faults {
		if !errors.Is(err, driver.ErrConfig) {
			faults[i] = fmt.Errorf("%w: %w", driver.ErrConfig, err)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return drivers, nil
}
