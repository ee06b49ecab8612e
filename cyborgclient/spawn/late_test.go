package spawn_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A request may take effect after its caller gave up. Within LateWindow it is undone. Later it is named.
func TestARequestThatIsAppliedLateLeavesNothingUnnamed(t *testing.T) {
	t.Parallel()
	const beyond = 7 * time.Minute
	for _, operation := range []sim.OperationName{fault.AllocationsPut, fault.ARQCreate, fault.ARQBind} {
		for _, delay := range []time.Duration{20 * time.Millisecond, 5 * time.Second, beyond} {
			for _, config := range []spawn.Config{{MaxAttempts: 1}, {MaxAttempts: 1, ExclusiveProject: true}} {
				bubble(t, fmt.Sprintf("%s %s exclusive=%v", operation, delay, config.ExclusiveProject), func(t *testing.T) {
					w := newWorld(t, worldOpts{config: config})
					w.fail(t, fault.Rule{Operation: operation, Action: fault.Late, Delay: delay})
					_, err := w.flow.Run(t.Context(), request("mixed"))
					if err == nil {
						t.Fatal("no error")
					}
					if left := certainlyLeft(err); len(left) > 0 {
						t.Errorf("certain leftovers: %v", left)
					}
					time.Sleep(beyond + time.Minute)
					w.checkNamed(t, err)
					mayLeave := operation == fault.ARQCreate && !config.ExclusiveProject || operation != fault.ARQBind && delay == beyond
					if leaks := w.cloud.Leaks(); len(leaks) > 0 != mayLeave {
						t.Errorf("leaks: %v", leaks)
					}
				})
			}
		}
	}
}

// checkNamed checks that the error names every ARQ and every allocation of the instance that leaks, and that the
// error and the flow have the same suspects.
func (w *world) checkNamed(t *testing.T, err error) {
	t.Helper()
	failure := failureOf(t, err)
	for _, left := range failure.Leftovers {
		if !slices.ContainsFunc(w.flow.Suspects(), func(s spawn.Leftover) bool { return s.Kind == left.Kind && s.ID == left.ID }) {
			t.Errorf("%v is no suspect of the flow", left)
		}
	}
	for _, leak := range w.cloud.Leaks() {
		switch {
		case leak.Kind == simcloud.LeakARQ && !namesARQ(t, w, failure.Leftovers, leak.Subject):
			t.Errorf("unnamed ARQ: %v; named are %v", leak, failure.Leftovers)
		case leak.Kind == simcloud.LeakAllocation && leak.Subject == failure.Instance && !slices.ContainsFunc(failure.Leftovers, func(l spawn.Leftover) bool { return l.Kind == spawn.LeftoverAllocation }):
			t.Errorf("unnamed: %v; named are %v", leak, failure.Leftovers)
		}
	}
}

// namesARQ reports whether the leftovers name an ARQ: by its UUID, or by the create
// that made it.
func namesARQ(t *testing.T, w *world, leftovers []spawn.Leftover, uuid string) bool {
	t.Helper()
	arq, err := w.cyborg.GetARQ(t.Context(), uuid)
	settled(t, err)
	return slices.ContainsFunc(leftovers, func(l spawn.Leftover) bool {
		return l.Kind == spawn.LeftoverARQ && l.ID == uuid ||
			l.Kind == spawn.LeftoverCreate && l.ID == arq.DeviceProfileName && l.ProjectID == arq.ProjectID && !arq.CreatedAt.Before(l.Since)
	})
}

