package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
)

// startedGuests is a hypervisor with the guests of the cloud. The first failing of them fail to start.
type startedGuests struct {
	guestFuncs
	w       *world
	failing int
	err     error
	stays   error    // of each destruction
	started func()   // called after each start; nil: nothing
	tried   []string // hosts
	removed []string
	held    []bool // whether ARQs were still there at each removal
}

// Start implements spawn.Hypervisor.
func (g *startedGuests) Start(_ context.Context, i spawn.Instance) error {
	g.tried = append(g.tried, i.Host)
	if err := g.w.cloud.DefineGuest(g.guest(i)); err != nil {
		return err
	}
	if g.started != nil {
		g.started()
	}
	if len(g.tried) <= g.failing {
		return g.err
	}
	return nil
}

// Destroy implements spawn.Hypervisor.
func (g *startedGuests) Destroy(_ context.Context, i spawn.Instance) error {
	g.removed = append(g.removed, i.Host)
	g.held = append(g.held, len(g.w.cloud.Cyborg.ARQs()) > 0)
	g.w.cloud.RemoveGuest(i.UUID)
	return g.stays
}

var errHook = errors.New("hook failed")

// hookFails runs a spawn whose hook of a step fails.
func hookFails(t *testing.T, name string, step spawn.Step, cause error) {
	t.Helper()
	bubble(t, name, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		req := request("mixed")
		calls := 0
		hook := func(_ context.Context, a *spawn.Attempt) error {
			calls++
			if len(a.ARQs) != 4 || len(w.cloud.Cyborg.ARQs()) != 4 {
				t.Errorf("the hook sees %d ARQs, Cyborg has %d, want 4", len(a.ARQs), len(w.cloud.Cyborg.ARQs()))
			}
			return cause
		}
		if step == spawn.StepHost {
			req.Hooks.Claim = hook
		} else {
			req.Hooks.Prepare = hook
		}
		result, err := w.flow.Run(t.Context(), req)
		w.failed(t, result, err, step, cause)
		if calls != 1 {
			t.Errorf("%d hosts were tried, want 1", calls)
		}
		w.checkWrites(t, claimed, created, boundOK, arqDeleted, unclaimed)
	})
}

func rowResourceClaimFails(t *testing.T) {
	bubble(t, "on the first host", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		req := request("mixed")
		var hosts []string
		var first []string
		req.Hooks.Claim = func(_ context.Context, a *spawn.Attempt) error {
			hosts = append(hosts, a.Host)
			if len(hosts) > 1 {
				return nil
			}
			for _, arq := range a.ARQs {
				first = append(first, arq.UUID)
			}
			return errHook
		}
		result, err := w.flow.Run(t.Context(), req)
		if err != nil || len(hosts) != 2 || hosts[0] == hosts[1] || result.Host != hosts[1] {
			t.Fatalf("got error %v on hosts %v, want success on the second", err, hosts)
		}
		for _, arq := range result.ARQs {
			if slices.Contains(first, arq.UUID) {
				t.Errorf("ARQ %s is of the first host", arq.UUID)
			}
		}
		w.checkWrites(t, claimed, created, boundOK, arqDeleted, claimed, created, boundOK) // the claim replaces the one on the first host
		w.checkPromise(t, result, err)
	})
	bubble(t, "on every host", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		req := request("mixed")
		req.Hooks.Claim = func(context.Context, *spawn.Attempt) error { return errHook }
		result, err := w.flow.Run(t.Context(), req)
		w.failed(t, result, err, spawn.StepHost, errHook)
		one := []string{claimed, created, boundOK, arqDeleted}
		w.checkWrites(t, slices.Concat(one, one, []string{unclaimed})...)
	})
}

func rowWaitFails(t *testing.T) {
	one := []string{claimed, created, boundOK, arqDeleted, unclaimed} // no other host
	bubble(t, "timeout", failedSpawn{
		opts: worldOpts{model: slowModel(time.Hour)}, request: request("mixed"),
		step: spawn.StepWait, want: externalevent.ErrTimeout, writes: one,
	}.check)
	host := []string{claimed, created, boundOK, arqDeleted}
	bubble(t, "failed event", failedSpawn{
		opts: worldOpts{model: slowModel(10 * time.Second)}, rule: fault.Rule{Operation: fault.MdevCreate, Action: fault.Status}, request: request("mixed"),
		step: spawn.StepWait, want: externalevent.ErrFailed, writes: slices.Concat(host, host, []string{unclaimed}),
	}.check)
	bubble(t, "GET error", func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(10 * time.Second)})
		w.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 500, Times: -1})
		result, err := w.flow.Run(t.Context(), request("mixed"))
		w.failed(t, result, err, spawn.StepWait, cyborgclient.ErrUnavailable)
		if !errors.Is(err, externalevent.ErrTimeout) {
			t.Errorf("got error %v, want the timeout as well", err)
		}
		w.checkWrites(t, one...)
	})
	bubble(t, "empty list", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return &rewrite{next: next, method: http.MethodGet, path: "/accelerator_requests", change: func(int, []byte) []byte {
				return []byte(`{"arqs": []}`)
			}}
		})
		result, err := w.flow.Run(t.Context(), request("mixed"))
		if err == nil || !strings.Contains(err.Error(), "not among the ARQs of the instance") {
			t.Errorf("got error %v", err)
		}
		if err != nil {
			w.checkPromise(t, result, err)
		}
	})
}

