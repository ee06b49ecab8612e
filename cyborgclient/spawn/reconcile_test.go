package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
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

// scope returns the options of a reconciliation of all hosts that frees nothing.
func (w *world) scope() spawn.ReconcileOpts {
	var hosts []string
	for _, host := range w.cloud.Model().Hosts {
		hosts = append(hosts, host.Name)
	}
	return spawn.ReconcileOpts{Hosts: hosts, Living: w.guestsLive}
}

func (w *world) freeing() spawn.ReconcileOpts {
	opts := w.scope()
	opts.Free = true
	return opts
}

// crash runs n steps of an attempt and abandons it.
func (w *world) crash(t *testing.T, instance string, n int) {
	t.Helper()
	req := request("mixed")
	req.Instance = instance
	a, err := w.flow.Begin(t.Context(), req)
	settled(t, err)
	steps := []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose,
	}
	settled(t, walk(t.Context(), steps[:n]...))
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
		bubble(t, fmt.Sprintf("after step %d", tt.steps), func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.spawned(t, request("gpu"))
			w.crash(t, "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b003", tt.steps)
			time.Sleep(15 * time.Minute)
			w.restart(t) // a new process knows nothing of the crashed one's attempts

			opts := w.scope()
			found, err := w.flow.Reconcile(t.Context(), opts)
			settled(t, err)
			checkDiff(t, "dry run (-want +got)", tt.want, kindsOf(found))
			if leaks := w.cloud.Leaks(); (len(leaks) == 0) != (len(tt.want) == 0) {
				t.Errorf("the dry run changed something: %v", leaks)
			}
			opts.Free = true
			freed, err := w.flow.Reconcile(t.Context(), opts)
			settled(t, err)
			checkDiff(t, "freed something else than the dry run found (-dry +wet)", found, freed)
			w.cloud.CheckNoLeaks(t)
		})
	}
}

// restart makes a new flow, as after a crash of the agent.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.connect(t, w.cloud.Provider(t))
}

func TestReconcileLeavesYoungARQsAndRunningAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		young := w.createARQ(t, "gpu")
		busy := w.begin(t, instance) // of this very flow
		time.Sleep(15*time.Minute - time.Second)
		opts := w.freeing()
		for _, opts.Free = range []bool{false, true} {
			if orphans, err := w.flow.Reconcile(t.Context(), opts); err != nil || len(orphans) != 0 {
				t.Errorf("free: %t, got %v, %v; want nothing", opts.Free, orphans, err)
			}
		}
		time.Sleep(2 * time.Second)
		orphans, err := w.flow.Reconcile(t.Context(), opts)
		if err != nil || len(orphans) != 1 || orphans[0].ID != young {
			t.Errorf("got %v, %v; want the ARQ %s that is old now", orphans, err, young)
		}
		settled(t, walk(t.Context(), busy.Match, busy.Bind, busy.WaitBound, busy.Compose))
		w.checkPromise(t, busy.Result(), nil)
	})
}

func TestReconcileFreesNothingAfterAFailedRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.crash(t, instance, 8)
		w.restart(t)
		if _, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Hosts: []string{"cn0"}}); !errors.Is(err, spawn.ErrConfig) {
			t.Errorf("without Living: got error %v, want ErrConfig", err)
		}
		cause := errors.New("Nova is down")
		unsure := func(context.Context, string) (bool, error) { return false, cause }
		if _, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Hosts: []string{"cn0"}, Living: unsure, Free: true}); !errors.Is(err, cause) {
			t.Errorf("got error %v, want the cause", err)
		}
		w.fail(t, fault.Rule{Operation: fault.ResourceProviderList, Nth: 2, Action: fault.Status, Status: 500})
		if _, err := w.flow.Reconcile(t.Context(), w.freeing()); err == nil {
			t.Error("no error although a tree cannot be listed")
		}
		if got := len(w.cloud.Cyborg.ARQs()); got != 4 {
			t.Errorf("%d ARQs remain, want all 4", got)
		}
	})
}

func TestReconcileNamesWhatItCannotFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.crash(t, instance, 8)
		w.restart(t)
		w.fail(t, fault.Rule{Operation: fault.ARQDelete, Times: -1, Action: fault.Status, Status: 500})
		orphans, err := w.flow.Reconcile(t.Context(), w.freeing())
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
		_, err := w.flow.Run(t.Context(), request("mixed"))
		settled(t, err)
		// The same flow, but the guest never came to life.
		orphans, err := w.flow.Reconcile(t.Context(), w.freeing())
		if err != nil || len(orphans) != 5 {
			t.Errorf("got %v, %v; want four ARQs and an allocation", orphans, err)
		}
		w.cloud.CheckNoLeaks(t)
	})
}

// Two instances may use one provider, and one instance several.
func TestReconcileFindsEachAllocationOnce(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b000", secondInstance} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.spawned(t, request("mixed"))
			req := request("vgpu")
			req.Instance = other
			w.spawned(t, req)
			opts := w.scope()
			opts.Living = noneLiving
			orphans, err := w.flow.Reconcile(t.Context(), opts)
			if diff := cmp.Diff(map[spawn.LeftoverKind]int{spawn.LeftoverARQ: 5, spawn.LeftoverAllocation: 2}, kindsOf(orphans)); err != nil || diff != "" {
				t.Errorf("error %v, found (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A process died after it deleted the ARQs and before it deleted the allocation. On a flat host no deployable has the
// name of the provider, and Reconcile ignores instances without accelerators.
func TestReconcileFindsAnAllocationWithoutARQs(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]func() *simcloud.Model{"flat": flatModel, "nested": func() *simcloud.Model { return raceModel(2, 2) }} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: model()})
			s.connect(t, s.cloud.Provider(t), spawn.WithConfig(spawn.Config{PlacementOrder: true, Compat: spawn.Compat{FlatProviders: name == "flat"}}))
			r, err := s.flow.Run(t.Context(), request("gpu"))
			settled(t, err)
			_, err = s.flow.Run(t.Context(), spawn.Request{Instance: secondInstance, Flavor: plainFlavor()})
			settled(t, err)
			settled(t, s.cyborg.DeleteARQs(t.Context(), []string{r.ARQs[0].UUID}))
			found, err := s.flow.Reconcile(t.Context(), freeingAll(s.cloud.HostNames()...))
			if held := s.held(instance); err != nil || len(found) != 1 || found[0].ID != instance || len(held) > 0 {
				t.Errorf("found %v, error %v; the instance holds %v", found, err, held)
			}
			if len(s.held(secondInstance)) == 0 {
				t.Error("the allocation of an instance without accelerators was freed")
			}
		})
	}
}

func TestReconcileNeedsAScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	for name, tt := range map[string]struct {
		change func(*spawn.ReconcileOpts)
		want   error
	}{
		"no hosts":       {func(o *spawn.ReconcileOpts) { o.Hosts = nil }, spawn.ErrReconcileScope},
		"an empty host":  {func(o *spawn.ReconcileOpts) { o.Hosts = []string{"cn0", ""} }, spawn.ErrReconcileScope},
		"a small minage": {func(o *spawn.ReconcileOpts) { o.MinAge = 14 * time.Minute }, spawn.ErrConfig},
	} {
		opts := w.freeing()
		tt.change(&opts)
		if _, err := w.flow.Reconcile(t.Context(), opts); !errors.Is(err, tt.want) {
			t.Errorf("%s: got error %v, want %v", name, err, tt.want)
		}
	}
}

// A host may be passed with its short name if Placement has the full one. An unknown host does not stop the
// reconciliation of the others.
func TestReconcileNamesAnUnknownHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.crash(t, instance, 8)
		time.Sleep(time.Hour)
		w.restart(t)
		opts := w.freeing()
		opts.Hosts = append([]string{"cn0.example.org", "cn99"}, opts.Hosts...)
		freed, err := w.flow.Reconcile(t.Context(), opts)
		if !errors.Is(err, spawn.ErrReconcileScope) || errors.Is(err, spawn.ErrLeftover) || !strings.Contains(err.Error(), "cn0.example.org, cn99") {
			t.Errorf("got error %v, want one that matches ErrReconcileScope and names both hosts", err)
		}
		checkDiff(t, "freed (-want +got)", map[spawn.LeftoverKind]int{spawn.LeftoverARQ: 4, spawn.LeftoverAllocation: 1}, kindsOf(freed))
		w.cloud.CheckNoLeaks(t)
	})
}

