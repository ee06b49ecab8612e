package agent

import (
	"maps"
	"reflect"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// storedRows is what is stored of a host at a version of the store.
type storedRows struct {
	version int // plus one; 0 if nothing was read
	devices []storedDevice
}

// held are the functions that requests have, in the order of their handles.
func (r storedRows) held() (list []driver.PCIAddress) {
	for _, device := range r.devices {
		for _, deployable := range device.deployables {
			for _, h := range deployable.handles {
				if !h.InUse() || h.Type != driver.HandlePCI {
					continue
				}
				if at, err := driver.PCIAddressOf(h.Info.Map()); err == nil {
					list = append(list, at)
				}
			}
		}
	}
	return list
}

// storedDevice is a device of the store.
type storedDevice struct {
	store.Device
	key         string // of the control path
	deployables []storedDeployable
}

// addresses are the places of its handles.
func (d storedDevice) addresses() (list []driver.Address) {
	for _, deployable := range d.deployables {
		for _, h := range deployable.handles {
			list = append(list, driver.ControlPath{Info: h.Info.Map()}.Address())
		}
	}
	return list
}

// storedDeployable is a deployable of the store.
type storedDeployable struct {
	store.Deployable
	reported driver.Deployable // as Placement knows it
	// byUser is set if users have added attributes.
	byUser bool
	// programming is set while an image is written to it.
	programming bool
	handles     []store.Handle
}

// difference is what a report changes.
type difference struct {
	vanished []storedDevice
	devices  []deviceChange // those with a difference, in the order in which they were found
}

// deviceChange is what a report changes about a device that was found.
type deviceChange struct {
	found       found
	stored      *storedDevice // nil for a new device; all its deployables are added
	nested      bool          // the device is to have a provider of its own, whether all its deployables can be added now or not
	vanished    []storedDeployable
	deployables []deployableChange
}

// device is the row of the device after the change.
func (c deviceChange) device() store.Device { return c.stored.Merge(c.found.Device, c.found.source) }

// updated reports whether the row of the device differs.
func (c deviceChange) updated() bool { return !c.stored.IsAsReported(c.found.Device, c.found.source) }

// reshaped reports whether the device gets or loses a provider of its own. The providers of all deployables move.
func (c deviceChange) reshaped() bool { return c.stored.Nested != c.nested }

// isVanished reports whether a stored deployable was not found.
func (c deviceChange) isVanished(d storedDeployable) bool {
	return !slices.ContainsFunc(c.found.Deployables, func(found driver.Deployable) bool { return found.Name == d.Name })
}

// deployableChange is what a report changes about a deployable.
type deployableChange struct {
	stored *storedDeployable // nil for a new one
	found  driver.Deployable // as the driver reported it
	spec   driver.Deployable // as it is to be stored
	part   layout.Part       // as it is to be in Placement
}

// planReport compares what is stored of a host with what was found.
func planReport(rules layout.Rules, stored []storedDevice, seen discovery) (d difference) {
	known := make(map[string]*storedDevice, len(stored))
	for i, device := range stored {
		known[device.key] = &stored[i]
		if seen.gone(device) {
			d.vanished = append(d.vanished, device)
		}
	}
	for _, f := range seen.devices {
		change := deviceChange{found: f, stored: known[f.key], nested: rules.Nests(f.Device)}
		if change.stored == nil || change.plan(rules) {
			d.devices = append(d.devices, change)
		}
	}
	return d
}

// keepHidden returns the report of a driver, completed with stored deployables that are in use and hidden by the
// kernel, and with the stored functions of regions to which an image is being written: their content is known when
// the write has ended. Other deployables are used as reported.
func (d storedDevice) keepHidden(reported driver.Device) driver.Device {
	cloned := false
	for i, part := range reported.Deployables {
		n := slices.IndexFunc(d.deployables, func(deployable storedDeployable) bool { return deployable.Name == part.Name })
		programming := n >= 0 && d.deployables[n].programming
		if !part.Hidden && !programming {
			continue
		}
		if !cloned {
			reported, cloned = reported.Clone(), true
		}
		kept := &reported.Deployables[i]
		if kept.Hidden = part.Hidden && n >= 0 && d.deployables[n].inUse() > 0; kept.Hidden {
			d.deployables[n].complete(kept)
		}
		if programming {
			d.deployables[n].keepFunctions(kept)
		}
	}
	return reported
}

// keepFunctions replaces the functions that are reported by those that are stored.
func (d storedDeployable) keepFunctions(part *driver.Deployable) {
	stored := slices.DeleteFunc(slices.Clone(d.reported.Traits), func(trait string) bool { return !driver.IsFunctionTrait(trait) })
	part.Traits = append(slices.DeleteFunc(part.Traits, driver.IsFunctionTrait), stored...)
	part.Hidden = true
	for i, reported := range part.AttachHandles {
		for _, h := range d.handles {
			if h.Info == store.Info(reported.Key()) {
				part.AttachHandles[i].Functions = h.Functions.List()
			}
		}
	}
}

// complete adds what is stored to the report of a deployable that is hidden: its traits, and what the
// handles have beside their addresses.
func (d storedDeployable) complete(part *driver.Deployable) {
	traits := slices.Clone(d.reported.Traits)
	for _, trait := range part.Traits {
		if !slices.Contains(traits, trait) && (trait != driver.TraitProgrammable || !d.Preprogrammed) {
			traits = append(traits, trait)
		}
	}
	part.Traits = traits
	if d.Preprogrammed {
		part.Programmable = new(bool)
	}
	for i, reported := range part.AttachHandles {
		at := driver.ControlPath{Info: reported.Info}.Address()
		for _, h := range d.handles {
			stored := driver.ControlPath{Info: h.Info.Map()}
			if h.Type == reported.Type && stored.Address() == at {
				part.AttachHandles[i].Info, part.AttachHandles[i].Functions = stored.Info, h.Functions.List()
			}
		}
	}
}

// plan finds the difference of a stored device and reports whether there is one.
func (c *deviceChange) plan(rules layout.Rules) bool {
	device := c.device()
	for _, deployable := range c.stored.deployables {
		if c.isVanished(deployable) {
			c.vanished = append(c.vanished, deployable)
		}
	}
	if c.reshaped() {
		return true
	}
	for _, spec := range c.found.Deployables {
		i := slices.IndexFunc(c.stored.deployables, func(deployable storedDeployable) bool { return deployable.Name == spec.Name })
		if i < 0 {
			c.deployables = append(c.deployables, deployableChange{found: spec, spec: spec})
			continue
		}
		if change, needed := planDeployable(rules, c.stored.Device, device, &c.stored.deployables[i], spec, c.stored.deployables[i].found()); needed {
			c.deployables = append(c.deployables, change)
		}
	}
	return c.updated() || len(c.vanished)+len(c.deployables) > 0
}

// endVanished ends the removal of vanished deployables; the rest of the change is about found ones.
func (c *deviceChange) endVanished() {
	rest := *c.stored
	rest.deployables = slices.DeleteFunc(slices.Clone(rest.deployables), c.isVanished)
	c.stored, c.vanished = &rest, nil
}

// planDeployable compares a deployable with what a driver reports of it. Its total is not reduced
// below what is in use, nor raised: a card of Xilinx has two handles for its one accelerator. Was and is are its device before and after.
func planDeployable(rules layout.Rules, was, is store.Device, deployable *storedDeployable, found driver.Deployable, presence store.Presence) (deployableChange, bool) {
	row, spec := deployable.Deployable, found
	row.Presence = presence
	if rules.Quirks || !found.Hidden {
		row, spec = row.Observe(found, rules.Quirks)
	}
	if !rules.Quirks {
		spec.NumAccelerators = max(spec.NumAccelerators, min(deployable.inUse(), deployable.Total))
	}
	row = row.Accept(spec)
	part := partOf(is, row, spec)
	same := !rules.Differs(partOf(was, deployable.Deployable, deployable.reported), part) && reflect.DeepEqual(&row, &deployable.Deployable) && deployable.matches(spec, rules.Quirks)
	return deployableChange{stored: deployable, found: found, spec: spec, part: part}, !same
}

// found is the presence of a deployable that is reported.
func (d storedDeployable) found() store.Presence {
	if d.Presence == store.Vanished {
		return store.Offered
	}
	return d.Presence
}

func (d storedDeployable) inUse() int {
	n := 0
	for _, h := range d.handles {
		if h.InUse() {
			n++
		}
	}
	return n
}

// matches reports whether the deployable is stored as it is reported.
func (d storedDeployable) matches(spec driver.Deployable, quirks bool) bool {
	if d.Total != spec.NumAccelerators || d.DriverName != spec.DriverName || d.Preprogrammed != spec.Preprogrammed() ||
		len(d.handles) != len(spec.AttachHandles) || quirks && d.byUser {
		return false
	}
	if d.reported.Class != spec.Class || !sameItems(d.reported.Traits, spec.Traits) || !sameItems(d.reported.Attributes, spec.Attributes) {
		return false
	}
	reported := store.ByInfo(spec.AttachHandles)
	return !slices.ContainsFunc(d.handles, func(h store.Handle) bool {
		is, found := reported[h.Info]
		return !found || h.State == store.Withdrawn || !h.InUse() && is.Type != h.Type || !h.Functions.Are(is.Functions)
	})
}

// sameItems compares lists in any order; a driver reports each item once.
func sameItems[T comparable](a, b []T) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x T) bool { return !slices.Contains(b, x) })
}

