package fakecyborg

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/sim"
)

// arqRow is one accelerator request.
type arqRow struct {
	record
	profile  *profileRow
	group    int
	state    State
	host     string
	provider string
	instance string
	project  string
	handle   *handleRow
	image    image // of image_uuid, for a group that names none
	failure  string
	programs bool // its bind in progress writes an image
	attempt  int  // grows with each bind and unbind, so that a late bind notices
	deleted  bool // no longer in the table
}

// scope is whose requests a caller may see: those of a project, or all.
type scope struct {
	project string
	all     bool
	// known makes another project's request a 403 instead of a 404, as
	// releases before the service token check did.
	known bool
}

func (sc scope) sees(a *arqRow) bool {
	return sc.all || a.project == sc.project || sc.known && a.project == ""
}

// value copies the row.
func (a *arqRow) value() ARQ {
	v := ARQ{
		UUID: a.uuid, State: a.state, DeviceProfileName: a.profile.name, DeviceProfileGroupID: a.group,
		Hostname: a.host, DeviceRPUUID: a.provider, InstanceUUID: a.instance, ProjectID: a.project,
		Failure: a.failure, CreatedAt: a.created, UpdatedAt: a.updated,
	}
	if h := a.handle; h != nil {
		v.AttachHandleType, v.AttachHandleUUID = h.kind, h.uuid
		v.AttachHandleInfo = h.info.info()
	}
	return v
}

// createARQs makes the requests of a profile: one per unit of each group, in
// the order of the groups.
func (st *state) createARQs(profileName, project string, from image, now time.Time) ([]ARQ, error) {
	profile, err := st.profileByName(profileName)
	if err != nil {
		return nil, err
	}
	created := []ARQ{}
	for index, g := range profile.groups {
		for range g.requests(st.quirks) {
			a := &arqRow{
				record:  record{uuid: st.newUUID("arq"), created: now},
				profile: profile, group: index, state: StateInitial, project: project, image: from,
			}
			st.arqs.add(a)
			profile.arqs++
			if st.notes != nil {
				st.note(sim.Created, "accelerator_request", a.uuid, fmt.Sprintf("of device profile %s, group %d", profile.name, index))
			}
			created = append(created, a.value())
		}
	}
	return created, nil
}

// findARQ finds a request that the caller may see.
func (st *state) findARQ(uuid string, sc scope) (*arqRow, error) {
	a, ok := st.arqs.get(uuid)
	switch {
	case ok && sc.sees(a):
		return a, nil
	case ok && sc.known:
		return nil, denied("cyborg:arq:get_one")
	}
	return nil, refuse(kindNotFound, "ExtArq not found with uuid=%s", uuid)
}

// arqsOf lists the requests of an instance, oldest first, or all of them if
// none is named.
func (st *state) arqsOf(instance string, sc scope) []*arqRow {
	rows := st.arqs.rows
	if instance != "" {
		rows = slices.SortedFunc(slices.Values(st.byInstance[instance]), func(a, b *arqRow) int { return a.id - b.id })
	}
	visible := make([]*arqRow, 0, len(rows))
	for _, a := range rows {
		if sc.sees(a) {
			visible = append(visible, a)
		}
	}
	return visible
}

// setInstance keeps the index of instances.
func (st *state) setInstance(a *arqRow, instance string) {
	if a.instance != "" {
		rest := slices.DeleteFunc(st.byInstance[a.instance], func(other *arqRow) bool { return other == a })
		st.byInstance[a.instance] = rest
		if len(rest) == 0 {
			delete(st.byInstance, a.instance)
		}
	}
	if a.instance = instance; instance != "" {
		st.byInstance[instance] = append(st.byInstance[instance], a)
	}
}

// bindArgs is what a PATCH says about one request.
type bindArgs struct {
	host, provider, instance string
	project                  string // empty: not given
}

// bindJob is a bind that has begun. It is ended by finishBind or failBind.
type bindJob struct {
	arq     *arqRow
	uuid    string // of the request
	server  string // instance that the event is for
	attempt int
	handle  *handleRow
	image   image // to be programmed first
	mdev    bool  // the handle comes to life on the host only
	agent   bool  // the agent works on the handle for this job
	profile string
	ended   State // Bound or BindFailed, or BindStarted when abandoned; empty as long as it goes on
}

// current reports whether the request is still in the bind that the job began.
func (j *bindJob) current() bool {
	return !j.arq.deleted && j.arq.attempt == j.attempt
}

// badState refuses a bind in a state that allows none.
func badState(state State, uuid string) error {
	return refuse(kindBadState, "Bad state: %s for ARQ: %s. Expected state(s): %s",
		state, uuid, pythonList(string(StateInitial), string(StateUnbound)))
}

