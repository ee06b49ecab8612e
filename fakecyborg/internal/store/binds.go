package store

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/driver"
)

// BindArgs are the arguments of a bind.
type BindArgs struct {
	Host, Provider, Instance string
	Project                  string // empty: not given
}

// WrongState refuses a bind in a state that allows none.
func WrongState(state, uuid string) error {
	return Refuse(BadState, "Bad state: %s for ARQ: %s. Expected state(s): ['%s', '%s']", state, uuid, Initial, Unbound)
}

// CheckBindable refuses a bind of a request in a state that allows none.
func CheckBindable(a ARQ) error {
	if a.State != Initial && a.State != Unbound {
		return WrongState(a.State, a.UUID)
	}
	return nil
}

// checkLengths refuses values that are too long for upstream's columns.
func (b BindArgs) checkLengths() error {
	for _, column := range []struct {
		name, value string
		width       int
	}{{"project_id", b.Project, MaxName}, {"hostname", b.Host, MaxName}, {"device_rp_uuid", b.Provider, maxUUID}, {"instance_uuid", b.Instance, maxUUID}} {
		if utf8.RuneCountInString(column.value) > column.width {
			return tooLong(column.name)
		}
	}
	return nil
}

// Overwritten returns a request as an earlier transaction read it, for a bind that does not see later writes. An
// attach handle that the request has got since then stays in use without a request: upstream never frees it.
func (t Tx) Overwritten(a, read ARQ) ARQ {
	if h, ok := t.Handle(a.Handle); ok {
		h.HeldBy = ""
		t.s.handles.Put(t.tx, h)
	}
	read.Attempt, read.Handle = a.Attempt, ""
	return read
}

// StartBind performs the part of a bind that needs no agent: it stores the fields, finds the deployable and takes its
// first free handle. On any error except a wrong state, the request becomes BindFailed (with quirks and an unknown
// provider it stays BindStarted).
//
// The caller's project owns the request afterwards if neither the request nor the arguments name
// one. Patch is the first bind of the PATCH, 0 if it is this one.
func (t Tx) StartBind(a ARQ, args BindArgs, caller string, patch int64, now time.Time) (Bind, error) {
	if err := cmp.Or(CheckBindable(a), args.checkLengths()); err != nil {
		return Bind{}, err
	}
	a.State, a.Host, a.Provider, a.Instance, a.UpdatedAt, a.Failure = BindStarted, args.Host, args.Provider, args.Instance, now, ""
	a.Project = t.ownerAfterBind(a.Project, args.Project, caller)
	a.RestoreFailures = 0
	a.Attempt++
	bind, err := t.takeHandle(&a)
	t.s.arqs.Put(t.tx, a)
	if err != nil {
		return Bind{}, err
	}
	bind.Patch = patch
	return t.addBind(bind), nil
}

func (t Tx) addBind(b Bind) Bind {
	b.ID = t.s.bindIDs.Next(t.tx)
	if b.Patch == 0 {
		b.Patch = b.ID
	}
	t.s.binds.Put(t.tx, b)
	return b
}

// takeHandle assigns the first free handle of a deployable to the request, which the caller stores. A bitstream that
// the region already has is not written; a bitstream that would replace the function of another request is refused.
func (t Tx) takeHandle(a *ARQ) (Bind, error) {
	d, ok := t.deployableFor(*a)
	if !ok || !d.InPlacement() {
		err := Refuse(NotFound, "Deployable not found with resource provider uuid=%s", a.Provider)
		if !t.s.cfg.Quirks {
			a.State, a.Failure = BindFailed, err.Error()
		}
		return Bind{}, err
	}
	fail := func(err error) (Bind, error) {
		a.State, a.Failure = BindFailed, err.Error()
		return Bind{}, err
	}
	ref, err := t.RequestedBitstream(*a)
	if err != nil {
		return fail(err)
	}
	if t.Carries(d, ref) {
		ref = BitstreamRef{}
	}
	if err := cmp.Or(t.checkRegionOf(*a, d, ref), t.checkTraits(*a, d, ref)); err != nil {
		return fail(err)
	}
	h, ok := t.firstFreeHandle(d.UUID)
	if !ok {
		return fail(Refuse(NotFound, "AttachHandle not found Matching deployable_id %d", d.ID))
	}
	if !ref.Named() { // otherwise the region gets other functions
		if h, err = t.handleFor(*a, d, h); err != nil {
			return fail(err)
		}
	}
	t.give(h, a)
	b := Bind{ARQ: a.UUID, Instance: a.Instance, Profile: a.Profile, Attempt: a.Attempt, Handle: h.UUID, Bitstream: ref}
	if t.createdByAgent(h) {
		b.Device = needed
	}
	return b, nil
}

