package fakecyborg

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Load makes the server what a dump says, in place of all that it knew. It is for
// moments when nothing is going on: it waits for reports in progress, and binds
// that go on in the background come to nothing. What went on when the dump was
// made stands still until [Server.Resume].
//
// Hosts are not in a dump. Those that were added are taken for those that the
// dump speaks of; one that is added later finds what the dump knows of it.
//
// A dump of another schema_version or placement_mode, with unknown fields, or
// that contradicts itself is refused; the error matches [ErrDump] and names the
// row, and the server is as it was.
func (s *Server) Load(data []byte) error {
	var d stateDump
	if err := simhttp.DecodeDump(data, &d, &d.SchemaVersion); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	l := loading{s: s, d: d, st: newState(s.cfg)}
	if err := l.build(); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	defer s.enterAll()()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := l.checkAgents(); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	l.apply()
	return nil
}

// enterAll waits for the turn of every agent; whoever has all of them is alone
// with the hosts. A server that was closed has no reports to wait for.
func (s *Server) enterAll() (leave func()) {
	s.mu.RLock()
	turns := []chan struct{}{s.strangers}
	for _, host := range s.hostNames {
		turns = append(turns, s.agents[host].turn)
	}
	s.mu.RUnlock()
	var leaves []func()
	for _, turn := range turns {
		if leave, err := enter(s.life, turn); err == nil {
			leaves = append(leaves, leave)
		}
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// loading is a dump on its way to be the state of a server.
type loading struct {
	s       *Server
	d       stateDump
	st      *state
	agents  map[string]agentState
	reports map[string][]DriverReport
	shape   func() // gives the shape what the dump says
	halted  halted
}

// build makes the state of the dump and touches nothing of the server.
func (l *loading) build() error {
	if mode := l.d.PlacementMode; mode != l.st.mode && (mode != "" || l.st.mode != ModeTree) {
		return fmt.Errorf("placement_mode %q, the server has %q", mode, l.st.mode)
	}
	for _, step := range []func() error{
		l.addProfiles, l.addDevices, l.addDeployables, l.addAttributes, l.addHandles, l.addARQs, l.addBinds,
		l.checkPositions, l.addAgents, l.addReports, l.addPlacement,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// apply puts everything in its place. It is called under the lock.
func (l *loading) apply() {
	s, now := l.s, l.s.clock.Now()
	s.state, s.reports, s.events, s.halted = l.st, l.reports, slices.Clone(l.d.Events), l.halted
	s.awaited, s.halted.hosts = l.agents, true
	for i, known := range s.hostNames {
		a := s.agents[known]
		a.signs, a.fellBack = lifeSigns{started: now}, false
		s.hostNames[i] = a.settle(s.awaited)
	}
	l.shape()
	s.service.IDs.Continue(l.d.IDs.Request)
}

// checkPositions judges the positions in the sequences of identifiers.
func (l *loading) checkPositions() error {
	last := l.d.IDs.Last
	for _, table := range []struct {
		name          string
		last, highest int
		store         *int
	}{
		{"device_profiles", last.Profiles, l.st.profiles.last, &l.st.profiles.last},
		{"devices", last.Devices, l.st.devices.last, &l.st.devices.last},
		{"deployables", last.Deployables, l.st.deployables.last, &l.st.deployables.last},
		{"attributes", last.Attributes, l.st.attributes.last, &l.st.attributes.last},
		{"attach_handles", last.Handles, l.st.handles.last, &l.st.handles.last},
		{"accelerator_requests", last.ARQs, l.st.arqs.last, &l.st.arqs.last},
	} {
		if table.last < table.highest {
			return fmt.Errorf("ids.last.%s is %d, and a row has id %d", table.name, table.last, table.highest)
		}
		*table.store = table.last
	}
	for kind, count := range l.d.IDs.Named {
		if !slices.Contains([]string{"arq", "attribute", "device_profile"}, kind) || count < 0 {
			return fmt.Errorf("ids.named: %s %d is no count of a kind of row that is named by number", kind, count)
		}
		l.st.counts[kind] = count
	}
	return nil
}

// checkTime refuses a time that JSON cannot hold in UTC.
func checkTime(times ...time.Time) error {
	for _, t := range times {
		if year := t.UTC().Year(); year < 1 || year > 9999 {
			return fmt.Errorf("time %s is outside of the years 1 to 9999", t)
		}
	}
	return nil
}

// fill adds a row of a dump to a table under the id that it has.
func fill[R interface{ meta() *record }](t *table[R], row R, d dumpRecord) error {
	_, twice := t.byUUID[d.UUID]
	switch {
	case d.ID <= t.last:
		return fmt.Errorf("id %d after id %d", d.ID, t.last)
	case d.UUID == "":
		return errors.New("no uuid")
	case twice:
		return fmt.Errorf("uuid %s twice", d.UUID)
	}
	if err := checkTime(d.Created, d.Updated); err != nil {
		return err
	}
	*row.meta() = record{uuid: d.UUID, created: d.Created.UTC(), updated: d.Updated.UTC()}
	t.last = d.ID - 1
	t.add(row)
	return nil
}

// checkRowUUID refuses what the API could not show.
func checkRowUUID(uuid string) error {
	if !simhttp.IsUUIDLike(uuid) {
		return fmt.Errorf("%q is no uuid", uuid)
	}
	return nil
}
