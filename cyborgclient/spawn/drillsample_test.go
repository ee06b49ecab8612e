//go:build !drill

package spawn_test

import "github.com/gocyborg/gocyborg/simcloud/drill"

// drilled is a sample for every run of the tests.
func drilled(int) drill.Config {
	return drill.Config{Singles: 2, Pairs: 1}
}

// step: one of so many faults is tried by the tests that list their faults themselves. A prime: a request can
// fail in five ways.
const step = 17

// Single faults and pairs of each combination of TestDrillAxes.
const (
	axesSingles = 2
	axesPairs   = 1
)

// Crashes: one of so many calls, and so many pairs.
const (
	crashStep  = 3
	crashPairs = 60
)
