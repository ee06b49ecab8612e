package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestDrillEveryFaultLeavesNothing spawns once for each operation that a spawn uses and each fault action of the
// operation, before and after it. Once the hosts are up, a Release removes the leftovers that the spawn named.
func TestDrillEveryFaultLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, async := range []bool{false, true} {
		for n, rule := range everyFault(t, async) {
			if n%step != 0 {
				continue
			}
			bubble(t, fmt.Sprintf("async=%t/%s/%s/%s/%d", async, rule.Operation, rule.Action, rule.When, rule.Nth), func(t *testing.T) {
				w := newWorld(t, worldOpts{model: asyncModel(async), config: alone})
				w.fail(t, rule)
				result, err := w.flow.Run(t.Context(), request("mixed"))
				synctest.Wait() // events of binds in the background
				if hits := w.cloud.Faults().Rules()[0].Hits; hits == 0 && rule.Nth == 1 {
					t.Error("the fault never struck")
				}
				w.cloud.Faults().Clear()
				time.Sleep(2 * time.Minute) // hosts come back, late events arrive
				if errors.Is(err, spawn.ErrLeftover) {
					w.comeBack(t, rule)
					if err := w.flow.Release(t.Context(), instance); err != nil {
						t.Errorf("release: %v", err)
					}
				}
				if errors.Is(err, spawn.ErrLeftover) || result != nil && len(result.Suspects) > 0 {
					time.Sleep(20 * time.Minute)
					opts := w.freeing()
					opts.Living = func(context.Context, string) (bool, error) { return err == nil, nil }
					if _, err := w.flow.Reconcile(t.Context(), opts); err != nil {
						t.Errorf("reconcile: %v", err)
					}
				}
				w.checkPromise(t, result, err)
			})
		}
	}
}

func asyncModel(async bool) *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.AsyncBind = async
	return &model
}

// everyFault returns the fault rules that hit a spawn of the profile mixed.
func everyFault(t *testing.T, async bool) []fault.Rule {
	t.Helper()
	w := newWorld(t, worldOpts{model: asyncModel(async), config: alone})
	w.cloud.ForgetRequests()
	if _, err := w.flow.Run(t.Context(), request("mixed")); err != nil {
		t.Fatal(err)
	}
	met := map[sim.OperationName]int{ // a spawn meets no report, writes no bitstream and removes no device
		fault.AgentCall: 2, fault.EventSend: 1, fault.MdevCreate: 1, fault.ExternalEventForward: 2,
	}
	for _, r := range w.cloud.Requests() {
		met[r.Operation] = 1 // TestDrillSpawn has the others
	}
	var rules []fault.Rule
	for _, o := range w.cloud.Faults().Describe() {
		for _, action := range o.Actions {
			for _, when := range []fault.When{fault.Before, fault.After} {
				for nth := range min(met[o.Name], 2) {
					rule := fault.Rule{Operation: o.Name, Action: action, When: when, Nth: nth + 1, Delay: 20 * time.Second}
					if rule.Validate() == nil {
						rules = append(rules, rule)
					}
				}
			}
		}
	}
	return rules
}