// A delayed undo does not delete resources that the instance got later.
func TestADelayedUndoLeavesTheNextHost(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{20 * time.Millisecond, 5 * time.Second, 7 * time.Minute} {
		bubble(t, delay.String(), func(t *testing.T) {
			w := newWorld(t, worldOpts{config: alone})
			w.fail(t,
				fault.Rule{Operation: fault.ARQBind, Action: fault.Late, Delay: delay},
				fault.Rule{Operation: fault.ARQDelete, Action: fault.Late, Delay: delay},
				fault.Rule{Operation: fault.AllocationsPut, Nth: 2, Action: fault.Late, Delay: delay},
			)
			result, err := w.flow.Run(t.Context(), request("mixed"))
			time.Sleep(8 * time.Minute)
			if left := certainlyLeft(err); len(left) > 0 {
				t.Errorf("certain leftovers: %v", left)
			}
			w.checkPromise(t, result, err)
			if result, err = w.flow.Run(t.Context(), request("mixed")); err != nil {
				t.Errorf("the next spawn of the instance: %v", err)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// A claim that took effect after the end of its attempt does not block the next attempt.
func TestALateClaimIsTakenOverByTheNextAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		second := secondInstanceRequest("vgpu")
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Late, Delay: 7 * time.Minute}) // of each instance
		for _, req := range []spawn.Request{request("gpu"), second} {
			if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got error %v, want the claim as a suspect", err)
			}
		}
		time.Sleep(8 * time.Minute)
		for left, req := range []spawn.Request{second, request("mixed")} {
			result, err := w.flow.Run(t.Context(), req)
			settled(t, err)
			w.define(t, result)
			suspects := w.flow.Suspects()
			if left == 0 && (len(suspects) != 1 || suspects[0].ID != instance) || left == 1 && len(suspects) > 0 {
				t.Errorf("suspected: %v", suspects)
			}
		}
		w.cloud.CheckNoLeaks(t)
	})
}

// A claim that may still arrive is replaced, for a running instance would hold the devices of both attempts, and an
// evacuated one resources of a host where it never ran.
func TestALateClaimOfARunningInstanceIsReplaced(t *testing.T) {
	t.Parallel()
	// unsettled runs what loses its claim, which is done, while Placement does not tell.
	unsettled := func(t *testing.T, w *world, run func() error) {
		t.Helper()
		w.fail(t,
			fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After},
			fault.Rule{Operation: fault.AllocationsGet, Nth: 3, Action: fault.Status, Status: 500, Times: -1})
		if err := run(); !errors.Is(err, spawn.ErrLeftover) || len(certainlyLeft(err)) > 0 || len(w.flow.Suspects()) != 1 {
			t.Fatalf("got error %v, want the claim as a suspect", err)
		}
		w.cloud.Faults().Clear()
	}
	bubble(t, "attach", func(t *testing.T) {
		w := newWorld(t, worldOpts{model: raceModel(1, 3)})
		w.spawned(t, spawn.Request{Instance: instance, Flavor: plainFlavor()})
		req := request("gpu")
		unsettled(t, w, func() error {
			_, err := w.flow.AddDevices(t.Context(), req)
			return err
		})
		result, err := w.flow.AddDevices(t.Context(), req)
		w.checkPromise(t, result, err)
		if suspects := w.flow.Suspects(); len(suspects) > 0 {
			t.Errorf("suspected: %v", suspects)
		}
	})
	bubble(t, "evacuate", func(t *testing.T) {
		s := newSite(t, worldOpts{model: raceModel(2, 2)})
		i := s.launchOn(t, "cn0", request("gpu"))
		s.loseHost(t, i.Host)
		unsettled(t, s.world, func() error {
			_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
			return err
		})
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		s.checkMoved(t, i, result, "cn1")
	})
}

// A claim that may still arrive stays a suspect, although the instance has been tried again.
func TestALateClaimIsSuspectedUntilItArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Late, Delay: 7 * time.Minute})
		if _, err := w.flow.Run(t.Context(), request("gpu")); !errors.Is(err, spawn.ErrLeftover) {
			t.Fatalf("got error %v, want the claim as a suspect", err)
		}
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if suspects := w.flow.Suspects(); len(suspects) != 1 || suspects[0].ID != instance {
			t.Errorf("suspected: %v, want the claim", suspects)
		}
		time.Sleep(8 * time.Minute)
		w.checkPromise(t, result, err)
	})
}

// A write of an allocation without a response may still take effect. The flow repeats it with a newly read generation
// after that time has passed.
func TestAChangeOfUnknownOutcomeIsNotSentAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.spawned(t, request("gpu"))
		w.cloud.RemoveGuest(instance)
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop})
		settled(t, w.flow.Release(t.Context(), instance))
		var sent []time.Time
		for _, r := range w.cloud.Requests() {
			if r.Operation == fault.AllocationsPut {
				sent = append(sent, r.Started)
			}
		}
		if len(sent) != 2 || sent[1].Sub(sent[0]) < spawn.LateWindow {
			t.Errorf("sent at %v, want twice, with %s between", sent, spawn.LateWindow)
		}
		w.cloud.CheckNoLeaks(t)
	})
}

