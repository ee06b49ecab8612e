package placementsim

import (
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
	"github.com/gocyborg/gocyborg/sim"
)

// state is the service's state for a transition of which the request's record will tell.
func (c *call) state() *engine.State {
	log := simhttp.ChangeLogOf(c.Context())
	if log == nil {
		return c.server.state
	}
	return c.server.state.Noting(func(change engine.Change) { log.Add(sim.Change(change)) })
}
