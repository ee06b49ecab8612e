//go:build drill

package spawn_test

import (
	"flag"

	"github.com/gocyborg/gocyborg/simcloud"
)

var drillPairs = flag.Int("drill.pairs", 0, "how many pairs of faults each drill tries, -1 for all of them, instead of its own number")

// drilled is every single fault, and many pairs.
func drilled(_, pairs int) []simcloud.DrillOption {
	if *drillPairs != 0 {
		pairs = *drillPairs
	}
	return []simcloud.DrillOption{simcloud.DrillPairs(pairs)}
}

// step: every fault is tried by the tests that list their faults themselves.
const step = 1
