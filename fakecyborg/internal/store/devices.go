package store

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
)

// The states of a device.
const (
	StatusEnabled     = "enabled"
	StatusMaintaining = "maintaining" // disabled: its inventory is reserved in Placement
)

// Devices iterates over all devices, oldest first.
func (t Tx) Devices() iter.Seq[Device] { return t.s.devices.All(t.tx) }

// HostDevices iterates over the devices of a host, oldest first.
func (t Tx) HostDevices(host string) iter.Seq[Device] { return t.s.deviceByHost.All(t.tx, host) }

// Device finds a device by its UUID.
func (t Tx) Device(uuid string) (Device, error) {
	if d, ok := t.s.devices.byUUID.Get(t.tx, uuid); ok {
		return d, nil
	}
	return Device{}, Refuse(NotFound, "Device not found with uuid=%s", uuid)
}

// SetDeviceStatus stores the status of a device, unless it is unchanged.
func (t Tx) SetDeviceStatus(uuid, status string, now time.Time) {
	if d, err := t.Device(uuid); err != nil || d.Status == status {
		return
	}
	t.s.devices.edit(t, uuid, func(d *Device) { d.Status, d.UpdatedAt = status, now })
}

// IsAsReported reports whether Merge changes nothing.
func (d Device) IsAsReported(found driver.Device, source string) bool {
	return d.Driver == source && d.Type == found.Type && d.Vendor == found.Vendor && d.Model == found.Model &&
		d.StdBoardInfo == found.StdBoardInfo && d.VendorBoardInfo == found.VendorBoardInfo &&
		d.ControlPath.Type == found.ControlPath.Type && d.ControlPath.Key() == found.ControlPath.Key() && maps.Equal(d.Resources, found.Resources)
}

// Merge returns the device with the values that a driver reports.
func (d Device) Merge(found driver.Device, source string) Device {
	d.Driver, d.Type, d.Vendor, d.Model, d.StdBoardInfo, d.VendorBoardInfo, d.ControlPath, d.Resources =
		source, found.Type, found.Vendor, found.Model, found.StdBoardInfo, found.VendorBoardInfo, ControlPath{found.ControlPath.Type, Info(found.ControlPath.Key())}, maps.Clone(found.Resources)
	return d
}

// AddDevice stores a new device without its deployables.
func (t Tx) AddDevice(host string, found driver.Device, source string, nested bool, now time.Time) Device {
	d := Device{
		ID: t.s.devices.ids.Next(t.tx), UUID: t.s.texts.keep(t.s.devices.newUUID(t, kindDevice, pathKey(host, found.ControlPath.Key()))), CreatedAt: now,
		Host: host, Status: StatusEnabled, Nested: nested,
	}.Merge(found, source)
	d.Type, d.Vendor, d.Model, d.StdBoardInfo, d.VendorBoardInfo, d.ControlPath.Type, d.ControlPath.Info =
		shared(d.Type), shared(d.Vendor), shared(d.Model), shared(d.StdBoardInfo), shared(d.VendorBoardInfo), shared(d.ControlPath.Type), Info(shared(string(d.ControlPath.Info)))
	t.s.devices.Put(t.tx, d)
	return d
}

// UpdateDevice stores the changed values of a reported device.
func (t Tx) UpdateDevice(uuid string, found driver.Device, source string, now time.Time) {
	t.s.devices.edit(t, uuid, func(d *Device) {
		old := *d
		*d = old.Merge(found, source)
		if d.Vendor != old.Vendor || d.Model != old.Model || d.Type != old.Type ||
			d.StdBoardInfo != old.StdBoardInfo || d.VendorBoardInfo != old.VendorBoardInfo {
			d.UpdatedAt = now
		}
	})
}

// SetNested stores whether a device has a provider of its own.
func (t Tx) SetNested(uuid string, nested bool) {
	t.s.devices.edit(t, uuid, func(d *Device) { d.Nested = nested })
}

// RemoveEmptyDevice deletes a device if it has no deployables.
func (t Tx) RemoveEmptyDevice(uuid string) {
	_, used := t.s.deployableByDevice.First(t.tx, uuid)
	if d, ok := t.s.devices.byUUID.Get(t.tx, uuid); ok && !used {
		t.s.devices.Delete(t.tx, d.ID)
	}
}

// Deployables iterates over all deployables, oldest first.
func (t Tx) Deployables() iter.Seq[Deployable] { return t.s.deployables.All(t.tx) }

// DeviceDeployables lists the deployables of a device, oldest first.
func (t Tx) DeviceDeployables(device string) []Deployable {
	return slices.Collect(t.s.deployableByDevice.All(t.tx, device))
}

