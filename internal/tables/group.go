package tables

import (
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
	for _, r := range records {
		i := slices.IndexFunc(g, func(m Member) bool { return m.has(r.Table) })
		if i < 0 {
			return r.Errorf("there is no such table")
		}
		parts[i] = append(parts[i], r)
	}
	before := make([][]sim.Record, len(g))
	for i, m := range g {
		var err error
		if before[i], err = Collect(m); err != nil {
			return err
		}
	}
	for i, m := range g {
		if err := m.Replace(parts[i]); err != nil {
			for j, done := range g[:i] {
				if back := done.Replace(before[j]); back != nil {
					err = errors.Join(err, fmt.Errorf("restore %s: %w", done.Name, back))
				}
			}
			return err
		}
	}
	return nil
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
