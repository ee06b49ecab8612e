//go:build drill

package spawn_test

import "github.com/gocyborg/gocyborg/fakecyborg/simcloud"

// drilled is every single fault, and many pairs.
func drilled(_, pairs int) []simcloud.DrillOption {
	return []simcloud.DrillOption{simcloud.DrillPairs(pairs)}
}
