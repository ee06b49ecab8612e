package mdev

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// Config is the configuration of the driver.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	// EnabledMdevTypes are the types to make and the parents to make them on, one type
	// for each parent.
	EnabledMdevTypes []Type `json:"enabled_mdev_types,omitempty"`
	// Policy has the options that all drivers have; those about the PCI bus say nothing
	// here.
	driver.Policy
}

// Type is one type of mediated devices and the parents it is made on.
type Type struct {
	// Name is the directory below mdev_supported_types, such as mtty-2.
	Name string `json:"name"`
	// Parents are names below class/mdev_bus: PCI addresses in the form hhhh:hh:hh.o, such as a GPU of Intel's (i915) has, or others,
	// such as mtty. Cards of NVIDIA's are for the option enabled_vgpu_types of its driver.
	Parents []string `json:"device_addresses"`
	// Class is the resource class with the shapes that keep shipped classes; VGPU by
	// default.
	Class string `json:"mdev_class,omitempty"`
	// DeviceType is the type of the device that Cyborg stores; GPU by default.
	DeviceType string `json:"device_type,omitempty"`
}

// check validates the configuration and returns the type of each parent, and the parents
// in order.
func (c Config) check() (types map[string]Type, parents []string, err error) {
	if err := c.CheckConfig(c.Host); err != nil {
		return nil, nil, err
	}
	types = make(map[string]Type)
	for _, t := range c.EnabledMdevTypes {
		t.Class, t.DeviceType = cmp.Or(t.Class, "VGPU"), cmp.Or(t.DeviceType, driver.TypeGPU)
		if err := t.check(types); err != nil {
			return nil, nil, fmt.Errorf("%w: mdev type %q: %w", driver.ErrConfig, t.Name, err)
		}
		for _, parent := range t.Parents {
			types[parent] = t
		}
	}
	return types, slices.Sorted(maps.Keys(types)), nil
}

// check checks one type against those before it.
func (t Type) check(before map[string]Type) error {
	if !file.IsName(t.Name) {
		return errors.New("the name is not a file name")
	}
	if len(t.Parents) == 0 {
		return errors.New("missing device_addresses")
	}
	if _, err := driver.CustomName("MDEV", t.Name); err != nil {
		return err
	}
	if err := driver.CheckResourceClass(t.Class); err != nil {
		return err
	}
	sample := driver.Device{Type: t.DeviceType, Vendor: t.Name, ControlPath: driver.ParseAddress(t.Name).ControlPath()}
	if err := sample.Validate(); err != nil {
		return err
	}
	for i, parent := range t.Parents {
		if address, err := driver.ParsePCIAddress(parent); err == nil && address.String() != parent {
			return fmt.Errorf("parent %q: the address is written %s", parent, address)
		}
		if !file.IsName(parent) {
			return fmt.Errorf("parent %q is not a file name", parent)
		}
		if _, taken := before[parent]; taken || slices.Contains(t.Parents[:i], parent) {
			return fmt.Errorf("duplicate types for parent %s", parent)
		}
	}
	return nil
}
