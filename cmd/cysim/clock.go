package main

import (
	"errors"
	"time"

	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// clockFlags stop the time of a cloud.
type clockFlags struct {
	ManualClock bool      `help:"Let time stand still until it is advanced: POST /_sim/clock {\"advance\": \"90s\"}."`
	ClockStart  time.Time `placeholder:"TIME" help:"Time that a manual clock starts at, such as 2026-01-01T00:00:00Z; default: now."`
}

// clock is the one option of the cloud that they are.
func (c clockFlags) clock() ([]simcloud.Option, error) {
	if !c.ManualClock {
		if !c.ClockStart.IsZero() {
			return nil, badInput(errors.New("--clock-start: only a manual clock starts at a time of one's own; say --manual-clock"))
		}
		return nil, nil
	}
	start := c.ClockStart
	if start.IsZero() {
		start = time.Now()
	}
	return []simcloud.Option{simcloud.WithClock(sim.NewManualClock(start))}, nil
}