// deployableFor returns the deployable on the provider to which a request is bound: if there are several, the first
// enabled one of the request's class with a free handle.
func (t Tx) deployableFor(a ARQ) (Deployable, bool) {
	if t.s.cfg.Layout != LayoutFlat {
		return t.s.deployableByProvider.First(t.tx, a.Provider)
	}
	var full Deployable
	for d := range t.s.deployableByProvider.All(t.tx, a.Provider) {
		_, fits := t.group(a).get(PrefixResources + t.Reported(d).Class)
		device, _ := t.s.devices.byUUID.Get(t.tx, d.Device)
		if !fits || !d.InPlacement() || device.Status == StatusMaintaining {
			continue
		}
		if _, free := t.firstFreeHandle(d.UUID); free {
			return d, true
		}
		if full.UUID == "" {
			full = d
		}
	}
	return full, full.UUID != ""
}

// WantsProgramming reports whether a bind of the request on a provider programs it.
func (t Tx) WantsProgramming(a ARQ, provider string) bool {
	ref, err := t.RequestedBitstream(a)
	if err != nil || !ref.Named() {
		return false
	}
	a.Provider = provider
	d, ok := t.deployableFor(a)
	return !ok || !t.Carries(d, ref)
}

// checkRegionOf refuses a region that is being programmed for another request, and refuses to program a region that
// is in use by other requests or pre-programmed. Upstream checks none of this.
func (t Tx) checkRegionOf(a ARQ, d Deployable, ref BitstreamRef) error {
	if t.s.cfg.Quirks {
		return nil
	}
	if t.regionProgramming(d) && !ref.Named() {
		return Refuse(Conflict, "deployable %s is being programmed", d.Name)
	}
	if err := t.checkFunction(a, d, ref); err != nil {
		return err
	}
	for h := range t.regionHandles(d) {
		if other, ok := t.s.arqs.byUUID.Get(t.tx, h.HeldBy); ok && t.programs(other) && !t.shares(other, a.Instance, ref) {
			return Refuse(Conflict, "deployable %s is being programmed for ARQ %s", d.Name, other.UUID)
		}
	}
	if !ref.Named() || ref.By == byBitstreamName { // only Glance knows the image of the name
		return nil
	}
	if d.Preprogrammed {
		return Refuse(Conflict, "deployable %s is pre-programmed and cannot be programmed", d.Name)
	}
	if users := t.otherUsers(d, "", a.Instance, ref); len(users) > 0 {
		return Refuse(Conflict, "deployable %s is in use by %s and cannot be programmed", d.Name, strings.Join(users, ", "))
	}
	return nil
}

// checkFunction refuses a region that no longer has the function whose trait a request requires: Placement had it
// when the instance was scheduled. If the request selects an image, the function is written and not checked.
func (t Tx) checkFunction(a ARQ, d Deployable, ref BitstreamRef) error {
	traits := t.Reported(d).Traits
	switch group := t.group(a); {
	case ref.Named() || !group.lacksFunction(nil):
		return nil
	case d.Region.unknown():
		return Refuse(Conflict, "deployable %s has no known function: programming it failed, or its host has restarted since", d.Name)
	case group.lacksFunction(traits) && (d.Region.Image.ID != "" || slices.ContainsFunc(traits, driver.IsFunctionTrait)):
		return Refuse(Conflict, "deployable %s has been programmed with another function", d.Name)
	}
	return nil
}

