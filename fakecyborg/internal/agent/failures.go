package agent

import (
	"context"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/sim"
)

// maxFailures is how many failures may wait to be logged; more are dropped.
const maxFailures = 256

// logFailures logs why binds fail, which Cyborg's API does not report, until Close. Failures in a loaded state are
// not logged again.
func (c *Conductor) logFailures() {
	waiting := make(chan *store.ARQ, maxFailures) // a commit must not wait for the log
	c.db.DB().OnCommit(func(changes []sim.RecordChange) {
		for _, change := range changes {
			before, changed := change.Before.(*store.ARQ)
			after, there := change.After.(*store.ARQ)
			if !changed || !there || after.Failure == "" || after.Failure == before.Failure {
				continue
			}
			select {
			case waiting <- after:
			default:
			}
		}
	})
	c.work.Start(func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case a := <-waiting:
				c.cfg.Logger.Warn("an accelerator request failed", "arq", a.UUID, "state", a.State, "instance", a.Instance,
					"host", a.Host, "provider", a.Provider, "cause", a.Failure)
			}
		}
	})
}
