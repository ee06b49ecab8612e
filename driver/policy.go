package driver

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// Policy holds the options that every driver of PCI hardware has. The configuration of
// each embeds it, so in JSON its fields are next to the driver's own. The zero value is the
// default. Upstream has none of these options.
type Policy struct {
	// TraitShape says how traits and resource classes are named; "" is shipped.
	TraitShape TraitShape `json:"trait_shape,omitempty"`
	// AllowedDrivers are kernel drivers that may be bound to an offered function, in addition to
	// vfio-pci, the drivers that the package names, and no driver.
	AllowedDrivers []string `json:"allowed_drivers,omitzero"`
	// ExtraTraits are reported on every deployable.
	ExtraTraits []string `json:"extra_traits,omitzero"`
	// LocalMemory is the memory of boards that is reported as CUSTOM_ACCELERATOR_MEMORY_
	// and its type. Sysfs does not have it. By default none is reported.
	LocalMemory []LocalMemory `json:"local_memory,omitzero"`
	// Mounts are the block devices that the host has mounted or swaps on, each as
	// MAJOR:MINOR or by its kernel name (nvme0n1p1), since sysfs has some of them only. A disk with
	// partitions, or with something that udev found on it, is not offered anyway.
	Mounts []string `json:"mounts,omitzero"`
}

// CheckConfig checks what the configuration of every driver has: the name of the host and
// the policy. The error wraps ErrConfig.
func (p Policy) CheckConfig(host string) error {
	if host == "" {
		return fmt.Errorf("%w: no host name", ErrConfig)
	}
	return p.Check()
}

// Check says whether the options make sense. All faults found are joined; each wraps
// ErrConfig, and ErrName where a name is at fault.
func (p Policy) Check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	if err := p.TraitShape.check(); err != nil {
		fault("trait_shape: %w", err)
	}
	for _, name := range p.AllowedDrivers {
		if !file.IsName(name) {
			fault("allowed_drivers: %q is not a name of a kernel driver", name)
		}
	}
	for _, trait := range p.ExtraTraits {
		if err := CheckTrait(trait); err != nil {
			fault("extra_traits: %w", err)
		}
	}
	for i, m := range p.LocalMemory {
		if err := m.check(); err != nil {
			fault("local_memory entry %d: %w", i, err)
		}
		same := func(o LocalMemory) bool {
			return strings.EqualFold(o.Type, m.Type) && strings.EqualFold(o.Address, m.Address) && o.Shared == m.Shared
		}
		if slices.ContainsFunc(p.LocalMemory[:i], same) {
			fault("local_memory entry %d: memory of type %s appears twice", i, m.Type)
		}
	}
	for _, name := range p.Mounts {
		if !file.IsName(name) {
			fault("mounts: %q is neither MAJOR:MINOR nor the name of a block device", name)
		}
	}
	return errors.Join(faults...)
}

// LocalMemory is memory of one type on a board.
type LocalMemory struct {
	// Type is such as "DDR4" or "HBM"; the class is CUSTOM_ACCELERATOR_MEMORY_DDR4.
	Type string `json:"type"`
	// MiB is how much the board has when it is shared, and each region when it is not.
	MiB int `json:"mib"`
	// Address is the PCI address of the board; empty means every board of the driver.
	Address string `json:"address,omitempty"`
	// Shared memory is on the provider of the device, partitioned memory on the providers of its
	// regions. A device of one region has one provider, which gets either.
	Shared bool `json:"shared,omitempty"`
}

// ResourceClass returns CUSTOM_ACCELERATOR_MEMORY_ and the type. The error wraps
// ErrName.
func (m LocalMemory) ResourceClass() (string, error) {
	return CustomName("ACCELERATOR", "MEMORY", m.Type)
}

func (m LocalMemory) check() error {
	if _, err := m.ResourceClass(); err != nil {
		return err
	}
	if m.MiB < 1 || m.MiB > math.MaxInt32 {
		return fmt.Errorf("%d MiB, want 1 to %d", m.MiB, math.MaxInt32)
	}
	if m.Address != "" {
		_, err := ParsePCIAddress(m.Address)
		return err
	}
	return nil
}

// Names returns the names of a provider that the subjects describe, in the policy's shape:
// the class of the first and the traits of all, each with the extra traits. The error wraps
// ErrName.
func (p Policy) Names(subjects ...Subject) (class string, traits []string, err error) {
	if class, err = p.TraitShape.resourceClass(subjects[0]); err != nil {
		return "", nil, err
	}
	for _, s := range subjects {
		own, err := p.TraitShape.traits(s)
		if err != nil {
			return "", nil, err
		}
		for _, trait := range slices.Concat(own, p.ExtraTraits, s.Always) {
			if !slices.Contains(traits, trait) {
				traits = append(traits, trait)
			}
		}
	}
	return class, traits, nil
}

// AddMemory gives a device the local memory that is configured for its address: shared memory is
// on the device, partitioned memory on each deployable.
func (p Policy) AddMemory(d *Device, address PCIAddress) error {
	for _, m := range p.LocalMemory {
		if m.Address != "" {
			at, err := ParsePCIAddress(m.Address)
			if err != nil {
				return err
			}
			if at != address {
				continue
			}
		}
		class, err := m.ResourceClass()
		if err != nil {
			return err
		}
		if m.Shared {
			d.Resources = addResource(d.Resources, class, m.MiB)
			continue
		}
		for i := range d.Deployables {
			d.Deployables[i].Resources = addResource(d.Deployables[i].Resources, class, m.MiB)
		}
	}
	return nil
}

func addResource(to map[string]int, class string, amount int) map[string]int {
	if to == nil {
		to = make(map[string]int)
	}
	to[class] += amount
	return to
}

// Or returns the policy with its unset fields set from another.
func (p Policy) Or(other Policy) Policy {
	p.TraitShape = cmp.Or(p.TraitShape, other.TraitShape)
	p.AllowedDrivers = orList(p.AllowedDrivers, other.AllowedDrivers)
	p.ExtraTraits = orList(p.ExtraTraits, other.ExtraTraits)
	p.LocalMemory = orList(p.LocalMemory, other.LocalMemory)
	p.Mounts = orList(p.Mounts, other.Mounts)
	return p
}

func orList[T any](list, other []T) []T {
	if list == nil {
		return other
	}
	return list
}

// HostUse says why a function is in the host's own use, or "". Beside PCIState.hostUse
// it knows what the host has mounted.
func (p Policy) HostUse(f PCIFunction, s PCIState) string {
	if reason := s.hostUse(f); reason != "" {
		return reason
	}
	if s.InterfacesHidden && !slices.Contains(p.AllowedDrivers, s.Driver) {
		return "its network interface is in another network namespace, and may be up there"
	}
	for _, d := range s.Disks {
		for _, part := range d.parts() {
			if slices.Contains(p.Mounts, part.Name) || part.Number != "" && slices.Contains(p.Mounts, part.Number) {
				return fmt.Sprintf("in use by the host: block device %s is mounted", part.Name)
			}
		}
		if reason := d.unfit(); reason != "" {
			return reason
		}
	}
	return ""
}
