package spawn_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A bind fails in the answer of the PATCH, or with the event. The next host is tried, with the same ARQs if Compat.Rebind says so
// and the outcome of the unbind is known.
func TestABindThatFailedIsTriedOnTheNextHost(t *testing.T) {
	t.Parallel()
	for _, async := range []bool{false, true} {
		for _, rebind := range []bool{false, true} {
			for _, unbind := range []fault.Action{"", fault.Drop} {
				bubble(t, fmt.Sprintf("async %t, rebind %t, unbind %q", async, rebind, unbind), func(t *testing.T) {
					model := simcloud.DefaultModel()
					model.Cyborg.AsyncBind = async
					w := newWorld(t, worldOpts{model: &model})
					var created []string
					w.connect(t, w.cloud.Provider(t), spawn.WithConfig(spawn.Config{PlacementOrder: true, Compat: spawn.Compat{Rebind: rebind}}),
						spawn.WithObserver(func(_ context.Context, p spawn.Progress) {
							if p.Step == spawn.StepClaim && p.Host == "cn1" { // which is sound
								w.cloud.Faults().Clear()
							}
							if p.Step == spawn.StepCreate && p.Host == "cn0" && p.Event == spawn.ProgressEnd {
								for _, arq := range w.cloud.Cyborg.ARQs() {
									created = append(created, arq.UUID)
								}
							}
						}))
					rules := []fault.Rule{{Operation: fault.MdevCreate, Action: fault.Status}}
					if unbind != "" {
						rules = append(rules, fault.Rule{Operation: fault.ARQBind, Nth: 2, Action: unbind, When: fault.After})
					}
					w.fail(t, rules...)
					result, err := w.flow.Run(t.Context(), request("vgpu"))
					settled(t, err)
					isSame := slices.EqualFunc(result.ARQs, created, func(arq cyborgclient.ARQ, uuid string) bool { return arq.UUID == uuid })
					if want := rebind && unbind == ""; isSame != want || result.Host != "cn1" || len(result.Leftovers) > 0 {
						t.Errorf("the ARQs on host %s are the same: %t, want %t; left: %v", result.Host, isSame, want, result.Leftovers)
					}
					w.checkPromise(t, result, err)
				})
			}
		}
	}
}

// Nova refuses the event of a bind that failed. The states decide.
func TestABindThatFailedWithARefusedEventIsTriedOnTheNextHost(t *testing.T) {
	t.Parallel()
	bubble(t, "refused", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status},
			fault.Rule{Operation: fault.ExternalEventsCreate, Action: fault.Status, Status: 400})
		w.connect(t, w.cloud.Provider(t), spawn.WithObserver(func(_ context.Context, p spawn.Progress) {
			if p.Step == spawn.StepClaim && p.Host == "cn1" {
				w.cloud.Faults().Clear()
			}
		}))
		result, err := w.flow.Run(t.Context(), request("mixed"))
		settled(t, err)
		w.checkPromise(t, result, err)
	})
}