// startBind does everything of a bind that needs no agent: it stores the
// fields, finds the deployable and takes its first free handle. On an error
// after the state was judged, the request is BindFailed (with quirks and an
// unknown provider: BindStarted for ever).
func (st *state) startBind(a *arqRow, args bindArgs, caller string, now time.Time) (*bindJob, error) {
	if a.state != StateInitial && a.state != StateUnbound {
		return nil, badState(a.state, a.uuid)
	}
	defer st.watchARQ(a)()
	a.state, a.host, a.provider, a.updated, a.failure = StateBindStarted, args.host, args.provider, now, ""
	st.setInstance(a, args.instance)
	a.project = st.ownerAfterBind(a.project, args.project, caller)
	a.attempt++
	part, ok := st.partFor(args.provider, a)
	if !ok || !part.offered {
		err := refuse(kindNotFound, "Deployable not found with resource provider uuid=%s", args.provider)
		if !st.quirks {
			a.state, a.failure = StateBindFailed, err.Error()
		}
		return nil, err
	}
	handle, wanted, err := st.takeHandle(a, part)
	if err != nil {
		a.state, a.failure = StateBindFailed, err.Error()
		return nil, err
	}
	return &bindJob{arq: a, uuid: a.uuid, server: args.instance, attempt: a.attempt, handle: handle, image: wanted, mdev: handle.needsAgent(), profile: a.profile.name}, nil
}

// takeHandle gives the deployable's first free handle to the request, and tells
// which image must be written before. An image that is there already need not
// be; one that would pull the ground from under another request is refused.
func (st *state) takeHandle(a *arqRow, part *deployableRow) (*handleRow, image, error) {
	wanted, err := a.wanted(st.quirks)
	if err != nil {
		return nil, image{}, err
	}
	if part.carries(wanted, st.quirks) {
		wanted = image{}
	}
	if err := st.checkRegion(a, part, wanted); err != nil {
		return nil, image{}, err
	}
	h := part.freeHandle()
	if h == nil {
		return nil, image{}, refuse(kindNotFound, "AttachHandle not found Matching deployable_id %d", part.id)
	}
	defer st.watchHandle(h)()
	h.taken, h.arq, a.handle = true, a, h
	a.programs = wanted.wanted()
	return h, wanted, nil
}

// checkRegion keeps a request from a region that is being programmed for
// another one, and a region that others use, or that is pre-programmed, from
// being programmed. Upstream looks at none of it.
func (st *state) checkRegion(a *arqRow, part *deployableRow, wanted image) error {
	if st.quirks {
		return nil
	}
	if part.writing != "" && !wanted.wanted() {
		return refuse(kindConflict, "deployable %s is being programmed", part.name)
	}
	job := &bindJob{arq: a, server: a.instance, image: wanted}
	for _, h := range part.handles {
		if other := h.arq; other != nil && other.programs && !job.shares(other) {
			return refuse(kindConflict, "deployable %s is being programmed for ARQ %s", part.name, other.uuid)
		}
	}
	if !wanted.wanted() || wanted.by == byBitstreamName { // Glance knows what the name stands for
		return nil
	}
	if part.fixed {
		return refuse(kindConflict, "deployable %s is pre-programmed and cannot be programmed", part.name)
	}
	if users := part.usersBeside(job); len(users) > 0 {
		return refuse(kindConflict, "deployable %s is in use by %s and cannot be programmed", part.name, strings.Join(users, ", "))
	}
	return nil
}

// ownerAfterBind keeps the tenant's project when the patch names none; upstream
// hands the request to whoever binds it, so that the tenant's later deletion
// finds nothing.
func (st *state) ownerAfterBind(present, patched, caller string) string {
	switch {
	case patched != "":
		return patched
	case present != "" && !st.quirks:
		return present
	}
	return caller
}

// freeHandle is the free handle with the lowest id.
func (d *deployableRow) freeHandle() *handleRow {
	for _, h := range d.handles {
		if !h.taken && !h.gone {
			return h
		}
	}
	return nil
}

// needsAgent reports whether the handle comes to life on the host only.
func (h *handleRow) needsAgent() bool { return h.kind == driver.HandleMDEV }

// beginAgent reserves the handle for the agent's work. It answers false when
// the request was unbound or deleted since the bind began.
func (st *state) beginAgent(j *bindJob) bool {
	if !j.current() || j.handle.busy {
		return false
	}
	j.handle.busy, j.agent = true, true
	return true
}

// interrupt leaves a bind as it is, without an agent that works for it.
func (st *state) interrupt(j *bindJob) bool {
	if !j.current() {
		return false
	}
	if j.agent {
		j.handle.busy, j.agent = false, false
	}
	return true
}

// finishBind makes the request Bound. It answers false when the request was
// unbound or deleted in the meantime; if the agent has worked for the job, its
// work must then be undone and failBind be called.
func (st *state) finishBind(j *bindJob, now time.Time) bool {
	if !j.current() {
		return false
	}
	if j.agent {
		j.handle.busy = false
	}
	defer st.watchARQ(j.arq)()
	j.arq.state, j.arq.updated, j.arq.programs, j.ended = StateBound, now, false, StateBound
	return true
}

