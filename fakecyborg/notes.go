package fakecyborg

import (
	"context"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// lock takes the server's lock. Until unlock, what changes is noted for the request that
// ctx is of; with the context of background work it is noted for none.
func (s *Server) lock(ctx context.Context) {
	s.mu.Lock()
	s.state.notes = simhttp.ChangeLogOf(ctx)
}

// unlock gives back what lock took. It may also follow a plain Lock, but a plain Unlock
// must not follow lock: the next change would be noted for the wrong request.
func (s *Server) unlock() {
	s.state.notes = nil
	s.mu.Unlock()
}

// living is a context for the work of a request that goes on to its end although the
// caller may be gone.
func (s *Server) living(ctx context.Context) context.Context {
	return simhttp.WithChangeLogOf(s.life, ctx)
}

// note notes a change, if anybody listens.
func (st *state) note(action, kind, id, what string) {
	if st.notes != nil {
		st.notes.Add(sim.Change{Action: action, Kind: kind, ID: id, What: what})
	}
}

// watchARQ returns a function that notes what has become of a request since.
func (st *state) watchARQ(a *arqRow) (end func()) {
	if st.notes == nil {
		return func() {}
	}
	before := a.fields()
	return func() {
		steps := a.fields()
		for i := range steps {
			steps[i].From = before[i].To
		}
		st.notes.AddSteps("accelerator_request", a.uuid, "", steps...)
	}
}

// fields are what the API shows of a request, the times excepted.
func (a *arqRow) fields() []tables.Step {
	handle := ""
	if a.handle != nil {
		handle = a.handle.uuid
	}
	return []tables.Step{
		{Name: "state", To: string(a.state)}, {Name: "hostname", To: a.host}, {Name: "device_rp_uuid", To: a.provider},
		{Name: "instance_uuid", To: a.instance}, {Name: "project_id", To: a.project}, {Name: "attach_handle", To: handle},
		{Name: "failure", To: a.failure},
	}
}

// watchHandle returns a function that notes who holds a handle now.
func (st *state) watchHandle(h *handleRow) (end func()) {
	if st.notes == nil {
		return func() {}
	}
	before := h.holder()
	return func() {
		st.notes.AddSteps("attach_handle", h.uuid, h.kind+" on "+h.deployable.name, tables.Step{Name: "held by", From: before, To: h.holder()})
	}
}

// holder says who has a handle.
func (h *handleRow) holder() string {
	switch {
	case h.arq != nil:
		return "ARQ " + h.arq.uuid
	case h.taken:
		return "its mediated device"
	}
	return ""
}

// noteMdev does something to a mediated device and notes whether it came to be there or
// went, whatever the driver says of it. A driver that cannot be asked is believed.
func noteMdev(ctx context.Context, d driver.Driver, m driver.Mdev, made bool, do func() error) error {
	notes := simhttp.ChangeLogOf(ctx)
	if notes == nil {
		return do()
	}
	before, known := mdevThere(d, m)
	err := do()
	after, _ := mdevThere(d, m)
	if !known {
		before, after = !made, made == (err == nil)
	}
	what := m.Type + " on " + m.Parent
	switch {
	case after && !before:
		notes.Add(sim.Change{Action: sim.Created, Kind: "mediated_device", ID: m.UUID, What: what})
	case before && !after:
		notes.Add(sim.Change{Action: sim.Deleted, Kind: "mediated_device", ID: m.UUID, What: what})
	}
	return err
}

// mdevThere reports whether a mediated device is on its host, as far as that can be known.
func mdevThere(d driver.Driver, m driver.Mdev) (there, known bool) {
	switch d := d.(type) {
	case interface{ Mdevs() []driver.Mdev }:
		return slices.ContainsFunc(d.Mdevs(), func(other driver.Mdev) bool { return other.UUID == m.UUID }), true
	case driver.TreeDriver:
		_, err := d.Tree().Readlink(driver.MdevParentTypes(m.Parent) + "/" + m.Type + "/devices/" + m.UUID)
		return err == nil, true
	}
	return false, false
}