// checkTraits refuses a deployable that has changed since Placement chose it for the instance: its driver no longer
// reports a trait that the request requires, or reports a forbidden one. A trait that no driver reported may have
// been added to the provider by another client. Upstream checks none of this.
func (t Tx) checkTraits(a ARQ, d Deployable, ref BitstreamRef) error {
	if t.s.cfg.Quirks {
		return nil
	}
	reported := t.Reported(d).Traits
	for trait, required := range t.group(a).traits() {
		switch {
		case !isHardware(trait) || ref.Named() && driver.IsFunctionTrait(trait):
		case required && d.lacks(trait, a.UpdatedAt):
			return Refuse(Conflict, "deployable %s no longer has trait %s", d.Name, trait)
		case !required && slices.Contains(reported, trait):
			return Refuse(Conflict, "deployable %s has trait %s, which is forbidden", d.Name, trait)
		}
	}
	return nil
}

// isHardware reports whether a trait describes the hardware, and not its owner or that it can be programmed.
func isHardware(trait string) bool {
	return trait != driver.TraitOwnerCyborg && trait != driver.TraitProgrammable
}

// programs reports whether a request has a bind in progress that writes an image.
func (t Tx) programs(a ARQ) bool {
	for b := range t.s.bindByARQ.All(t.tx, a.UUID) {
		if b.Result == "" && b.Attempt == a.Attempt && b.Bitstream.Named() {
			return true
		}
	}
	return false
}

// shares reports whether a request may use a region that is programmed for a request of an instance:
// it has the same instance, is being bound, and wants the same bitstream.
func (t Tx) shares(other ARQ, instance string, ref BitstreamRef) bool {
	wanted, err := t.RequestedBitstream(other)
	return err == nil && other.Instance == instance && other.State == BindStarted && wanted == ref
}

// otherUsers returns the requests that hold handles of a region, except one handle and the requests of the instance
// that want the same bitstream.
func (t Tx) otherUsers(d Deployable, except, instance string, ref BitstreamRef) []string {
	return t.regionUsers(d, func(h Handle, a ARQ) bool { return h.UUID == except || t.shares(a, instance, ref) })
}

// ownerAfterBind keeps the request's project if the patch names none. Upstream sets the caller's project, so that the
// user's later deletion finds nothing; a release without isolation has no caller.
func (t Tx) ownerAfterBind(present, patched, caller string) string {
	switch {
	case patched != "":
		return patched
	case caller == "", present != "" && !t.s.cfg.Quirks:
		return present
	}
	return caller
}

// current returns the request of a bind, and whether the bind is still its current one.
func (t Tx) current(b Bind) (ARQ, bool) {
	a, ok := t.s.arqs.byUUID.Get(t.tx, b.ARQ)
	return a, ok && a.Attempt == b.Attempt
}

// BeginBindWork takes the lease of the bind's handle for the agent. It returns false if the request was unbound or
// deleted since the bind began.
func (t Tx) BeginBindWork(b Bind) (HandleWork, bool) {
	h, ok := t.Handle(b.Handle)
	_, current := t.current(b)
	if _, busy := t.s.leaseByHandle.Get(t.tx, b.Handle); !ok || !current || busy {
		return HandleWork{}, false
	}
	w := t.lease(Lease{Work: workBind, Bind: b.ID, Handle: b.Handle}, h)
	if row, _ := t.s.binds.Get(t.tx, b.ID); b.Creates() {
		w.Again, row.Device = row.Device == begun, begun
		t.s.binds.Put(t.tx, row)
	}
	return w, true
}

