package nvidia

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
)

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

// check validates the configuration and returns the type of each card that is divided.
// Errors about vGPUs have upstream's words.
func (c Config) check() (map[string]string, error) {
	if err := c.CheckConfig(c.Host); err != nil {
		return nil, err
	}
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%w: Invalid vGPU config: "+format, append([]any{driver.ErrConfig}, args...)...)
	}
	types := make(map[string]string)
	for i, t := range c.EnabledVGPUTypes {
		if !file.IsName(t.Name) {
			return nil, fault("Incorrect vgpu type name: %q", t.Name)
		}
		if slices.ContainsFunc(c.EnabledVGPUTypes[:i], func(o VGPUType) bool { return o.Name == t.Name }) {
			return nil, fault("Duplicate vgpu type %s", t.Name)
		}
		if len(t.DeviceAddresses) == 0 {
			return nil, fault("Missing device addresses config for vgpu type %s", t.Name)
		}
		for _, text := range t.DeviceAddresses {
			address, err := driver.ParsePCIAddress(text)
			if err != nil {
				return nil, fault("Incorrect PCI address: %s", text)
			}
			if types[address.String()] != "" {
				return nil, fault("Duplicate types for PCI address %s", text)
			}
			types[address.String()] = t.Name
		}
	}
	return types, nil
}
