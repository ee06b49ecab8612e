package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// leaseTime is how long the lock of a dead process lasts.
const leaseTime = 20 * time.Second

// agentProcess starts a process of an agent that shares a store of journals with other agents. It dies at one of its
// calls.
func (s *site) agentProcess(t *testing.T, shared *journaltest.Shared, name string, exclusive bool, calls int, before bool) *mortalLine {
	t.Helper()
	line := &mortalLine{next: s.cloud.Transport(), died: func() { shared.Kill(name) }}
	line.left.Store(int64(calls))
	line.before.Store(before)
	s.guests.mu.Lock()
	guests := *s.guests // as this process calls it: one that died calls it no longer
	s.guests.mu.Unlock()
	guests.line, s.guests = line, &guests
	s.world = new(*s.world) // whose flow is its own
	admin, nova := s.cloud.Provider(t), s.cloud.ServiceProvider(t)
	admin.HTTPClient.Transport, nova.HTTPClient.Transport = line, line
	s.connect(t, admin, spawn.WithServiceProvider(nova), spawn.WithJournal(shared.Agent(name)), spawn.WithHypervisor(s.guests.spawns()),
		spawn.WithConfig(spawn.Config{PlacementOrder: true, ExclusiveProject: exclusive}))
	s.renew(t)
	return line
}

// recoverable are the operations that are recorded.
func recoverable() []exercise {
	recorded := []string{"delete", "delete with a port", "local delete", "shelve offload", "unshelve", "evacuate", "take over of a vGPU"}
	list := slices.DeleteFunc(exercises(), func(e exercise) bool { return !slices.Contains(recorded, e.name) })
	deleted := func(ctx context.Context, s *site, i *spawn.Instance) error { return s.ops.Delete(ctx, *i) }
	return append(list,
		exercise{name: "spawn", launch: anInstance("mixed"), happened: deleted, done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			req := request("mixed")
			result, err := s.flow.Run(ctx, req)
			if err == nil {
				*i = spawn.InstanceOf(req, result)
			}
			return err
		}},
		exercise{name: "handover", launch: anInstance("mixed"), happened: deleted, done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			req := request("mixed")
			result, err := handOver(ctx, s.flow, func(context.Context) (*spawn.Flow, error) { return s.flow, nil }, req)
			if err == nil {
				*i = spawn.InstanceOf(req, result)
			}
			return err
		}},
		exercise{name: "add devices", launch: anInstance(""), odd: true, done: func(*site, spawn.Instance) error { return nil },
			run: func(ctx context.Context, s *site, i *spawn.Instance) error {
				_, err := s.flow.AddDevices(ctx, request("gpu"))
				return err
			}},
		exercise{name: "release devices", launch: anInstance("gpu"), odd: true, done: func(*site, spawn.Instance) error { return nil },
			run: func(ctx context.Context, s *site, i *spawn.Instance) error {
				return s.flow.ReleaseDevices(ctx, i.UUID)
			}},
	)
}

// death is the call at which a process dies.
type death struct {
	calls  int
	before bool
}

func (d death) String() string {
	return fmt.Sprintf("%d calls, the last is made: %t", d.calls, !d.before)
}

// dies runs the operation in a process that dies. Two other agents recover it as soon as its lock has expired. One of
// them may die, too. It reports whether the first process died.
func (e exercise) dies(t *testing.T, first, second death, taker string, rules ...fault.Rule) bool {
	opts := worldOpts{}
	if e.model != nil {
		opts.model = e.model()
	}
	s := newSite(t, opts)
	i, err := e.prepare(t.Context(), s)
	settled(t, err)
	s.cloud.CheckNoLeaks(t)
	shared := journaltest.NewShared(leaseTime)
	line := s.agentProcess(t, shared, "first", true, first.calls, first.before)
	died := make(chan struct{})
	kill := line.died
	line.died = func() { kill(); close(died) }
	s.fail(t, rules...)
	ended := make(chan error, 1)
	mortal := *s
	go func() { ended <- e.run(t.Context(), &mortal, &i) }()
	select {
	case <-died:
	case err := <-ended:
		if err != nil && len(rules) == 0 {
			t.Errorf("without a death: %v", err)
		}
		return false
	}
	defer func() { <-ended }()
	named := s.takenOver(t, shared, second, taker)
	s.cloud.Faults().Clear()
	e.judged(t, s, &i, named, func() error { return e.run(t.Context(), s, &i) })
	return true
}

