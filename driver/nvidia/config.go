package nvidia

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// ErrConfig is what every error about the configuration of the driver wraps.
var ErrConfig = errors.New("nvidia: bad configuration")

// Config is the configuration of the driver. Upstream's option is named with each field.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	// EnabledVGPUTypes are the mdev types to make and the cards to make them on
	// ([gpu_devices] enabled_vgpu_types, [vgpu_TYPE] device_addresses). A card that is
	// not listed is offered whole.
	EnabledVGPUTypes []VGPUType `json:"enabled_vgpu_types,omitempty"`
	// FilterSRIOVVFs passes virtual functions over, those listed for vGPUs, too
	// ([gpu_devices] filter_sriov_vfs). Unlike upstream, a virtual function is no whole
	// GPU without it, either.
	FilterSRIOVVFs bool `json:"filter_sriov_vfs,omitempty"`
	// Policy has the options that all drivers have. Kernel drivers that may be bound to a
	// card that is offered whole are nvidia and nouveau, beside none and vfio-pci.
	driver.Policy
}

// VGPUType is one mdev type and the cards it is made on.
type VGPUType struct {
	// Name is the directory below mdev_supported_types, such as nvidia-35.
	Name string `json:"name"`
	// DeviceAddresses are PCI addresses in the form hhhh:hh:hh.o.
	DeviceAddresses []string `json:"device_addresses"`
}

// ConfigError says what is wrong with the vGPU configuration, in upstream's words. It
// wraps ErrConfig.
type ConfigError struct {
	Reason string
}

// Error returns upstream's text.
func (e *ConfigError) Error() string { return "Invalid vGPU config: " + e.Reason }

// Is reports ErrConfig.
func (e *ConfigError) Is(target error) bool { return target == ErrConfig }

// check validates the configuration and returns the type of each card that is divided.
func (c Config) check() (map[driver.PCIAddress]string, error) {
	if c.Host == "" {
		return nil, fmt.Errorf("%w: no host name", ErrConfig)
	}
	if err := c.Policy.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c.types()
}

func (c Config) types() (map[driver.PCIAddress]string, error) {
	types := make(map[driver.PCIAddress]string)
	for i, t := range c.EnabledVGPUTypes {
		if t.Name == "" || strings.ContainsAny(t.Name, "/\x00\n") || t.Name == "." || t.Name == ".." {
			return nil, &ConfigError{fmt.Sprintf("Incorrect vgpu type name: %q", t.Name)}
		}
		if slices.ContainsFunc(c.EnabledVGPUTypes[:i], func(o VGPUType) bool { return o.Name == t.Name }) {
			return nil, &ConfigError{"Duplicate vgpu type " + t.Name}
		}
		if len(t.DeviceAddresses) == 0 {
			return nil, &ConfigError{"Missing device addresses config for vgpu type " + t.Name}
		}
		for _, text := range t.DeviceAddresses {
			address, err := driver.ParsePCIAddress(text)
			if err != nil {
				return nil, &ConfigError{"Incorrect PCI address: " + text}
			}
			if _, taken := types[address]; taken {
				return nil, &ConfigError{"Duplicate types for PCI address " + text}
			}
			types[address] = t.Name
		}
	}
	return types, nil
}
