package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// exercise is one operation for the drill.
type exercise struct {
	name   string
	model  func() *simcloud.Model
	launch func(ctx context.Context, s *site) (spawn.Instance, error)
	// happened prepares the instance; it may be nil.
	happened func(ctx context.Context, s *site, i *spawn.Instance) error
	run      func(ctx context.Context, s *site, i *spawn.Instance) error
	// done returns an error if the instance is wrong after a success.
	done func(s *site, i spawn.Instance) error
	// odd is set if a success looks like a leak to the cloud: a guest in rescue has ARQs that its domain lacks.
	odd bool
	// settle registers the state of the guest in the cloud after a failure.
	settle func(s *site, i spawn.Instance) error
}

func running(s *site, i spawn.Instance) error { return s.runs(i, true) }
func stopped(s *site, i spawn.Instance) error { return s.runs(i, false) }

// gone checks that an instance holds nothing. The leak checker finds resources without an instance.
func gone(s *site, i spawn.Instance) error {
	arqs := slices.DeleteFunc(s.cloud.Cyborg.ARQs(), func(a fakecyborg.ARQ) bool { return a.InstanceUUID != i.UUID })
	held := slices.DeleteFunc(s.cloud.Placement.Allocations(), func(a placementsim.Allocation) bool { return a.Consumer != i.UUID })
	if len(arqs)+len(held) > 0 {
		return fmt.Errorf("left: %v, %v", arqs, held)
	}
	return nil
}

func anInstance(profile string) func(context.Context, *site) (spawn.Instance, error) {
	return func(ctx context.Context, s *site) (spawn.Instance, error) {
		if profile == "port" {
			return s.launch(ctx, "gpu", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
		}
		return s.launch(ctx, profile)
	}
}

// prepare makes the instance.
func (e exercise) prepare(ctx context.Context, s *site) (spawn.Instance, error) {
	i, err := e.launch(ctx, s)
	if err == nil && e.happened != nil {
		err = e.happened(ctx, s, &i)
	}
	return i, err
}

// plain runs an operation that needs only the instance.
func plain(op func(*spawn.Operations, context.Context, spawn.Instance) error) func(context.Context, *site, *spawn.Instance) error {
	return func(ctx context.Context, s *site, i *spawn.Instance) error { return op(s.ops, ctx, *i) }
}

func exercises() []exercise {
	fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "fresh"})
	return []exercise{
		{name: "delete", launch: anInstance("mixed"), done: gone, run: plain((*spawn.Operations).Delete)},
		{name: "delete with a port", model: portModel, launch: anInstance("port"), done: gone, run: plain((*spawn.Operations).Delete)},
		{name: "local delete", done: gone, launch: anInstance("gpu"), happened: func(_ context.Context, s *site, i *spawn.Instance) error {
			delete(s.guests.saved, placeOf(*i))
			return s.guests.powerCut(i.Host)
		}, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			err := s.ops.LocalDelete(ctx, *i)
			if err == nil {
				s.cloud.RemoveGuest(i.UUID)
			}
			return err
		}, settle: func(s *site, i spawn.Instance) error { // the dead host runs nothing
			s.cloud.RemoveGuest(i.UUID)
			return nil
		}},
		{name: "stop", launch: anInstance("mixed"), done: stopped, run: plain((*spawn.Operations).Stop)},
		{name: "start", done: running, launch: anInstance("mixed"), happened: plain((*spawn.Operations).Stop), run: plain((*spawn.Operations).Start)},
		{name: "soft reboot", launch: anInstance("mixed"), done: running, run: plain((*spawn.Operations).SoftReboot)},
		{name: "hard reboot", launch: anInstance("mixed"), done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			return s.ops.HardReboot(ctx, *i, fresh)
		}},
		{name: "rebuild with a port", model: portModel, launch: anInstance("port"), done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			return s.ops.Rebuild(ctx, *i, fresh)
		}},
		{name: "rescue", odd: true, launch: anInstance("mixed"), done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			_, err := s.ops.Rescue(ctx, *i, fresh)
			return err
		}},
		{name: "resume after host reboot", done: running, launch: anInstance("mixed"), happened: func(ctx context.Context, s *site, i *spawn.Instance) error {
			return errors.Join(s.guests.powerCut(i.Host), s.cloud.StartHost(ctx, s.guests.node(i.Host)))
		}, run: plain((*spawn.Operations).ResumeAfterHostReboot)},
		{name: "shelve offload", launch: anInstance("mixed"), done: gone, run: plain((*spawn.Operations).ShelveOffload)},
		{name: "unshelve", done: running, launch: anInstance("mixed"), happened: offload, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			result, err := s.ops.Unshelve(ctx, *i, spawn.MoveOpts{})
			if err == nil {
				i.Host = result.Host
			}
			return err
		}},
		{name: "evacuate", done: running, launch: anInstance("gpu"), happened: hostLost, run: evacuate, settle: stillOnTheDeadHost},
		{name: "take over of a vGPU", model: novaVGPUModel, launch: launchNovaVGPU, done: running, run: takeOver},
	}
}

