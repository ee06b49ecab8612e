package simcloud

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// clockName is the component of a manual clock.
const clockName = "sim.clock"

// State is the state of a cloud as [Cloud.Dump] gives it: JSON lines.
type State []byte

// document is the model and the records of a state.
type document struct {
	model   json.RawMessage
	records []sim.Record
}

// components are what a cloud's state consists of, in the order of loading: the hardware
// follows Cyborg, whose agents then repair what only one of the two has.
func (c *Cloud) components() tables.Group {
	group := tables.Group{
		{Name: "identity", Recorded: c.identity.State()},
		{Name: "placement", Recorded: c.Placement},
		{Name: "accelerator", Recorded: c.Cyborg},
		{Name: "compute", Recorded: c.compute.State()},
		{Name: "image", Recorded: c.images.State()},
		{Name: hardwareTable, Recorded: &c.hardware},
		{Name: "sim.faults", Recorded: c.faults},
	}
	if clock, ok := c.clock.(*sim.ManualClock); ok {
		group = append(group, tables.Member{Name: clockName, Recorded: clock})
	}
	return group
}

// Dump returns the whole cloud as JSON lines: a header with schema_version and the model,
// then a row a line, as an object with table, key and row. It has the state of Keystone,
// Placement, Cyborg, the stand-ins for Nova and Glance, the hosts' hardware and the fault
// rules. The same state gives the same bytes, and a cloud that has loaded a dump gives the same
// dump. Tokens and the secrets of application credentials are in it as hashes, the passwords of
// the model's users in clear.
//
// It does not contain the recorded requests, the receivers of events, or the time of a clock
// other than a [sim.ManualClock]. A dump taken during a request may contain a part of its
// changes. The error is [ErrNoState] for a cloud with [WithExternalPlacement].
func (c *Cloud) Dump() (State, error) {
	var out bytes.Buffer
	err := c.writeState(&out)
	return out.Bytes(), err
}

func (c *Cloud) writeState(w io.Writer) error {
	if c.external != nil {
		return fmt.Errorf("%w: it has an external Placement", ErrNoState)
	}
	model, err := json.Marshal(c.model)
	if err != nil {
		return err
	}
	return tables.WriteDocument(w, model, c.state.Records())
}

// parse reads the state; the error matches [ErrState].
func (s State) parse() (document, error) { return readState(bytes.NewReader(s)) }

