package fakecyborg

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// found is a device of one report with the driver that found it.
type found struct {
	device driver.Device
	source string
}

// deviceOf finds a device of a host by its control path, which is its identity
// from one report to the next.
func (st *state) deviceOf(host, key string) *deviceRow {
	for _, d := range st.byHost[host] {
		if d.key == key {
			return d
		}
	}
	return nil
}

// addDevice stores a new device without its deployables.
func (st *state) addDevice(host string, f found, now time.Time) *deviceRow {
	key := f.device.ControlPath.Key()
	d := &deviceRow{
		record: record{uuid: st.uuidOf("device", host+"\x00"+key), created: now},
		host:   host, key: key, source: f.source, status: StatusEnabled,
	}
	d.spec = headOf(f.device)
	st.devices.add(d)
	st.byHost[host] = append(st.byHost[host], d)
	return d
}

// headOf is a device without its deployables, which are rows of their own.
func headOf(d driver.Device) driver.Device {
	head := d.Clone()
	head.Deployables = nil
	return head
}

// updateDevice stores what may change about a device that stays.
func (st *state) updateDevice(d *deviceRow, f found, now time.Time) {
	head := headOf(f.device)
	changed := head.Vendor != d.spec.Vendor || head.Model != d.spec.Model || head.Type != d.spec.Type ||
		head.StdBoardInfo != d.spec.StdBoardInfo || head.VendorBoardInfo != d.spec.VendorBoardInfo
	d.spec, d.source = head, f.source
	if changed {
		d.updated = now
	}
}

// removeDevice forgets a device that has no deployables any more.
func (st *state) removeDevice(d *deviceRow) {
	st.devices.remove(d)
	rest := slices.DeleteFunc(st.byHost[d.host], func(other *deviceRow) bool { return other == d })
	st.byHost[d.host] = rest
	if len(rest) == 0 {
		delete(st.byHost, d.host)
	}
}

// addPart stores a new deployable with its attributes and handles. It gives out
// no handle until it is offered.
//
// Parent is the provider of the host.
func (st *state) addPart(d *deviceRow, spec driver.Deployable, parent string, now time.Time) (*deployableRow, error) {
	if other, taken := st.byName[spec.Name]; taken {
		return nil, fmt.Errorf("deployable %s exists already, on host %s, device %s", spec.Name, other.device.host, other.device.key)
	}
	part := &deployableRow{
		record: record{uuid: st.uuidOf("deployable", spec.Name), created: now},
		device: d, name: spec.Name, driverName: spec.DriverName, total: spec.NumAccelerators,
		provider: driver.ProviderUUID(spec.Name), fixed: spec.Preprogrammed(), memory: maps.Clone(spec.Resources),
	}
	st.deployables.add(part)
	st.byName[part.name] = part
	st.placePart(part, parent)
	d.parts = append(d.parts, part)
	for _, a := range spec.Attributes {
		st.addAttribute(part, a.Key, a.Value, now)
	}
	for _, h := range spec.AttachHandles {
		st.addHandle(part, h, now)
	}
	return part, nil
}

func (st *state) addAttribute(part *deployableRow, key, value string, now time.Time) *attributeRow {
	a := &attributeRow{
		record:     record{uuid: st.uuidOf("attribute", part.name+"\x00"+key), created: now},
		deployable: part, key: key, value: value,
	}
	st.insertAttribute(a)
	return a
}

func (st *state) insertAttribute(a *attributeRow) {
	st.attributes.add(a)
	st.note(sim.Created, "attribute", a.uuid, a.key+" of "+a.deployable.name+": "+a.value)
	a.deployable.attributes = append(a.deployable.attributes, a)
}

func (st *state) removeAttribute(a *attributeRow) {
	st.attributes.remove(a)
	st.note(sim.Deleted, "attribute", a.uuid, a.key+" of "+a.deployable.name+": "+a.value)
	a.deployable.attributes = slices.DeleteFunc(a.deployable.attributes, func(other *attributeRow) bool { return other == a })
}

func (st *state) addHandle(part *deployableRow, spec driver.AttachHandle, now time.Time) {
	h := &handleRow{
		record:     record{uuid: st.uuidOf("attach_handle", part.name+"\x00"+spec.Key()), created: now},
		deployable: part, kind: spec.Type, info: pack(spec.Info),
	}
	st.handles.add(h)
	part.handles = append(part.handles, h)
}

// removePart forgets a deployable and all that hangs below it.
func (st *state) removePart(part *deployableRow) {
	for _, a := range slices.Clone(part.attributes) {
		st.attributes.remove(a)
	}
	for _, h := range slices.Clone(part.handles) {
		st.handles.remove(h)
	}
	st.deployables.remove(part)
	delete(st.byName, part.name)
	st.unplacePart(part)
	part.device.parts = slices.DeleteFunc(part.device.parts, func(other *deployableRow) bool { return other == part })
}

// inUse names the requests that hold handles of a deployable.
func (part *deployableRow) inUse() []string {
	var names []string
	for _, h := range part.handles {
		switch {
		case !h.taken:
		case h.arq == nil:
			names = append(names, "a mediated device waiting for its removal, "+h.uuid)
		default:
			names = append(names, "ARQ "+h.arq.uuid)
		}
	}
	return names
}

