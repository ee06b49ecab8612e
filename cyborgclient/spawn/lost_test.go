package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The ARQs of a create with a lost response are recognized by state, profile and age.
func TestALostCreateLeavesOlderARQsAndOtherProfiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		profile string // of the other agent's ARQ
		age     time.Duration
		applied fault.When // whether our own create was done
	}{
		{"older, ours not made", "gpu", 10 * time.Minute, fault.Before},
		{"older, ours made", "gpu", 10 * time.Minute, fault.After},
		{"another profile, ours not made", "vgpu", 0, fault.Before},
		{"another profile, ours made", "vgpu", 0, fault.After},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1, ExclusiveProject: true}})
			theirs := w.createARQ(t, tt.profile)
			time.Sleep(tt.age)
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: tt.applied})
			began := time.Now()
			_, err := w.flow.Run(t.Context(), request("gpu"))
			if err == nil || len(certainlyLeft(err)) > 0 {
				t.Errorf("got error %v, want one without leftovers", err)
			}
			if took := time.Since(began); took >= spawn.LateWindow != (tt.applied == fault.Before) {
				t.Errorf("looked for %s", took)
			}
			left := w.cloud.Cyborg.ARQs()
			if len(left) != 1 || left[0].UUID != theirs {
				t.Errorf("got ARQs %v, want only the other agent's %s", left, theirs)
			}
		})
	}
}

func (w *world) createARQ(t *testing.T, profile string) string {
	t.Helper()
	arqs, err := w.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: profile})
	if err != nil || len(arqs) != 1 {
		t.Fatal(arqs, err)
	}
	return arqs[0].UUID
}

func (w *world) fail(t *testing.T, rules ...fault.Rule) {
	t.Helper()
	settled(t, w.cloud.Faults().Set(rules...))
}

// begin runs an attempt up to and including the creation of its ARQs.
func (w *world) begin(t *testing.T, instance string) *spawn.Attempt {
	t.Helper()
	a := w.beginCreate(t, instance)
	settled(t, a.CreateARQs(t.Context()))
	return a
}

// beginCreate runs an attempt up to the step that creates its ARQs.
func (w *world) beginCreate(t *testing.T, instance string) *spawn.Attempt {
	t.Helper()
	req := request("gpu")
	req.Instance = instance
	a, err := w.flow.Begin(t.Context(), req)
	settled(t, err)
	settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim))
	return a
}

func TestALostCreateLeavesTheARQsOfTheSameFlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1, ExclusiveProject: true}})
		other := w.begin(t, "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b009") // between create and bind
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After})
		_, err := w.flow.Run(t.Context(), request("gpu"))
		if err == nil || errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("got error %v, want one without leftovers", err)
		}
		if err := walk(t.Context(), other.Match, other.Bind, other.WaitBound, other.Compose); err != nil {
			t.Errorf("the other attempt: %v", err)
		}
		w.checkPromise(t, other.Result(), nil)
	})
}

// Two attempts have lost creates. One may delete its ARQ while the other reads a list that still has it.
func TestALostCreateLeavesTheARQsOfAnEndedAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		i := new(interceptor)
		w.intercept(t, i, alone)
		late, lost := w.beginCreate(t, instance), w.beginCreate(t, secondInstance)
		for _, create := range []struct {
			attempt *spawn.Attempt
			rule    fault.Rule
		}{
			{late, fault.Rule{Operation: fault.ARQCreate, Action: fault.Late, Delay: 3 * time.Second}},
			{lost, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After}},
		} {
			w.fail(t, create.rule)
			if err := create.attempt.CreateARQs(t.Context()); err == nil {
				t.Fatal("the reply is not lost")
			}
		}
		i.n, i.after = i.seen.Load()+1, func(*http.Request) {
			unwindAll(t, lost)
		}
		unwindAll(t, late)
		time.Sleep(spawn.LateWindow)
		w.cloud.CheckNoLeaks(t)
	})
}

