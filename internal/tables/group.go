package tables

import (
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

// Prepare implements [sim.Recorded]: of all components, or of none.
func (g Group) Prepare(records []sim.Record) (commit func(), err error) {
	parts, err := g.split(records)
	if err != nil {
		return nil, err
	}
	commits := make([]func(), len(g))
	for i, m := range g {
		if commits[i], err = m.Prepare(parts[i]); err != nil {
			return nil, err
		}
	}
	return func() {
		for _, commit := range commits {
			commit()
		}
	}, nil
}

// split returns the records of each component.
func (g Group) split(records []sim.Record) ([][]sim.Record, error) {
	parts := make([][]sim.Record, len(g))
	for len(records) > 0 {
		table := records[0].Table
		i := slices.IndexFunc(g, func(m Member) bool { return m.has(table) })
		if i < 0 {
			return nil, records[0].Errorf("there is no such table")
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
	return parts, nil
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
