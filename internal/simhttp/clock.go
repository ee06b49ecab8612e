package simhttp

import (
	"context"
	"fmt"
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

// LastYear is the last year of a time in JSON.
const LastYear = 9999

// CheckTime refuses the zero time, and a time that JSON cannot represent in UTC.
func CheckTime(name string, t time.Time) error {
	switch year := t.UTC().Year(); {
	case t.IsZero():
		return fmt.Errorf("%s is missing", name)
	case year < 0 || year > LastYear:
		return fmt.Errorf("%s is in the year %d", name, year)
	}
	return nil
}
