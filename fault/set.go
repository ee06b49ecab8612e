package fault

import (
	"fmt"
	"slices"
	"sync"
)

// Set holds the rules of one simulated cloud. It is safe for parallel use; the
// zero value knows no operation and so refuses every rule.
type Set struct {
	mu         sync.Mutex
	operations map[string]bool
	rules      []*counted
	observe    func(operation, subject string)
}

type counted struct {
	rule Rule
	seen map[string]int
	hits int
}

// State is a rule together with how often it has fired.
type State struct {
	Rule Rule `json:"rule"`
	Hits int  `json:"hits"`
}

// NewSet returns an empty set that knows the operations.
func NewSet(operations ...string) *Set {
	s := &Set{}
	s.Register(operations...)
	return s
}

// Register makes operations known, so that rules may name them.
func (s *Set) Register(operations ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.operations == nil {
		s.operations = make(map[string]bool, len(operations))
	}
	for _, operation := range operations {
		s.operations[operation] = true
	}
}

// Operations lists the known operations, sorted.
func (s *Set) Operations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.operations))
	for name := range s.operations {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Set replaces all rules. If one of them is bad or names an unknown operation,
// nothing changes and the error matches [ErrRule].
func (s *Set) Set(rules ...Rule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := make([]*counted, 0, len(rules))
	for i, rule := range rules {
		if err := rule.Validate(); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
		if !s.operations[rule.Operation] {
			return fmt.Errorf("rule %d: %w: unknown operation %q", i, ErrRule, rule.Operation)
		}
		fresh = append(fresh, &counted{rule: rule, seen: make(map[string]int)})
	}
	s.rules = fresh
	return nil
}

// Clear removes all rules.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// Rules returns the rules in order, each with its hits.
func (s *Set) Rules() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]State, 0, len(s.rules))
	for _, c := range s.rules {
		states = append(states, State{Rule: c.rule, Hits: c.hits})
	}
	return states
}

// Decide counts one occurrence of the operation on the subject and returns the
// first rule that makes it fail. A nil set never fails anything.
func (s *Set) Decide(operation, subject string) (Rule, bool) {
	if s == nil {
		return Rule{}, false
	}
	s.observed(operation, subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit *counted
	for _, c := range s.rules {
		if c.rule.Operation != operation || (c.rule.Subject != "" && c.rule.Subject != subject) {
			continue
		}
		c.seen[subject]++
		if hit == nil && c.rule.fires(c.seen[subject]) {
			hit = c
		}
	}
	if hit == nil {
		return Rule{}, false
	}
	hit.hits++
	return hit.rule, true
}
