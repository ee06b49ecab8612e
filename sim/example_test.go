package sim_test

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// A clock that stands still shows a day that takes no time. A cloud takes it with
// simcloud.WithClock.
func ExampleManualClock() {
	began := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	clock := sim.NewManualClock(began)
	waited := make(chan error)
	go func() { waited <- clock.Wait(context.Background(), 24*time.Hour) }()
	for clock.Waiting() == 0 {
		runtime.Gosched()
	}
	fmt.Println(clock.Advance(24 * time.Hour))
	fmt.Println(<-waited, clock.Now().Sub(began))
	// Output:
	// <nil>
	// <nil> 24h0m0s
}
