package fault

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// The tables of a Set: its rules by position, how often each of them saw each subject, and its seed.
const (
	rulesTable  = "sim.faults"
	countsTable = "sim.faults.counts"
	seedTable   = "sim.faults.seed"
	seedKey     = "seed"
)

type seedRow struct {
	Seed uint64 `json:"seed"`
}

type ruleRow struct {
	Position int    `json:"position"`
	Rule     Rule   `json:"rule"`
	Hits     int    `json:"hits"`
	Seen     []seen `json:"seen,omitempty"` // of older states, which have no rows of counts
}

// seen is the number of occurrences of a subject.
type seen struct {
	Subject string `json:"subject"`
	Times   int    `json:"times"`
}

// countRow is the count of a subject for the rule at a position.
type countRow struct {
	Position int `json:"position"`
	seen
}

var _ sim.Recorded = (*Set)(nil)

func ruleKey(position int) string { return fmt.Sprintf("%010d", position) }

func countKey(position int, subject string) string { return ruleKey(position) + " " + subject }

func (c *counted) row(position int) sim.RecordChange {
	return sim.RecordChange{Table: rulesTable, Key: ruleKey(position), After: ruleRow{Position: position, Rule: c.rule, Hits: c.hits}}
}

func (c *counted) countRow(position int, subject string) sim.RecordChange {
	return sim.RecordChange{
		Table: countsTable, Key: countKey(position, subject), After: countRow{position, seen{subject, c.seen[subject]}},
	}
}

// rows returns all rows as changes that create them. The mutex is held.
func (s *Set) rows() []sim.RecordChange {
	rows := make([]sim.RecordChange, 0, len(s.rules)+1)
	for i, c := range s.rules {
		rows = append(rows, c.row(i))
	}
	for i, c := range s.rules {
		for _, subject := range slices.Sorted(maps.Keys(c.seen)) {
			rows = append(rows, c.countRow(i, subject))
		}
	}
	return append(rows, sim.RecordChange{Table: seedTable, Key: seedKey, After: seedRow{s.seed}})
}

// Records implements [sim.Recorded]. The rules have their hits and the counts of each
// subject, so that a set with the same records continues to fail in the same places. The
// operations are not recorded.
func (s *Set) Records() iter.Seq2[sim.Record, error] {
	return func(yield func(sim.Record, error) bool) {
		s.mu.Lock()
		rows := s.rows()
		s.mu.Unlock()
		for _, c := range rows {
			row, err := json.Marshal(c.After)
			if !yield(sim.Record{Table: c.Table, Key: c.Key, Row: row}, err) {
				return
			}
		}
	}
}

// OnCommit implements [sim.Recorded]. Counting is not a commit, see [Set.CommitCounts].
func (s *Set) OnCommit(listener func([]sim.RecordChange)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, listener)
}

// CommitCounts commits the counts of the rules.
func (s *Set) CommitCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changes []sim.RecordChange
	for i, c := range s.rules {
		if c.hit {
			c.hit = false
			changes = append(changes, c.row(i))
		}
		for subject := range c.counted {
			changes = append(changes, c.countRow(i, subject))
		}
		clear(c.counted)
	}
	if changes != nil {
		s.publish(changes)
	}
}

func (s *Set) publish(changes []sim.RecordChange) {
	for _, listener := range s.listeners {
		listener(changes)
	}
}

// replace sets seed and rules. The mutex is held.
func (s *Set) replace(seed uint64, rules []*counted) {
	old := s.rules
	s.seed, s.rules, s.subjects = seed, rules, 0
	for _, c := range rules {
		s.subjects += len(c.seen)
	}
	if len(s.listeners) == 0 {
		return
	}
	changes := s.rows()
	for i, c := range old {
		if i >= len(rules) {
			changes = append(changes, sim.RecordChange{Table: rulesTable, Key: ruleKey(i)})
		}
		for subject := range c.seen {
			if i >= len(rules) || rules[i].seen[subject] == 0 {
				changes = append(changes, sim.RecordChange{Table: countsTable, Key: countKey(i, subject)})
			}
		}
	}
	s.publish(changes)
}

