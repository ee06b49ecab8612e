package fault

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// Seed chooses what rules with a Probability do from now on; a new set has the seed 0.
// The same seed makes the same choice for a rule, a subject and how often that subject
// was met, in whatever order subjects arrive and whichever other rules there are.
func (s *Set) Seed(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(seed, s.rules)
}

// fires reports whether the match that was counted last for the subject fails.
func (c *counted) fires(seed uint64, subject string) bool {
	n := c.seen[subject]
	if !c.rule.counts(n) {
		return false
	}
	return c.rule.Probability == 0 || chance(seed, c.key, subject, n) < c.rule.Probability
}

// key is a number for what the rule says; same is how many equal rules stand before it
// in the list, so that each of them has a chance of its own.
func (r Rule) key(same int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %d %d %g %q %q %d %q %d %d",
		r.Operation, r.Subject, r.Nth, r.Times, r.Probability, r.When, r.Action, r.Status, r.Code, r.Delay, same)
	return mixed(h.Sum64())
}

// chance is a number from 0 up to but not 1, the same for the same arguments.
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

// mixed is the finalizer of SplitMix64: neighbouring numbers end far apart, which a hash
// as simple as FNV does not see to.
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