// bindOn binds an ARQ with another name of its host, and abandons the attempt.
func (w *world) bindOn(t *testing.T, host string) *spawn.Attempt {
	t.Helper()
	a, err := w.flow.Begin(t.Context(), request("gpu"))
	settled(t, err)
	settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match))
	a.Host = host
	settled(t, a.Bind(t.Context()))
	w.restart(t)
	return a
}

// A removed host may disappear from Placement before it disappears from Cyborg.
func TestReconcileKnowsAHostByItsARQs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	w.bindOn(t, "removed")
	found, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Hosts: []string{"removed"}, Living: w.guestsLive})
	if err != nil || len(found) != 1 || found[0].Kind != spawn.LeftoverARQ {
		t.Errorf("found %v, error %v, want the ARQ", found, err)
	}
}

// An ARQ keeps the name that its host had when it was bound.
func TestReconcileLeavesTheAllocationOfARenamedHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	a := w.bindOn(t, "renamed")
	opts, held := w.freeing(), w.cloud.Placement.Allocations()
	found, err := w.flow.Reconcile(t.Context(), opts)
	if !errors.Is(err, spawn.ErrLeftover) || !strings.Contains(err.Error(), "ARQ "+a.ARQs[0].UUID) || !strings.Contains(err.Error(), "is on host renamed") {
		t.Errorf("found %v, error %v, want one that names the ARQ and its host", found, err)
	}
	checkDiff(t, "allocations (-before +after)", held, w.cloud.Placement.Allocations())
	opts.Hosts = append(opts.Hosts, "renamed")
	found, err = w.flow.Reconcile(t.Context(), opts)
	if diff := cmp.Diff(map[spawn.LeftoverKind]int{spawn.LeftoverARQ: 1, spawn.LeftoverAllocation: 1}, kindsOf(found)); err != nil || diff != "" {
		t.Errorf("with both names: error %v, freed (-want +got):\n%s", err, diff)
	}
	w.cloud.CheckNoLeaks(t)
}

// Another agent has instances on its host that this agent does not know.
func TestReconcileLeavesTheHostsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		other := w.neighbour(t, spawn.Config{})
		req := secondInstanceRequest("mixed")
		req.Order = func(all []spawn.Candidate) []spawn.Candidate {
			slices.Reverse(all)
			return all
		}
		theirs, err := other.flow.Run(t.Context(), req)
		settled(t, err)
		w.crash(t, instance, 8)
		time.Sleep(time.Hour)
		w.restart(t)
		opts := w.freeing()
		opts.Hosts = slices.DeleteFunc(opts.Hosts, func(host string) bool { return host == theirs.Host })
		freed, err := w.flow.Reconcile(t.Context(), opts)
		if diff := cmp.Diff(map[spawn.LeftoverKind]int{spawn.LeftoverARQ: 4, spawn.LeftoverAllocation: 1}, kindsOf(freed)); err != nil || diff != "" {
			t.Errorf("error %v, freed (-want +got):\n%s", err, diff)
		}
		w.define(t, theirs)
		w.cloud.CheckNoLeaks(t)
	})
}

// An ARQ that is bound to an instance between the two lists is not an orphan.
func TestReconcileLooksTwiceAtAnARQWithoutAnInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		slow := w.neighbour(t, spawn.Config{}).begin(t, secondInstance)
		orphan := w.createARQ(t, "gpu")
		time.Sleep(16 * time.Minute)
		bound := make(chan error, 1)
		go func() {
			time.Sleep(30 * time.Second)
			bound <- walk(t.Context(), slow.Match, slow.Bind)
		}()
		opts := w.freeing()
		opts.Living = allLiving
		freed, err := w.flow.Reconcile(t.Context(), opts)
		if err != nil || len(freed) != 1 || freed[0].ID != orphan {
			t.Errorf("got %v, error %v; want the ARQ %s", freed, err, orphan)
		}
		settled(t, <-bound)
		settled(t, walk(t.Context(), slow.WaitBound, slow.Compose)) // the slow spawn
	})
}

