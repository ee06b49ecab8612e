package fakecyborg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fault"
)

// The names by which fault rules act on what Cyborg does by itself.
const (
	eventOperation       = "accelerator.event.send"
	mdevCreateOperation  = "accelerator.mdev.create"
	mdevRemoveOperation  = "accelerator.mdev.remove"
	programOperation     = "accelerator.deployable.write"
	deviceFindOperation  = "accelerator.device.find"
	agentCallOperation   = "accelerator.agent.call"
	agentReportOperation = "accelerator.agent.report"
)

// work lists these operations with the actions that they take:
//
//   - Sending events: status is Nova's bad answer, drop loses them, duplicate sends
//     them twice, and reorder sends them after all others of the PATCH, the last one
//     first.
//   - Making and removing a mediated device, writing a bitstream: status and drop
//     make it fail, and with After it is done all the same.
//   - Finding a device in a report: drop lets it vanish from that report, status is
//     a driver's trouble with it, which leaves alone what is known of it.
//   - A call of the conductor to an agent, and an agent's report: status makes it
//     fail, drop silences the agent from then on, for the rule's delay or, without
//     one, until [Server.StartAgent], and reboot lets its host go down and come up
//     again after the rule's delay.
func work() []fault.Operation {
	failing := []fault.Action{fault.Status, fault.Drop, fault.Delay}
	calling := append(failing[:len(failing):len(failing)], fault.Reboot)
	telling := append(failing[:len(failing):len(failing)], fault.Duplicate, fault.Reorder)
	return []fault.Operation{
		{Name: eventOperation, Subject: "the uuid of the instance", Actions: telling},
		{Name: mdevCreateOperation, Subject: "the uuid of the attach handle", Actions: failing},
		{Name: mdevRemoveOperation, Subject: "the uuid of the attach handle", Actions: failing},
		{Name: programOperation, Subject: "the name of the deployable", Actions: failing},
		{Name: deviceFindOperation, Subject: "the name of the device's first deployable", Actions: []fault.Action{fault.Status, fault.Drop}},
		{Name: agentCallOperation, Subject: "the host", Actions: calling},
		{Name: agentReportOperation, Subject: "the host", Actions: calling},
	}
}

// errInjected is the cause of a failure that a fault rule asked for.
var errInjected = errors.New("injected fault")

// perform does a piece of work, unless a rule wants it to go wrong, before or after
// it was done.
func (s *Server) perform(ctx context.Context, operation, subject string, do func() error) error {
	rule, hit := s.faults.Decide(operation, subject)
	if !hit {
		return do()
	}
	var done error
	if rule.Applied() {
		done = do()
	}
	if err := s.strike(ctx, rule, subject); err != nil {
		return errors.Join(done, err)
	}
	if rule.Applied() {
		return done
	}
	return do()
}

// strike lets a rule act; without an error the work may go on.
func (s *Server) strike(ctx context.Context, rule fault.Rule, subject string) error {
	toAgent := rule.Operation == agentCallOperation || rule.Operation == agentReportOperation
	switch {
	case rule.Action == fault.Delay:
		return s.clock.Wait(ctx, rule.Delay)
	case rule.Action == fault.Reboot:
		return s.reboot(subject, rule.Delay)
	case rule.Action == fault.Drop && toAgent:
		return s.silence(subject, rule.Delay)
	}
	return errInjected
}

// silence lets an agent answer no more: for a time, or until it is started.
func (s *Server) silence(host string, away time.Duration) error {
	if err := s.StopAgent(host); err != nil {
		return err
	}
	if away > 0 {
		s.startLater(host, away)
	}
	return fmt.Errorf("%w on host %s: %w", ErrAgentDown, host, errInjected)
}

// reboot lets a host go down now, and come up again later.
func (s *Server) reboot(host string, away time.Duration) error {
	if err := s.StopAgent(host); err != nil {
		return err
	}
	s.mu.RLock()
	hardware := s.agents[host].host.Reboot
	s.mu.RUnlock()
	if hardware != nil {
		hardware()
	}
	s.startLater(host, away)
	return fmt.Errorf("%w on host %s, which reboots: %w", ErrAgentDown, host, errInjected)
}

// startLater starts an agent again after a time.
func (s *Server) startLater(host string, away time.Duration) {
	s.mu.Lock()
	if signs := &s.agents[host].signs; signs.down { // and not started by somebody meanwhile
		signs.returns = s.clock.Now().Add(away)
	}
	s.mu.Unlock()
	s.goWithin(func(ctx context.Context) { s.comeBack(ctx, host, away) })
}

// comeBack starts the agent of a host after a time.
func (s *Server) comeBack(ctx context.Context, host string, after time.Duration) {
	if s.clock.Wait(ctx, after) == nil {
		_ = s.StartAgent(ctx, host) // kept for DriverReports; the next report tries again
	}
}

// sight lets a rule hide a device from a report, or make it unreadable.
func (s *Server) sight(d driver.Device) (hidden bool, trouble error) {
	if len(d.Deployables) == 0 {
		return false, nil
	}
	rule, _ := s.faults.Decide(deviceFindOperation, d.Deployables[0].Name)
	switch rule.Action {
	case fault.Drop:
		return true, nil
	case fault.Status:
		return false, errInjected
	}
	return false, nil
}
