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
	// FilterSRIOVVFs skips virtual functions, including those listed for vGPUs ([gpu_devices]
	// filter_sriov_vfs). Unlike upstream, a virtual function is never a whole GPU, even without
	// it.
	FilterSRIOVVFs bool `json:"filter_sriov_vfs,omitempty"`
	// Policy has the options that all drivers have. A card that is offered as a whole may be
	// bound to nvidia, nouveau, vfio-pci or no kernel driver.
	driver.Policy
}

// VGPUType is one type of vGPUs and the cards it is made on.
type VGPUType struct {
	// Name is the directory below mdev_supported_types, such as nvidia-35. For a type without
	// mediated devices it is nvidia- and the id in creatable_vgpu_types.
	Name string `json:"name"`
	// DeviceAddresses are PCI addresses in the form hhhh:hh:hh.o. For a type without mediated
	// devices they are those of physical functions, and one may have several types.
	DeviceAddresses []string `json:"device_addresses"`
	// MaxInstances is set for a type without mediated devices: the number of vGPUs offered on
	// each card, at most one for each virtual function. No file shows how many fit.
	MaxInstances int `json:"max_instances,omitempty"`
	// VGPUName is the name in creatable_vgpu_types of a type without mediated devices, such as
	// "NVIDIA L40S-24Q". The trait is derived from it, also while the card is full and does not
	// show it. A card that shows another name is a problem: ids change with the vendor's driver.
	VGPUName string `json:"vgpu_name,omitempty"`
}

// fault is an error about vGPUs, in upstream's words where upstream has it.
func fault(format string, args ...any) error {
	return fmt.Errorf("%w: Invalid vGPU config: "+format, append([]any{driver.ErrConfig}, args...)...)
}

// check validates the configuration and returns the type of each card that is divided into mediated
// devices, and the types of each that is divided without.
func (c Config) check() (types map[string]string, vgpus map[string][]VGPUType, err error) {
	if err := c.CheckConfig(c.Host); err != nil {
		return nil, nil, err
	}
	types, vgpus = make(map[string]string), make(map[string][]VGPUType)
	for i, t := range c.EnabledVGPUTypes {
		if slices.ContainsFunc(c.EnabledVGPUTypes[:i], func(o VGPUType) bool { return o.Name == t.Name }) {
			return nil, nil, fault("Duplicate vgpu type %s", t.Name)
		}
		if err := t.check(); err != nil {
			return nil, nil, err
		}
		for _, text := range t.DeviceAddresses {
			at, err := driver.ParsePCIAddress(text)
			if err != nil {
				return nil, nil, fault("Incorrect PCI address: %s", text)
			}
			address := at.String()
			same := func(o VGPUType) bool { return o.Name == t.Name }
			if types[address] != "" || len(vgpus[address]) > 0 && t.MaxInstances == 0 || slices.ContainsFunc(vgpus[address], same) {
				return nil, nil, fault("Duplicate types for PCI address %s", text)
			}
			if t.MaxInstances > 0 {
				vgpus[address] = append(vgpus[address], t)
			} else {
				types[address] = t.Name
			}
		}
	}
	return types, vgpus, nil
}

func (t VGPUType) check() error {
	if !file.IsName(t.Name) {
		return fault("Incorrect vgpu type name: %q", t.Name)
	}
	if len(t.DeviceAddresses) == 0 {
		return fault("Missing device addresses config for vgpu type %s", t.Name)
	}
	switch {
	case t.MaxInstances < 0:
		return fault("vgpu type %s: max_instances %d is negative", t.Name, t.MaxInstances)
	case (t.MaxInstances == 0) != (t.VGPUName == ""):
		return fault("vgpu type %s: max_instances and vgpu_name are given together, for a type without mediated devices, or not at all", t.Name)
	case t.MaxInstances > 0:
		if _, err := driver.ParseVGPUType(t.Name); err != nil {
			return err
		}
	}
	return nil
}
