package store

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
)

// The kinds of work for leases.
const (
	workBind    = "bind"    // the agent does what a bind needs
	WorkRestore = "restore" // a mediated device is created again after a restart of its host
	WorkRemove  = "remove"  // a mediated device is removed
	workProgram = "program" // an image is written to a deployable
)

// Handles iterates over the attach handles of a deployable, lowest first.
func (t Tx) Handles(deployable string) iter.Seq[Handle] {
	return t.s.handleByDeployable.All(t.tx, deployable)
}

// AllHandles iterates over all attach handles, lowest first.
func (t Tx) AllHandles() iter.Seq[Handle] { return t.s.handles.All(t.tx) }

// CountHandles is the number of all attach handles.
func (t Tx) CountHandles() int { return t.s.handles.Len(t.tx) }

// Handle finds an attach handle.
func (t Tx) Handle(uuid string) (Handle, bool) { return t.s.handles.byUUID.Get(t.tx, uuid) }

// Who creates mediated devices.
const (
	MdevsByAgent = "agent" // the agent, at the bind
	MdevsByNova  = "nova"  // nova-compute, before it starts the guest
)

// createdByAgent reports whether the agent must create the handle's device before its request is Bound.
func (t Tx) createdByAgent(h Handle) bool {
	return h.needsAgent() && (h.Type != driver.HandleMDEV || t.s.cfg.Mdevs != MdevsByNova)
}

// needsAgent reports whether the agent must remove the handle's device: a mediated device, or the vGPU of a virtual
// function.
func (h Handle) needsAgent() bool {
	if h.Type == driver.HandlePCI && strings.Contains(string(h.Info), `"asked_type":`) {
		_, vgpu, _ := h.spec().VGPU()
		return vgpu
	}
	return h.Type == driver.HandleMDEV
}

func (h Handle) spec() driver.AttachHandle {
	return driver.AttachHandle{Type: h.Type, Info: h.Info.Map()}
}

// firstFreeHandle returns the free handle of a deployable with the lowest ID.
func (t Tx) firstFreeHandle(deployable string) (Handle, bool) {
	for h := range t.Handles(deployable) {
		if h.State == Free {
			return h, true
		}
	}
	return Handle{}, false
}

// users returns the requests that hold handles of a deployable. A handle in use whose request was deleted is
// included.
func (t Tx) users(deployable string) []string { return t.usersOf(t.Handles(deployable), nil) }

// usersOf returns the requests that hold the handles, except those for which except, if not nil, returns true.
func (t Tx) usersOf(handles iter.Seq[Handle], except func(Handle, ARQ) bool) []string {
	var names []string
	for h := range handles {
		a, held := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
		switch {
		case !h.InUse() || except != nil && except(h, a):
		case !held:
			names = append(names, "attach handle "+h.UUID+", whose request was deleted")
		default:
			names = append(names, "ARQ "+a.UUID)
		}
	}
	return names
}

// unlink removes a handle from the request that has it.
func (t Tx) unlink(h Handle) {
	t.s.arqs.edit(t, h.HeldBy, func(a *ARQ) {
		if a.Handle == h.UUID {
			a.Handle = ""
		}
	})
}

// HandleWork describes a handle for an agent that works on it.
type HandleWork struct {
	Lease        Lease
	Host, Driver string
	Device       string // key of its control path
	Handle       driver.AttachHandle
	UUID         string
	// Again is set if the device may already have been created for the request.
	Again bool
}

// BeginWork takes the lease of a handle, unless it is taken or the work is no longer needed.
func (t Tx) BeginWork(work, handle string) (HandleWork, bool) {
	h, _ := t.Handle(handle)
	if _, busy := t.s.leaseByHandle.Get(t.tx, handle); busy {
		return HandleWork{}, false
	}
	if work == WorkRestore && !t.restorable(h) || work == WorkRemove && !h.orphaned() {
		return HandleWork{}, false
	}
	return t.lease(Lease{Work: work, Handle: handle}, h), true
}