// Prepare implements [sim.Recorded]. Rules that [Set.Set] refuses and impossible counts are
// errors.
func (s *Set) Prepare(records []sim.Record) (commit func(), err error) {
	rows, seed, err := parseRows(records)
	if err != nil {
		return nil, err
	}
	rules := make([]Rule, len(rows))
	for i, row := range rows {
		rules[i] = row.Rule
	}
	s.mu.Lock()
	fresh, err := s.counted(rules)
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", sim.ErrRecords, rulesTable, err)
	}
	for i, row := range rows {
		if err := fresh[i].count(row); err != nil {
			return nil, sim.Record{Table: rulesTable, Key: ruleKey(i)}.Errorf("%s: %w", row.Rule.Operation, err)
		}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.replace(seed, fresh)
	}, nil
}

// parseRows decodes the rows of the rules, in order, with the counts, and the seed.
func parseRows(records []sim.Record) (rows []ruleRow, seed uint64, err error) {
	var found *seedRow
	for _, r := range slices.SortedFunc(slices.Values(records), byTable) {
		switch {
		case r.Table == seedTable && r.Key == seedKey && found == nil:
			found = new(seedRow)
			err = r.Decode(found)
		case r.Table == rulesTable && r.Key == ruleKey(len(rows)):
			var row ruleRow
			if err = r.Decode(&row); err == nil && row.Position != len(rows) {
				err = r.Errorf("the row's position is %d", row.Position)
			}
			rows = append(rows, row)
		case r.Table == countsTable:
			var row countRow
			err = r.Decode(&row)
			switch {
			case err != nil:
			case row.Position < 0 || row.Position >= len(rows):
				err = r.Errorf("there is no rule at the position %d", row.Position)
			case r.Key != countKey(row.Position, row.Subject):
				err = r.Errorf("the row is of position %d and subject %q", row.Position, row.Subject)
			default:
				rows[row.Position].Seen = append(rows[row.Position].Seen, row.seen)
			}
		default:
			err = r.Errorf("it is repeated, or none of %s %s, ..., %s, %s %s", rulesTable, ruleKey(0), countsTable, seedTable, seedKey)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if found == nil {
		return nil, 0, sim.Record{Table: seedTable, Key: seedKey}.Errorf("it is missing")
	}
	return rows, found.Seed, nil
}

// byTable orders rules before their counts.
func byTable(a, b sim.Record) int {
	return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Key, b.Key))
}

// count sets the counts of a rule.
func (c *counted) count(row ruleRow) error {
	for _, seen := range row.Seen {
		_, twice := c.seen[seen.Subject]
		switch {
		case twice:
			return fmt.Errorf("subject %q occurs twice", seen.Subject)
		case seen.Times < 1:
			return fmt.Errorf("subject %q was seen %d times", seen.Subject, seen.Times)
		case c.rule.Subject != "" && countedName(c.rule.Subject) != seen.Subject:
			return fmt.Errorf("subject %q is not the rule's", seen.Subject)
		}
		c.seen[seen.Subject] = seen.Times
	}
	c.hits = row.Hits
	if c.hits < 0 {
		return fmt.Errorf("%d hits", c.hits)
	}
	if left := c.hits - c.possibleHits(); left > 0 {
		return fmt.Errorf("%d hits are %d more than the subjects seen allow", c.hits, left)
	}
	return nil
}

// possibleHits returns the maximum number of hits for the counts of the rule.
func (c *counted) possibleHits() int {
	total := 0
	for _, times := range c.seen {
		from := max(c.rule.Nth, 1) - 1
		hits := max(times-from, 0)
		if limit := c.rule.limit(); limit >= 0 {
			hits = min(hits, limit)
		}
		if total > math.MaxInt-hits {
			return math.MaxInt
		}
		total += hits
	}
	return total
}
