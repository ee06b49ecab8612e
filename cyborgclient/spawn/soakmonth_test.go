//go:build soak

package spawn_test

import "time"

const soakTime = 30 * 24 * time.Hour