// HostDeployables iterates over the deployables of a host.
func (t Tx) HostDeployables(host string) iter.Seq[Deployable] {
	return func(yield func(Deployable) bool) {
		for device := range t.HostDevices(host) {
			for d := range t.s.deployableByDevice.All(t.tx, device.UUID) {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// Deployable finds a deployable.
func (t Tx) Deployable(uuid string) (Deployable, error) {
	if d, ok := t.s.deployables.byUUID.Get(t.tx, uuid); ok {
		return d, nil
	}
	return Deployable{}, Refuse(NotFound, "Deployable not found with uuid=%s", uuid)
}

// DeployableByID finds a deployable by its number.
func (t Tx) DeployableByID(id int64) (Deployable, bool) { return t.s.deployables.Get(t.tx, id) }

// AddDeployable stores a new deployable with its attributes and handles. The handles are not assigned until it is in
// Placement. Parent is the provider of the host.
func (t Tx) AddDeployable(device Device, spec driver.Deployable, parent string, now time.Time) (Deployable, error) {
	if other, taken := t.s.deployableByName.Get(t.tx, spec.Name); taken {
		on, _ := t.Device(other.Device)
		return Deployable{}, fmt.Errorf("deployable %s exists already, on host %s, device %s", spec.Name, on.Host, on.ControlPath.Key())
	}
	provider := t.providerOf(device, spec.Name, parent)
	if other, taken := t.s.deployableByProvider.First(t.tx, provider); taken && t.s.cfg.Layout != LayoutFlat {
		return Deployable{}, fmt.Errorf("deployable %s: its provider %s is that of deployable %s", spec.Name, provider, other.Name)
	}
	d := Deployable{
		ID: t.s.deployables.ids.Next(t.tx), UUID: t.s.texts.keep(t.s.deployables.newUUID(t, kindDeployable, spec.Name)), CreatedAt: now, Device: device.UUID,
		Name: t.s.texts.keep(spec.Name), DriverName: shared(spec.DriverName), Total: spec.NumAccelerators, Resources: maps.Clone(spec.Resources),
		Provider: t.s.texts.keep(provider), Preprogrammed: spec.Preprogrammed(),
		Region: Region{Reported: functionTraits(spec)},
	}
	t.s.deployables.Put(t.tx, d)
	for _, a := range spec.AttributeList() {
		t.addAttribute(d, a.Key, a.Value, now)
	}
	for _, h := range spec.AttachHandles {
		t.addHandle(d, h)
	}
	return d, nil
}

// providerOf returns the provider of a deployable: its own, or the provider of the host.
func (t Tx) providerOf(device Device, name, parent string) string {
	switch {
	case t.s.cfg.Layout != LayoutFlat:
		return driver.ProviderUUID(name)
	case parent == "": // no Placement
		return driver.ProviderUUID(device.Host)
	}
	return parent
}

func (t Tx) addHandle(d Deployable, spec driver.AttachHandle) {
	info := spec.Key()
	t.s.handles.Put(t.tx, Handle{
		ID: t.s.handles.ids.Next(t.tx), UUID: t.s.texts.keep(t.s.handles.newUUID(t, kindHandle, d.Name+"\x00"+info)),
		Deployable: d.UUID, Type: shared(spec.Type), Info: Info(shared(info)), Functions: t.functionsOf(spec),
	})
}

// Withdraw stops offering deployables, all or none of them. The error names the users of one, or says that an image
// is being written to it.
func (t Tx) Withdraw(deployables []Deployable) error {
	for _, d := range deployables {
		if users := t.users(d.UUID); len(users) > 0 {
			return fmt.Errorf("deployable %s is in use by %s", d.Name, strings.Join(users, ", "))
		}
		if t.Programming(d.UUID) {
			return fmt.Errorf("deployable %s is being programmed", d.Name)
		}
	}
	for _, d := range deployables {
		t.SetPresence(d.UUID, absent)
	}
	return nil
}

// SetPresence stores whether Placement has a deployable.
func (t Tx) SetPresence(uuid string, presence Presence) {
	t.s.deployables.edit(t, uuid, func(d *Deployable) { d.Presence = presence })
}

// Displace stores that Placement has lost a deployable, and its new place. Parent is the provider of the host.
func (t Tx) Displace(device Device, d Deployable, parent string) Deployable {
	if d.InPlacement() {
		d.Presence = absent
	}
	if t.s.cfg.Layout == LayoutFlat {
		d.Provider = t.providerOf(device, d.Name, parent)
	}
	t.s.deployables.Put(t.tx, d)
	return d
}

// OfferDeployable stores that Placement knows a new deployable.
func (t Tx) OfferDeployable(uuid string, now time.Time) {
	t.s.deployables.edit(t, uuid, func(d *Deployable) { d.Presence, d.UpdatedAt = Offered, now })
}

// RemoveDeployable deletes a deployable with its attributes and handles.
func (t Tx) RemoveDeployable(uuid string) {
	for a := range t.s.attributeByDeployable.All(t.tx, uuid) {
		t.s.attributes.Delete(t.tx, a.ID)
	}
	for h := range t.Handles(uuid) {
		t.s.handles.Delete(t.tx, h.ID)
	}
	if d, ok := t.s.deployables.byUUID.Get(t.tx, uuid); ok {
		t.s.deployables.Delete(t.tx, d.ID)
	}
}

// UpdateDeployable stores the changes of a reported deployable that Placement has accepted. Handles that are no
// longer reported but in use are kept until they are released; the error names their users.
func (t Tx) UpdateDeployable(uuid string, spec driver.Deployable, now time.Time) error {
	old, ok := t.s.deployables.byUUID.Get(t.tx, uuid)
	if !ok {
		return nil
	}
	d := old.Accept(spec)
	d.Total, d.DriverName, d.Preprogrammed = spec.NumAccelerators, spec.DriverName, spec.Preprogrammed()
	if !maps.Equal(d.Resources, spec.Resources) {
		d.Resources = maps.Clone(spec.Resources)
	}
	if d.Total != old.Total || d.DriverName != old.DriverName {
		d.UpdatedAt = now
	}
	if !reflect.DeepEqual(&d, &old) {
		t.s.deployables.Put(t.tx, d)
	}
	t.updateAttributes(d, spec, now)
	return t.updateHandles(d, spec.AttachHandles)
}

// LoseTraits stores which traits of a deployable are no longer reported.
func (t Tx) LoseTraits(uuid string, reported []string, now time.Time) {
	t.s.deployables.edit(t, uuid, func(d *Deployable) { d.Lost = d.lostAfter(t.Reported(*d).Traits, reported, now) })
}

// lostTime is how long a lost trait is remembered: longer than an instance takes from its claim in Placement to the
// bind. Later, another client may put the same trait on the provider.
const lostTime = time.Hour

// lostAfter returns the traits that a deployable has lost recently, given the traits reported before and after.
func (d Deployable) lostAfter(before, after []string, now time.Time) map[string]time.Time {
	lost := make(map[string]time.Time)
	maps.Copy(lost, d.Lost)
	for _, trait := range before {
		lost[trait] = now
	}
	maps.DeleteFunc(lost, func(trait string, at time.Time) bool { return slices.Contains(after, trait) || now.Sub(at) >= lostTime })
	if len(lost) == 0 {
		return nil
	}
	return lost
}

// lacks reports whether a deployable has lost a trait recently.
func (d Deployable) lacks(trait string, now time.Time) bool {
	at, lost := d.Lost[trait]
	return lost && now.Sub(at) < lostTime
}

// WithdrawHandles deletes the free handles of a deployable that are no longer reported. Handles in use are deleted
// when they are released.
func (t Tx) WithdrawHandles(deployable string, reported []driver.AttachHandle) {
	found := ByInfo(reported)
	for h := range t.Handles(deployable) {
		if _, is := found[h.Info]; !is {
			t.withdraw(h)
		}
	}
}

func (t Tx) updateHandles(d Deployable, reported []driver.AttachHandle) error {
	if t.s.cfg.Quirks {
		return t.updateHandlesAsUpstream(d, reported)
	}
	specs, known := ByInfo(reported), make(map[Info]bool, len(reported))
	var users []string
	for h := range t.Handles(d.UUID) {
		spec, found := specs[h.Info]
		known[h.Info] = true
		if found {
			t.find(h, spec)
			continue
		}
		if h.HeldBy != "" {
			users = append(users, "ARQ "+h.HeldBy)
		}
		t.withdraw(h)
	}
	for _, h := range reported {
		if !known[Info(h.Key())] {
			t.addHandle(d, h)
		}
	}
	if len(users) > 0 {
		return fmt.Errorf("deployable %s: attach handles vanished that are in use by %s", d.Name, strings.Join(users, ", "))
	}
	return nil
}

// updateHandlesAsUpstream imitates a defect: instead of a handle that is no longer reported, the newest handle of the
// deployable is deleted. A handle that a request holds cannot be deleted, because the request's row refers to it.
func (t Tx) updateHandlesAsUpstream(d Deployable, reported []driver.AttachHandle) error {
	wanted, known := ByInfo(reported), make(map[Info]bool)
	handles := slices.Collect(t.Handles(d.UUID))
	missing := 0
	for _, h := range handles {
		known[h.Info] = true
		if _, is := wanted[h.Info]; !is {
			missing++
		}
	}
	for range missing {
		newest := handles[len(handles)-1]
		if newest.InUse() {
			return fmt.Errorf("deployable %s: cannot delete attach handle %s: a foreign key constraint fails", d.Name, newest.UUID)
		}
		t.s.handles.Delete(t.tx, newest.ID)
		handles = handles[:len(handles)-1]
	}
	for _, h := range reported {
		if !known[Info(h.Key())] {
			t.addHandle(d, h)
		}
	}
	return nil
}
