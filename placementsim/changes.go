package placementsim

import (
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// Change is one thing that a request changed.
//
// The kinds are resource_provider (its name, parent, root or generation), inventory (its
// ID is PROVIDER/CLASS), provider_traits and aggregates (by the provider's uuid; a set
// without members is none), resource_class and trait (by name; a class that is renamed by
// its old one), consumer and allocations (by the consumer's uuid), and more, whose one
// Change stands for all beyond the thousandth.
type Change struct {
	Action string `json:"action"` // created, changed or deleted
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	// What tells the change in one line: "VGPU on gpu0: total 4 -> 8".
	What string `json:"what,omitempty"`
}

func publicChanges(noted []simhttp.Change) []Change {
	var list []Change
	for _, c := range noted {
		list = append(list, Change(c))
	}
	return list
}

// state is the service's state for a transition of which the request's record will tell.
func (c *call) state() *engine.State {
	notes := simhttp.NotesOf(c.r.Context())
	if notes == nil {
		return c.server.state
	}
	return c.server.state.Noting(func(change engine.Change) { notes.Add(simhttp.Change(change)) })
}