func (t Tx) lease(l Lease, h Handle) HandleWork {
	l.ID = t.s.leaseIDs.Next(t.tx)
	t.s.leases.Put(t.tx, l)
	d, _ := t.s.deployables.byUUID.Get(t.tx, h.Deployable)
	device, _ := t.s.devices.byUUID.Get(t.tx, d.Device)
	return HandleWork{
		Lease: l, Host: device.Host, Driver: device.Driver, Device: device.ControlPath.Key(), Handle: h.spec(), UUID: h.UUID,
		Again: l.Work == WorkRestore,
	}
}

// endLease ends a lease. It returns false if the lease had already ended.
func (t Tx) endLease(l Lease) bool {
	_, ok := t.s.leases.Get(t.tx, l.ID)
	t.s.leases.Delete(t.tx, l.ID)
	return ok
}

// ReleaseARQ begins an unbind or a deletion, and ends a bind in progress. If it returns true, the returned work, the
// removal of a mediated device, must be done first, see [Tx.EndRemoval]; otherwise the request no longer has a
// handle.
//
// While the agent is unreachable the mediated device is kept until the agent is back, see [Tx.UnsettledMdevs].
func (t Tx) ReleaseARQ(a ARQ, unreachable bool) (HandleWork, bool) {
	a.Attempt++
	t.s.arqs.Put(t.tx, a)
	h, ok := t.Handle(a.Handle)
	if !ok {
		return HandleWork{}, false
	}
	_, busy := t.s.leaseByHandle.Get(t.tx, h.UUID)
	switch {
	case busy, h.needsAgent() && unreachable:
		// the work in progress finds that the request was deleted, and cleans up
		t.unlink(h)
		h.HeldBy = ""
		t.s.handles.Put(t.tx, h)
	case h.needsAgent():
		return t.lease(Lease{Work: WorkRemove, Handle: h.UUID}, h), true
	default:
		t.release(h)
	}
	return HandleWork{}, false
}

// EndRemoval ends the removal of a mediated device. After a failure the handle is in use, and its
// request can be released again.
func (t Tx) EndRemoval(w HandleWork, removed bool, now time.Time) {
	if !t.endLease(w.Lease) {
		return
	}
	if removed {
		t.releaseHandle(w.UUID)
		return
	}
	h, _ := t.Handle(w.UUID)
	if a, ok := t.s.arqs.byUUID.Get(t.tx, h.HeldBy); ok && a.State == BindStarted {
		a.State, a.UpdatedAt = BindFailed, now
		t.s.arqs.Put(t.tx, a)
	}
}

// maxRestoreFailures is the number of consecutive reports that must fail to recreate a mediated device before its
// request is BindFailed. Later reports still try.
const maxRestoreFailures = 3

// EndRestore ends the restoration of a mediated device. Held is false if the request was unbound or deleted since it
// began: the device must then be removed, and the lease is kept for the removal. A request that was provisioning, or
// BindFailed by earlier failures, is resolved, with a bind for the event.
func (t Tx) EndRestore(w HandleWork, cause error, patch int64, now time.Time) (resolved []Bind, held bool) {
	h, ok := t.Handle(w.UUID)
	a, held := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
	if ok && !held {
		return nil, false
	}
	t.endLease(w.Lease)
	if a.State == Bound || cause != nil && t.AgentDown(a.Host) {
		return nil, true // the next report, or the next start, retries
	}
	before := a.State
	if cause == nil {
		a.State, a.RestoreFailures, a.Failure = Bound, 0, ""
	} else {
		a.RestoreFailures++
		a.Failure = cause.Error()
	}
	if a.RestoreFailures >= maxRestoreFailures {
		a.State = BindFailed
	}
	a.UpdatedAt = now
	t.s.arqs.Put(t.tx, a)
	if a.State == before {
		return nil, true
	}
	return []Bind{t.addBind(Bind{Patch: patch, ARQ: a.UUID, Instance: a.Instance, Profile: a.Profile, Result: a.State})}, true
}

