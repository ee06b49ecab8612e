//go:build !drill

package spawn_test

import "github.com/gocyborg/gocyborg/simcloud/drill"

// drilled is a sample for every day.
func drilled(singles, _ int) drill.Config {
	return drill.Config{Singles: singles, Pairs: singles / 2}
}

// step: one of so many faults is tried by the tests that list their faults themselves.
const step = 6
