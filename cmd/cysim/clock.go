package main

import (
	"errors"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// clockFlags select the clock of a cloud.
type clockFlags struct {
	ManualClock bool      `help:"Stop the time of the cloud; POST /_sim/clock {\"advance\": \"90s\"} advances it."`
	ClockStart  time.Time `placeholder:"TIME" help:"Start of a manual clock, such as 2026-01-01T00:00:00Z. Default: now."`
}

func (c clockFlags) options() ([]simcloud.Option, error) {
	if !c.ManualClock {
		if !c.ClockStart.IsZero() {
			return nil, command.BadInput(errors.New("--clock-start: needs --manual-clock"))
		}
		return nil, nil
	}
	start := c.ClockStart
	if start.IsZero() {
		start = time.Now()
	}
	return []simcloud.Option{simcloud.WithClock(sim.NewManualClock(start))}, nil
}
