package store

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// The checks of rows that come from a file, see [tables.DB.Prepare].

func checkUUID(uuid string) error {
	if !uuids.Like(uuid) {
		return fmt.Errorf("%q is not a UUID", uuid)
	}
	return nil
}

// checkTime refuses a time that JSON cannot hold in UTC.
func checkTime(times ...time.Time) error {
	for _, at := range times {
		if year := at.UTC().Year(); year < 1 || year > 9999 {
			return fmt.Errorf("time %s is outside of the years 1 to 9999", at)
		}
	}
	return nil
}

func (s *Store) checkProfile(p Profile) error {
	if !s.cfg.Quirks {
		if err := checkUUID(p.UUID); err != nil {
			return err
		}
	}
	if p.UUID == "" || len(p.Groups) == 0 {
		return errors.New("no uuid or no groups")
	}
	if err := CheckProfileName(p.Name); err != nil {
		return err
	}
	total := 0
	for i, g := range p.Groups {
		requests, _ := g.requests(s.cfg.Quirks)
		if total += max(requests, 0); total > maxRequests {
			return fmt.Errorf("group %d: more than %d accelerators", i, maxRequests)
		}
	}
	return checkTime(p.CreatedAt)
}

func (d Device) check() error {
	if d.Host == "" {
		return errors.New("no hostname")
	}
	if d.Status != StatusEnabled && d.Status != StatusMaintaining {
		return fmt.Errorf("status %q, want %s or %s", d.Status, StatusEnabled, StatusMaintaining)
	}
	found := driver.Device{
		Type: d.Type, Vendor: d.Vendor, Model: d.Model, StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo,
		ControlPath: d.ControlPath.Reported(), Resources: d.Resources,
	}
	return errors.Join(found.Validate(), checkUUID(d.UUID), checkTime(d.CreatedAt, d.UpdatedAt))
}

func (d Deployable) check() error {
	switch {
	case d.Name == "" || d.Device == "":
		return errors.New("no name or no device")
	case !uuids.Like(d.Provider):
		return fmt.Errorf("rp_uuid %q is not a UUID", d.Provider)
	case d.Total < 1 || d.Total > math.MaxInt32:
		return fmt.Errorf("num_accelerators %d, want 1 to %d", d.Total, math.MaxInt32)
	case !slices.Contains([]Presence{Stored, Offered, Vanished, absent}, d.Presence):
		return fmt.Errorf("presence %q", d.Presence)
	case !slices.Contains([]content{reported, written, spoiled, reset}, d.Region.Content),
		(d.Region.Content == written) != (d.Region.Image.ID != ""):
		return fmt.Errorf("region: content %q, image %q", d.Region.Content, d.Region.Image.ID)
	}
	for _, class := range slices.Sorted(maps.Keys(d.Resources)) {
		if amount := d.Resources[class]; amount < 1 {
			return fmt.Errorf("resources: %s %d, want at least 1", class, amount)
		}
		if err := driver.CheckResourceClass(class); err != nil {
			return fmt.Errorf("resources: %w", err)
		}
	}
	return errors.Join(checkUUID(d.UUID), checkTime(d.CreatedAt, d.UpdatedAt))
}

func (a Attribute) check() error {
	if a.Deployable == "" {
		return errors.New("no deployable")
	}
	return errors.Join(checkUUID(a.UUID), checkTime(a.CreatedAt, a.UpdatedAt))
}

func (h Handle) check() error {
	if h.HeldBy != "" && h.State == Free {
		return errors.New("held, and free")
	}
	if h.Deployable == "" {
		return errors.New("no deployable")
	}
	return errors.Join(h.spec().Check(), checkUUID(h.UUID))
}

func (a ARQ) check() error {
	idle := a.State == Initial || a.State == Unbound
	switch {
	case !slices.Contains(storedStates(), a.State):
		return fmt.Errorf("state %q is never stored", a.State)
	case idle && (a.Host != "" || a.Provider != "" || a.Instance != "" || a.Handle != ""):
		return fmt.Errorf("%s with hostname %q, device_rp_uuid %q, instance_uuid %q, attach_handle %q", a.State, a.Host, a.Provider, a.Instance, a.Handle)
	case a.Handle == "" && (a.State == Bound || a.State == Provisioning):
		return fmt.Errorf("%s without an attach handle", a.State)
	case !a.Bitstream.valid():
		return fmt.Errorf("bitstream: %s %q names none", a.Bitstream.By, a.Bitstream.Value)
	}
	return errors.Join(checkUUID(a.UUID), checkTime(a.CreatedAt, a.UpdatedAt))
}

func (b Bind) check() error {
	if b.Result != "" && b.Result != Bound && b.Result != BindFailed && b.Result != BindStarted {
		return fmt.Errorf("result %q is not a result of a bind", b.Result)
	}
	if !slices.Contains([]creation{notNeeded, needed, begun}, b.Device) {
		return fmt.Errorf("device %q is not a creation of a device", b.Device)
	}
	if !b.Bitstream.valid() {
		return fmt.Errorf("bitstream: %s %q names none", b.Bitstream.By, b.Bitstream.Value)
	}
	return checkUUID(b.ARQ)
}

func (a Agent) check() error {
	if a.Host == "" || a.FellBack && a.Fallback == "" {
		return errors.New("no hostname, or it fell back to none")
	}
	if !a.Down() && !a.ReturnsAt.IsZero() {
		return errors.New("returns_at of an agent that runs")
	}
	return checkTime(a.StartedAt, a.BeatAt, a.ReturnsAt)
}

