package fault

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/internal/spelling"
	"github.com/gocyborg/gocyborg/sim"
)

// Operation is something that a rule can make fail.
type Operation struct {
	Name sim.OperationName `json:"operation"`
	// Subject describes the subject of a rule.
	Subject string `json:"subject"`
	// Actions are the possible actions of rules.
	Actions []Action `json:"actions"`
}

// registered is an operation with [OfService] if it is a request; background work has no service.
type registered struct {
	Operation
	service sim.OperationName
}

// OfService returns the operation of a rule for every request of a service, such as "accelerator.*", from the name of
// the service or of one of its operations. Background work of the service continues.
func OfService(name sim.OperationName) sim.OperationName {
	service, _, _ := strings.Cut(string(name), ".")
	return sim.OperationName(service + ".*")
}

// maxSubjects is how many subjects the rules of a set count in all.
const maxSubjects = 1_000_000

// maxRules is how many rules a set has at most, for the memory and the time of each decision.
const maxRules = 100_000

// Set has the rules of one simulated cloud. It is safe for concurrent use. The zero value
// has no operations, so it refuses every rule.
type Set struct {
	mu         sync.Mutex
	seed       uint64
	operations map[sim.OperationName]registered
	rules      []*counted
	observe    func(operation sim.OperationName, subject string)
	listeners  []func([]sim.RecordChange)
	paused     int
	subjects   int // counted by all rules
}

type counted struct {
	rule Rule
	key  uint64 // of the rule, for its probability
	seen map[string]int
	hits int

	// Since the last commit of counts, if there is a listener:
	hit     bool
	counted map[string]bool // subjects
}

// State is a rule with its hit count.
type State struct {
	Rule Rule `json:"rule"`
	Hits int  `json:"hits"`
}

// NewSet returns an empty set with the operations of requests.
func NewSet(operations ...sim.OperationName) *Set {
	s := &Set{}
	s.Register(operations...)
	return s
}

// Register adds operations of requests for rules. An existing operation is unchanged.
func (s *Set) Register(requests ...sim.OperationName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range requests {
		if _, known := s.operations[name]; !known {
			s.register(Operation{
				Name: name, Subject: "the first identifier in the path",
				Actions: []Action{Status, Drop, Truncate, Malformed, Delay, SlowBody, Late, Proxy, ExpireToken, ExpireServiceToken},
			}, OfService(name))
		}
	}
}

// RegisterWork adds or replaces operations of background work.
func (s *Set) RegisterWork(work ...Operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range work {
		s.register(o, "")
	}
}

// register is called under the mutex.
func (s *Set) register(o Operation, service sim.OperationName) {
	if s.operations == nil {
		s.operations = make(map[sim.OperationName]registered)
	}
	o.Actions = slices.Clone(o.Actions)
	s.operations[o.Name] = registered{o, service}
}

// Describe lists the operations with their actions, sorted by name.
func (s *Set) Describe() []Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Operation, 0, len(s.operations))
	for _, o := range s.operations {
		o.Actions = slices.Clone(o.Actions)
		list = append(list, o.Operation)
	}
	slices.SortFunc(list, func(a, b Operation) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Services lists [OfService] of every service that has requests, with the actions of a request, sorted.
func (s *Set) Services() []Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	services := make(map[sim.OperationName]Operation)
	for _, o := range s.operations {
		if o.service != "" {
			services[o.service] = Operation{Name: o.service, Subject: o.Subject, Actions: slices.Clone(o.Actions)}
		}
	}
	return slices.SortedFunc(maps.Values(services), func(a, b Operation) int { return cmp.Compare(a.Name, b.Name) })
}

// Operations lists the names of the operations, sorted.
func (s *Set) Operations() []sim.OperationName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.operations))
}

// Set replaces all rules. If a rule is invalid, or its operation is unknown or does not support
// its action, or there are more than 100,000 rules, nothing changes and the error matches
// [ErrRule].
func (s *Set) Set(rules ...Rule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh, err := s.counted(rules)
	if err != nil {
		return err
	}
	s.replace(s.seed, fresh)
	return nil
}

