package simcloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrState is matched by the errors about a state that cannot be taken: of another
// schema_version, with unknown members, one that contradicts itself, or that of another
// world than the cloud's.
var ErrState = errors.New("simcloud: bad state")

// ErrNoState is matched by the error of a cloud that cannot tell its whole state, because
// its Placement is not simulated.
var ErrNoState = errors.New("simcloud: the state is not all here")

// stateDocument is a whole cloud as JSON.
type stateDocument struct {
	SchemaVersion int             `json:"schema_version"`
	Model         json.RawMessage `json:"model"`
	// Clock is the time of a manual clock; any other cannot be set.
	Clock       *time.Time                 `json:"clock,omitempty"`
	Identity    json.RawMessage            `json:"identity"`
	Placement   json.RawMessage            `json:"placement"`
	Accelerator json.RawMessage            `json:"accelerator"`
	Compute     json.RawMessage            `json:"compute"`
	Image       json.RawMessage            `json:"image"`
	Hosts       map[string]json.RawMessage `json:"hosts"`
	Faults      json.RawMessage            `json:"faults"`
}

// Dump returns the whole cloud as one JSON document: its model, and all that Keystone,
// Placement, Cyborg, the stand-ins for Nova and Glance, the hosts' hardware and the fault
// rules have come to know since. The field schema_version is 1. The same state gives the
// same bytes, and a cloud that has loaded a dump gives the same dump. Tokens and the
// secrets of application credentials are in it as hashes, the passwords of the model's
// users in clear.
//
// Not in it are the requests that were recorded, whom events are passed on to, and the
// time of any clock but a [ManualClock]. A dump that is taken while requests are under way
// may show some of what they do and not the rest. The error is [ErrNoState] for a cloud
// with [WithExternalPlacement].
func (c *Cloud) Dump() ([]byte, error) {
	if c.external != nil {
		return nil, fmt.Errorf("%w: it has an external Placement", ErrNoState)
	}
	parts := make(map[string][]byte)
	for _, p := range c.parts() {
		data, err := p.dump()
		if err != nil {
			return nil, fmt.Errorf("simcloud: dump %s: %w", p.name, err)
		}
		parts[p.name] = data
	}
	return joinState(parts)
}

// Load makes the cloud what a dump says, in place of all that happened in it since it was
// made: a test can go back to where it began. The dump must be that of a cloud of the same
// model. A document that cannot be taken gives [ErrState], and the cloud is as it was. It
// is for moments when nothing is going on. Binds that were going on when the dump was made
// begin again. A [ManualClock] is set to the time of the dump, if that tells one; any other
// clock goes on.
func (c *Cloud) Load(data []byte) error {
	if c.external != nil {
		return fmt.Errorf("%w: it has an external Placement", ErrNoState)
	}
	parts, err := splitState(data)
	if err != nil {
		return err
	}
	before, err := c.Dump()
	if err != nil {
		return err
	}
	if err := c.loadParts(parts); err != nil {
		old, back := splitState(before)
		if back == nil {
			back = c.loadParts(old)
		}
		return errors.Join(err, back)
	}
	c.Cyborg.Resume()
	c.compute.Resume()
	return nil
}

// FromState makes a cloud of a dump, like [New] of a model. Without [WithClock], the dump
// of a cloud with a manual clock gives one, too. The error matches [ErrState] for a
// document that cannot be taken. Events that a fault rule had put off are passed on once
// [Cloud.HandleEvents] or [Cloud.ForwardEventsTo] says to whom.
func FromState(ctx context.Context, data []byte, opts ...Option) (*Cloud, error) {
	parts, err := splitState(data)
	if err != nil {
		return nil, err
	}
	set := newSettings(opts)
	if set.stateFile != "" {
		return keepState(ctx, parts, set)
	}
	return fromParts(parts, set)
}

func fromParts(parts map[string][]byte, set settings) (*Cloud, error) {
	m, err := ParseModel(parts[partModel])
	if err != nil {
		return nil, fmt.Errorf("%w: model: %w", ErrState, err)
	}
	if set.external != nil {
		return nil, fmt.Errorf("%w: it would have an external Placement", ErrNoState)
	}
	if now, ok := parts[partClock]; ok && set.clock == nil {
		clock := sim.NewManualClock(time.Time{})
		if err := loadClock(clock, now); err != nil {
			return nil, err
		}
		set.clock = clock
	}
	return assemble(m, set, func(c *Cloud) error { return c.restore(parts) })
}

// restore is to a cloud of a state what build is to one of a model. The agents start when
// all is there that they know.
func (c *Cloud) restore(parts map[string][]byte) error {
	agents := make([]fakecyborg.Host, 0, len(c.model.Hosts))
	for i, h := range c.model.Hosts {
		_, agent, err := c.newMachine(i, h)
		if err != nil {
			return err
		}
		agents = append(agents, agent)
	}
	if err := c.loadParts(parts); err != nil {
		return err
	}
	for _, agent := range agents {
		if err := c.Cyborg.AddHost(agent); err != nil {
			return fmt.Errorf("simcloud: add host %s: %w", agent.Name, err)
		}
	}
	c.Cyborg.Resume()
	return nil
}

// loadParts takes a state, or as much of it as is good.
func (c *Cloud) loadParts(parts map[string][]byte) error {
	m, err := ParseModel(parts[partModel])
	if err != nil {
		return fmt.Errorf("%w: model: %w", ErrState, err)
	}
	if where, err := c.isOf(m); err != nil || where != "" {
		return errors.Join(err, fmt.Errorf("%w: it is that of another model: %s", ErrState, where))
	}
	for _, p := range c.parts() {
		data, ok := parts[p.name]
		switch {
		case !ok && p.name == partClock: // the dump of a cloud whose clock went by itself
			continue
		case !ok:
			return fmt.Errorf("%w: %s is missing", ErrState, p.name)
		}
		if err := p.load(data); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrState, p.name, err)
		}
	}
	for name := range parts {
		if host, ok := strings.CutPrefix(name, hostPrefix); ok && c.machine(host) == nil {
			return fmt.Errorf("%w: %s: the model has no such host", ErrState, name)
		}
	}
	for _, source := range c.tokens {
		source.forget() // the identity service may not know them any more
	}
	return nil
}

// StateModel returns the model in a state. The error matches [ErrState].
func StateModel(data []byte) (Model, error) {
	parts, err := splitState(data)
	if err != nil {
		return Model{}, err
	}
	m, err := ParseModel(parts[partModel])
	if err != nil {
		return Model{}, fmt.Errorf("%w: model: %w", ErrState, err)
	}
	return m, nil
}

// heal lets the agents look at their hardware again, as they do when they start. What
// they complain of shows in Findings; with an agent loop they do it by themselves. Fault
// rules wait until this is done.
func (c *Cloud) heal(ctx context.Context) error {
	if c.agentLoop {
		return nil
	}
	rules, err := c.faults.Dump()
	if err != nil {
		return err
	}
	c.faults.Clear()
	for _, m := range c.machines {
		err := ignoreUnsupported(m, c.Cyborg.ReportHost(ctx, m.host.Name))
		if err != nil && !errors.Is(err, fakecyborg.ErrAgentDown) {
			return fmt.Errorf("simcloud: the agent of host %s starts: %w", m.host.Name, err)
		}
	}
	return c.faults.Load(rules)
}
