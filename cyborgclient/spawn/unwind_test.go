package spawn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// wantKinds compares the kinds of leftovers.
func wantKinds(t *testing.T, got []spawn.Leftover, want ...spawn.LeftoverKind) {
	t.Helper()
	kinds := make([]spawn.LeftoverKind, len(got))
	for i, l := range got {
		kinds[i] = l.Kind
	}
	checkDiff(t, "leftovers (-want +got)", want, kinds)
}

// After one request without a response there is time for another.
func TestASilentDeletionIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t,
			fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 403},
			fault.Rule{Operation: fault.ARQDelete, Action: fault.Delay, Delay: 10 * time.Hour},
		)
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("got error %v, want one without leftovers", err)
		}
		w.checkPromise(t, result, err)
	})
}

// A refused token may be renewed within LateWindow. Then the unwinding gives up.
func TestTheUnwindingWithARefusedToken(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]error{4: nil, -1: spawn.ErrLeftover} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			a := w.begin(t, instance)
			w.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 401, Times: times})
			began := time.Now()
			_, leftovers := a.Unwind(t.Context())
			if len(leftovers) > 0 != (want != nil) {
				t.Errorf("401 %d times: leftovers %v", times, leftovers)
			}
			if took := time.Since(began); want != nil && (took < spawn.LateWindow || took > spawn.LateWindow+time.Second) {
				t.Errorf("gave up after %s, want %s", took, spawn.LateWindow)
			}
		})
	}
}

// If an unwinding could not search the ARQs of a lost create, the next one does, and names the newest ARQs that may
// belong to it.
func TestTheSearchForALostCreateIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		for range 20 {
			w.createARQ(t, "gpu")
		}
		a := w.beforeClaim(t, "gpu")
		settled(t, a.Claim(t.Context()))
		w.fail(t,
			fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After},
			fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403, Times: -1},
		)
		if err := a.CreateARQs(t.Context()); !errors.Is(err, cyborgclient.ErrReplyLost) {
			t.Fatal(err)
		}
		_, leftovers := a.Unwind(t.Context())
		if len(leftovers) != 1 || !errors.Is(leftovers[0].Err, cyborgclient.ErrForbidden) {
			t.Fatalf("leftovers: %v, want the create and why the ARQs could not be listed", leftovers)
		}
		w.cloud.Faults().Clear()
		_, leftovers = a.Unwind(t.Context())
		if kindsOf(leftovers)[spawn.LeftoverARQ] != 16 || len(leftovers) != 17 || !strings.Contains(leftovers[16].String(), "the reply was lost") {
			t.Errorf("leftovers: %v, want 16 ARQs and the create", leftovers)
		}
		w.cloud.ForgetRequests()
		a.Unwind(t.Context())
		if w.lists() > 0 {
			t.Error("looked again")
		}
	})
}

// A lost claim must have been refused if another client has changed the allocation of the running instance. That
// allocation is not changed.
func TestALostClaimOfARunningInstanceLeavesTheChangesOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		host := w.cloud.ProviderUUID("cn0")
		hold := func(used int) []placementsim.Allocation {
			held := []placementsim.Allocation{{Consumer: instance, Provider: host, Class: "VCPU", Used: used}}
			settled(t, w.cloud.Placement.Claim(placementsim.Claim{Consumer: instance, Project: "p", User: "u", Type: "INSTANCE", Allocations: held}))
			return held
		}
		hold(1)
		req := request("gpu")
		req.Flavor.VCPUs = 0
		a, err := w.flow.BeginAdding(t.Context(), req)
		settled(t, err)
		settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select))
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop})
		if err := a.Claim(t.Context()); err == nil {
			t.Fatal("no error")
		}
		theirs := hold(2)
		if undone, leftovers := a.Unwind(t.Context()); len(undone)+len(leftovers) > 0 {
			t.Errorf("undone %v, leftovers %v", undone, leftovers)
		}
		checkDiff(t, "allocations (-want +got)", theirs, w.cloud.Placement.Allocations())
	})
}

// The devices of a guest that could not be destroyed are not assigned to another instance.
func TestAGuestThatStaysKeepsItsDevices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: raceModel(1, 1)})
		guests := &guestFuncs{
			start:   func(_ context.Context, g sim.Guest) error { return errors.Join(errHook, w.cloud.DefineGuest(g)) },
			destroy: func(context.Context, sim.Guest) error { return errors.New("libvirt does not answer") },
		}
		if _, err := w.flow.On(guests).Run(t.Context(), request("gpu")); !errors.Is(err, spawn.ErrLeftover) {
			t.Fatalf("got %v, want ErrLeftover", err)
		}
		next := request("gpu")
		next.Instance = secondInstance
		if result, err := w.flow.Run(t.Context(), next); err == nil {
			t.Errorf("another instance got %v", result.Devices)
		}
		w.cloud.CheckNoLeaks(t)
		w.cloud.RemoveGuest(instance)
		settled(t, w.flow.Release(t.Context(), instance))
		w.cloud.CheckNoLeaks(t)
	})
}
