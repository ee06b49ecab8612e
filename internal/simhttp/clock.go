package simhttp

import (
	"context"
	"time"
)

// Clock is the one notion of time of a simulated cloud.
type Clock interface {
	// Now is the present time.
	Now() time.Time
	// Wait returns after d, or earlier with the context's error.
	Wait(ctx context.Context, d time.Duration) error
}

// Wall is the machine's clock, which is virtual inside a testing/synctest
// bubble.
type Wall struct{}

var _ Clock = Wall{}

// Now implements Clock.
func (Wall) Now() time.Time { return time.Now() }

// Wait implements Clock.
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
