package agent

import (
	"context"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// StateUnknown is what a bound request shows while heartbeats of its host are missing. It is never
// stored.
const StateUnknown = "unknown"

// StopAgent stops the agent of a host, which may restart, until it is started. The error matches ErrHost.
func (c *Conductor) StopAgent(host string) error {
	h, err := c.host(host)
	if err != nil {
		return err
	}
	c.db.Update(nil, func(tx store.Tx) {
		tx.StopAgent(host, c.now(), c.cfg.HeartbeatPeriod)
		tx.LoseFunctions(h.storedName(tx), c.now())
	})
	return nil
}

// StartAgent starts the agent of a host again and returns when everything is reported.
func (c *Conductor) StartAgent(ctx context.Context, host string) error {
	if _, err := c.host(host); err != nil {
		return err
	}
	now := c.now()
	c.db.Update(nil, func(tx store.Tx) {
		tx.StartAgent(host, now)
		if c.cfg.BindingStates && !c.cfg.Quirks {
			tx.MarkProvisioning(host, now)
		}
	})
	return c.ReportHost(ctx, host)
}

// ShownState returns a function that returns the state to show for a request: unknown while heartbeats are missing.
// It is valid as long as the view or transaction.
func (c *Conductor) ShownState(tx store.Tx, now time.Time) func(store.ARQ) string {
	silent := make(map[string]bool)
	return func(a store.ARQ) string {
		if !c.cfg.BindingStates || a.State != store.Bound && a.State != store.Provisioning {
			return a.State
		}
		if _, known := silent[a.Host]; !known {
			agent, there := tx.Agent(a.Host)
			silence := now.Sub(agent.LastBeat(now, c.cfg.HeartbeatPeriod))
			silent[a.Host] = there && silence > time.Duration(c.cfg.MissedBeats)*c.cfg.HeartbeatPeriod
		}
		if silent[a.Host] {
			return StateUnknown
		}
		return a.State
	}
}
