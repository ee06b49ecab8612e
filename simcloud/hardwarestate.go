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
	// Sysfs is what writes have made of the tree.
	Sysfs json.RawMessage `json:"sysfs,omitempty"`
	// Own are the mediated devices of a directory that were there before the cloud.
	Own []string `json:"own_mdevs,omitempty"`
	// Drivers is the state of drivers, by their name.
	Drivers map[string]json.RawMessage `json:"drivers,omitempty"`
}

// hardware is the hosts' hardware as a component of a cloud's state.
type hardware struct {
	cloud *Cloud

	mu        sync.Mutex // makes the order of commits that of the rows
	listeners []func([]sim.RecordChange)
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
	row, err := m.row()
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
		records := make([]sim.Record, 0, len(machines)) // before the first is used
		var broken error
		for _, m := range machines {
			r := sim.Record{Table: hardwareTable, Key: m.host.Name}
			row, err := m.row()
			if err == nil {
				r.Row, err = json.Marshal(row)
			}
			if broken = err; err != nil {
				break
			}
			records = append(records, r)
		}
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

// Replace implements sim.Recorded.
func (h *hardware) Replace(records []sim.Record) error {
	rows, err := h.parse(records)
	if err != nil {
		return err
	}
	var before []hostRow // of the machines that were loaded
	for _, m := range h.cloud.machines {
		old, err := m.row()
		if err == nil {
			before = append(before, old)
			err = m.load(rows[m])
		}
		if err != nil {
			err = sim.Record{Table: hardwareTable, Key: m.host.Name}.Errorf("%w", err)
			for i, old := range before {
				err = errors.Join(err, h.cloud.machines[i].load(old))
			}
			return err
		}
	}
	for _, m := range h.cloud.machines {
		h.commit(m)
	}
	return nil
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
	row := hostRow{Host: m.host.Name, Own: slices.Sorted(maps.Keys(m.older)), Drivers: make(map[string]json.RawMessage)}
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

// load makes the hardware what a row says. With an error it may be so in part.
func (m *machine) load(row hostRow) error {
	tree, kept := m.tree.(driver.Snapshotter)
	if kept != (row.Sysfs != nil) {
		return errors.New("sysfs: either the row or the host has none")
	}
	for name := range row.Drivers {
		if m.snapshotters[name] == nil {
			return fmt.Errorf("driver %s: the host has no such driver with a state", name)
		}
	}
	for name, snapshotter := range m.snapshotters {
		own, ok := row.Drivers[name]
		if !ok {
			return fmt.Errorf("driver %s: missing", name)
		}
		if err := m.ask(snapshotter, "load", func() error { return snapshotter.Load(own) }); err != nil {
			return fmt.Errorf("driver %s: %w", name, err)
		}
	}
	if m.dir != nil {
		m.older = make(map[string]bool)
		for _, id := range row.Own {
			m.older[id] = true
		}
	}
	if kept {
		return tree.Load(row.Sysfs)
	}
	return nil
}
