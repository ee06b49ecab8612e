package builtin

import (
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/ascend"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/internal/strictjson"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/ssd"
)

// Config is the configuration of the drivers of one host. Upstream's option or section is
// named with each field.
type Config struct {
	// EnabledDrivers are the drivers to load, by the names that Names lists ([agent]
	// enabled_drivers). Nil means fake_driver, upstream's default; an empty list loads
	// none. Sections of drivers that are not loaded say nothing.
	EnabledDrivers []string `json:"enabled_drivers"`
	// Host starts the names of deployables ([DEFAULT] host). A section has the same, or
	// leaves it out.
	Host string `json:"host"`
	// Policy counts for every driver whose section does not set the option.
	driver.Policy
	NVIDIA nvidia.Config `json:"gpu_devices"`    // [gpu_devices], [vgpu_TYPE]
	FPGA   fpga.Config   `json:"fpga_devices"`   // of all three FPGA drivers; upstream has no options
	QAT    qat.Config    `json:"qat_devices"`    // upstream has no options
	NIC    nic.Config    `json:"nic_devices"`    // [nic_devices], [TYPE]
	SSD    ssd.Config    `json:"ssd_devices"`    // upstream has no options
	Ascend ascend.Config `json:"ascend_devices"` // upstream has no options
	HPTS   hpts.Config   `json:"hpts_devices"`   // not a driver of upstream's
	PCI    pci.Config    `json:"pci"`            // [pci]
	Mdev   mdev.Config   `json:"mdev_devices"`   // not a driver of upstream's; Nova's [mdev_TYPE]
}

// ParseConfig reads a configuration from JSON. Unknown fields are refused; the error wraps
// driver.ErrConfig. What the drivers refuse shows in New.
func ParseConfig(data []byte) (Config, error) {
	var c Config
	if err := strictjson.Decode(data, &c); err != nil {
		return Config{}, fmt.Errorf("%w: %w", driver.ErrConfig, err)
	}
	return c, nil
}

// complete gives a section the host and the common policy.
func (c Config) complete(section string, host *string, policy *driver.Policy) error {
	if *host != "" && *host != c.Host {
		return fmt.Errorf("%w: %s: host %q is not %q, the host of all", driver.ErrConfig, section, *host, c.Host)
	}
	*host, *policy = c.Host, policy.Or(c.Policy)
	return nil
}