// abandonBind leaves a request BindStarted and without a handle, as upstream
// does when it trips over its own trait name.
func (st *state) abandonBind(j *bindJob) {
	defer st.watchARQ(j.arq)()
	j.handle.busy = false
	st.freeHandle(j.handle)
	j.arq.programs, j.ended = false, StateBindStarted
}

// failBind makes the request BindFailed if it is still in the job's bind. The
// handle is kept if its mediated device may still exist, so that an unbind
// tries again.
func (st *state) failBind(j *bindJob, cause error, keepHandle bool, now time.Time) {
	defer st.watchARQ(j.arq)()
	j.ended = StateBindFailed
	if j.agent {
		j.handle.busy = false
	}
	if !keepHandle && (j.agent || j.current()) {
		st.freeHandle(j.handle)
	}
	if j.current() {
		j.arq.state, j.arq.updated, j.arq.programs = StateBindFailed, now, false
		j.arq.failure = cause.Error()
	}
}

// freeHandle gives a handle back.
func (st *state) freeHandle(h *handleRow) {
	defer st.watchHandle(h)()
	if h.arq != nil && h.arq.handle == h {
		h.arq.handle = nil
	}
	h.taken, h.arq, h.busy = false, nil, false
	if h.gone {
		st.dropHandle(h)
	}
}

// dropHandle forgets a handle that is no longer reported.
func (st *state) dropHandle(h *handleRow) {
	st.note(sim.Deleted, "attach_handle", h.uuid, h.kind+" on "+h.deployable.name+", no longer reported")
	st.handles.remove(h)
	h.deployable.handles = slices.DeleteFunc(h.deployable.handles, func(other *handleRow) bool { return other == h })
}

// detach takes the handle from its request while the agent is at work on it:
// whoever keeps the agent busy will see that the request is gone, and clean up.
func (st *state) detach(a *arqRow) {
	if a.handle != nil {
		defer st.watchHandle(a.handle)()
		a.handle.arq, a.handle = nil, nil
	}
}

// releaseARQ begins an unbind or a deletion. A handle in the answer has a
// mediated device that must be removed first, see endRelease; without one the
// request is free of its handle. A bind in progress will find itself outdated.
//
// While the agent is unreachable the mediated device stays for it to be removed
// when it comes back, see orphans.
func (st *state) releaseARQ(a *arqRow, unreachable bool) *handleRow {
	defer st.watchARQ(a)()
	h := a.handle
	a.attempt++
	a.programs = false
	switch {
	case h == nil:
	case h.busy, h.needsAgent() && unreachable:
		st.detach(a)
	case h.needsAgent():
		h.busy = true
		return h
	default:
		st.freeHandle(h)
	}
	return nil
}

// endRelease follows the removal of a mediated device. A failed one leaves the
// handle taken and its request, if it still has one, able to be released again.
func (st *state) endRelease(h *handleRow, removed bool, now time.Time) {
	h.busy = false
	if h.arq != nil {
		defer st.watchARQ(h.arq)()
	}
	if removed {
		st.freeHandle(h)
		return
	}
	if h.arq != nil && h.arq.state == StateBindStarted {
		h.arq.state, h.arq.updated = StateBindFailed, now
	}
}

// clearBinding makes a request Unbound that holds no handle any more.
func (st *state) clearBinding(a *arqRow, now time.Time) {
	defer st.watchARQ(a)()
	a.state, a.host, a.provider, a.updated, a.failure = StateUnbound, "", "", now, ""
	st.setInstance(a, "")
}

// removeARQ deletes a request that holds no handle any more.
func (st *state) removeARQ(a *arqRow) {
	if a.deleted {
		return
	}
	a.deleted = true
	st.note(sim.Deleted, "accelerator_request", a.uuid, "state "+string(a.state))
	st.setInstance(a, "")
	st.arqs.remove(a)
	a.profile.arqs--
}

// orphans are taken handles that no request holds and nobody works on: their
// mediated devices could not be removed when the request went.
func (st *state) orphans(host string) []*handleRow {
	return st.handlesOf(host, func(h *handleRow) bool { return h.taken && h.arq == nil && !h.busy })
}

// boundMdevs are the mediated devices that guests have.
func (st *state) boundMdevs(host string) []*handleRow {
	return st.handlesOf(host, (*handleRow).restorable)
}

// restorable reports whether the handle is a mediated device in use that nobody
// is at work on.
func (h *handleRow) restorable() bool {
	return h.needsAgent() && !h.busy && !h.gone && h.arq != nil &&
		(h.arq.state == StateBound || h.arq.state == StateProvisioning)
}

func (st *state) handlesOf(host string, which func(*handleRow) bool) []*handleRow {
	var list []*handleRow
	for _, d := range st.byHost[host] {
		for _, part := range d.parts {
			for _, h := range part.handles {
				if which(h) {
					list = append(list, h)
				}
			}
		}
	}
	return list
}