func rowStartFails(t *testing.T) {
	bubble(t, "on the first host", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		g := &startedGuests{w: w, failing: 1, err: errHook}
		result, err := w.flow.On(g).Run(t.Context(), request("mixed"))
		if err != nil || len(g.tried) != 2 || len(g.removed) != 1 || g.removed[0] != g.tried[0] || !g.held[0] {
			t.Fatalf("got error %v, %+v; want the guest of the first host removed before its ARQs", err, g)
		}
		w.checkWrites(t, claimed, created, boundOK, arqDeleted, claimed, created, boundOK) // the claim replaces the one on the first host
		w.checkPromise(t, result, err)
	})
	bubble(t, "no other host is wanted", failedSpawn{
		start: spawn.ErrAbort, request: request("mixed"), step: spawn.StepStart, want: spawn.ErrAbort,
		writes: []string{claimed, created, boundOK, arqDeleted, unclaimed},
	}.check)
}

func rowDestroyFails(t *testing.T) {
	bubble(t, "the failed guest cannot be destroyed", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		g := &startedGuests{w: w, failing: 9, err: errHook, stays: errors.New("libvirt does not answer")}
		result, err := w.flow.On(g).Run(t.Context(), request("mixed"))
		failure := failureOf(t, err)
		if failure.Step != spawn.StepStart || !errors.Is(err, errHook) || !errors.Is(err, g.stays) {
			t.Fatalf("got error %v, want the failed start with the failed destruction beside it", err)
		}
		if len(g.tried) != 1 {
			t.Errorf("%d hosts were tried, want 1", len(g.tried))
		}
		arq := spawn.LeftoverARQ
		wantKinds(t, failure.Leftovers, spawn.LeftoverGuest, arq, arq, arq, arq, spawn.LeftoverAllocation)
		w.checkWrites(t, claimed, created, boundOK)
		if result != nil {
			t.Errorf("result %v", result)
		}
		settled(t, w.flow.Release(t.Context(), instance)) // by the caller, after the guest was destroyed
		w.cloud.CheckNoLeaks(t)
	})
}

func rowRescheduleExhausted(t *testing.T) {
	one := []string{claimed, created, boundOK, arqDeleted, unclaimed}
	bubble(t, "no retries left", failedSpawn{
		opts: worldOpts{config: spawn.Config{MaxAttempts: 1}}, start: errHook, request: request("mixed"),
		step: spawn.StepStart, want: errHook, writes: one,
	}.check)
	oneHost := request("mixed")
	oneHost.Order = func(all []spawn.Candidate) []spawn.Candidate { return all[:1] }
	bubble(t, "no alternate", failedSpawn{start: errHook, request: oneHost, step: spawn.StepStart, want: errHook, writes: one}.check)
	bubble(t, "the claim on the alternate is refused", failedSpawn{
		rule: fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 409, Nth: 2}, start: errHook, request: request("mixed"),
		step: spawn.StepClaim, want: spawn.ErrClaim, writes: []string{claimed, created, boundOK, arqDeleted, "allocations.put Conflict", unclaimed},
	}.check)
}

func rowRescheduleSucceeds(t *testing.T) {
	bubble(t, "the mapping is the alternate's", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, When: fault.After})
		var chosen []spawn.Candidate
		req := request("mixed")
		req.Hooks.Claim = func(_ context.Context, a *spawn.Attempt) error {
			chosen = append(chosen, *a.Chosen)
			return nil
		}
		result, err := w.flow.Run(t.Context(), req)
		settled(t, err)
		if len(chosen) != 1 || result.Host != "cn1" {
			t.Fatalf("got host %s with %d host claims", result.Host, len(chosen))
		}
		for _, arq := range result.ARQs {
			want := chosen[0].Mappings[fmt.Sprintf("device_profile_%d", arq.DeviceProfileGroupID)]
			if arq.Hostname != "cn1" || !slices.Equal(want, []string{arq.DeviceRPUUID}) {
				t.Errorf("ARQ %s on %s, provider %s, want %v", arq.UUID, arq.Hostname, arq.DeviceRPUUID, want)
			}
		}
		w.checkWrites(t, claimed, created, "arq.bind Internal Server Error", arqDeleted, claimed, created, boundOK) // the claim replaces the one on the first host
		w.checkPromise(t, result, err)
	})
}

