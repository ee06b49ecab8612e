package store

import (
	"iter"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// Agent finds the agent of a host by either of its names.
func (t Tx) Agent(host string) (Agent, bool) {
	if a, ok := t.s.agents.Get(t.tx, host); ok {
		return a, true
	}
	return t.s.agentByFallback.Get(t.tx, host)
}

// Name is the name under which the devices of the host are stored.
func (a Agent) Name() string {
	if a.FellBack {
		return a.Fallback
	}
	return a.Host
}

// AddAgent stores the agent of a host, if it is new or has another fallback.
func (t Tx) AddAgent(host, fallback string, now time.Time) {
	a, ok := t.s.agents.Get(t.tx, host)
	if !ok {
		a = Agent{Host: host, StartedAt: now}
	}
	if ok && a.Fallback == fallback {
		return
	}
	a.Fallback, a.FellBack = fallback, a.FellBack && fallback != ""
	t.s.agents.Put(t.tx, a)
}

// FallBack stores that Placement has a host under its other name.
func (t Tx) FallBack(host string) {
	a, ok := t.Agent(host)
	if !ok || a.FellBack {
		return
	}
	a.FellBack = true
	t.s.agents.Put(t.tx, a)
	if r, ok := t.s.reports.Get(t.tx, a.Host); ok {
		t.s.reports.Delete(t.tx, a.Host)
		r.Host = a.Fallback
		t.s.reports.Put(t.tx, r)
	}
}

// AgentDown reports whether the agent of a host exists and does not run.
func (t Tx) AgentDown(host string) bool {
	a, _ := t.Agent(host)
	return a.Down()
}

// Down reports whether an agent does not run.
func (a Agent) Down() bool { return !a.BeatAt.IsZero() }

// LastBeat is the time of the last heartbeat. An agent that runs has one when it starts and then
// every period, without a timer.
func (a Agent) LastBeat(now time.Time, period time.Duration) time.Time {
	if a.Down() {
		return a.BeatAt
	}
	return a.StartedAt.Add(now.Sub(a.StartedAt) / period * period)
}

// StopAgent stores that an agent has stopped, until it is started or SetReturn is called.
func (t Tx) StopAgent(host string, now time.Time, period time.Duration) {
	if a, ok := t.Agent(host); ok && (!a.Down() || !a.ReturnsAt.IsZero()) {
		a.BeatAt, a.ReturnsAt = a.LastBeat(now, period), time.Time{}
		t.s.agents.Put(t.tx, a)
	}
}

// StartAgent stores that an agent has started.
func (t Tx) StartAgent(host string, now time.Time) {
	if a, ok := t.Agent(host); ok {
		a.StartedAt, a.BeatAt, a.ReturnsAt = now, time.Time{}, time.Time{}
		t.s.agents.Put(t.tx, a)
	}
}

// SetReturn stores when an agent that is down starts again.
func (t Tx) SetReturn(host string, at time.Time) {
	if a, ok := t.Agent(host); ok && a.Down() {
		a.ReturnsAt = at
		t.s.agents.Put(t.tx, a)
	}
}

// Reports iterates over the reports of all hosts, ordered by host.
func (t Tx) Reports() iter.Seq[HostReport] { return t.s.reports.All(t.tx) }

// Report returns the last report of a host.
func (t Tx) Report(host string) HostReport {
	r, _ := t.s.reports.Get(t.tx, host)
	return r
}

// SetReport stores what the drivers of a host found.
func (t Tx) SetReport(host string, drivers []DriverReport) {
	r := t.Report(host)
	r.Host, r.Drivers = host, drivers
	t.s.reports.Put(t.tx, r)
}

// SetRoot stores the provider of a host.
func (t Tx) SetRoot(host string, root Root) {
	if r, ok := t.s.reports.Get(t.tx, host); ok && r.Root != root {
		r.Root = root
		t.s.reports.Put(t.tx, r)
	}
}

// ClaimsRead stores when Nova's providers below a host were read.
func (t Tx) ClaimsRead(host string, now time.Time) {
	if r, ok := t.s.reports.Get(t.tx, host); ok {
		r.ClaimsReadAt = now
		t.s.reports.Put(t.tx, r)
	}
}

// ChangeReport changes the report of one driver of a host.
func (t Tx) ChangeReport(host, source string, change func(*DriverReport)) {
	r, ok := t.s.reports.Get(t.tx, host)
	if !ok {
		return
	}
	r.Drivers = slices.Clone(r.Drivers)
	for i := range r.Drivers {
		if r.Drivers[i].Driver == source {
			change(&r.Drivers[i])
		}
	}
	t.s.reports.Put(t.tx, r)
}

// maxEvents is how many events are kept.
const maxEvents = 10000

// AddEvents stores events, and deletes the oldest beyond maxEvents.
func (t Tx) AddEvents(events []sim.Event) {
	for _, e := range events {
		t.s.events.Put(t.tx, Event{ID: t.s.eventIDs.Next(t.tx), Event: e})
	}
	for e := range t.s.events.All(t.tx) {
		if t.s.events.Len(t.tx) <= maxEvents {
			return
		}
		t.s.events.Delete(t.tx, e.ID)
	}
}

// Events iterates over the newest events, oldest first.
func (t Tx) Events() iter.Seq[Event] { return t.s.events.All(t.tx) }