// Creates of one instance on three hosts within one second are three leftovers of the error, three suspects, and three
// reports of the observers.
func TestEachLostCreateIsNamed(t *testing.T) {
	t.Parallel()
	for _, config := range []spawn.Config{{}, alone} {
		bubble(t, fmt.Sprintf("exclusive project: %t", config.ExclusiveProject), func(t *testing.T) {
			model := simcloud.ScaleModel(3, 2)
			w := newWorld(t, worldOpts{model: &model})
			reported := map[int]bool{}
			w.connect(t, w.cloud.Provider(t), spawn.WithConfig(config), spawn.WithObserver(func(_ context.Context, p spawn.Progress) {
				if p.Event == spawn.ProgressLeft && p.Leftover.Kind == spawn.LeftoverCreate {
					reported[p.Leftover.Seq] = true
				}
			}))
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Late, Status: 504, Delay: 20 * time.Second, Times: -1})
			_, err := w.flow.Run(t.Context(), request("gpu"))
			failure := failureOf(t, err)
			named := func(list []spawn.Leftover) (total int) {
				for _, l := range list {
					total += l.Count
				}
				return total
			}
			time.Sleep(10 * time.Minute)
			left := len(w.cloud.Cyborg.ARQs())
			if left == 0 || named(failure.Leftovers) < left || named(w.flow.Suspects()) < left || len(reported) < left {
				t.Errorf("%d ARQs exist; named are %v, suspected %v, reported %v", left, failure.Leftovers, w.flow.Suspects(), reported)
			}
		})
	}
}

func TestALostClaimLeavesTheAllocationsOfOtherClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		theirs := []placementsim.Allocation{{
			Consumer: instance, Provider: w.cloud.ProviderUUID("cn1"), Class: "VCPU", Used: 1,
		}}
		claim := func(r *http.Request) {
			if err := w.cloud.Placement.Claim(placementsim.Claim{Consumer: instance, Project: "p", User: "u", Allocations: theirs}); err != nil {
				t.Error(err)
			}
		}
		const put = 5 // profile, candidates, provider, allocations, PUT
		w.intercept(t, &interceptor{n: put, after: claim}, spawn.Config{})
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop})
		_, err := w.flow.Run(t.Context(), request("gpu"))
		if failure := failureOf(t, err); failure.Step != spawn.StepClaim || len(failure.Undone) > 0 {
			t.Errorf("got error %v, undone %v; want a failed claim with nothing undone", err, failure.Undone)
		}
		if diff := cmp.Diff(theirs, w.cloud.Placement.Allocations()); diff != "" {
			t.Errorf("allocations (-want +got):\n%s", diff)
		}
	})
}

func TestAPanicOfTheCallersTransportLeavesNothing(t *testing.T) {
	t.Parallel()
	for n := int64(5); n <= 8; n++ { // from the claim on
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.intercept(t, &interceptor{n: n, after: func(*http.Request) { panic("hook") }}, alone)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("request %d: the panic was swallowed", n)
					}
				}()
				_, _ = w.flow.Run(t.Context(), request("gpu"))
			}()
			w.cloud.CheckNoLeaks(t)
		})
	}
}

func TestComposeRefusesWhatIsNotBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(10 * time.Second)})
		a := w.begin(t, instance)
		settled(t, walk(t.Context(), a.Match, a.Bind))
		if err := a.Compose(t.Context()); !errors.Is(err, spawn.ErrNotBound) {
			t.Errorf("got error %v, want ErrNotBound", err)
		}
		a.Unwind(t.Context())
		w.cloud.CheckNoLeaks(t)
	})
}

