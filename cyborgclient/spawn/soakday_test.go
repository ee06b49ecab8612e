//go:build !soak

package spawn_test

import "time"

// soakTime is a sample for every day.
const soakTime = 6 * time.Hour
