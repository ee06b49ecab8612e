package spawn_test

import (
	"context"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// MariaDB refuses the later of two overlapping writes of a row ("Record has changed since last read"), and the
// service answers 500 before the change or after a part of it. The outcome of such a write is unknown. The library
// reads the state and continues. Only a claim that was written ends the spawn, and is undone.
func TestAWriteThatTheDatabaseRefusesIsVerified(t *testing.T) {
	t.Parallel()
	deleted := func(ctx context.Context, w *world) (*spawn.Result, error) {
		if result, err := w.flow.Run(ctx, request("gpu")); err != nil {
			return result, err
		}
		return nil, w.flow.Release(ctx, instance)
	}
	spawned := func(ctx context.Context, w *world) (*spawn.Result, error) { return w.flow.Run(ctx, request("gpu")) }
	failsOnFirstHost := fault.Rule{Operation: fault.MdevCreate, Action: fault.Status}
	rebound := func(ctx context.Context, w *world) (*spawn.Result, error) { return w.flow.Run(ctx, request("vgpu")) }
	tests := map[string]struct {
		operation sim.OperationName
		nth       int
		run       func(context.Context, *world) (*spawn.Result, error)
		more      []fault.Rule
		fails     fault.When // never, if empty
	}{
		"claim":                 {operation: fault.AllocationsWrite, nth: 1, run: spawned, fails: fault.After},
		"release of allocation": {operation: fault.AllocationsWrite, nth: 2, run: deleted},
		"create":                {operation: fault.ARQCreate, nth: 1, run: spawned},
		"bind":                  {operation: fault.ARQWrite, nth: 1, run: spawned},
		"unbind":                {operation: fault.ARQWrite, nth: 2, run: rebound, more: []fault.Rule{failsOnFirstHost}},
		"DELETE of ARQs":        {operation: fault.ARQWrite, nth: 2, run: deleted},
	}
	for name, tt := range tests {
		for _, when := range []fault.When{fault.Before, fault.After} {
			bubble(t, name+" "+string(when), func(t *testing.T) {
				config := alone
				config.Compat.Rebind = len(tt.more) > 0
				w := newWorld(t, worldOpts{config: config})
				w.fail(t, append([]fault.Rule{{Operation: tt.operation, Nth: tt.nth, Action: fault.Status, When: when}}, tt.more...)...)
				var struck int
				once := func(sim.OperationName, string) { // a rule without a subject strikes each subject
					for _, state := range w.cloud.Faults().Rules() {
						if state.Hits > 0 && w.cloud.Faults().Remove(state.Rule) {
							struck++
						}
					}
				}
				w.cloud.Faults().Observe(once)
				result, err := tt.run(t.Context(), w)
				w.cloud.Faults().Observe(nil)
				once("", "")
				if want := 1 + len(tt.more); struck != want {
					t.Errorf("%d rules have struck, want %d", struck, want)
				}
				if (err != nil) != (when == tt.fails) {
					t.Errorf("got %v, want an error: %t", err, when == tt.fails)
				}
				if left := certainlyLeft(err); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				w.cloud.Faults().Clear()
				time.Sleep(time.Hour)
				if result != nil {
					w.define(t, result)
				}
				w.cloud.CheckNoLeaks(t)
			})
		}
	}
}