// hostLost stops the host of an instance.
func hostLost(_ context.Context, s *site, i *spawn.Instance) error {
	s.guests.down[s.guests.node(i.Host)] = true
	return s.guests.powerCut(i.Host)
}

func evacuate(ctx context.Context, s *site, i *spawn.Instance) error {
	result, err := s.ops.Evacuate(ctx, *i, spawn.MoveOpts{})
	if err == nil {
		i.Host = result.Host
	}
	return err
}

// stillOnTheDeadHost checks that the instance still has what it had. The domains that the dead host saved use no
// devices.
func stillOnTheDeadHost(s *site, i spawn.Instance) error {
	at := s.guests.at(i)
	dead := sim.Guest{UUID: i.UUID, Host: at.host, Domain: s.guests.saved[at]}
	if !slices.ContainsFunc(s.cloud.Cyborg.ARQs(), func(a fakecyborg.ARQ) bool { return a.InstanceUUID == i.UUID }) {
		dead.Host, dead.Domain = "", ""
	}
	return s.cloud.DefineGuest(dead)
}

// TestOperationsDrill fails every request and every hypervisor call of each operation once, in each way. No resource
// without an instance remains, and the same operation succeeds afterwards.
func TestOperationsDrill(t *testing.T) {
	t.Parallel()
	for _, e := range exercises() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			requests, calls := e.rehearse(t)
			if len(requests)+len(calls) == 0 {
				t.Fatal("the operation asks for nothing: the drill proves nothing")
			}
			for n := 0; n < len(requests); n += step {
				rule := requests[n]
				e.perform(t, fmt.Sprintf("%s %s %d %s %s", rule.Operation, rule.Subject, rule.Nth, rule.When, rule.Action),
					func(t *testing.T, s *site) { s.fail(t, rule) })
			}
			for _, call := range calls {
				for _, after := range []bool{false, true} {
					e.perform(t, fmt.Sprintf("hypervisor %s, after it was done: %t", call, after), func(_ *testing.T, s *site) {
						s.guests.fail[call], s.guests.after = 1, after
					})
				}
			}
		})
	}
}

func (e exercise) site(t *testing.T) (*site, spawn.Instance) {
	t.Helper()
	opts := worldOpts{}
	if e.model != nil {
		opts.model = e.model()
	}
	opts.config.ExclusiveProject = true
	s := newSite(t, opts)
	i, err := e.prepare(t.Context(), s)
	settled(t, err)
	s.cloud.CheckNoLeaks(t)
	s.guests.calls = nil
	s.cloud.ForgetRequests()
	return s, i
}

// check checks a success.
func (e exercise) check(t *testing.T, s *site, i spawn.Instance) {
	t.Helper()
	if err := e.done(s, i); err != nil {
		t.Error(err)
	}
}

// rehearse runs the operation without a fault and gives a rule for each way in
// which each request can fail, and the calls of the hypervisor.
func (e exercise) rehearse(t *testing.T) (rules []fault.Rule, calls []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, i := e.site(t)
		settled(t, e.run(t.Context(), s, &i))
		e.check(t, s, i)
		if !e.odd {
			s.sound(t)
		}
		seen := map[string]int{}
		for _, r := range s.cloud.Requests() {
			if r.Operation == "" || r.Service == "identity" {
				continue
			}
			key := string(r.Operation) + " " + r.Subject
			seen[key]++
			for _, way := range []fault.Rule{
				{Action: fault.Status, Status: 500}, {Action: fault.Status, Status: 403}, {Action: fault.Drop},
				{Action: fault.Drop, When: fault.After}, {Action: fault.Truncate, When: fault.After},
			} {
				if way.Status == 403 && (r.Method == "DELETE" || r.Operation == fault.ARQList) {
					continue // ARQs that cannot be listed or deleted become leftovers, see below
				}
				way.Operation, way.Subject, way.Nth = r.Operation, r.Subject, seen[key]
				rules = append(rules, way)
			}
		}
		named := map[string]bool{}
		for _, call := range s.guests.calls {
			if !named[call] {
				named[call] = true
				calls = append(calls, call)
			}
		}
	})
	return rules, calls
}

// perform runs the operation with a fault, and again without.
func (e exercise) perform(t *testing.T, name string, disturb func(*testing.T, *site)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, i := e.site(t)
			disturb(t, s)
			err := e.run(t.Context(), s, &i)
			if len(certainlyLeft(err)) > 0 {
				t.Errorf("leftovers after a single fault: %v", err)
			}
			s.cloud.Faults().Clear()
			clear(s.guests.fail)
			e.ended(t, s, &i, err, name)
		})
	})
}

