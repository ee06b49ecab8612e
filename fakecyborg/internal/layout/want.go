package layout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// Want is a deployable as it is to be in Placement.
type Want struct {
	UUID, Name, Parent string
	Class              string
	Total, Reserved    int
	// Frees: if the total is reserved, it is by Cyborg. Otherwise it stays so.
	Frees  bool
	Traits []string
	// Memory is the local memory on the provider, MiB by resource class; Shared is that on
	// the provider of the device, for a region.
	Memory, Shared map[string]int
	// New is set for a deployable whose rows are new: no request has anything of it, and what is allocated of its provider is of
	// an earlier Cyborg's.
	New bool
	// Device and Root are set for a region: the name of the provider of its device, which
	// is its parent, and the provider of the host above that.
	Device, Root string
}

// classes lists the resource classes of a provider, that of the handles first.
func (w Want) classes() []string {
	return append([]string{w.Class}, slices.Sorted(maps.Keys(w.Memory))...)
}

// Change is the difference between what Placement has of a deployable and what it is to have.
type Change struct {
	New                     Want
	Amount                  bool // an inventory differs
	Shared                  bool // the memory on the provider of its device differs
	AddClasses, DropClasses []string
	Held                    bool     // requests have accelerators of it
	Add, Drop               []string // traits
}

// Empty reports whether nothing differs in Placement.
func (c Change) Empty() bool { return !c.Amount && !c.Shared && len(c.Add)+len(c.Drop) == 0 }

// Unsettled is what Placement may have of the deployable until the change has ended.
func (c Change) Unsettled() store.Unsettled {
	return store.Unsettled{
		Classes: slices.Concat(c.New.classes(), c.DropClasses), Traits: slices.Concat(c.New.Traits, c.Drop), Reserved: c.New.Frees,
	}
}

// Rules are the part of the configuration that determines how devices are written to Placement.
type Rules struct {
	Layout         string
	Quirks         bool
	StandardTraits StandardTraits
}

// Want is a deployable as a provider. Parent is the provider of its host.
func (r Rules) Want(device store.Device, d store.Deployable, spec driver.Deployable, parent string) Want {
	w := Want{
		UUID: d.Provider, Name: d.Name, Parent: parent, Class: spec.Class, Total: spec.NumAccelerators,
		Traits: r.withOwner(r.withProgrammable(device, d, spec.Traits)), Memory: spec.Resources,
	}
	if device.Nested {
		w.Shared = device.Resources
		w.Device, w.Root = deviceProviderName(device), parent
		w.Parent = driver.ProviderUUID(w.Device)
	}
	if device.Status == store.StatusMaintaining && !r.Quirks {
		w.Reserved = w.Total
	}
	w.Frees = d.Unsettled != nil && d.Unsettled.Reserved
	return w
}

// withOwner adds OWNER_CYBORG where it can be reported. Upstream leaves that to its drivers; two add it.
func (r Rules) withOwner(reported []string) []string {
	if r.Quirks || r.StandardTraits == StandardTraitsCreated || r.Layout == store.LayoutFlat || slices.Contains(reported, driver.TraitOwnerCyborg) {
		return reported
	}
	return append([]string{driver.TraitOwnerCyborg}, reported...)
}

// withProgrammable adds CUSTOM_PROGRAMMABLE, which every region has in the Rocky specification that
// is not pre-programmed.
func (r Rules) withProgrammable(device store.Device, d store.Deployable, reported []string) []string {
	if r.Layout != store.LayoutNested || device.Type != driver.TypeFPGA || d.Preprogrammed || slices.Contains(reported, driver.TraitProgrammable) {
		return reported
	}
	return append(slices.Clone(reported), driver.TraitProgrammable)
}

// Compare returns the difference between a deployable as it is stored and as it is reported, without
// the provider of the host. Was and is are its device before and after. Of a deployable that is unsettled, all that is
// reported has to be written.
func (r Rules) Compare(was, is store.Device, d store.Deployable, stored, reported driver.Deployable) Change {
	before, after := r.Want(was, d, stored, ""), r.Want(is, d, reported, "")
	c := Change{
		New:        after,
		Amount:     before.Class != after.Class || before.Total != after.Total || !maps.Equal(before.Memory, after.Memory),
		Shared:     !maps.Equal(before.Shared, after.Shared),
		AddClasses: without(after.classes(), before.classes()), DropClasses: without(before.classes(), after.classes()),
		Add: without(after.Traits, before.Traits), Drop: without(before.Traits, after.Traits),
	}
	if u := d.Unsettled; u != nil {
		c.Amount, c.AddClasses, c.Add = true, after.classes(), after.Traits
		c.DropClasses = without(slices.Concat(before.classes(), u.Classes), after.classes())
		c.Drop = without(slices.Concat(before.Traits, u.Traits), after.Traits)
	}
	return c
}

// Nests reports whether a device gets a provider of its own, above those of its regions. An FPGA of
// one deployable without a type of region has no partial reconfiguration, and is its own region.
func (r Rules) Nests(d driver.Device) bool {
	if r.Layout != store.LayoutNested || d.Type != driver.TypeFPGA {
		return false
	}
	return len(d.Deployables) > 1 || len(d.Deployables) == 1 && slices.ContainsFunc(d.Deployables[0].Traits, driver.IsRegionTrait)
}

// PlaceMemory moves the memory that the regions of a device share to the only region, or on a flat
// host to the first, unless the device has a provider of its own. It is left out, with an error, for
// several regions without a provider above them.
func (r Rules) PlaceMemory(d driver.Device) (driver.Device, error) {
	if len(d.Resources) == 0 || r.Nests(d) {
		return d, nil
	}
	shared := d.Resources
	d.Resources = nil
	if len(d.Deployables) == 0 {
		return d, nil
	}
	if len(d.Deployables) > 1 && r.Layout != store.LayoutFlat {
		return d, fmt.Errorf("the %d providers of the device cannot share memory; placement_mode %q gives an FPGA one of its own",
			len(d.Deployables), store.LayoutNested)
	}
	d.Deployables = slices.Clone(d.Deployables)
	first := &d.Deployables[0]
	memory := maps.Clone(shared)
	for class, mib := range first.Resources {
		memory[class] += mib
	}
	first.Resources = memory
	return d, nil
}

// without are the names that are not among others, each once.
func without(names, others []string) []string {
	var list []string
	for _, name := range names {
		if !slices.Contains(others, name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// deviceProviderName is the name of the provider of a device with regions: of an FPGA, also if its driver calls it something
// else by now and the regions cannot move yet.
func deviceProviderName(d store.Device) string {
	return d.Host + "_" + driver.TypeFPGA + "_" + d.ControlPath.Reported().Address().String()
}