// Cyborg itself refuses to delete an ARQ that was bound to an instance after the second list, because the request has
// no service token.
func TestReconcileDeletesUnboundARQsWithoutServiceToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		var slow *spawn.Attempt
		w.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodDelete && slow != nil {
				attempt := slow
				slow = nil
				if err := walk(t.Context(), attempt.Match, attempt.Bind); err != nil {
					t.Error(err)
				}
			}
			return next.RoundTrip(req)
		})
		slow = w.neighbour(t, spawn.Config{}).begin(t, secondInstance)
		attempt := slow
		time.Sleep(16 * time.Minute)
		opts := w.freeing()
		opts.Living = allLiving
		if freed, err := w.flow.Reconcile(t.Context(), opts); err != nil || len(freed) > 0 {
			t.Errorf("freed %v, error %v", freed, err)
		}
		settled(t, walk(t.Context(), attempt.WaitBound, attempt.Compose)) // the slow spawn
	})
}

// allLiving reports every instance as living.
func allLiving(context.Context, string) (bool, error) { return true, nil }

// noneLiving reports no instance as living.
func noneLiving(context.Context, string) (bool, error) { return false, nil }

// freeingAll returns the options that free what all instances have on the hosts.
func freeingAll(hosts ...string) spawn.ReconcileOpts {
	return spawn.ReconcileOpts{Hosts: hosts, Free: true, Living: noneLiving}
}

// The consumer of Nova's allocation for a migration is not a living instance, and has no ARQ.
func TestReconcileLeavesTheAllocationsOfMigrations(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "MIGRATION", "INSTANCE"} {
		bubble(t, "type "+kind, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			claimed, err := w.flow.Run(t.Context(), request("gpu"))
			settled(t, err)
			settled(t, w.flow.Release(t.Context(), instance))
			w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop})
			if _, err := w.flow.Run(t.Context(), request("gpu")); !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got error %v, want the claim as a suspect", err)
			}
			err = w.cloud.Placement.Claim(placementsim.Claim{
				Consumer: secondInstance, Project: "p", User: "u", Type: kind,
				Allocations: []placementsim.Allocation{{Consumer: secondInstance, Provider: claimed.ARQs[0].DeviceRPUUID, Class: "PGPU", Used: 1}},
			})
			settled(t, err)
			freed, err := w.flow.Reconcile(t.Context(), w.freeing())
			if err != nil || len(freed) > 0 != (kind == "INSTANCE") {
				t.Errorf("freed %v, error %v", freed, err)
			}
		})
	}
}

// Cyborg does not list the provider of a card, which has the memory that its regions share.
func TestReconcileFreesTheMemoryThatRegionsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: cardModel(1)})
		_, err := w.flow.Run(t.Context(), request("card"))
		settled(t, err)
		var left []placementsim.Allocation
		for _, a := range w.cloud.Placement.Allocations() {
			if a.Class == sharedMemory {
				left = append(left, placementsim.Allocation{Consumer: secondInstance, Provider: a.Provider, Class: a.Class, Used: a.Used})
			}
		}
		settled(t, w.flow.Release(t.Context(), instance))
		settled(t, w.cloud.Placement.Claim(placementsim.Claim{Consumer: secondInstance, Project: "p", User: "u", Type: "INSTANCE", Allocations: left}))
		_, err = w.flow.Reconcile(t.Context(), w.freeing())
		settled(t, err)
		w.cloud.Placement.CheckNoAllocations(t, secondInstance)
	})
}

// A claim that took effect long after its attempt had ended is freed, although only the flow knows about it.
func TestReconcileFreesALateClaim(t *testing.T) {
	t.Parallel()
	current := func(next http.RoundTripper) http.RoundTripper { return next }
	for name, tt := range map[string]struct {
		wrap   func(http.RoundTripper) http.RoundTripper
		flavor requestspec.Flavor
	}{
		"current Placement":     {current, flavor("gpu")},
		"Placement before 1.38": {func(next http.RoundTripper) http.RoundTripper { return newestPlacement{next, 37} }, flavor("gpu")},
		"no device":             {current, plainFlavor()},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			req := spawn.Request{Instance: instance, Flavor: tt.flavor}
			w.through(t, spawn.Config{}, tt.wrap)
			w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Nth: 1, Action: fault.Late, Delay: 7 * time.Minute})
			if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got error %v, want the claim as a suspect", err)
			}
			time.Sleep(20 * time.Minute)
			w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop}) // of another instance
			req.Instance = secondInstance
			if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got error %v, want the claim as a suspect", err)
			}
			w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 500, Times: -1})
			if _, err := w.flow.Reconcile(t.Context(), w.freeing()); !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got error %v, want the allocation as a leftover", err)
			}
			if suspects := w.flow.Suspects(); len(suspects) != 2 {
				t.Errorf("suspected: %v, want both claims", suspects)
			}
			w.cloud.Faults().Clear()
			freed, err := w.flow.Reconcile(t.Context(), w.freeing())
			if err != nil || len(freed) != 1 || freed[0].Kind != spawn.LeftoverAllocation {
				t.Errorf("freed %v, error %v; want the allocation", freed, err)
			}
			w.cloud.CheckNoLeaks(t)
			if suspects := w.flow.Suspects(); len(suspects) != 1 || suspects[0].ID != secondInstance {
				t.Errorf("still suspected: %v, want the claim of %s", suspects, secondInstance)
			}
		})
	}
}