// attributesOf are the attributes of a deployable in the driver's terms.
func (part *deployableRow) attributesOf() []driver.Attribute {
	list := make([]driver.Attribute, 0, len(part.attributes))
	for _, a := range part.attributes {
		list = append(list, driver.Attribute{Key: a.key, Value: a.value})
	}
	return list
}

// reportedSpec is the deployable as Placement knows it: attributes that a user
// created are Cyborg's alone.
func (part *deployableRow) reportedSpec() driver.Deployable {
	spec := driver.Deployable{Name: part.name, NumAccelerators: part.total, Resources: part.memory}
	for _, a := range part.attributes {
		if !a.byAPI {
			spec.Attributes = append(spec.Attributes, driver.Attribute{Key: a.key, Value: a.value})
		}
	}
	return spec
}

// partChange is the difference between a stored deployable and a reported one,
// as far as Placement is concerned.
type partChange struct {
	old, fresh providerWant
	amount     bool // the size of an inventory differs
	class      bool // the resource class differs
	add, drop  []string
}

// want is the deployable as a provider.
func (st *state) want(part *deployableRow, spec driver.Deployable, parent string) providerWant {
	w := providerWant{
		uuid: part.provider, name: part.name, parent: parent,
		class: spec.ResourceClass(), total: spec.NumAccelerators, traits: st.ownedTraits(st.regionTraits(part, spec.Traits())),
		memory: spec.Resources,
	}
	if part.device.nested {
		w.shared = part.device.spec.Resources
		w.device, w.root = deviceProvider(part.device), parent
		w.parent = driver.ProviderUUID(w.device)
	}
	if part.device.status == StatusMaintaining && !st.quirks {
		w.reserved = w.total
	}
	return w
}

// compare finds what has to be told to Placement about a deployable.
func (st *state) compare(part *deployableRow, spec driver.Deployable, parent string) partChange {
	old := st.want(part, part.reportedSpec(), parent)
	fresh := st.want(part, spec, parent)
	change := partChange{old: old, fresh: fresh}
	change.class = old.class != fresh.class
	change.amount = old.total != fresh.total || !maps.Equal(old.memory, fresh.memory)
	change.add = without(fresh.traits, old.traits)
	change.drop = without(old.traits, fresh.traits)
	return change
}

// without are the names that are not among others.
func without(names, others []string) []string {
	var list []string
	for _, name := range names {
		if !slices.Contains(others, name) {
			list = append(list, name)
		}
	}
	return list
}

// updatePart stores a reported deployable over its row. Handles that are gone
// but in use stay until they are given back; the error names their users.
func (st *state) updatePart(part *deployableRow, spec driver.Deployable, now time.Time) error {
	changed := part.total != spec.NumAccelerators || part.driverName != spec.DriverName
	part.total, part.driverName, part.fixed = spec.NumAccelerators, spec.DriverName, spec.Preprogrammed()
	part.memory = maps.Clone(spec.Resources)
	st.updateAttributes(part, spec.Attributes, now)
	if changed {
		part.updated = now
	}
	return st.updateHandles(part, spec.AttachHandles, now)
}

func (st *state) updateAttributes(part *deployableRow, attributes []driver.Attribute, now time.Time) {
	reported := make(map[string]bool, len(attributes))
	for _, a := range attributes {
		reported[a.Key] = true
		i := slices.IndexFunc(part.attributes, func(row *attributeRow) bool { return row.key == a.Key && !row.byAPI })
		switch {
		case i < 0:
			st.addAttribute(part, a.Key, a.Value, now)
		case part.attributes[i].value != a.Value:
			st.notes.AddSteps("attribute", part.attributes[i].uuid, a.Key+" of "+part.name, tables.Step{Name: "value", From: part.attributes[i].value, To: a.Value})
			part.attributes[i].value, part.attributes[i].updated = a.Value, now
		}
	}
	for _, row := range slices.Clone(part.attributes) {
		if (!row.byAPI || st.quirks) && !reported[row.key] {
			st.removeAttribute(row)
		}
	}
}

func (st *state) updateHandles(part *deployableRow, handles []driver.AttachHandle, now time.Time) error {
	if st.quirks {
		return st.updateHandlesAsUpstream(part, handles, now)
	}
	reported := make(map[string]driver.AttachHandle, len(handles))
	known := make(map[string]bool, len(part.handles))
	for _, h := range handles {
		reported[h.Key()] = h
	}
	var users []string
	for _, row := range slices.Clone(part.handles) {
		key := row.info.key()
		spec, there := reported[key]
		known[key], row.gone = true, !there
		switch {
		case there && !row.taken:
			row.kind = spec.Type
		case there:
		case row.taken && row.arq != nil:
			users = append(users, "ARQ "+row.arq.uuid)
		case !row.taken:
			st.dropHandle(row)
		}
	}
	for _, h := range handles {
		if !known[h.Key()] {
			st.addHandle(part, h, now)
		}
	}
	if len(users) > 0 {
		return fmt.Errorf("deployable %s: attach handles vanished that are in use by %s", part.name, strings.Join(users, ", "))
	}
	return nil
}