// EndBindWork ends the lease and keeps the bind unchanged, for [Tx.Recover]. It returns false if the request was
// unbound or deleted since the bind began.
func (t Tx) EndBindWork(b Bind) bool {
	if _, current := t.current(b); !current {
		return false
	}
	t.endBindLease(b)
	return true
}

// endBindLease ends the lease of a bind, if it has one.
func (t Tx) endBindLease(b Bind) bool {
	l, ok := t.s.leaseByHandle.Get(t.tx, b.Handle)
	if !ok || l.Bind != b.ID {
		return false
	}
	return t.endLease(l)
}

// FinishBind makes the request Bound. It returns an error if the request was unbound or deleted since the bind began,
// or if its region has lost its function. Then the agent's work must be undone and [Tx.FailBind] called.
func (t Tx) FinishBind(b Bind, now time.Time) error {
	a, current := t.current(b)
	if !current {
		return Overtaken(b)
	}
	if err := t.checkUnwritten(a, b); err != nil {
		return err
	}
	if err := t.takeFunction(&a); err != nil {
		return err
	}
	t.endBindLease(b)
	a.State, a.UpdatedAt = Bound, now
	t.s.arqs.Put(t.tx, a)
	t.setResult(b, Bound)
	return nil
}

// checkUnwritten checks a region to which the bind writes no image, because the region had the requested image or
// function when the bind began. It refuses a region that has lost it, as after a restart of its host.
func (t Tx) checkUnwritten(a ARQ, b Bind) error {
	h, _ := t.Handle(b.Handle)
	d, err := t.Deployable(h.Deployable)
	if err != nil || b.Bitstream.Named() || t.s.cfg.Quirks {
		return nil
	}
	if ref, err := t.RequestedBitstream(a); err == nil && ref.Named() && !t.Carries(d, ref) {
		return Refuse(Conflict, "deployable %s was reset while ARQ %s was being bound", d.Name, a.UUID)
	}
	return t.checkFunction(a, d, b.Bitstream)
}

// Overtaken returns the refusal of a bind that is no longer the current bind of its request.
func Overtaken(b Bind) error {
	return Refuse(Conflict, "ARQ %s was unbound or deleted while it was being bound", b.ARQ)
}

// AbandonBind keeps a request BindStarted without a handle, as upstream does when Placement refuses its trait.
func (t Tx) AbandonBind(b Bind) {
	t.endBindLease(b)
	t.releaseHandle(b.Handle)
	t.setResult(b, BindStarted)
}

// FailBind makes the request BindFailed if the bind is still current. The handle is kept if its mediated device may
// still exist, so that an unbind removes it.
func (t Tx) FailBind(b Bind, cause error, keepHandle bool, now time.Time) {
	worked := t.endBindLease(b)
	_, current := t.current(b)
	if !keepHandle && (worked || current) {
		t.releaseHandle(b.Handle)
	}
	if a, current := t.current(b); current {
		a.State, a.UpdatedAt, a.Failure = BindFailed, now, cause.Error()
		t.s.arqs.Put(t.tx, a)
	}
	t.setResult(b, BindFailed)
}

func (t Tx) setResult(b Bind, result string) {
	if row, ok := t.s.binds.Get(t.tx, b.ID); ok {
		row.Result = result
		t.s.binds.Put(t.tx, row)
	}
}

// Binds returns the binds of a PATCH about which Nova was not notified yet.
func (t Tx) Binds(patch int64) []Bind {
	return slices.Collect(t.s.bindByPatch.All(t.tx, patchKey(patch)))
}

// EndPatch deletes all binds of a PATCH.
func (t Tx) EndPatch(patch int64) {
	for b := range t.s.bindByPatch.All(t.tx, patchKey(patch)) {
		t.s.binds.Delete(t.tx, b.ID)
	}
}

// SilencePatch stores that Nova is not notified about the binds of a PATCH.
func (t Tx) SilencePatch(patch int64) {
	for b := range t.s.bindByPatch.All(t.tx, patchKey(patch)) {
		b.Silent = true
		t.s.binds.Put(t.tx, b)
	}
}
