package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// Operations lists what Cyborg does by itself and fault rules act on, with the actions:
//
//   - Sending events: status is Nova's bad answer, drop loses them, duplicate sends them twice, and
//     reorder sends the last one first.
//   - Creating and removing a mediated device, writing a bitstream: status and drop make it fail,
//     with After once it is done.
//   - Finding a device in a report: drop hides it from that report, status makes it unreadable, so
//     that its rows stay as they are.
//   - A call of the conductor to an agent, and an agent's report: status makes it fail, drop stops
//     the agent for the rule's delay or, without one, until it is started, and reboot restarts its
//     host after the rule's delay.
//   - The write of a PATCH or DELETE of requests: see overlap.go.
func Operations() []fault.Operation {
	failing := []fault.Action{fault.Status, fault.Drop, fault.Delay}
	calling := slices.Concat(failing, []fault.Action{fault.Reboot})
	sending := slices.Concat(failing, []fault.Action{fault.Duplicate, fault.Reorder})
	return []fault.Operation{
		{Name: fault.EventSend, Subject: "the uuid of the instance", Actions: sending},
		{Name: fault.MdevCreate, Subject: "the uuid of the attach handle", Actions: failing},
		{Name: fault.MdevRemove, Subject: "the uuid of the attach handle", Actions: failing},
		{Name: fault.VGPUSet, Subject: "the uuid of the attach handle", Actions: failing},
		{Name: fault.VGPUClear, Subject: "the uuid of the attach handle", Actions: failing},
		{Name: fault.DeployableWrite, Subject: "the name of the deployable", Actions: failing},
		{Name: fault.DeviceFind, Subject: "the name of the device's first deployable", Actions: []fault.Action{fault.Status, fault.Drop}},
		{Name: fault.AgentCall, Subject: "the host", Actions: calling},
		{Name: fault.AgentReport, Subject: "the host", Actions: calling},
		{Name: fault.ARQWrite, Subject: "the uuid of the first ARQ, or the instance that a DELETE names", Actions: []fault.Action{fault.Status, fault.Delay}},
	}
}

// Errors about hosts, which are public in fakecyborg.
var (
	ErrHost      = errors.New("fakecyborg: bad host")
	ErrAgentDown = errors.New("fakecyborg: the agent is down")
)

// errInjected is the cause of a failure that a fault rule asked for.
var errInjected = errors.New("injected fault")

// errReplaced is the error of work for a state that was replaced.
var errReplaced = errors.New("another state was loaded")

// withFault calls do, unless a rule makes the operation fail, before or after it.
func (c *Conductor) withFault(ctx context.Context, operation sim.OperationName, subject string, do func() error) error {
	rule, hit := c.cfg.Faults.Decide(operation, subject)
	if !hit {
		return do()
	}
	var done error
	if rule.Applied() {
		done = do()
	}
	if err := c.applyFault(ctx, rule, subject); err != nil {
		return errors.Join(done, err)
	}
	if rule.Applied() {
		return done
	}
	return do()
}

// The time that a driver has for a mediated device, and for writing an image.
const (
	mdevLimit    = 30 * time.Second
	programLimit = 10 * time.Minute
)

// callAgent calls the agent of a host, whose driver does an operation on a subject within a limit.
// Fault rules act on the call and on the operation.
func (c *Conductor) callAgent(ctx context.Context, host, source string, operation sim.OperationName, subject string, limit time.Duration,
	do func(context.Context, driver.Driver) error,
) error {
	return c.withFault(ctx, fault.AgentCall, host, func() error {
		h, d, err := c.driverOf(host, source)
		if err != nil {
			return err
		}
		return c.withFault(ctx, operation, subject, func() error {
			if c.replaced(ctx) {
				return errReplaced
			}
			defer c.hardwareChanged(host)
			return h.guard.Call(ctx, d, string(operation), limit, func(ctx context.Context) error { return do(ctx, d) })
		})
	})
}

// applyFault applies a rule. Without an error the work continues.
func (c *Conductor) applyFault(ctx context.Context, rule fault.Rule, subject string) error {
	toAgent := rule.Operation == fault.AgentCall || rule.Operation == fault.AgentReport
	switch {
	case rule.Action == fault.Delay:
		return c.cfg.Clock.Wait(ctx, rule.Delay)
	case rule.Action == fault.Reboot:
		return c.reboot(subject, rule.Delay)
	case rule.Action == fault.Drop && toAgent:
		return c.silence(subject, rule.Delay)
	}
	return errInjected
}

// silence stops an agent for a time, or until it is started.
func (c *Conductor) silence(host string, away time.Duration) error {
	if err := c.stopFor(host, away); err != nil {
		return err
	}
	return fmt.Errorf("%w on host %s: %w", ErrAgentDown, host, errInjected)
}

// reboot stops a host, and starts it again after a time.
func (c *Conductor) reboot(name string, away time.Duration) error {
	if err := c.stopFor(name, away); err != nil {
		return err
	}
	if h, err := c.host(name); err == nil {
		c.db.Update(nil, func(tx store.Tx) { tx.LoseFunctions(h.storedName(tx), c.now()) })
		if h.Reboot != nil {
			h.Reboot()
		}
	}
	return fmt.Errorf("%w on host %s, which reboots: %w", ErrAgentDown, name, errInjected)
}

// stopFor stops an agent for a time, or, if away is 0, until it is started. An agent that is already stopped until it
// is started stays so.
func (c *Conductor) stopFor(host string, away time.Duration) error {
	if _, err := c.host(host); err != nil {
		return err
	}
	returns, at := false, c.now().Add(away)
	c.db.Update(nil, func(tx store.Tx) {
		a, _ := tx.Agent(host)
		returns = away > 0 && (!a.Down() || !a.ReturnsAt.IsZero())
		tx.StopAgent(host, c.now(), c.cfg.HeartbeatPeriod)
		if returns {
			tx.SetReturn(host, at)
		}
	})
	if returns {
		c.start(func(ctx context.Context) { c.comeBack(ctx, host, at) })
	}
	return nil
}

// comeBack starts the agent of a host at a time, unless it was started since, or stopped for another time.
func (c *Conductor) comeBack(ctx context.Context, host string, at time.Time) {
	if c.cfg.Clock.Wait(ctx, at.Sub(c.now())) != nil || c.replaced(ctx) {
		return
	}
	if returns := store.Read(c.db, func(tx store.Tx) time.Time { a, _ := tx.Agent(host); return a.ReturnsAt }); returns.Equal(at) {
		_ = c.StartAgent(ctx, host) // kept for DriverReports; the next report tries again
	}
}

// discoveryFault applies a rule that hides a device from a report, or makes it unreadable.
func (c *Conductor) discoveryFault(d driver.Device) (hidden bool, err error) {
	if len(d.Deployables) == 0 {
		return false, nil
	}
	rule, _ := c.cfg.Faults.Decide(fault.DeviceFind, d.Deployables[0].Name)
	switch rule.Action {
	case fault.Drop:
		return true, nil
	case fault.Status:
		return false, errInjected
	}
	return false, nil
}
