package simcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/sim"
)

// hardwareTable has a row for each host.
const hardwareTable = "hardware.hosts"

// hostRow is what became of a host's hardware.
type hostRow struct {
	Host string `json:"host"`
	// Sysfs holds the changes that writes have made to the tree.
	Sysfs json.RawMessage `json:"sysfs,omitempty"`
	// Own are the mediated devices of a directory that were there before the cloud.
	Own []string `json:"own_mdevs,omitempty"`
	// Defined are the mediated devices that libvirt creates when the host starts.
	Defined []driver.Mdev `json:"defined_mdevs,omitempty"`
	// Drivers is the state of drivers, by their name.
	Drivers map[string]json.RawMessage `json:"drivers,omitempty"`
}

// hardware is the hosts' hardware as a component of a cloud's state.
type hardware struct {
	cloud *Cloud

	mu        sync.Mutex // keeps commits in the order of the rows
	listeners []func([]sim.RecordChange)
	defects   map[*machine]error // of drivers whose state was not loaded
}

var _ sim.Recorded = (*hardware)(nil)

// commit is called when the hardware of a host has changed.
func (h *hardware) commit(m *machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) == 0 {
		return
	}
	change := sim.RecordChange{Table: hardwareTable, Key: m.host.Name}
	row, err := h.row(m)
	if change.After = row; err != nil {
		change.After = brokenRow{err}
	}
	for _, listener := range h.listeners {
		listener([]sim.RecordChange{change})
	}
}

// brokenRow is a row that cannot be written.
type brokenRow struct{ error }

// MarshalJSON implements json.Marshaler.
func (u brokenRow) MarshalJSON() ([]byte, error) { return nil, u.error }

// OnCommit implements sim.Recorded.
func (h *hardware) OnCommit(listener func([]sim.RecordChange)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, listener)
}

// Records implements sim.Recorded.
func (h *hardware) Records() iter.Seq2[sim.Record, error] {
	return func(yield func(sim.Record, error) bool) {
		machines := slices.SortedFunc(slices.Values(h.cloud.machines), func(a, b *machine) int { return strings.Compare(a.host.Name, b.host.Name) })
		records, broken := h.records(machines) // before the first is used
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if broken != nil {
			yield(sim.Record{}, broken)
		}
	}
}

