package agent

import (
	"context"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// Replaced is called after the state was replaced. Work in the background for the previous state
// ends without effect.
func (c *Conductor) Replaced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states++
	c.resumed = false
}

// epoch counts the replacements of the state.
func (c *Conductor) epoch() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.states
}

// Resume continues what an earlier process left, once after each replacement of the state. It
// returns at once.
func (c *Conductor) Resume() {
	c.mu.Lock()
	added, resumed := slices.Clone(c.added), c.resumed
	c.resumed = true
	c.mu.Unlock()
	if resumed {
		return
	}
	var work store.Recovery
	c.db.Update(nil, func(tx store.Tx) {
		work = tx.Recover(c.now())
		for _, h := range added {
			tx.AddAgent(h.Name, h.Fallback, c.now())
		}
	})
	for _, patch := range work.Patches {
		if !slices.Contains(work.Programming, patch) {
			c.bindLater(patch)
		}
	}
	for _, handle := range work.Orphans {
		c.work.Start(func(ctx context.Context) {
			if w, ok := c.begin(store.WorkRemove, handle); ok {
				_ = c.removeHandle(ctx, w) // the next report tries again
			}
		})
	}
	c.work.Start(func(ctx context.Context) {
		c.writeAgain(ctx, work.Leases)
		for _, patch := range work.Programming { // which then find their image on the card
			c.bindLater(patch)
		}
	})
	c.resumeHosts()
}

// resumeHosts starts the hosts whose restart was due, and finishes the start of those that were
// starting.
func (c *Conductor) resumeHosts() {
	now := c.now()
	for _, name := range c.Hosts() {
		c.db.View(func(tx store.Tx) {
			a, _ := tx.Agent(name)
			switch {
			case a.Down && !a.ReturnsAt.IsZero():
				c.work.Start(func(ctx context.Context) { c.comeBack(ctx, name, a.ReturnsAt.Sub(now)) })
			case !a.Down && tx.HasProvisioning(name):
				c.work.Start(func(ctx context.Context) { _ = c.ReportHost(ctx, name) }) // kept for DriverReports
			}
		})
	}
}

// writeAgain repeats programmings that were interrupted, so that the content of the regions is
// known.
func (c *Conductor) writeAgain(ctx context.Context, leases []store.Lease) {
	for _, l := range leases {
		within, cancel := c.limited(ctx, c.cfg.BindTimeout)
		if image, err := c.DescribeImage(within, l.Image); err == nil {
			_ = c.write(within, l, image, true) // its caller is gone
		} else {
			c.db.Update(nil, func(tx store.Tx) { tx.Unclaim(l) })
		}
		cancel()
	}
}
