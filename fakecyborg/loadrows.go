package fakecyborg

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// each adds the rows of a table and names the one that cannot be added.
func each[D any](table string, list []D, uuid func(D) string, add func(D) error) error {
	for i, d := range list {
		if err := add(d); err != nil {
			return fmt.Errorf("%s[%d] %s: %w", table, i, uuid(d), err)
		}
	}
	return nil
}

func (r dumpRecord) name() string { return r.UUID }

func (l *loading) addProfiles() error {
	return each("device_profiles", l.d.Profiles, func(d dumpProfile) string { return d.name() }, l.addProfile)
}

func (l *loading) addProfile(d dumpProfile) error {
	if err := checkRowUUID(d.UUID); err != nil && !l.st.quirks {
		return err
	}
	if _, err := l.st.profileByName(d.Name); err == nil {
		return fmt.Errorf("name %q twice", d.Name)
	}
	if err := checkProfileName(d.Name); err != nil {
		return err
	}
	if len(d.Groups) == 0 {
		return errors.New("no groups")
	}
	total := 0
	for i, g := range d.Groups {
		total += max(g.requests(l.st.quirks), 0)
		if total > maxRequests {
			return fmt.Errorf("group %d: more than %d accelerators", i, maxRequests)
		}
	}
	return fill(&l.st.profiles, &profileRow{name: d.Name, description: d.Description, groups: d.Groups}, d.dumpRecord)
}

func (l *loading) addDevices() error {
	return each("devices", l.d.Devices, func(d dumpDevice) string { return d.name() }, l.addDevice)
}

func (l *loading) addDevice(d dumpDevice) error {
	key := d.ControlPath.Key()
	switch {
	case d.Hostname == "":
		return errors.New("no hostname")
	case d.Status != StatusEnabled && d.Status != StatusMaintaining:
		return fmt.Errorf("status %q, want %s or %s", d.Status, StatusEnabled, StatusMaintaining)
	case d.Parts != nil:
		return errors.New("deployable_list: deployables are rows of their own")
	case d.Stub:
		return errors.New("a stub is not stored")
	case d.Nested && l.st.mode != ModeNested:
		return fmt.Errorf("nested with placement_mode %q", l.st.mode)
	case l.st.deviceOf(d.Hostname, key) != nil:
		return fmt.Errorf("host %s has a device at %s already", d.Hostname, key)
	}
	if err := d.Validate(); err != nil {
		return err
	}
	if err := checkRowUUID(d.UUID); err != nil {
		return err
	}
	row := &deviceRow{host: d.Hostname, source: d.Driver, key: key, spec: d.Device, status: d.Status, nested: d.Nested}
	if err := fill(&l.st.devices, row, d.dumpRecord); err != nil {
		return err
	}
	l.st.byHost[row.host] = append(l.st.byHost[row.host], row)
	return nil
}

func (l *loading) addDeployables() error {
	return each("deployables", l.d.Deployables, func(d dumpDeployable) string { return d.name() }, l.addDeployable)
}

func (l *loading) addDeployable(d dumpDeployable) error {
	device, ok := l.st.devices.get(d.Device)
	if !ok {
		return fmt.Errorf("there is no device %q", d.Device)
	}
	if err := l.checkDeployable(d); err != nil {
		return err
	}
	part := &deployableRow{
		device: device, name: d.Name, driverName: d.Driver, total: d.Total, memory: d.Memory, provider: d.Provider,
		bitstream: d.Bitstream, writing: d.Writing, unsure: d.Unsure, offered: d.Offered, fixed: d.Programmable != nil && !*d.Programmable,
	}
	if d.Loaded != nil {
		part.loaded = d.Loaded.loaded()
	}
	if err := fill(&l.st.deployables, part, d.dumpRecord); err != nil {
		return err
	}
	device.parts = append(device.parts, part)
	l.st.byName[part.name] = part
	l.st.placePart(part, part.provider)
	if part.writing != "" {
		l.halted.parts = append(l.halted.parts, part)
	}
	return nil
}

func (l *loading) checkDeployable(d dumpDeployable) error {
	_, named := l.st.byName[d.Name]
	_, placed := l.st.byProvider[d.Provider]
	switch {
	case d.Name == "" || named:
		return fmt.Errorf("name %q is empty or there twice", d.Name)
	case !simhttp.IsUUIDLike(d.Provider):
		return fmt.Errorf("rp_uuid %q is no uuid", d.Provider)
	case placed:
		return fmt.Errorf("rp_uuid %s twice", d.Provider)
	case d.Total < 1 || d.Total > math.MaxInt32:
		return fmt.Errorf("num_accelerators %d, want 1 to %d", d.Total, math.MaxInt32)
	case d.Loaded != nil && d.Loaded.Image == "":
		return errors.New("loaded names no image_id")
	}
	for _, class := range slices.Sorted(maps.Keys(d.Memory)) {
		if amount := d.Memory[class]; amount < 1 {
			return fmt.Errorf("resources: %s %d, want at least 1", class, amount)
		}
		if err := driver.CheckResourceClass(class); err != nil {
			return fmt.Errorf("resources: %w", err)
		}
	}
	return checkRowUUID(d.UUID)
}

func (d dumpLoaded) loaded() loaded {
	return loaded{
		image: glanceImage{id: d.Image, properties: d.Properties}, trait: d.Trait, reported: d.Reported, looked: d.Looked,
	}
}

func (l *loading) addAttributes() error {
	return each("attributes", l.d.Attributes, func(d dumpAttribute) string { return d.name() }, l.addAttribute)
}

func (l *loading) addAttribute(d dumpAttribute) error {
	part, ok := l.st.deployables.get(d.Deployable)
	if !ok {
		return fmt.Errorf("there is no deployable %q", d.Deployable)
	}
	same := func(a *attributeRow) bool { return a.key == d.Key && !a.byAPI }
	if !d.ByUser && slices.ContainsFunc(part.attributes, same) {
		return fmt.Errorf("deployable %s has attribute %q twice", part.name, d.Key)
	}
	a := &attributeRow{deployable: part, key: d.Key, value: d.Value, byAPI: d.ByUser}
	if err := checkRowUUID(d.UUID); err != nil {
		return err
	}
	if err := fill(&l.st.attributes, a, d.dumpRecord); err != nil {
		return err
	}
	part.attributes = append(part.attributes, a)
	return nil
}

func (l *loading) addHandles() error {
	known := make(map[string]bool)
	return each("attach_handles", l.d.Handles, func(d dumpHandle) string { return d.name() }, func(d dumpHandle) error {
		key := d.Deployable + d.Info.Key()
		if known[key] {
			return fmt.Errorf("deployable %s has a handle with that attach_info already", d.Deployable)
		}
		known[key] = true
		return l.addHandle(d)
	})
}

func (l *loading) addHandle(d dumpHandle) error {
	part, ok := l.st.deployables.get(d.Deployable)
	if !ok {
		return fmt.Errorf("there is no deployable %q", d.Deployable)
	}
	if d.Gone && !d.InUse {
		return errors.New("gone, and not in use")
	}
	h := &handleRow{deployable: part, kind: d.Type, info: pack(d.Info), taken: d.InUse, gone: d.Gone}
	if err := h.spec().Check(); err != nil {
		return err
	}
	if err := checkRowUUID(d.UUID); err != nil {
		return err
	}
	if err := fill(&l.st.handles, h, d.dumpRecord); err != nil {
		return err
	}
	part.handles = append(part.handles, h)
	return nil
}