// Add adds rules after the existing ones, which keep their counts. The error is as for [Set.Set].
func (s *Set) Add(rules ...Rule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.counted(rules); err != nil { // which names their position among the new ones
		return err
	}
	return s.keep(slices.Clone(s.rules), rules)
}

// Remove removes the first of the rules that are equal to this one; the counts of the others stay. It reports
// whether there was one.
func (s *Set) Remove(rule Rule) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.rules, func(c *counted) bool { return c.rule == rule })
	return at >= 0 && s.keep(slices.Delete(slices.Clone(s.rules), at, at+1), nil) == nil
}

// keep sets rules with their counts, and then others. The mutex is held.
func (s *Set) keep(kept []*counted, added []Rule) error {
	rules := make([]Rule, 0, len(kept)+len(added))
	for _, c := range kept {
		rules = append(rules, c.rule)
	}
	fresh, err := s.counted(append(rules, added...))
	if err != nil {
		return err
	}
	for i, c := range kept {
		fresh[i].seen, fresh[i].counted, fresh[i].hits, fresh[i].hit = c.seen, c.counted, c.hits, c.hit
	}
	s.replace(s.seed, fresh)
	return nil
}

// counted checks the rules and returns them with empty counts. The mutex is held.
func (s *Set) counted(rules []Rule) ([]*counted, error) {
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%w: %d rules, more than %d", ErrRule, len(rules), maxRules)
	}
	fresh := make([]*counted, 0, len(rules))
	same := make(map[Rule]int)
	for i, rule := range rules {
		if err := rule.Validate(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		if err := s.possible(rule); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		fresh = append(fresh, &counted{rule: rule, key: rule.key(same[rule]), seen: make(map[string]int), counted: make(map[string]bool)})
		same[rule]++
	}
	return fresh, nil
}

// possible checks the operation of a rule. The mutex is held.
func (s *Set) possible(r Rule) error {
	actions, known := s.actions(r.Operation)
	switch {
	case !known:
		return fmt.Errorf("%w: unknown operation %q%s", ErrRule, r.Operation, s.meant(r.Operation))
	case !slices.Contains(actions, r.Action):
		return fmt.Errorf("%w: %s cannot %s (its actions are %v)", ErrRule, r.Operation, r.Action, actions)
	}
	return nil
}

// actions returns the actions of an operation, or of the requests of a service. The mutex is held.
func (s *Set) actions(name sim.OperationName) (actions []Action, known bool) {
	if o, known := s.operations[name]; known {
		return o.Actions, true
	}
	for _, o := range s.operations {
		if o.service == name && name != "" {
			return o.Actions, true
		}
	}
	return nil, false
}

// projects are the names by which OpenStack calls the services of operations.
var projects = map[string]string{"keystone": "identity", "cyborg": "accelerator", "nova": "compute", "glance": "image"}

// meant names the operation whose name is most similar to an unknown one, for an error. The mutex is held.
func (s *Set) meant(unknown sim.OperationName) string {
	var names []string
	for _, o := range s.operations {
		names = append(names, string(o.Name), string(o.service))
	}
	slices.Sort(names)
	if service, rest, _ := strings.Cut(string(unknown), "."); projects[service] != "" {
		unknown = sim.OperationName(projects[service] + "." + rest)
	}
	name := spelling.Nearest(string(unknown), names)
	if at := slices.IndexFunc(names, func(known string) bool { return strings.HasSuffix(known, "."+string(unknown)) }); name == "" && unknown != "*" && at >= 0 {
		name = names[at] // without its service
	}
	if name != "" {
		return ", did you mean " + name + "?"
	}
	return ""
}

// Clear removes all rules.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(s.seed, nil)
}

// Pause stops rules from applying and counting until resume is called. The rules are kept, and
// can be changed during the pause.
func (s *Set) Pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paused--
	}
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