// UnsettledMdevs returns the handles of a host whose mediated devices must be removed, because no request holds them,
// and the handles that are restorable.
func (t Tx) UnsettledMdevs(host string) (orphans, restorable []string) {
	return t.handlesOf(host, Handle.orphaned), t.restorableOn(host)
}

// restorableOn returns the handles of a host whose mediated devices guests use.
func (t Tx) restorableOn(host string) []string { return t.handlesOf(host, t.restorable) }

// restorable reports whether a guest uses the device of a handle that the agent has created. This includes handles
// that are no longer reported: the guest has the device until its request is released.
func (t Tx) restorable(h Handle) bool {
	if !t.createdByAgent(h) || h.HeldBy == "" {
		return false
	}
	a, _ := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
	return a.State == Bound || a.State == Provisioning || a.State == BindFailed && a.RestoreFailures > 0
}

// handlesOf returns the selected handles of a host that need the agent and have no lease.
func (t Tx) handlesOf(host string, which func(Handle) bool) []string {
	var list []string
	if t.s.handleOfAgent.Len(t.tx) == 0 {
		return nil
	}
	for d := range t.HostDeployables(host) {
		for h := range t.s.handleOfAgent.All(t.tx, d.UUID) {
			if !which(h) {
				continue
			}
			if _, busy := t.s.leaseByHandle.Get(t.tx, h.UUID); !busy {
				list = append(list, h.UUID)
			}
		}
	}
	return list
}

// MarkProvisioning sets the bound requests of a host with mediated devices to provisioning, and also those whose
// devices could not be recreated.
func (t Tx) MarkProvisioning(host string, now time.Time) {
	for _, uuid := range t.restorableOn(host) {
		h, _ := t.Handle(uuid)
		a, _ := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
		a.State, a.UpdatedAt, a.RestoreFailures = Provisioning, now, 0
		t.s.arqs.Put(t.tx, a)
	}
}

// HasProvisioning reports whether a request of a host is provisioning.
func (t Tx) HasProvisioning(host string) bool {
	return slices.ContainsFunc(t.restorableOn(host), func(uuid string) bool {
		h, _ := t.Handle(uuid)
		a, _ := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
		return a.State == Provisioning
	})
}

// Info is the information of an attach handle as [driver.Info.Key] writes it. A map for each
// of hundreds of thousands of handles would be most of the server's memory.
type Info string

// MarshalJSON writes the object.
func (i Info) MarshalJSON() ([]byte, error) { return []byte(i), nil }

// UnmarshalJSON reads the object.
func (i *Info) UnmarshalJSON(data []byte) error {
	var info driver.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return err
	}
	*i = Info(info.Key())
	return nil
}

// ByInfo returns reported attach handles by their information.
func ByInfo(reported []driver.AttachHandle) map[Info]driver.AttachHandle {
	handles := make(map[Info]driver.AttachHandle, len(reported))
	for _, h := range reported {
		handles[Info(h.Key())] = h
	}
	return handles
}

// Map is the information by name.
func (i Info) Map() driver.Info {
	if info, ok := i.plain(); ok {
		return info
	}
	var info driver.Info
	_ = json.Unmarshal([]byte(i), &info) // it was written by driver.Info.Key
	return info
}

// plain reads information without escaped characters, as that of every PCI address is. The
// texts are not copied.
func (i Info) plain() (driver.Info, bool) {
	text := string(i)
	if len(text) < len("{}") || strings.Contains(text, `\`) {
		return nil, false
	}
	info := make(driver.Info, strings.Count(text, `":"`))
	for rest := text[1 : len(text)-1]; rest != ""; rest = strings.TrimPrefix(rest, ",") {
		var key, value string
		var isText, ends bool
		key, rest, isText = strings.Cut(rest[1:], `":"`)
		value, rest, ends = strings.Cut(rest, `"`)
		if !isText || !ends {
			return nil, false
		}
		info[key] = value
	}
	return info, true
}