func rowDeletedWhileBuilding(t *testing.T) {
	bubble(t, "inside the start", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		g := &startedGuests{w: w, failing: 9, err: spawn.ErrGone}
		result, err := w.flow.On(g).Run(t.Context(), request("mixed"))
		w.failed(t, result, err, spawn.StepStart, spawn.ErrGone)
		if len(g.tried) != 1 || len(g.removed) != 1 {
			t.Errorf("started on %v, removed from %v, want one of each", g.tried, g.removed)
		}
		w.checkWrites(t, claimed, created, boundOK, arqDeleted, unclaimed)
	})
}

// spawned runs a spawn that succeeds, and forgets its requests.
func (w *world) spawned(t *testing.T, req spawn.Request) *spawn.Result {
	t.Helper()
	result, err := w.flow.Run(t.Context(), req)
	settled(t, err)
	w.checkPromise(t, result, err)
	w.cloud.ForgetRequests()
	return result
}

func rowDelete(t *testing.T) {
	bubble(t, "the guest, then its ARQs, then the allocation", func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "mixed")
		settled(t, s.ops.Delete(t.Context(), i))
		s.running(t, i, false)
		s.checkWrites(t, arqDeleted, unclaimed)
		s.sound(t)
	})
	bubble(t, "by the flow alone", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.spawned(t, request("mixed"))
		w.cloud.RemoveGuest(instance)
		settled(t, w.flow.Release(t.Context(), instance))
		w.checkWrites(t, arqDeleted, unclaimed)
		w.cloud.CheckNoLeaks(t)
	})
}

func rowLocalDelete(t *testing.T) {
	bubble(t, "the host is down, a port has a device", func(t *testing.T) {
		s := newSite(t, worldOpts{model: portModel()})
		i := s.spawn(t, "gpu", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
		s.powerCut(t, i.Host)
		settled(t, s.ops.LocalDelete(t.Context(), i))
		s.cloud.RemoveGuest(instance)
		s.sound(t)
		if left := s.cloud.Placement.Allocations(); len(left) > 0 {
			t.Errorf("allocations: %v", left)
		}
	})
}

func rowDeleteFails(t *testing.T) {
	bubble(t, "of an instance: the ARQs are named for another try", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		result := w.spawned(t, request("mixed"))
		w.cloud.RemoveGuest(instance)
		w.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: -1})
		checkLeftARQs(t, w.flow.Release(t.Context(), instance), arqUUIDs(result))
		if held := w.cloud.Placement.Allocations(); len(held) > 0 {
			t.Errorf("the allocation stays, too: %v", held)
		}
		w.cloud.Faults().Clear()
		settled(t, w.flow.Release(t.Context(), instance))
		w.cloud.CheckNoLeaks(t)
	})
	bubble(t, "and they cannot be listed: the instance is named", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.spawned(t, request("gpu"))
		w.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403, Times: -1})
		err := w.flow.Release(t.Context(), instance)
		failure := failureOf(t, err)
		if !errors.Is(err, spawn.ErrLeftover) || len(failure.Leftovers) != 1 {
			t.Fatalf("got error %v, want ErrLeftover with one leftover", err)
		}
		left := failure.Leftovers[0]
		if left.Kind != spawn.LeftoverARQs || left.ID != instance || !strings.HasPrefix(left.String(), "arqs of instance "+instance+" (") {
			t.Errorf("left %s %s: %s", left.Kind, left.ID, left)
		}
		if !strings.Contains(err.Error(), "; not cleaned up: arqs (") {
			t.Errorf("the text does not name the leftovers: %v", err)
		}
	})
	bubble(t, "after an explicit unbind: the ARQs are named although they have no instance", func(t *testing.T) {
		w := newWorld(t, worldOpts{config: spawn.Config{Compat: spawn.Compat{UnbindFirst: true}}})
		result := w.spawned(t, request("mixed"))
		w.cloud.RemoveGuest(instance)
		w.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: -1})
		checkLeftARQs(t, w.flow.Release(t.Context(), instance), arqUUIDs(result))
		w.cloud.Faults().Clear()
		settled(t, w.cyborg.DeleteARQs(t.Context(), arqUUIDs(result)))
		w.cloud.CheckNoLeaks(t)
	})
	bubble(t, "of a failed spawn: the cause comes first", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: -1})
		req := request("mixed")
		var arqs []string
		req.Hooks.Prepare = func(_ context.Context, a *spawn.Attempt) error {
			for _, arq := range a.ARQs {
				arqs = append(arqs, arq.UUID)
			}
			return errHook
		}
		_, err := w.flow.Run(t.Context(), req)
		if !errors.Is(failureOf(t, err).Err, errHook) {
			t.Fatalf("got error %v", err)
		}
		checkLeftARQs(t, err, arqs)
		w.cloud.Faults().Clear()
		settled(t, w.flow.Release(t.Context(), instance))
		w.cloud.CheckNoLeaks(t)
	})
}