// An instance that this flow or another process spawns after the orphans were listed is not an orphan.
func TestReconcileLeavesConcurrentSpawns(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*testing.T, *site) error{
		"by this flow": func(t *testing.T, s *site) error {
			guests := &guestFuncs{start: func(_ context.Context, g sim.Guest) error {
				time.Sleep(time.Minute) // it is running while the orphans are freed
				return s.cloud.DefineGuest(g)
			}}
			_, err := s.flow.On(guests).Run(t.Context(), request("mixed"))
			return err
		},
		"by another process": func(t *testing.T, s *site) error {
			s.connect(t, s.cloud.Provider(t))
			_, err := s.ops.Unshelve(t.Context(), spawn.Instance{UUID: instance, Flavor: flavor("mixed")}, spawn.MoveOpts{})
			return err
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			s.crash(t, instance, 10)
			built := make(chan error, 1)
			began := false
			other := *s.world
			other.connect(t, s.cloud.Provider(t))
			s.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if !began && arqCall(t, req) == "delete" { // the first that is freed
					began = true
					settled(t, other.flow.Release(t.Context(), instance))
					go func() { built <- again(t, s) }()
					time.Sleep(30 * time.Second)
				}
				return next.RoundTrip(req)
			})
			s.renew(t)
			orphans, err := s.flow.Reconcile(t.Context(), s.freeing())
			settled(t, errors.Join(err, <-built))
			for _, l := range orphans {
				if l.Kind == spawn.LeftoverAllocation {
					t.Errorf("freed %+v", l)
				}
			}
			s.sound(t)
		})
	}
}

// withoutCompute is a flavor without resources of the compute node.
func withoutCompute(profile string) requestspec.Flavor {
	f := flavor(profile)
	for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB"} {
		f.ExtraSpecs["resources:"+class] = "0"
	}
	return f
}

// The agent of a host that comes back frees the resources that an evacuated instance still has there, and no
// resources on the new host.
func TestReconcileLeavesWhatAnEvacuatedInstanceHasElsewhere(t *testing.T) {
	t.Parallel()
	disk := plainFlavor()
	disk.ExtraSpecs = map[string]string{"resources:VCPU": "0", "resources:MEMORY_MB": "0"}
	for name, f := range map[string]requestspec.Flavor{
		"with compute resources": flavor("gpu"), "only a device": withoutCompute("gpu"), "no device": plainFlavor(), "only a disk": disk,
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.launchOn(t, "cn0", spawn.Request{Instance: instance, Flavor: f})
			s.loseHost(t, i.Host)
			s.guests.onCall("start", func() { s.full(t) }) // what follows is the release of the old host
			result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
			if result == nil || !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got %v, %v; want a result and leftovers", result, err)
			}
			s.cloud.Faults().Clear()
			settled(t, s.cloud.StartHost(t.Context(), i.Host))
			delete(s.guests.saved, placeOf(i)) // as nova-compute removes an evacuated guest
			s.connect(t, s.cloud.Provider(t))
			orphans, err := s.flow.Reconcile(t.Context(), freeingAll(i.Host)) // on the old host none lives
			if err != nil || len(orphans) != 1 || orphans[0].Kind != spawn.LeftoverAllocation {
				t.Errorf("got %v, %v; want the allocation", orphans, err)
			}
			s.checkMoved(t, i, result, "cn1")
			orphans, err = s.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Hosts: []string{result.Host}, Living: noneLiving})
			if err != nil || kindsOf(orphans)[spawn.LeftoverAllocation] != len(result.ARQs) {
				t.Errorf("got %v, %v; what is on one host, and has no device of Cyborg's, is not found", orphans, err)
			}
		})
	}
}

