package spawn_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
)

// departures are the ways in which a callback does not return.
func departures() map[string]func() {
	return map[string]func(){"panic": func() { panic("callback") }, "Goexit": runtime.Goexit}
}

// depart runs a function whose callback does not return, and checks that the panic or Goexit continues.
func depart(t *testing.T, way string, run func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if recovered := recover(); returned || way == "panic" && recovered != "callback" {
				t.Errorf("%s: returned %t, recovered %v", way, returned, recovered)
			}
		}()
		run()
		returned = true
	}()
	<-done
}

// A spawn is unwound if one of its hooks panics or calls Goexit.
func TestASpawnIsUnwoundWhenAHookDoesNotReturn(t *testing.T) {
	t.Parallel()
	hooks := map[string]func(req *spawn.Request, guests *guestFuncs, leave func()){
		"Order": func(req *spawn.Request, _ *guestFuncs, leave func()) {
			req.Order = func([]spawn.Candidate) []spawn.Candidate { leave(); return nil }
		},
		"Claim": func(req *spawn.Request, _ *guestFuncs, leave func()) {
			req.Hooks.Claim = func(context.Context, *spawn.Attempt) error { leave(); return nil }
		},
		"Prepare": func(req *spawn.Request, _ *guestFuncs, leave func()) {
			req.Hooks.Prepare = func(context.Context, *spawn.Attempt) error { leave(); return nil }
		},
		"CreateMdev": func(_ *spawn.Request, guests *guestFuncs, leave func()) {
			guests.create = func(string) error { leave(); return nil }
		},
		"RemoveMdev": func(_ *spawn.Request, guests *guestFuncs, leave func()) {
			guests.create, guests.remove = func(string) error { return errHook }, func(string) error { leave(); return nil }
		},
		"Start": func(_ *spawn.Request, guests *guestFuncs, leave func()) {
			guests.start = func(context.Context, sim.Guest) error { leave(); return nil }
		},
	}
	for hook, set := range hooks {
		for way, leave := range departures() {
			t.Run(hook+"/"+way, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, worldOpts{})
				req, guests := request("mixed"), &guestFuncs{}
				set(&req, guests, leave)
				depart(t, way, func() { _, _ = w.flow.On(guests).Run(t.Context(), req) })
				if hook == "RemoveMdev" { // the ARQ stays with the definition, until a reconciliation
					_, err := w.flow.Reconcile(t.Context(), w.freeing())
					settled(t, err)
				}
				w.checkPromise(t, nil, errHook)
			})
		}
	}
}

// A hypervisor call that panics or calls Goexit has the same effect on the operation as a failure of the call. The
// operation succeeds when it is repeated.
func TestAnOperationIsUnwoundWhenTheHypervisorDoesNotReturn(t *testing.T) {
	t.Parallel()
	for _, e := range exercises() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			synctest.Test(t, func(t *testing.T) { calls = e.calls(t) })
			for way, leave := range departures() {
				for n := range calls {
					synctest.Test(t, func(t *testing.T) { e.abandoned(t, way, leave, n+1) })
				}
			}
		})
	}
}

// abandoned runs the operation with a hypervisor whose n-th call does not return.
func (e exercise) abandoned(t *testing.T, way string, leave func(), n int) {
	s, i := e.site(t)
	s.guests.hook = func(call int) {
		if call == n {
			leave()
		}
	}
	depart(t, way, func() { _ = e.run(t.Context(), s, &i) })
	s.guests.hook = nil
	e.ended(t, s, &i, errHook, fmt.Sprintf("%s at call %d", way, n))
}

// calls counts the calls of the hypervisor that the operation makes.
func (e exercise) calls(t *testing.T) int {
	s, i := e.site(t)
	settled(t, e.run(t.Context(), s, &i))
	return len(s.guests.calls)
}