func TestABindToAnotherHostOrProviderFails(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"hostname", "device_rp_uuid"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{})
			w.through(t, spawn.Config{PlacementOrder: true}, replacing(http.MethodGet, "/accelerator_requests", `"`+field+`":"`, `"`+field+`":"x`))
			result, err := w.flow.Run(t.Context(), request("gpu"))
			if !errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), "bound to") {
				t.Errorf("got error %v, want ErrNotBound with the host or provider", err)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// A failed attempt does not undo the changes of other clients to the allocation of a running instance.
func TestAFailureLeavesTheChangesOfOthersToARunningInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: raceModel(2, 2)})
		w.spawned(t, spawn.Request{Instance: instance, Flavor: plainFlavor()})
		want := w.cloud.Placement.Allocations()
		for n := range want {
			if want[n].Class == "VCPU" {
				want[n].Used++ // Nova resizes it
			}
		}
		req := request("gpu")
		req.Hooks.Prepare = func(context.Context, *spawn.Attempt) error {
			held := w.cloud.Placement.Allocations()
			for n := range held {
				if held[n].Class == "VCPU" {
					held[n].Used++
				}
			}
			settled(t, w.cloud.Placement.Claim(placementsim.Claim{Consumer: instance, Project: w.cloud.ProjectID("admin"), User: "u", Allocations: held}))
			return errHook
		}
		if _, err := w.flow.AddDevices(t.Context(), req); !errors.Is(err, errHook) {
			t.Fatalf("got %v", err)
		}
		used := func(list []placementsim.Allocation) map[string]int {
			amounts := map[string]int{}
			for _, a := range list {
				amounts[a.Provider+" "+a.Class] += a.Used
			}
			return amounts
		}
		if diff := cmp.Diff(used(want), used(w.cloud.Placement.Allocations())); diff != "" {
			t.Errorf("allocation (-want +got):\n%s", diff)
		}
	})
}

// Another agent claimed the same resources for the same instance, and the response of Placement's refusal is lost.
// The attempt does not mistake the other agent's allocation for its own claim.
func TestALostRefusalIsNotAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		first := w.flow
		var result *spawn.Result
		w.through(t, spawn.Config{PlacementOrder: true}, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if result != nil || req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/allocations/") {
					return next.RoundTrip(req)
				}
				var err error
				result, err = first.Run(t.Context(), request("gpu"))
				settled(t, err)
				refused, err := next.RoundTrip(req)
				settled(t, err)
				if refused.StatusCode != http.StatusConflict {
					t.Errorf("the second claim got %d", refused.StatusCode)
				}
				settled(t, refused.Body.Close())
				return nil, context.DeadlineExceeded // the reply is lost
			})
		})
		_, err := w.flow.Run(t.Context(), request("gpu"))
		wantKinds(t, failureOf(t, err).Leftovers, spawn.LeftoverAllocation)
		w.define(t, result)
		w.cloud.CheckNoLeaks(t)
	})
}

// After a consumer was deleted, another agent's claim has the generation of a first claim again. A delayed claim on
// the second host would then replace the other agent's allocation.
func TestALostClaimOnASecondHostIsWaitedForAndNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: raceModel(2, 2)})
		s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Nth: 2, Action: fault.Late, Delay: 4 * time.Second})
		req, calls := request("gpu"), 0
		req.Hooks.Claim = func(context.Context, *spawn.Attempt) error {
			if calls++; calls == 1 {
				return errors.New("no free NUMA cell")
			}
			return nil
		}
		began := time.Now()
		_, err := s.flow.Run(t.Context(), req)
		left := failureOf(t, err).Leftovers
		if time.Since(began) < 5*time.Second {
			t.Fatalf("error %v after %s, want one after the claim was to arrive", err, time.Since(began))
		}
		wantKinds(t, left, spawn.LeftoverAllocation)
		if left[0].Certain {
			t.Errorf("%v is certain", left[0])
		}
		s.restart(t)
		result, err := s.flow.Run(t.Context(), request("gpu"))
		settled(t, err)
		s.define(t, result)
		time.Sleep(time.Minute)
		s.cloud.CheckNoLeaks(t)
	})
}