// takenOver lets two agents recover the operations of a third one at the same time, and returns the leftovers. If one
// of them dies, the other recovers its operations, too.
func (s *site) takenOver(t *testing.T, shared *journaltest.Shared, second death, taker string) []spawn.Leftover {
	t.Helper()
	takers := []*site{new(*s), new(*s)}
	for n, d := range []death{{}, second} {
		takers[n].agentProcess(t, shared, fmt.Sprintf("%s %d", taker, n), true, d.calls, d.before)
	}
	time.Sleep(leaseTime + time.Second)
	lives := second.calls == 0
	named := make([][]spawn.Leftover, len(takers))
	var both sync.WaitGroup
	for n, at := range takers {
		both.Go(func() { named[n] = at.recovered(t, lives) })
	}
	both.Wait()
	*s = *takers[0]
	if !lives {
		time.Sleep(leaseTime + time.Second)
		return s.recovered(t, true)
	}
	return slices.Concat(named...)
}

// recovered recovers the operations of a process, and returns the leftovers.
func (s *site) recovered(t *testing.T, lives bool) (named []spawn.Leftover) {
	t.Helper()
	recovery, err := s.flow.Recover(t.Context())
	if err != nil && lives {
		t.Errorf("recover: %v", err)
	}
	operations, err := recovery.Wait(t.Context())
	if err != nil && lives {
		t.Errorf("wait: %v", err)
	}
	for _, o := range operations {
		if o.HandedOver {
			settled(t, s.flow.TakeBack(t.Context(), o.Instance))
		}
		if o.Err != nil && lives {
			t.Errorf("recover: %v", o.Err)
		}
		named = append(named, o.Leftovers...)
	}
	return named
}

// judged checks that every leak is named, and that the operation succeeds when it is repeated.
func (e exercise) judged(t *testing.T, s *site, i *spawn.Instance, named []spawn.Leftover, do func() error) {
	t.Helper()
	unnamed := func() []simcloud.Leak {
		return slices.DeleteFunc(s.cloud.Leaks(), func(leak simcloud.Leak) bool {
			return e.odd || slices.ContainsFunc(named, func(l spawn.Leftover) bool { return isLeft(s.cloud, l, leak) })
		})
	}
	leaks := unnamed()
	if len(leaks) > 0 && e.settle != nil { // registers the state of the guest
		settled(t, e.settle(s, *i))
		leaks = unnamed()
	}
	for _, leak := range leaks {
		t.Errorf("not named: %v", leak)
	}
	if t.Failed() || e.odd || e.done(s, *i) == nil {
		return
	}
	again := do()
	if moved := (*spawn.MovedError)(nil); errors.As(again, &moved) {
		i.Host = moved.Host
		again = nil
	}
	if again != nil {
		t.Errorf("again: %v", again)
		return
	}
	if wrong := e.done(s, *i); wrong != nil {
		t.Error(wrong)
	}
}

// TestRecoverAfterACrash kills the process of each operation before and after each of its calls to the services and
// the hypervisor. Another process that opens the same store undoes or finishes the operation.
func TestRecoverAfterACrash(t *testing.T) {
	t.Parallel()
	for _, e := range recoverable() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for _, before := range []bool{true, false} {
				for calls, died := 1, true; died && !t.Failed(); calls += crashStep {
					first := death{calls, before}
					t.Run(first.String(), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { died = e.dies(t, first, death{}, "other") })
					})
				}
			}
		})
	}
}