// Decide counts one occurrence of the operation on the subject and returns the first rule
// that makes it fail. A nil set has no rules. A set counts a million subjects; its rules do
// not apply to others.
func (s *Set) Decide(operation sim.OperationName, subject string) (Rule, bool) {
	if s == nil {
		return Rule{}, false
	}
	s.observed(operation, subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused > 0 {
		return Rule{}, false
	}
	var hit *counted
	name, service := countedName(subject), s.operations[operation].service
	for _, c := range s.rules {
		if (c.rule.Operation != operation && c.rule.Operation != service) || (c.rule.Subject != "" && c.rule.Subject != subject) || !s.count(c, name) {
			continue
		}
		if len(s.listeners) > 0 {
			c.counted[name] = true
		}
		if hit == nil && c.fires(s.seed, name) {
			hit = c
		}
	}
	if hit == nil {
		return Rule{}, false
	}
	hit.hits++
	hit.hit = true
	return hit.rule, true
}

// count counts a match, unless there are too many subjects. The mutex is held.
func (s *Set) count(c *counted, subject string) bool {
	if c.seen[subject] == 0 {
		if s.subjects == maxSubjects {
			return false
		}
		s.subjects++
	}
	c.seen[subject]++
	return true
}

// longestName is the longest subject that is counted by its own name, in bytes.
const longestName = 255

// countedName is the name under which a subject is counted. Any client chooses subjects, and
// the names are keys of a state.
func countedName(subject string) string {
	if len(subject) <= longestName && utf8.ValidString(subject) {
		return subject
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(subject)))
}

// Idle reports whether there are neither rules, unless they pause, nor an observer: no
// operation fails or waits.
func (s *Set) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (len(s.rules) == 0 || s.paused > 0) && s.observe == nil
}

// Observe calls f for each call of Decide, on its goroutine, before a rule applies; nil
// ends that. It lists the places where a flow can fail.
func (s *Set) Observe(f func(operation sim.OperationName, subject string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = f
}

// observed calls the observer, without the lock so that it may use the set.
func (s *Set) observed(operation sim.OperationName, subject string) {
	s.mu.Lock()
	f := s.observe
	s.mu.Unlock()
	if f != nil {
		f(operation, subject)
	}
}

// Seed sets the seed of rules with a Probability. The default is 0. The outcome
// depends on the seed, the rule, the subject and how often that subject was seen, not on
// the order of subjects or on other rules.
func (s *Set) Seed(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(seed, s.rules)
}

// fires reports whether the last counted match of the subject fails.
func (c *counted) fires(seed uint64, subject string) bool {
	n := c.seen[subject]
	if !c.rule.counts(n) {
		return false
	}
	return c.rule.Probability == 0 || chance(seed, c.key, subject, n) < c.rule.Probability
}

// key returns a hash of the rule; same is the number of equal rules before it in the
// list, so that equal rules are independent.
func (r Rule) key(same int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %d %d %g %q %q %d %q %d %d",
		r.Operation, r.Subject, r.Nth, r.Times, r.Probability, r.When, r.Action, r.Status, r.Code, r.Delay, same)
	return mixed(h.Sum64())
}

// chance returns a number in [0, 1), the same for the same arguments.
func chance(seed, key uint64, subject string, n int) float64 {
	h := fnv.New64a()
	var numbers [24]byte
	binary.LittleEndian.PutUint64(numbers[0:], mixed(seed))
	binary.LittleEndian.PutUint64(numbers[8:], key)
	binary.LittleEndian.PutUint64(numbers[16:], uint64(n))
	h.Write(numbers[:])
	h.Write([]byte(subject))
	const bits = 53 // of a float64's fraction
	return float64(mixed(h.Sum64())>>(64-bits)) / (1 << bits)
}

// mixed is the finalizer of SplitMix64. It separates similar numbers, which FNV does not.
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