func (s *Store) checkProvider(p Provider) error {
	if (p.Name == "") != (s.cfg.Layout == LayoutFlat) {
		return fmt.Errorf("name %q, and the placement mode is %q", p.Name, s.cfg.Layout)
	}
	for _, i := range slices.Concat(p.Applied.Inventories, p.Pending.Inventories) {
		if i.Class == "" || min(i.Total, i.MaxUnit, i.Reserved) < 0 {
			return fmt.Errorf("inventory of %q: it has no class, or an amount is negative", i.Class)
		}
	}
	if p.Host == "" {
		return errors.New("no hostname")
	}
	return checkUUID(p.UUID)
}

// addChecks adds the conditions between rows.
func (s *Store) addChecks() {
	tables.References(s.deployables.Table, "device", func(d Deployable) string { return d.Device }, s.devices.byUUID)
	tables.References(s.attributes.Table, "deployable", func(a Attribute) string { return a.Deployable }, s.deployables.byUUID)
	tables.References(s.handles.Table, "deployable", func(h Handle) string { return h.Deployable }, s.deployables.byUUID)
	tables.References(s.handles.Table, "held_by", func(h Handle) string { return h.HeldBy }, s.arqs.byUUID)
	tables.References(s.arqs.Table, "device_profile_name", func(a ARQ) string { return a.Profile }, s.profileByName)
	tables.References(s.arqs.Table, "attach_handle", func(a ARQ) string { return a.Handle }, s.handles.byUUID)
	tables.References(s.leases, "attach_handle", func(l Lease) string { return l.Handle }, s.handles.byUUID)
	tables.References(s.leases, "deployable", func(l Lease) string { return l.Deployable }, s.deployables.byUUID)
	for _, check := range []func(Tx) error{Tx.checkProviders, Tx.checkHolders, Tx.checkAttributes, Tx.checkBinds} {
		s.db.Check(func(tx *tables.Tx) error { return check(Tx{s, tx}) })
	}
}

// checkProviders: in the flat layout alone deployables share a provider, in the nested
// layout alone devices have one.
func (t Tx) checkProviders() error {
	for d := range t.Devices() {
		if d.Nested && t.s.cfg.Layout != LayoutNested {
			return t.s.devices.Errorf(d.ID, "nested, and the placement mode is %q", t.s.cfg.Layout)
		}
	}
	for d := range t.Deployables() {
		if first, _ := t.s.deployableByProvider.First(t.tx, d.Provider); first.ID != d.ID && t.s.cfg.Layout != LayoutFlat {
			return t.s.deployables.Errorf(d.ID, "deployable %s has the same rp_uuid", first.UUID)
		}
	}
	return nil
}

// checkHolders: a request and its handle name each other.
func (t Tx) checkHolders() error {
	for a := range t.s.arqs.All(t.tx) {
		p, _ := t.s.profileByName.Get(t.tx, a.Profile)
		if a.Group < 0 || a.Group >= len(p.Groups) {
			return t.s.arqs.Errorf(a.ID, "device profile %s has no group %d", a.Profile, a.Group)
		}
		h, ok := t.Handle(a.Handle)
		if !ok {
			continue
		}
		d, _ := t.s.deployables.byUUID.Get(t.tx, h.Deployable)
		moved := t.s.cfg.Layout == LayoutFlat // see Displace
		if h.HeldBy != a.UUID || d.Provider != a.Provider && !moved {
			return t.s.arqs.Errorf(a.ID, "attach handle %s is held by %q, on provider %s", h.UUID, h.HeldBy, d.Provider)
		}
	}
	infos := make(map[string]bool)
	for h := range t.AllHandles() {
		a, held := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
		key := h.Deployable + string(h.Info)
		switch {
		case held && a.Handle != h.UUID:
			return t.s.handles.Errorf(h.ID, "held by ARQ %s, which has %q", a.UUID, a.Handle)
		case infos[key]:
			return t.s.handles.Errorf(h.ID, "the deployable has a handle with that attach_info already")
		}
		infos[key] = true
	}
	return nil
}

func (t Tx) checkAttributes() error {
	reported := make(map[[2]string]bool, t.s.attributes.Len(t.tx))
	for a := range t.AllAttributes() {
		at := [2]string{a.Deployable, a.Key}
		if !a.ByUser && reported[at] {
			return t.s.attributes.Errorf(a.ID, "the driver's attribute %q is there already", a.Key)
		}
		reported[at] = reported[at] || !a.ByUser
	}
	return nil
}

// checkBinds: the request of a bind in progress is in this bind, and its PATCH is the only one.
func (t Tx) checkBinds() error {
	going := make(map[string]bool)
	for b := range t.s.binds.All(t.tx) {
		a, current := t.current(b)
		switch {
		case b.Result != "" || !current:
			continue
		case a.State != BindStarted || a.Handle == "":
			return t.s.binds.Errorf(b.ID, "ARQ %s, %s with attach handle %q, is not being bound", a.UUID, a.State, a.Handle)
		case a.Instance != b.Instance || a.Profile != b.Profile || a.Handle != b.Handle:
			return t.s.binds.Errorf(b.ID, "the request is of instance %q and device profile %s, with attach handle %q", a.Instance, a.Profile, a.Handle)
		case going[b.ARQ]:
			return t.s.binds.Errorf(b.ID, "ARQ %s is being bound twice", b.ARQ)
		}
		going[b.ARQ] = true
	}
	return nil
}
