package spawn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A bind fails in the response to the PATCH, or with the event. The next host is tried, with the same ARQs if
// Compat.Rebind is set and the outcome of the unbind is known.
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

// With Compat.Rebind the ARQs are bound to the next host if their bind is known to have ended.
func TestTheARQsOfABindThatWasAnswered500AreBoundAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rule fault.Rule
		want string
	}{
		"mdev failed":     {fault.Rule{Operation: fault.MdevCreate, Action: fault.Status}, "create bind unbind bind"},
		"bound":           {fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, When: fault.After}, "create bind unbind bind"},
		"bound, no reply": {fault.Rule{Operation: fault.ARQBind, Action: fault.Drop, When: fault.After}, "create bind unbind bind"},
		"not bound yet":   {fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500}, "create bind delete create bind"},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			calls := w.watched(t, spawn.Config{PlacementOrder: true, Compat: spawn.Compat{Rebind: true}})
			if tt.rule.Operation == fault.MdevCreate { // of the first host only
				handles := w.cloud.Cyborg.AttachHandles()
				tt.rule.Subject = handles[slices.IndexFunc(handles, func(h fakecyborg.StoredAttachHandle) bool { return h.Type == "MDEV" })].UUID
			}
			w.fail(t, tt.rule)
			result, err := w.flow.Run(t.Context(), request("vgpu"))
			settled(t, err)
			if got := strings.Join(*calls, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// Nova refuses the event of a failed bind. The flow reads the states.
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

// The agent of the first host is dead, so Cyborg keeps the ARQ, and the handover names it. A caller that creates the
// ARQs of the next host itself can bind them next to it.
func TestTheARQOfADeadHostGoesWithTheHandover(t *testing.T) {
	t.Parallel()
	for _, creates := range []string{"the flow", "the agent"} {
		bubble(t, creates+" creates", func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			a, err := w.flow.Begin(t.Context(), request("vgpu"))
			settled(t, err)
			settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match))
			host := a.Host
			w.fail(t, fault.Rule{Operation: fault.AgentCall, Subject: host, Action: fault.Drop})
			if err := a.Bind(t.Context()); err == nil || !a.Reschedulable(spawn.StepBind, err) {
				t.Fatalf("got %v, want a failed bind", err)
			}
			settled(t, a.Reschedule(t.Context()))
			settled(t, a.Claim(t.Context()))
			if creates == "the agent" {
				a.ARQs, err = w.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "vgpu"})
				settled(t, err)
			}
			settled(t, walk(t.Context(), a.CreateARQs, a.Match, a.Bind))
			handover, err := a.Handover(t.Context())
			settled(t, err)
			text, err := json.Marshal(handover)
			settled(t, err)
			compute, err := w.resume(t, text)
			settled(t, err)
			settled(t, walk(t.Context(), compute.WaitBound, compute.Compose))
			left := compute.Result().Leftovers
			if len(left) != 1 || left[0].Kind != spawn.LeftoverARQ || compute.Host == host {
				t.Errorf("on host %s: left %v, want the ARQ of host %s", compute.Host, left, host)
			}
			settled(t, w.cloud.StartHost(t.Context(), host))
			_, named := compute.Unwind(t.Context())
			if len(named) != 1 || named[0].ID != left[0].ID {
				t.Errorf("the unwinding names %v, want %v", named, left)
			}
			settled(t, w.cyborg.DeleteARQs(t.Context(), []string{left[0].ID}))
			w.checkPromise(t, nil, fmt.Errorf("given up"))
		})
	}
}
