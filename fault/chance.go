package fault

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// Seed sets the seed of rules with a Probability; that of a new set is 0. The outcome
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
