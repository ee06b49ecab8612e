package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// guestsLive reports the cloud's guests as living.
func (w *world) guestsLive(_ context.Context, instance string) (bool, error) {
	for _, guest := range w.cloud.Guests() {
		if guest.UUID == instance {
			return true, nil
		}
	}
	return false, nil
}

// crash walks an attempt n steps far and forgets it.
func (w *world) crash(t *testing.T, instance string, n int) {
	t.Helper()
	req := request("mixed")
	req.Instance = instance
	a, err := w.flow.Begin(req)
	if err != nil {
		t.Fatal(err)
	}
	steps := []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose,
	}
	for _, step := range steps[:n] {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func kindsOf(orphans []spawn.Leftover) map[spawn.LeftoverKind]int {
	count := map[spawn.LeftoverKind]int{}
	for _, orphan := range orphans {
		count[orphan.Kind]++
	}
	return count
}

func TestReconcileFreesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	tests := []struct {
		steps int // done before the crash
		want  map[spawn.LeftoverKind]int
	}{
		{4, map[spawn.LeftoverKind]int{}},
		{5, map[spawn.LeftoverKind]int{"allocation": 1}},
		{6, map[spawn.LeftoverKind]int{"allocation": 1, "arq": 4}},
		{7, map[spawn.LeftoverKind]int{"allocation": 1, "arq": 4}},
		{8, map[spawn.LeftoverKind]int{"allocation": 1, "arq": 4}},
		{10, map[spawn.LeftoverKind]int{"allocation": 1, "arq": 4}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("after step %d", tt.steps), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOpts{})
				living, err := w.flow.Run(t.Context(), request("gpu"))
				if err != nil {
					t.Fatal(err)
				}
				if err := w.cloud.DefineGuest(sim.Guest{UUID: instance, Host: living.Host, Domain: string(living.Domain)}); err != nil {
					t.Fatal(err)
				}
				w.crash(t, "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b003", tt.steps)
				time.Sleep(15 * time.Minute)
				w.restart(t) // a new process knows nothing of the crashed one's attempts

				opts := spawn.ReconcileOpts{Living: w.guestsLive, DryRun: true}
				found, err := w.flow.Reconcile(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, kindsOf(found)); diff != "" {
					t.Errorf("dry run (-want +got):\n%s", diff)
				}
				if leaks := w.cloud.Leaks(); (len(leaks) == 0) != (len(tt.want) == 0) {
					t.Errorf("the dry run changed something: %v", leaks)
				}
				opts.DryRun = false
				freed, err := w.flow.Reconcile(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(found, freed); diff != "" {
					t.Errorf("freed something else than the dry run found (-dry +wet):\n%s", diff)
				}
				w.cloud.CheckNoLeaks(t)
			})
		})
	}
}

// restart makes a new flow, as after a crash of the agent.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.replaceCyborg(t, w.cloud.Provider(t), w.cyborg)
}

func TestReconcileLeavesYoungARQsAndRunningAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		young := w.createARQ(t, "gpu")
		busy := w.begin(t, instance) // of this very flow
		time.Sleep(15*time.Minute - time.Second)
		opts := spawn.ReconcileOpts{Living: w.guestsLive}
		if orphans, err := w.flow.Reconcile(t.Context(), opts); err != nil || len(orphans) != 0 {
			t.Errorf("got %v, %v; want nothing", orphans, err)
		}
		time.Sleep(2 * time.Second)
		orphans, err := w.flow.Reconcile(t.Context(), opts)
		if err != nil || len(orphans) != 1 || orphans[0].ID != young {
			t.Errorf("got %v, %v; want the ARQ %s that is old now", orphans, err, young)
		}
		for _, step := range []func(context.Context) error{busy.Match, busy.Bind, busy.WaitBound, busy.Compose} {
			if err := step(t.Context()); err != nil {
				t.Error(err)
			}
		}
		w.checkPromise(t, busy.Result(), nil)
	})
}

func TestReconcileFreesNothingAfterAFailedRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.crash(t, instance, 8)
		w.restart(t)
		if _, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{}); !errors.Is(err, spawn.ErrConfig) {
			t.Errorf("without Living: got error %v, want ErrConfig", err)
		}
		cause := errors.New("Nova is down")
		unsure := func(context.Context, string) (bool, error) { return false, cause }
		if _, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Living: unsure}); !errors.Is(err, cause) {
			t.Errorf("got error %v, want the cause", err)
		}
		w.fail(t, fault.Rule{Operation: "accelerator.deployable.list", Action: fault.Status, Status: 500})
		if _, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Living: w.guestsLive}); err == nil {
			t.Error("no error although the deployables cannot be listed")
		}
		if got := len(w.cloud.Cyborg.ARQs()); got != 4 {
			t.Errorf("%d ARQs are left, want all 4", got)
		}
	})
}

func TestReconcileNamesWhatItCannotFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.crash(t, instance, 8)
		w.restart(t)
		w.fail(t, fault.Rule{Operation: "accelerator.arq.delete", Times: -1, Action: fault.Status, Status: 500})
		orphans, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Living: w.guestsLive})
		if !errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("got error %v, want ErrLeftover", err)
		}
		for _, orphan := range orphans {
			if wantFreed := orphan.Kind == "allocation"; (orphan.Err == nil) != wantFreed {
				t.Errorf("one that cannot be freed keeps others from it, or is not told: %+v", orphan)
			}
		}
	})
}

func TestReconcileSeesTheInstanceOfAnEndedAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		if _, err := w.flow.Run(t.Context(), request("mixed")); err != nil {
			t.Fatal(err)
		}
		// The same flow, but the guest never came to life.
		orphans, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Living: w.guestsLive})
		if err != nil || len(orphans) != 5 {
			t.Errorf("got %v, %v; want four ARQs and an allocation", orphans, err)
		}
		w.cloud.CheckNoLeaks(t)
	})
}