// TestRecoverAfterTwoCrashes also kills the process that recovers, and drops requests of the first process.
func TestRecoverAfterTwoCrashes(t *testing.T) {
	t.Parallel()
	list := recoverable()
	for n := range crashPairs {
		r := rand.New(rand.NewPCG(uint64(n), 52))
		e := list[n%len(list)]
		first, second := death{1 + r.IntN(30), r.IntN(2) == 0}, death{1 + r.IntN(12), r.IntN(2) == 0}
		var rules []fault.Rule
		if r.IntN(3) == 0 {
			second = death{}
			rules = []fault.Rule{{
				Operation: []sim.OperationName{fault.AllocationsPut, fault.ARQCreate, fault.ARQBind, fault.ARQDelete}[r.IntN(4)],
				Action:    []fault.Action{fault.Drop, fault.Delay}[r.IntN(2)], When: []fault.When{fault.Before, fault.After}[r.IntN(2)], Delay: 25 * time.Second,
			}}
		}
		t.Run(fmt.Sprintf("%d %s, %s, %s, %v", n, e.name, first, second, rules), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { e.dies(t, first, second, "other", rules...) })
		})
	}
}

// diesAtStart runs an operation in a process that dies at the given call after the guest was defined. The first such
// call is the start of the guest. Later calls of the process have no effect.
func (s *site) diesAtStart(t *testing.T, shared *journaltest.Shared, calls int64, run func(context.Context, *site) error) {
	t.Helper()
	line := s.agentProcess(t, shared, "first", false, 0, false)
	s.guests.onCall("start", func() {
		if !line.dead.Load() {
			line.left.Store(calls)
		}
	})
	if err := run(t.Context(), s); err == nil || !line.dead.Load() {
		t.Errorf("got %v of a process that died", err)
	}
	s.guests.hook, s.guests.line = nil, nil
}

// A process dies before it has released the source host of an evacuation. The guest stays on the new host.
func TestRecoverFinishesWhatWasCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.launchOn(t, "cn0", request("gpu"))
		s.loseHost(t, i.Host)
		shared := journaltest.NewShared(leaseTime)
		s.diesAtStart(t, shared, 2, func(ctx context.Context, s *site) error {
			_, err := s.ops.Evacuate(ctx, i, spawn.MoveOpts{Order: onHost(s.world, "cn1")})
			return err
		})
		s.agentProcess(t, shared, "second", false, 0, false)
		time.Sleep(leaseTime + time.Second)
		if named := s.recovered(t, true); len(named) > 0 {
			t.Errorf("named: %v", named)
		}
		delete(s.guests.saved, placeOf(i)) // as nova-compute removes an evacuated guest
		s.checkMoved(t, i, &spawn.Result{Host: "cn1"}, "cn1")
	})
}

// If a spawn was not committed, and there is no hypervisor, the guest keeps its devices.
func TestRecoverLeavesAGuestItsDevices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		shared := journaltest.NewShared(leaseTime)
		list := recoverable()
		e := list[slices.IndexFunc(list, func(e exercise) bool { return e.name == "spawn" })]
		i := spawn.Instance{UUID: instance}
		s.diesAtStart(t, shared, 1, func(ctx context.Context, s *site) error { return e.run(ctx, s, &i) })
		s.connect(t, s.cloud.Provider(t), spawn.WithJournal(shared.Agent("second")))
		time.Sleep(leaseTime + time.Second)
		kinds := kindsOf(s.recovered(t, true))
		if arqs := len(s.arqs(t, i)); arqs == 0 || kinds[spawn.LeftoverGuest] != 1 || kinds[spawn.LeftoverARQ] != arqs || kinds[spawn.LeftoverAllocation] != 1 {
			t.Errorf("named %v, want the guest, the allocation and %d ARQs", kinds, arqs)
		}
	})
}
