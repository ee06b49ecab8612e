package simcloud

import (
	"context"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/sim"
)

// describeClock is the time of a clock, and whether it can be changed.
func describeClock(clock sim.Clock) any {
	body := map[string]any{"now": clock.Now().UTC(), "manual": false}
	if manual, ok := clock.(*sim.ManualClock); ok {
		body["manual"], body["waiting"] = true, manual.Waiting()
	}
	return body
}

// clockChange advances a manual clock, {"advance": "90s"}, or sets it, {"now": "2026-01-01T00:00:00Z"}, back as well as
// forward.
type clockChange struct {
	Advance *strictjson.Duration `json:"advance"`
	Now     *time.Time           `json:"now"`
}

// apply changes the clock. If the context ends first, the clock keeps the time that it has
// reached. The error is an *[simhttp.Error].
func (c clockChange) apply(ctx context.Context, clock sim.Clock) error {
	manual, ok := clock.(*sim.ManualClock)
	if !ok {
		return simhttp.Refuse(http.StatusConflict, "only a manual clock can be changed (cysim serve --manual-clock)")
	}
	var err error
	switch {
	case (c.Advance == nil) == (c.Now == nil) || c.Advance != nil && *c.Advance < 0:
		return simhttp.Refuse(http.StatusBadRequest, `clock: want {"advance": "90s"}, a duration that is not negative, or {"now": "2026-01-01T00:00:00Z"}`)
	case c.Advance != nil:
		err = manual.AdvanceContext(ctx, time.Duration(*c.Advance))
	default:
		err = manual.Set(*c.Now)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return simhttp.Refuse(http.StatusServiceUnavailable, "clock: %v; it is at %s", err, clock.Now().UTC().Format(time.RFC3339))
	default:
		return simhttp.Refuse(http.StatusBadRequest, "clock: %v", err)
	}
	return nil
}