// checkLeftARQs checks that an error names ARQs with the cause, and nothing else.
func checkLeftARQs(t *testing.T, err error, arqs []string) {
	t.Helper()
	if !errors.Is(err, spawn.ErrLeftover) {
		t.Fatalf("got error %v, want ErrLeftover", err)
	}
	left := failureOf(t, err).Leftovers
	if len(left) != len(arqs) {
		t.Errorf("leftovers %v, want %d ARQs", left, len(arqs))
	}
	for _, arq := range arqs {
		if !slices.ContainsFunc(left, func(l spawn.Leftover) bool { return l.Kind == "arq" && l.ID == arq && l.Err != nil }) {
			t.Errorf("ARQ %s is not named: %v", arq, left)
		}
	}
}

func rowUnshelveFails(t *testing.T) {
	for name, rule := range map[string]fault.Rule{
		"the wait fails":  {Operation: fault.ARQList, Action: fault.Status, Status: 403, Nth: 2},
		"the start fails": {},
	} {
		bubble(t, name+", a second unshelve is not blocked", func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "mixed")
			settled(t, s.ops.ShelveOffload(t.Context(), i))
			i.Host, i.ARQs = "", nil
			if rule.Operation == "" {
				s.guests.fail["start"] = 9 // on every host
			} else {
				s.fail(t, rule)
			}
			if _, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{}); err == nil || errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("got error %v", err)
			}
			s.nothingHeld(t)
			clear(s.guests.fail)
			result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
			if err != nil || len(result.ARQs) != 4 {
				t.Fatalf("the second unshelve: %v", err)
			}
			s.sound(t)
		})
	}
}

// nothingHeld checks that there are no ARQs, allocations and handles in use.
func (s *site) nothingHeld(t *testing.T) {
	t.Helper()
	s.sound(t)
	if arqs, held := s.cloud.Cyborg.ARQs(), s.cloud.Placement.Allocations(); len(arqs)+len(held) > 0 {
		t.Errorf("ARQs %v, allocations %v", arqs, held)
	}
}

func rowEvacuateFails(t *testing.T) {
	bubble(t, "the wait fails on the destination", func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		s.loseHost(t, i.Host)
		s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403, Nth: 2})
		if _, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{}); err == nil || errors.Is(err, spawn.ErrLeftover) {
			t.Fatalf("got error %v", err)
		}
		if arqs := s.cloud.Cyborg.ARQs(); len(arqs) > 0 {
			t.Errorf("ARQs stay: %v", arqs)
		}
		for _, allocation := range s.cloud.Placement.Allocations() {
			if allocation.Class == "PGPU" {
				t.Errorf("a device stays allocated: %+v", allocation)
			}
		}
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		if err != nil || result.Host == i.Host || len(result.ARQs) != 1 || result.ARQs[0].Hostname != result.Host {
			t.Fatalf("the next evacuation: %v, %+v", err, result)
		}
		s.sound(t)
	})
}

func rowShelveOffloadDeleteFails(t *testing.T) {
	bubble(t, "is tried again and the allocation is deleted", func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "mixed")
		s.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: 2})
		if err := s.ops.ShelveOffload(t.Context(), i); err != nil {
			t.Errorf("got error %v although the third try works", err)
		}
		s.nothingHeld(t)
	})
	bubble(t, "for ever: the allocation goes, the ARQs are named", func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "mixed")
		s.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: -1})
		checkLeftARQs(t, s.ops.ShelveOffload(t.Context(), i), i.ARQs)
		if left := s.cloud.Placement.Allocations(); len(left) > 0 {
			t.Errorf("allocations: %v", left)
		}
		s.cloud.Faults().Clear()
		settled(t, s.ops.ShelveOffload(t.Context(), i))
		s.nothingHeld(t)
	})
}

func arqUUIDs(result *spawn.Result) []string {
	var uuids []string
	for _, arq := range result.ARQs {
		uuids = append(uuids, arq.UUID)
	}
	return uuids
}