// shrunk returns the deployable reduced to its handles in use. If none is in use, resources are still allocated from
// it, and an instance may yet bind it: it keeps its handles and one unit, the minimum in Placement. It also keeps
// them while an image is written to it, which concerns them all.
func (d storedDeployable) shrunk() driver.Deployable {
	n := d.inUse()
	spec := d.withTotal(min(max(1, n), d.Total))
	for _, h := range d.handles {
		if h.InUse() || n == 0 || d.programming {
			spec.AttachHandles = append(spec.AttachHandles, driver.AttachHandle{Type: h.Type, Info: h.Info.Map(), Functions: h.Functions.List()})
		}
	}
	return spec
}

// remaining returns the stored deployable, reduced to what is reported. Other handles cannot be added now.
func (d storedDeployable) remaining(found driver.Deployable) driver.Deployable {
	reported := store.ByInfo(found.AttachHandles)
	var kept []driver.AttachHandle
	left := 0
	for _, h := range d.handles {
		spec, is := reported[h.Info]
		if is {
			kept = append(kept, spec)
		}
		if is || h.InUse() {
			left++
		}
	}
	spec := d.withTotal(min(found.NumAccelerators, d.Total, max(1, left)))
	spec.AttachHandles = kept
	return spec
}

// withTotal returns the stored deployable with another total, and without its handles. It is Hidden, because no
// driver has reported it.
func (d storedDeployable) withTotal(total int) driver.Deployable {
	spec := d.reported
	spec.DriverName, spec.NumAccelerators, spec.Hidden = d.DriverName, total, true
	if d.Preprogrammed {
		spec.Programmable = new(bool)
	}
	return spec
}

// holds reports whether spec has the class and the memory of the deployable.
func (d storedDeployable) holds(spec driver.Deployable) bool {
	return d.reported.Class == spec.Class && maps.Equal(d.reported.Resources, spec.Resources)
}