// ended checks what is there after the operation, and runs it again, without a fault, if it failed.
func (e exercise) ended(t *testing.T, s *site, i *spawn.Instance, err error, what string) {
	t.Helper()
	if err != nil {
		if e.settle != nil {
			settled(t, e.settle(s, *i))
		}
		s.sound(t)
		if again := e.run(t.Context(), s, i); again != nil {
			t.Fatalf("%s: %v; again: %v", what, err, again)
		}
	}
	e.check(t, s, *i)
	if !e.odd {
		s.sound(t)
	}
}

// TestDrillCancelledOperations ends the caller's context before and after each request,
// and at each call of the hypervisor.
func TestDrillCancelledOperations(t *testing.T) {
	t.Parallel()
	for _, e := range exercises() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for _, place := range []string{"before request", "after request", "at call"} {
				for n, more := 1, true; more; n += step {
					synctest.Test(t, func(t *testing.T) { more = e.cancelled(t, place, n) })
				}
			}
		})
	}
}

// cancelled runs the operation with a context that ends at the n-th place, and
// reports whether there was one.
func (e exercise) cancelled(t *testing.T, place string, n int) bool {
	s, i := e.site(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cut := &interceptor{n: -1}
	reached := false
	end := func(*http.Request) { reached = true; cancel() }
	switch place {
	case "before request":
		cut.n, cut.before = int64(n), end
	case "after request":
		cut.n, cut.after = int64(n), end
	case "at call":
		s.guests.hook = func(call int) {
			if call == n {
				end(nil)
			}
		}
	}
	s.intercept(t, cut, alone)
	s.renew(t)
	err := e.run(ctx, s, &i)
	s.guests.hook = nil
	if !reached {
		return false
	}
	if len(leftovers(err)) > 0 { // canceling alone makes no outcome unknown
		t.Errorf("%s %d: leftovers: %v", place, n, err)
	}
	cut.n = -1
	e.ended(t, s, &i, err, fmt.Sprint(place, " ", n))
	return true
}

// The error names what could not be freed, and the next try frees it. The instance has ARQs and no guest, as after an
// Unshelve that could not be undone.
func TestAnUnshelveNamesWhatItCouldNotFree(t *testing.T) {
	t.Parallel()
	for operation, want := range map[sim.OperationName][]spawn.LeftoverKind{
		fault.ARQList:        {spawn.LeftoverARQs, spawn.LeftoverAllocation},
		fault.ARQDelete:      {spawn.LeftoverARQ, spawn.LeftoverAllocation},
		fault.AllocationsPut: {spawn.LeftoverAllocation},
	} {
		bubble(t, string(operation), func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "gpu")
			settled(t, s.guests.Destroy(t.Context(), i))
			settled(t, s.guests.Undefine(t.Context(), i))
			i.Host = ""
			s.fail(t, fault.Rule{Operation: operation, Action: fault.Status, Status: 500, Times: -1})
			_, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
			if !errors.Is(err, spawn.ErrLeftover) {
				t.Errorf("got %v, want ErrLeftover", err)
			}
			wantKinds(t, leftovers(err), want...)
		})
	}
}

func TestAnOperationNamesWhatItCouldNotFree(t *testing.T) {
	t.Parallel()
	for _, rule := range []fault.Rule{
		{Operation: fault.ARQList, Action: fault.Status, Status: 403, Times: -1},
		{Operation: fault.ARQDelete, Action: fault.Status, Status: 403, Times: -1},
		{Operation: fault.ARQDelete, Action: fault.Drop, Times: -1},
		{Operation: fault.AllocationsPut, Action: fault.Status, Status: 500, Times: -1},
	} {
		for name, operation := range deletions() {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, worldOpts{model: portModel()})
				i := s.spawn(t, "gpu", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
				if name == "shelve offload" {
					i.Ports = nil // Nova shelves none with an accelerated port
				}
				s.fail(t, rule)
				err := operation(s.ops, t.Context(), i)
				if !errors.Is(err, spawn.ErrLeftover) || len(leftovers(err)) == 0 {
					t.Fatalf("%s with %s: error %v, want ErrLeftover", name, rule.Operation, err)
				}
				for _, left := range leftovers(err) {
					if left.Err == nil || left.ID != i.UUID && !slices.Contains(i.ARQs, left.ID) {
						t.Errorf("%s: left %+v, which is nothing of the instance's", name, left)
					}
				}
				s.cloud.Faults().Clear()
				settled(t, operation(s.ops, t.Context(), i))
				s.cloud.RemoveGuest(i.UUID)
				s.sound(t)
			})
		}
	}
}