// A lost claim matches only the allocation of its own instance, even if another instance holds the same resources.
func TestALostClaimMatchesOnlyItsInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop})
		if _, err := w.flow.Run(t.Context(), request("gpu")); !errors.Is(err, spawn.ErrLeftover) {
			t.Fatalf("got error %v, want the claim as a suspect", err)
		}
		w.cloud.Faults().Clear()
		req := secondInstanceRequest("gpu")
		w.neighbour(t, spawn.Config{}).spawned(t, req)
		if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, spawn.ErrClaim) || !strings.Contains(err.Error(), "already has an allocation") {
			t.Errorf("got error %v, want ErrClaim for the allocation that the instance has", err)
		}
	})
}

// A delayed release does not delete the resources of the next spawn.
func TestALateReleaseSparesTheNextSpawn(t *testing.T) {
	t.Parallel()
	for _, operation := range []sim.OperationName{fault.ARQDelete, fault.AllocationsPut} {
		bubble(t, string(operation), func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.spawned(t, request("gpu"))
			w.fail(t, fault.Rule{Operation: operation, Action: fault.Late, Delay: 7 * time.Minute})
			settled(t, w.flow.Release(t.Context(), instance))
			result := w.spawned(t, request("gpu"))
			time.Sleep(8 * time.Minute)
			w.checkPromise(t, result, nil)
		})
	}
}

// None of several delayed releases deletes the resources of a later spawn, because the generation of each new
// consumer is raised above all of theirs.
func TestLateReleasesSpareEachNextSpawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		result := w.spawned(t, request("gpu"))
		for range 4 {
			w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Late, Delay: 7 * time.Minute})
			settled(t, w.flow.Release(t.Context(), instance))
			result = w.spawned(t, request("gpu"))
		}
		time.Sleep(8 * time.Minute)
		w.checkPromise(t, result, nil)
	})
}

// The flow writes the earlier allocation of the instance again, so that Placement refuses the delayed claim.
func TestALateClaimOfARunningInstanceIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{config: alone})
		i := s.spawn(t, "gpu")
		settled(t, s.ops.Stop(t.Context(), i))
		before := s.cloud.Placement.Allocations()
		s.loseHost(t, i.Host)
		s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Late, Delay: 7 * time.Minute})
		began := time.Now()
		_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		if err == nil || errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("got error %v, want one without leftovers", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the unwinding took %s, although the claim could be settled at once", took)
		}
		time.Sleep(8 * time.Minute)
		if after := s.cloud.Placement.Allocations(); len(after) != len(before) {
			t.Errorf("allocations %v, want %v", after, before)
		}
	})
}

func TestSuspectsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1}})
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop})
		if _, err := w.flow.Run(t.Context(), request("gpu")); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(59 * time.Minute)
		if suspects := w.flow.Suspects(); len(suspects) != 1 {
			t.Errorf("after 59 minutes: %v, want the create", suspects)
		}
		time.Sleep(2 * time.Minute)
		if suspects := w.flow.Suspects(); len(suspects) != 0 {
			t.Errorf("after an hour: %v", suspects)
		}
	})
}

// A spawn that succeeded on the next host reports the suspects of the first host.
func TestASuccessReportsItsSuspects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		settled(t, err)
		wantKinds(t, result.Suspects, spawn.LeftoverARQ, spawn.LeftoverCreate)
	})
}

// neighbour returns another agent of the same cloud with its own clients, registry and flow, as in another process.
func (w *world) neighbour(t *testing.T, config spawn.Config) *world {
	t.Helper()
	other := &world{cloud: w.cloud, events: externalevent.NewRegistry()}
	other.connect(t, w.cloud.Provider(t), spawn.WithConfig(config))
	return other
}

// releasedModel is a cloud with the Cyborg of a release.
func releasedModel(release fakecyborg.Release) *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.Release = release
	return &model
}

// Two agents create ARQs of the same profile. The create of one is lost; the ARQs of
// the other, between its create and its bind, stay.
func TestALostCreateSparesTheARQsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, release := range []fakecyborg.Release{fakecyborg.Release20262, fakecyborg.ReleaseMaster, fakecyborg.ReleaseZed} {
		for _, applied := range []fault.When{fault.Before, fault.After} {
			bubble(t, fmt.Sprintf("%s %s", release, applied), func(t *testing.T) {
				w := newWorld(t, worldOpts{model: releasedModel(release), config: spawn.Config{MaxAttempts: 1}})
				b := w.neighbour(t, spawn.Config{}).begin(t, secondInstance)
				w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: applied})
				_, err := w.flow.Run(t.Context(), request("gpu"))
				w.checkNamed(t, err)
				if err := walk(t.Context(), b.Match, b.Bind, b.WaitBound, b.Compose); err != nil {
					t.Errorf("the other agent: %v", err)
				}
			})
		}
	}
}