// The ARQs are listed before Living is called. Until they are deleted, another agent may move the instance and its
// ARQs to its host, or the instance may be spawned again.
func TestReconcileLeavesTheARQsOfAnInstanceThatComesBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		host  string
		asked int  // the call of Living during which it comes back
		known bool // Living reports it as living after that
	}{
		"on another host, before Living is asked":       {"cn1", 1, false},
		"on another host, before Living is asked again": {"cn1", 2, false},
		"here":    {"cn0", 2, true},
		"nowhere": {"", 2, false}, // between its hosts
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			req := request("gpu")
			req.Order = onHost(w, "cn0")
			result, err := w.flow.Run(t.Context(), req)
			settled(t, err)
			arq := result.ARQs[0]
			w.restart(t)
			gpus := slices.DeleteFunc(w.cloud.Placement.ResourceProviders(), func(p placementsim.ResourceProvider) bool {
				return p.Parent != w.cloud.ProviderUUID(tt.host) || p.Inventories["PGPU"].Total == 0
			})
			asked := 0
			living := func(ctx context.Context, uuid string) (bool, error) {
				if asked++; asked == tt.asked {
					settled(t, w.cyborg.UnbindARQs(ctx, []string{arq.UUID}))
					if tt.host == "" {
						return false, nil
					}
					b := cyborgclient.Binding{ARQ: arq.UUID, Host: tt.host, DeviceRP: gpus[0].UUID, Instance: uuid}
					settled(t, w.cyborg.BindARQs(ctx, []cyborgclient.Binding{b}))
					synctest.Wait()
				}
				return tt.known && asked >= tt.asked, nil
			}
			found, err := w.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Hosts: []string{"cn0"}, Living: living, Free: true})
			settled(t, err)
			now, err := w.cyborg.GetARQ(t.Context(), arq.UUID)
			if err != nil || now.Hostname != tt.host {
				t.Errorf("the ARQ is %+v, %v, want it on host %q", now, err, tt.host)
			}
			if kindsOf(found)[spawn.LeftoverARQ] > 0 {
				t.Errorf("freed %v", found)
			}
		})
	}
}

// The disk of a sharing provider, which is in no host's tree, is freed with the rest.
func TestReconcileFreesASharedDiskWithTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		storage, err := w.cloud.Placement.CreateProvider(placementsim.ResourceProvider{
			Name: "storage", Traits: []string{"MISC_SHARES_VIA_AGGREGATE"}, Inventories: map[string]placementsim.Inventory{"DISK_GB": {Total: 100}},
		})
		settled(t, err)
		_, err = w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: withoutCompute("gpu")})
		settled(t, err)
		w.write(t, append(w.cloud.Placement.Allocations(), placementsim.Allocation{Consumer: instance, Provider: storage.UUID, Class: "DISK_GB", Used: 20}))
		_, err = w.flow.Reconcile(t.Context(), w.freeing())
		settled(t, err)
		w.cloud.CheckNoLeaks(t)
		w.cloud.Placement.CheckNoAllocations(t, instance)
	})
}

// If a proxy drops the query, as nginx does with proxy_pass and $uri, Placement lists all providers.
func TestReconcileBelievesNoListWithoutItsFilter(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"name", "in_tree"} {
		bubble(t, filter, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			req := request("gpu")
			req.Order = onHost(w, "cn1")
			result, err := w.flow.Run(t.Context(), req)
			settled(t, err)
			w.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if req.URL.Query().Has(filter) {
					req.URL.RawQuery = ""
				}
				return next.RoundTrip(req)
			})
			found, err := w.flow.Reconcile(t.Context(), freeingAll("cn0"))
			if err == nil || !strings.Contains(err.Error(), filter) || len(found) > 0 {
				t.Errorf("freed %v, error %v; want an error about the filter", found, err)
			}
			w.checkPromise(t, result, nil)
		})
	}
}
