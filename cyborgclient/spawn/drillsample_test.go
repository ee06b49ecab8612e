//go:build !drill

package spawn_test

import "github.com/gocyborg/gocyborg/simcloud"

// drilled is a sample for every day.
func drilled(singles, _ int) []simcloud.DrillOption {
	return []simcloud.DrillOption{simcloud.DrillSingles(singles), simcloud.DrillPairs(singles / 2)}
}

// step: one of so many faults is tried by the tests that list their faults themselves.
const step = 6
