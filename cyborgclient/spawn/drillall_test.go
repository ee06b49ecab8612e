//go:build drill

package spawn_test

import (
	"flag"

	"github.com/gocyborg/gocyborg/simcloud/drill"
)

var drillPairs = flag.Int("drill.pairs", 0, "how many pairs of faults each drill tries, -1 for all of them, instead of its own number")

// drilled has every single fault, and many pairs.
func drilled(pairs int) drill.Config {
	if *drillPairs != 0 {
		pairs = *drillPairs
	}
	return drill.Config{Pairs: pairs}
}

// step: every fault is tried by the tests that list their faults themselves.
const step = 1

// Single faults and pairs of each combination of TestDrillAxes.
const (
	axesSingles = 100
	axesPairs   = 60
)

// Crashes: each call, and so many pairs.
const (
	crashStep  = 1
	crashPairs = 2000
)
