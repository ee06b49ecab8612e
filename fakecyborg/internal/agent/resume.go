package agent

import (
	"context"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// Replaced is called after the state was replaced. Work for the previous state ends without effect.
func (c *Conductor) Replaced() {
	c.mu.Lock()
	c.resumed = false
	c.mu.Unlock()
	var hosts [][]layout.Part
	c.db.View(func(tx store.Tx) {
		parts := make(map[string][]layout.Part)
		for device := range tx.Devices() {
			for _, d := range tx.DeviceDeployables(device.UUID) {
				if d.InPlacement() {
					parts[device.Host] = append(parts[device.Host], partOf(device, d, tx.Reported(d)))
				}
			}
		}
		hosts = slices.Collect(maps.Values(parts))
	})
	for _, parts := range hosts {
		c.mirror.Assume(parts)
	}
}

// loadsKey is the key of the Loads of the state that the work of a context is for.
type loadsKey struct{}

func (c *Conductor) loads() int { return store.Read(c.db, store.Tx.Loads) }

// forState returns a context for work on the current state, which changes no other.
func (c *Conductor) forState(ctx context.Context) context.Context {
	return context.WithValue(ctx, loadsKey{}, c.loads())
}

// start does work on the current state in the background.
func (c *Conductor) start(run func(context.Context)) {
	loads := c.loads()
	c.work.Start(func(ctx context.Context) { run(context.WithValue(ctx, loadsKey{}, loads)) })
}

// isFor reports whether the work of ctx is for the state of a transaction.
func isFor(ctx context.Context, tx store.Tx) bool {
	loads, ok := ctx.Value(loadsKey{}).(int)
	return !ok || loads == tx.Loads()
}

// replaced reports whether the state that the work of ctx is for was replaced.
func (c *Conductor) replaced(ctx context.Context) bool {
	return !store.Read(c.db, func(tx store.Tx) bool { return isFor(ctx, tx) })
}

// Resume continues the work of an earlier process, once after each replacement of the state. It returns at once.
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
		c.start(func(ctx context.Context) {
			if w, ok := c.begin(ctx, store.WorkRemove, handle); ok {
				_ = c.removeHandle(ctx, w, nil) // the next report tries again
			}
		})
	}
	c.start(func(ctx context.Context) {
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
	for _, name := range c.Hosts() {
		var a store.Agent
		provisioning := false
		c.db.View(func(tx store.Tx) {
			a, _ = tx.Agent(name)
			provisioning = tx.HasProvisioning(name)
		})
		switch {
		case a.Down() && !a.ReturnsAt.IsZero():
			c.start(func(ctx context.Context) { c.comeBack(ctx, name, a.ReturnsAt) })
		case !a.Down() && provisioning:
			c.work.Start(func(ctx context.Context) { _ = c.ReportHost(ctx, name) }) // kept for DriverReports
		}
	}
}

// writeAgain repeats programmings that were interrupted, so that the content of the regions is
// known.
func (c *Conductor) writeAgain(ctx context.Context, leases []store.Lease) {
	for _, l := range leases {
		c.change(ctx, func(tx store.Tx) { l = tx.Spoil(l, c.now()) })
		within, cancel := c.limited(ctx, c.cfg.BindTimeout)
		if image, err := c.DescribeImage(within, l.Image); err == nil {
			_ = c.write(within, l, image, true) // no caller waits for it
		} else {
			c.change(ctx, func(tx store.Tx) { tx.Unclaim(l) })
		}
		cancel()
	}
}