// A flow with a project of its own deletes the ARQs of a lost create, even if the create stopped halfway.
func TestAnExclusiveProjectFreesPartOfACreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		const create = 6 // profile, candidates, provider, allocations, PUT, POST
		w.intercept(t, &interceptor{n: create, after: func(*http.Request) {
			arqs := w.cloud.Cyborg.ARQs()
			if err := w.neighbour(t, spawn.Config{}).cyborg.DeleteARQs(t.Context(), []string{arqs[1].UUID}); err != nil {
				t.Error(err)
			}
		}}, spawn.Config{ExclusiveProject: true, MaxAttempts: 1})
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After})
		began := time.Now()
		_, err := w.flow.Run(t.Context(), request("mixed"))
		if left := failureOf(t, err).Leftovers; len(left) != 1 || left[0].Count != 1 || left[0].Certain {
			t.Fatalf("got error %v, want up to 1 ARQ as a suspect", err)
		}
		if took := time.Since(began); took < spawn.LateWindow || took > spawn.LateWindow+time.Second {
			t.Errorf("looked for %s, want %s", took, spawn.LateWindow)
		}
		w.cloud.CheckNoLeaks(t)
	})
}

// An ARQ of a create of the same flow that has not returned yet is not attributed to the lost create of another
// attempt.
func TestALostCreateSparesACreateUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{config: alone})
		w.fail(t,
			fault.Rule{Operation: fault.ARQCreate, Action: fault.Delay, When: fault.After, Delay: 3 * time.Second},
			fault.Rule{Operation: fault.ARQCreate, Nth: 2, Action: fault.Drop, When: fault.After},
		)
		slow := make(chan *spawn.Attempt)
		go func() { slow <- w.begin(t, secondInstance) }()
		time.Sleep(time.Second) // its ARQ is made, its answer is not read
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if err != nil || len(result.Suspects) > 0 {
			t.Errorf("got %v, error %v; want success on the next host without suspects", result, err)
		}
		other := <-slow
		if err := walk(t.Context(), other.Match, other.Bind, other.WaitBound, other.Compose); err != nil {
			t.Errorf("the attempt whose answer was slow: %v", err)
		}
	})
}

// The ARQs of an instance belong to its project, whose users see them.
func TestTheARQsBelongToTheProjectOfTheInstance(t *testing.T) {
	t.Parallel()
	for _, release := range []fakecyborg.Release{fakecyborg.Release20262, fakecyborg.ReleaseMaster, fakecyborg.ReleaseZed} {
		bubble(t, string(release), func(t *testing.T) {
			w := newWorld(t, worldOpts{model: releasedModel(release), config: alone})
			req := request("gpu")
			req.ProjectID = w.cloud.ProjectID("demo")
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After})
			result, err := w.flow.Run(t.Context(), req)
			settled(t, err)
			if got := result.ARQs[0].ProjectID; got != req.ProjectID {
				t.Errorf("the ARQ is of project %s, want %s", got, req.ProjectID)
			}
			if release != fakecyborg.ReleaseZed {
				w.checkPromise(t, result, err) // in Zed a lost ARQ names no project
			}
			client, err := cyborgclient.New(w.provider(t, "demo"))
			settled(t, err)
			if arqs, err := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{Instance: req.Instance}); err != nil || len(arqs) != 1 {
				t.Errorf("the tenant cannot see its ARQ: %v, %v", arqs, err)
			}
		})
	}
}

func TestAMemberMayNotSpawnForAnotherProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	w.connect(t, w.provider(t, "demo"))
	w.cloud.ForgetRequests()
	req := request("gpu")
	req.ProjectID = w.cloud.ProjectID("admin")
	_, err := w.flow.Run(t.Context(), req)
	if !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), req.ProjectID) {
		t.Errorf("got error %v, want ErrRequest that names the project", err)
	}
	if sent := w.cloud.Requests(); len(sent) > 0 {
		t.Errorf("sent before the refusal: %v", sent)
	}
}
