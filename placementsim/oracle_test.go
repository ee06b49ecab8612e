//go:build oracle || differential

package placementsim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The differential tests send the same requests to this package and to the
// real Placement of Debian's python3-placement, and compare the answers:
//
//	go test -tags oracle -run RealPlacement ./placementsim -oracle.n 5000
//
// A Placement of a later Debian is asked in a chroot (-oracle.chroot): docs/dev/suites.md.
//
// Requests are random, and decided by -oracle.seed: world number w of a seed
// is always the same, and -oracle.world w begins with it.
var (
	oracleSeed       = flag.Uint64("oracle.seed", 1, "seed of the random worlds and requests")
	oracleRequests   = flag.Int("oracle.n", 500, "random requests to compare, without the requests that build worlds")
	oracleFirst      = flag.Int("oracle.world", 0, "number of the first world")
	oracleChroot     = flag.String("oracle.chroot", "", "root directory of a Debian whose Placement is asked in place of this machine's")
	oracleMismatches = flag.Int("oracle.mismatches", 1, "differences to report before giving up")
)

// requestsPerWorld is how many random requests a world sees before the next
// one is built.
const requestsPerWorld = 100

func TestAnswersEqualTheRealPlacement(t *testing.T) {
	pair := newOraclePair(t)
	for _, subject := range oracleAvoids() {
		t.Logf("not asked: %s", subject.name)
	}
	tally := oracleTally{statuses: make(map[int]int)}
	found := 0
	for world := *oracleFirst; tally.random < *oracleRequests && found < *oracleMismatches; world++ {
		if !runOracleWorld(t, pair, world, &tally) {
			found++
		}
	}
	t.Logf("seed %d, worlds %d and following: %d random requests and %d to build worlds; answers by status: %v; %d lists of candidates, %d not empty, of these %d for several groups and %d with sharing providers",
		*oracleSeed, *oracleFirst, tally.random, tally.building, tally.statuses, tally.candidates, tally.found, tally.groups, tally.shared)
}

// oracleTally counts what was compared, so that a generator that asks nothing
// of interest is seen.
type oracleTally struct {
	random, building  int
	statuses          map[int]int
	candidates, found int
	groups, shared    int // lists that are not empty: for several groups, and with sharing providers
}

func (c *oracleTally) add(got answer, req oracleRequest) {
	c.statuses[got.status]++
	if req.isCandidates() && got.status == 200 {
		c.candidates++
		if !strings.Contains(got.body, `"allocations":`) {
			return
		}
		c.found++
		if len(groupsOf(req)) > 1 {
			c.groups++
		}
		if strings.Contains(got.body, sharingTrait) {
			c.shared++
		}
	}
}

// runOracleWorld builds a world and asks about it, and reports whether all
// answers were equal. A difference ends the world, because the states of the two services may now differ.
func runOracleWorld(t *testing.T, pair *oraclePair, world int, tally *oracleTally) bool {
	t.Helper()
	pair.reset(t)
	g := newOracleGenerator(rand.New(rand.NewPCG(*oracleSeed, uint64(world))), pair)
	var sent []oracleRequest
	ask := func(req oracleRequest) bool {
		sent = append(sent, req)
		got, difference := pair.ask(t, req)
		tally.add(got, req)
		if difference == "" {
			return true
		}
		shortest, difference := shrink(t, pair, sent, difference)
		t.Errorf("world %d of seed %d, request %d: the answers differ (-real +ours):\n%s\nafter\n%s", world, *oracleSeed, len(sent), difference, curls(shortest))
		return false
	}
	for _, build := range g.builders() {
		for _, req := range build() {
			tally.building++
			if !ask(req) {
				return false
			}
		}
	}
	for range requestsPerWorld {
		tally.random++
		if !ask(g.request()) {
			return false
		}
		if tally.random >= *oracleRequests {
			break
		}
	}
	return true
}

// shrink leaves out requests before the last as long as its answers still
// differ, first many at once, then one by one.
func shrink(t *testing.T, pair *oraclePair, sent []oracleRequest, difference string) ([]oracleRequest, string) {
	t.Helper()
	last := len(sent) - 1
	before, final := sent[:last], sent[last]
	for size := max(1, len(before)/2); ; size /= 2 {
		for start := 0; start < len(before); {
			without := slices.Concat(before[:start], before[min(start+size, len(before)):])
			if d := replay(t, pair, without, final); d != "" {
				before, difference = without, d
			} else {
				start += size
			}
		}
		if size <= 1 {
			return append(slices.Clone(before), final), difference
		}
	}
}

// replay sends requests to empty services and returns how the answers to the
// last one differ.
func replay(t *testing.T, pair *oraclePair, before []oracleRequest, final oracleRequest) string {
	t.Helper()
	pair.reset(t)
	for _, req := range before {
		if _, difference := pair.ask(t, req); difference != "" {
			return "" // another difference than the one to shrink
		}
	}
	g := &oracleGenerator{pair: pair}
	g.look()
	if g.avoided(final) != "" {
		return "" // a known defect shows in the smaller world
	}
	_, difference := pair.ask(t, final)
	return difference
}

func curls(requests []oracleRequest) string {
	var b strings.Builder
	for _, req := range requests {
		fmt.Fprintln(&b, req.curl())
	}
	return b.String()
}
