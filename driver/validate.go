package driver

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

const maxProviderName = 200 // Placement's limit for the name of a resource provider

// Validate checks that Cyborg could store the device and report it: known types, a
// control path, named deployables with a resource class Placement takes and legal
// traits, and distinct attach handles. All faults found are joined; each
// wraps ErrInvalidDevice and names where it is. An inventory larger than the number of
// handles is a fault, since the units without a handle could be claimed but never bound, and so are
// a PCI handle in a domain above ffff, with which no guest starts, and a function that two handles
// stand for, which two guests would get.
func (d Device) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w %s: "+format,
			append([]any{ErrInvalidDevice, d.ControlPath.Key()}, args...)...))
	}
	if !knownType(d.Type) {
		fault("type %q is not one of GPU, FPGA, AICHIP, QAT, NIC, SSD, MDEV, PCI, NVME, HPTS", d.Type)
	}
	if d.Vendor == "" {
		fault("no vendor")
	}
	if d.ControlPath.Type == "" || len(d.ControlPath.Info) == 0 {
		fault("no control path")
	}
	for _, err := range resourceFaults(d.Resources, "") {
		fault("%w", err)
	}
	names := make(map[string]bool)
	for i, p := range d.Deployables {
		if names[p.Name] {
			fault("deployable %d: name %q twice", i, p.Name)
		}
		names[p.Name] = true
		for _, err := range p.faults() {
			fault("deployable %d %q: %w", i, p.Name, err)
		}
	}
	taken := make([]PCIAddress, 0, 1) // most devices have one function
	for _, p := range d.Deployables {
		for _, h := range p.AttachHandles {
			if at, err := PCIAddressOf(h.Info); err == nil && h.Type == HandlePCI {
				taken = append(taken, at)
			}
		}
	}
	slices.SortFunc(taken, PCIAddress.Compare)
	for i := 1; i < len(taken); i++ {
		if taken[i] == taken[i-1] {
			fault("two attach handles stand for function %s", taken[i])
		}
	}
	return errors.Join(faults...)
}

// knownType reports whether a device may have the type: one that Cyborg stores, or HPTS.
func knownType(name string) bool {
	switch name {
	case TypeGPU, TypeFPGA, TypeAICHIP, TypeQAT, TypeNIC, TypeSSD, TypeMDEV, TypePCI, TypeNVME, TypeHPTS:
		return true
	}
	return false
}

func (d Deployable) faults() []error {
	var faults []error
	if d.Name == "" || len(d.Name) > maxProviderName {
		faults = append(faults, fmt.Errorf("name has %d characters, want 1 to %d", len(d.Name), maxProviderName))
	}
	if d.NumAccelerators < 1 || d.NumAccelerators > math.MaxInt32 {
		faults = append(faults, fmt.Errorf("num_accelerators %d, want 1 to %d", d.NumAccelerators, math.MaxInt32))
	}
	if d.NumAccelerators > len(d.AttachHandles) {
		faults = append(faults, fmt.Errorf("num_accelerators %d with %d attach handles", d.NumAccelerators, len(d.AttachHandles)))
	}
	faults = append(faults, d.attributeFaults()...)
	faults = append(faults, resourceFaults(d.Resources, d.Class)...)
	return append(faults, d.handleFaults()...)
}

// resourceFaults checks the inventories of classes other than the class of the attach handles.
func resourceFaults(resources map[string]int, class string) []error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if err := CheckResourceClass(name); err != nil {
			faults = append(faults, fmt.Errorf("resources: %w", err))
		}
		if name == class {
			faults = append(faults, fmt.Errorf("resources: %s is the class of the attach handles", name))
		}
		if n := resources[name]; n < 1 || n > math.MaxInt32 {
			faults = append(faults, fmt.Errorf("resources: %s %d, want 1 to %d", name, n, math.MaxInt32))
		}
	}
	return faults
}

func (d Deployable) attributeFaults() []error {
	var faults []error
	if err := CheckResourceClass(d.Class); err != nil {
		faults = append(faults, err)
	}
	for _, trait := range d.Traits {
		if err := CheckTrait(trait); err != nil {
			faults = append(faults, err)
		}
	}
	keys := make(map[string]bool)
	for i, a := range d.Attributes {
		if a.Key == "" || a.Key == keyClass || strings.HasPrefix(a.Key, prefixTrait) || keys[a.Key] {
			faults = append(faults, fmt.Errorf("attribute %d: key %q is empty, reserved for a class or a trait, or a duplicate", i, a.Key))
		}
		keys[a.Key] = true
	}
	return faults
}

func (d Deployable) handleFaults() []error {
	var faults []error
	keys := make(map[string]bool)
	for i, h := range d.AttachHandles {
		err := h.Check()
		if at, none := PCIAddressOf(h.Info); err == nil && none == nil && h.Type == HandlePCI && at.unreachable() != "" {
			err = fmt.Errorf("%w: %s: %s", ErrHandle, at, at.unreachable())
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("attach handle %d: %w", i, err))
		}
		if keys[h.Key()] {
			faults = append(faults, fmt.Errorf("attach handle %d: %s twice", i, h.Key()))
		}
		keys[h.Key()] = true
		for _, function := range h.Functions {
			if !slices.Contains(d.Traits, function) {
				faults = append(faults, fmt.Errorf("attach handle %d: function %s is not a trait of the deployable", i, function))
			}
		}
	}
	return faults
}

// Check says whether the information of the handle fits its type: a PCI address for PCI
// and TEST_PCI, with a vGPU type if it has an asked type, and an asked type and a parent for MDEV. The field managed of any type is "true" or
// "false", or absent. The error wraps ErrHandle.
func (h AttachHandle) Check() error {
	if managed, present := h.Info[FieldManaged]; present && managed != "true" && managed != "false" {
		return fmt.Errorf(`%w: %s: managed is %q, want "true" or "false"`, ErrHandle, h.Type, managed)
	}
	switch h.Type {
	case HandlePCI, HandleTestPCI:
		if _, err := PCIAddressOf(h.Info); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrHandle, h.Type, err)
		}
		_, _, err := h.VGPU()
		return err
	case HandleMDEV:
		_, err := h.Mdev("")
		return err
	}
	return fmt.Errorf("%w: type %q is not PCI, MDEV or TEST_PCI", ErrHandle, h.Type)
}
