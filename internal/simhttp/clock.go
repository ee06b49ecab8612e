package simhttp

import (
	"context"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// Wall is the machine's clock, which is virtual inside a testing/synctest bubble.
type Wall struct{}

var _ sim.Clock = Wall{}

// Now implements sim.Clock.
func (Wall) Now() time.Time { return time.Now() }

// Wait implements sim.Clock.
func (Wall) Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