// readState reads a state to its end; the error matches [ErrState].
func readState(r io.Reader) (document, error) {
	header, records, err := tables.ReadDocument(r)
	if err != nil {
		return document{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	st := document{model: header.Model}
	for r, err := range records {
		if err != nil {
			return document{}, fmt.Errorf("%w: %w", ErrState, err)
		}
		st.records = append(st.records, r)
	}
	return st, nil
}

func (st document) parseModel() (Model, error) {
	m, err := decodeModel(st.model)
	if err == nil {
		err = m.validate(nil)
	}
	if err != nil {
		return Model{}, fmt.Errorf("%w: model: %w", ErrState, err)
	}
	return m.withDefaults(), nil
}

// isOf refuses a state of another model than one with its defaults. The model of a large cloud
// is read only if its text differs.
func (st document) isOf(m Model) error {
	if text, err := json.Marshal(m); err != nil || bytes.Equal(st.model, text) {
		return err
	}
	own, err := st.parseModel()
	if err != nil {
		return err
	}
	was, err := json.Marshal(own.settled())
	if err != nil {
		return err
	}
	is, err := json.Marshal(m.settled())
	if err != nil {
		return err
	}
	found, err := tables.DiffJSON(was, is)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: it belongs to another model: %s", ErrState, found[0])
	}
	return err
}

// Load replaces the state of the cloud with a dump. A test can use it to return to an earlier
// state. The dump must come from a cloud of the same model. For a document that cannot be loaded
// Load returns [ErrState] and changes nothing. Call it when the cloud is idle. Binds in progress
// at the time of the dump start again. A [sim.ManualClock] is set to the time of the dump, if it
// has one; any other clock continues.
func (c *Cloud) Load(from State) error {
	return c.loadFrom(context.Background(), bytes.NewReader(from))
}

// loadFrom changes nothing until all is checked and the agents have ended what they are doing, or ctx ends.
func (c *Cloud) loadFrom(ctx context.Context, r io.Reader) error {
	if c.external != nil {
		return fmt.Errorf("%w: it has an external Placement", ErrNoState)
	}
	st, err := readState(r)
	if err != nil {
		return err
	}
	if err := st.isOf(c.model); err != nil {
		return err
	}
	commit, err := c.prepare(st)
	if err != nil {
		return err
	}
	proceed, err := c.Cyborg.Pause(ctx)
	if err != nil {
		return fmt.Errorf("simcloud: load a state: wait for the agents: %w", err)
	}
	c.keeper.Load().Together(commit)
	proceed()
	c.Cyborg.Resume()
	c.compute.Resume()
	return nil
}

// prepare returns the function that replaces the records of all components with the records of a
// state of the cloud's model.
func (c *Cloud) prepare(st document) (commit func(), err error) {
	records := st.records
	if _, manual := c.clock.(*sim.ManualClock); !manual {
		records = slices.DeleteFunc(records, func(r sim.Record) bool { return r.Table == clockName })
	}
	replace, err := c.state.Prepare(records)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return func() {
		replace()
		c.loads.Add(1)
	}, nil
}

// FromState makes a cloud of a dump, like [New] of a model. Without [WithClock], the dump
// of a cloud with a manual clock gives one, too. The error matches [ErrState] for a
// document that cannot be loaded. Events that a fault rule had delayed are passed on once
// [Cloud.HandleEvents] or [Cloud.ForwardEventsTo] names a receiver.
func FromState(_ context.Context, from State, opts ...Option) (*Cloud, error) {
	st, err := from.parse()
	if err != nil {
		return nil, err
	}
	m, err := st.parseModel()
	if err != nil {
		return nil, err
	}
	set := newSettings(opts)
	if set.stateFile != "" {
		return newInFile(set, func(old document, set settings) (*Cloud, error) {
			if old.model != nil {
				return nil, fmt.Errorf("%w: %s holds a state already", ErrState, set.stateFile)
			}
			return fromState(m, st, set)
		})
	}
	return fromState(m, st, set)
}

// fromState makes a cloud of a state and its model.
func fromState(m Model, st document, set settings) (*Cloud, error) {
	if set.external != nil {
		return nil, fmt.Errorf("%w: it would have an external Placement", ErrNoState)
	}
	hasClock := slices.ContainsFunc(st.records, func(r sim.Record) bool { return r.Table == clockName })
	if hasClock && set.clock == nil {
		set.clock = new(sim.ManualClock)
	}
	return assemble(m, set, func(c *Cloud) error { return c.restore(st, set) })
}

// restore is to a cloud of a state what build is to one of a model. The agents start when
// all is there that they know.
func (c *Cloud) restore(st document, set settings) error {
	agents := make([]driver.Host, 0, len(c.model.Hosts))
	for host := range c.agents() {
		if host.err != nil {
			return host.err
		}
		agents = append(agents, host.agent)
	}
	commit, err := c.prepare(st)
	if err != nil {
		return err
	}
	commit()
	if err := set.keep(c); err != nil {
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

// Model returns the model of the state. The error matches [ErrState].
func (s State) Model() (Model, error) {
	st, err := s.parse()
	if err != nil {
		return Model{}, err
	}
	return st.parseModel()
}

// Diff compares the state with a later one, ordered by table and key. The error matches
// [ErrState] for a document that is not a state.
func (s State) Diff(after State) ([]sim.Difference, error) {
	return s.diff(after, func(_, records []sim.Record) ([]sim.Record, error) { return records, nil })
}

// DiffContent is Diff for two clouds that did the same: identifiers that only one state has are the same
// if they are in the same field of the same row, or in rows that are otherwise the same.
func (s State) DiffContent(after State) ([]sim.Difference, error) { return s.diff(after, tables.Align) }

// diff compares two states. It calls align to give the records of the second the identifiers of the first.
func (s State) diff(after State, align func(before, after []sim.Record) ([]sim.Record, error)) ([]sim.Difference, error) {
	a, err := s.parse()
	if err != nil {
		return nil, err
	}
	b, err := after.parse()
	if err != nil {
		return nil, err
	}
	inModel, err := tables.DiffJSON(a.model, b.model)
	for i := range inModel {
		inModel[i].Path = "model." + inModel[i].Path
	}
	aligned, alignErr := align(a.records, b.records)
	found, diffErr := tables.Diff(a.records, aligned)
	if err := cmp.Or(err, alignErr, diffErr); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return append(inModel, found...), nil
}

// rediscover makes the agents read their hardware again, as they do when they start. Findings
// returns the results. Agents with a loop do this by themselves. Clients may have changed what a
// report needs: as in a running cloud, its errors are logged and the next report tries again. No
// fault rule applies to this report.
func (c *Cloud) rediscover(ctx context.Context, logger *slog.Logger) error {
	if c.agentLoop {
		return nil
	}
	defer c.faults.Pause()()
	found := c.reportErrors(c.Cyborg.Report(ctx))
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("simcloud: let the agents report: %w", err)
	}
	for i, err := range found {
		if logger != nil && !errors.Is(err, fakecyborg.ErrAgentDown) {
			logger.Warn("the agent of a host cannot report", "host", c.machines[i].host.Name, "error", err)
		}
	}
	return nil
}

// getState is the whole cloud, as Dump gives it.
func (c *Cloud) getState(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/jsonl")
	return c.writeState(w)
}

// maxState is the longest state in the body of a request, in bytes. It is read record by record.
const maxState = 1 << 30

// putState makes the cloud what the body says, in place of all that happened in it.
func (c *Cloud) putState(w http.ResponseWriter, r *http.Request) error {
	tooLarge := simhttp.Refuse(http.StatusRequestEntityTooLarge, "the state is too large: at most 1 GiB is read")
	if r.ContentLength > maxState {
		return tooLarge
	}
	err := c.loadFrom(r.Context(), http.MaxBytesReader(w, r.Body, maxState))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return tooLarge
	case err != nil:
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