func (h *hardware) records(machines []*machine) ([]sim.Record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	records := make([]sim.Record, 0, len(machines))
	for _, m := range machines {
		r := sim.Record{Table: hardwareTable, Key: m.host.Name}
		row, err := h.row(m)
		if err == nil {
			r.Row, err = json.Marshal(row)
		}
		if err != nil {
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

// row is called under the lock.
func (h *hardware) row(m *machine) (hostRow, error) {
	if err := h.defects[m]; err != nil {
		return hostRow{}, err
	}
	return m.row()
}

// define replaces the definitions of a host's mediated devices.
func (h *hardware) define(m *machine, change func([]driver.Mdev) []driver.Mdev) {
	h.mu.Lock()
	m.defined = change(slices.Clone(m.defined))
	h.mu.Unlock()
	h.commit(m)
}

// defined are the definitions of a host's mediated devices.
func (h *hardware) defined(m *machine) []driver.Mdev {
	h.mu.Lock()
	defer h.mu.Unlock()
	return m.defined
}

// Prepare implements sim.Recorded. A driver with a defect, whose load panics or does not end, makes the
// row of its host one that cannot be written, until another state is loaded.
func (h *hardware) Prepare(records []sim.Record) (commit func(), err error) {
	rows, err := h.parse(records)
	if err != nil {
		return nil, err
	}
	loads := make([]func() error, len(h.cloud.machines))
	for i, m := range h.cloud.machines {
		if loads[i], err = m.prepare(rows[m]); err != nil {
			return nil, sim.Record{Table: hardwareTable, Key: m.host.Name}.Errorf("%w", err)
		}
	}
	return func() {
		defects := make(map[*machine]error)
		for i, m := range h.cloud.machines {
			if err := loads[i](); err != nil {
				defects[m] = err
			}
		}
		h.mu.Lock()
		h.defects = defects
		for m, row := range rows {
			m.defined = row.Defined
		}
		h.mu.Unlock()
		for _, m := range h.cloud.machines {
			h.commit(m)
		}
	}, nil
}

// parse returns the row of each machine.
func (h *hardware) parse(records []sim.Record) (map[*machine]hostRow, error) {
	rows := make(map[*machine]hostRow)
	for _, r := range records {
		var row hostRow
		if err := r.Decode(&row); err != nil {
			return nil, err
		}
		m := h.cloud.machine(r.Key)
		_, twice := rows[m]
		switch {
		case r.Table != hardwareTable:
			return nil, r.Errorf("there is no such table")
		case m == nil || row.Host != r.Key:
			return nil, r.Errorf("the model has no host %q", row.Host)
		case twice:
			return nil, r.Errorf("there are two rows")
		}
		rows[m] = row
	}
	for _, m := range h.cloud.machines {
		if _, ok := rows[m]; !ok {
			return nil, sim.Record{Table: hardwareTable, Key: m.host.Name}.Errorf("the row is missing")
		}
	}
	return rows, nil
}

// row is the hardware as it is now.
func (m *machine) row() (hostRow, error) {
	row := hostRow{Host: m.host.Name, Own: slices.Sorted(maps.Keys(m.older)), Defined: m.defined, Drivers: make(map[string]json.RawMessage)}
	if tree, ok := m.tree.(driver.Snapshotter); ok {
		data, err := tree.Dump()
		if err != nil {
			return hostRow{}, err
		}
		row.Sysfs = data
	}
	for name, snapshotter := range m.snapshotters {
		var data []byte
		if err := m.ask(snapshotter, "dump", func() (err error) { data, err = snapshotter.Dump(); return err }); err != nil {
			return hostRow{}, fmt.Errorf("driver %s: %w", name, err)
		}
		row.Drivers[name] = data
	}
	return row, nil
}

// prepare returns the function that makes the hardware what a row says.
func (m *machine) prepare(row hostRow) (load func() error, err error) {
	tree, kept := m.tree.(driver.Snapshotter)
	if kept != (row.Sysfs != nil) {
		return nil, errors.New("sysfs: either the row or the host has none")
	}
	for name := range row.Drivers {
		if m.snapshotters[name] == nil {
			return nil, fmt.Errorf("driver %s: the host has no such driver with a state", name)
		}
	}
	for _, mdev := range row.Defined {
		if err := mdev.Validate(); err != nil {
			return nil, fmt.Errorf("defined_mdevs: %w", err)
		}
	}
	loads := make(map[string]func())
	for name, snapshotter := range m.snapshotters {
		own, ok := row.Drivers[name]
		if !ok {
			return nil, fmt.Errorf("driver %s: missing", name)
		}
		if err := m.ask(snapshotter, "load", func() (err error) { loads[name], err = snapshotter.Prepare(own); return err }); err != nil {
			return nil, fmt.Errorf("driver %s: %w", name, err)
		}
	}
	loadTree := func() {}
	if kept {
		if loadTree, err = tree.Prepare(row.Sysfs); err != nil {
			return nil, err
		}
	}
	return func() error {
		loadTree()
		if m.dir != nil {
			m.older = make(map[string]bool)
			for _, id := range row.Own {
				m.older[id] = true
			}
		}
		return m.loadDrivers(loads)
	}, nil
}

// loadDrivers calls the functions that the drivers' Prepare returned.
func (m *machine) loadDrivers(loads map[string]func()) (err error) {
	for _, name := range slices.Sorted(maps.Keys(loads)) {
		if e := m.ask(m.snapshotters[name], "load", func() error { loads[name](); return nil }); e != nil {
			err = errors.Join(err, fmt.Errorf("driver %s: %w", name, e))
		}
	}
	return err
}
