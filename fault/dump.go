package fault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// ErrDump is matched by the errors of [Set.Load].
var ErrDump = errors.New("fault: bad dump")

// dumpSchema is the schema_version of a dump.
const dumpSchema = 1

type setDump struct {
	SchemaVersion int        `json:"schema_version"`
	Seed          uint64     `json:"seed"`
	Rules         []dumpRule `json:"rules"`
}

type dumpRule struct {
	Rule Rule       `json:"rule"`
	Hits int        `json:"hits"`
	Seen []dumpSeen `json:"seen,omitempty"`
}

// dumpSeen is how often a rule was asked about a subject.
type dumpSeen struct {
	Subject string `json:"subject"`
	Times   int    `json:"times"`
}

// Dump returns the seed and the rules, each with its hits and with how often it met each
// subject, as one JSON document with the field schema_version. The same state gives the
// same bytes. The operations are not part of it: every simulator knows its own.
func (s *Set) Dump() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := setDump{SchemaVersion: dumpSchema, Seed: s.seed, Rules: []dumpRule{}}
	for _, c := range s.rules {
		out := dumpRule{Rule: c.rule, Hits: c.hits}
		for subject, times := range c.seen {
			out.Seen = append(out.Seen, dumpSeen{subject, times})
		}
		slices.SortFunc(out.Seen, func(a, b dumpSeen) int { return cmp.Compare(a.Subject, b.Subject) })
		d.Rules = append(d.Rules, out)
	}
	return json.MarshalIndent(d, "", "  ")
}

// Load makes the seed, the rules and their counts what a dump says, in place of those
// that the set has, so that a simulator that was started anew goes on failing at the same
// places. A dump of another schema_version, with unknown fields, with rules that [Set.Set]
// would refuse, or with counts that cannot be, is refused; the error matches [ErrDump] and
// the set is as it was.
func (s *Set) Load(data []byte) error {
	d, err := parseDump(data)
	if err != nil {
		return err
	}
	rules := make([]Rule, len(d.Rules))
	for i, r := range d.Rules {
		rules[i] = r.Rule
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh, err := s.counted(rules)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	for i, r := range d.Rules {
		if err := fresh[i].count(r); err != nil {
			return fmt.Errorf("%w: rule %d: %s: %w", ErrDump, i, r.Rule.Operation, err)
		}
	}
	s.seed, s.rules = d.Seed, fresh
	return nil
}

func parseDump(data []byte) (d setDump, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("%w: %w", ErrDump, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return d, fmt.Errorf("%w: something follows the JSON value", ErrDump)
	}
	if d.SchemaVersion != dumpSchema {
		return d, fmt.Errorf("%w: schema_version %d, want %d", ErrDump, d.SchemaVersion, dumpSchema)
	}
	return d, nil
}

// count takes over how often a rule has met whom.
func (c *counted) count(r dumpRule) error {
	for _, seen := range r.Seen {
		_, twice := c.seen[seen.Subject]
		switch {
		case twice:
			return fmt.Errorf("subject %q is there twice", seen.Subject)
		case seen.Times < 1:
			return fmt.Errorf("subject %q was met %d times", seen.Subject, seen.Times)
		case c.rule.Subject != "" && c.rule.Subject != seen.Subject:
			return fmt.Errorf("subject %q is not the rule's", seen.Subject)
		}
		c.seen[seen.Subject] = seen.Times
	}
	c.hits = r.Hits
	if c.hits < 0 {
		return fmt.Errorf("%d hits", c.hits)
	}
	if left := c.hits - c.possibleHits(); left > 0 {
		return fmt.Errorf("%d hits are %d more than the subjects met allow", c.hits, left)
	}
	return nil
}

// possibleHits is how often the rule can have struck, after what it has met.
func (c *counted) possibleHits() int {
	total := 0
	for _, times := range c.seen {
		from := max(c.rule.Nth, 1) - 1
		struck := max(times-from, 0)
		if limit := c.rule.limit(); limit >= 0 {
			struck = min(struck, limit)
		}
		if total > math.MaxInt-struck {
			return math.MaxInt
		}
		total += struck
	}
	return total
}
