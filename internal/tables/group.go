package tables

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// Group is several components as one. Each has the tables whose name is its own, or its own
// followed by a dot and more. They are replaced in the order of the group.
type Group []Member

// Member is a component of a Group.
type Member struct {
	Name string
	sim.Recorded
}

var _ sim.Recorded = Group(nil)

func (m Member) has(table string) bool {
	rest, ok := strings.CutPrefix(table, m.Name)
	return ok && (rest == "" || rest[0] == '.')
}

// Records implements [sim.Recorded]. Each component's rows are of one snapshot.
func (g Group) Records() iter.Seq2[sim.Record, error] {
	return func(yield func(sim.Record, error) bool) {
		for _, m := range slices.SortedFunc(slices.Values(g), func(a, b Member) int { return strings.Compare(a.Name, b.Name) }) {
			for r, err := range m.Records() {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// OnCommit implements [sim.Recorded].
func (g Group) OnCommit(listener func(changes []sim.RecordChange)) {
	for _, m := range g {
		m.OnCommit(listener)
	}
}

// Replace implements [sim.Recorded].
func (g Group) Replace(records []sim.Record) error {
	parts := make([][]sim.Record, len(g))
	for len(records) > 0 {
		table := records[0].Table
		i := slices.IndexFunc(g, func(m Member) bool { return m.has(table) })
		if i < 0 {
			return records[0].Errorf("there is no such table")
		}
		n := 1
		for n < len(records) && (records[n].Table == table || g[i].has(records[n].Table)) {
			n++
		}
		if parts[i] == nil {
			parts[i] = records[:n:n] // all of them, as Records orders them
		} else {
			parts[i] = append(parts[i], records[:n]...)
		}
		records = records[n:]
	}
	before := make([]held, len(g))
	for i, m := range g {
		before[i] = hold(m)
		defer before[i].stop()
	}
	for i, m := range g {
		if err := m.Replace(parts[i]); err != nil {
			for j, done := range g[:i] {
				if back := before[j].restore(done); back != nil {
					err = errors.Join(err, fmt.Errorf("restore %s: %w", done.Name, back))
				}
			}
			return err
		}
	}
	return nil
}

// held is a snapshot of a component, whose records are not made unless they are needed.
type held struct {
	next  func() (sim.Record, error, bool)
	stop  func()
	first []sim.Record
	err   error
}

// hold takes the snapshot, which is the moment of the first record.
func hold(m Member) (h held) {
	h.next, h.stop = iter.Pull2(m.Records())
	if r, err, ok := h.next(); ok {
		h.first, h.err = []sim.Record{r}, err
	}
	return h
}

// restore makes the snapshot the state of its component again.
func (h held) restore(m Member) error {
	records := h.first
	for r, err, ok := h.next(); ok; r, err, ok = h.next() {
		records, h.err = append(records, r), cmp.Or(h.err, err)
	}
	if h.err != nil {
		return h.err
	}
	return m.Replace(records)
}

// Collect returns all records of a component.
func Collect(from sim.Recorded) (records []sim.Record, err error) {
	for r, err := range from.Records() {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}
