package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
)

func onHost(s *world, host string) func([]spawn.Candidate) []spawn.Candidate {
	return func(c []spawn.Candidate) []spawn.Candidate {
		return slices.DeleteFunc(c, func(c spawn.Candidate) bool { return c.Root != s.cloud.ProviderUUID(host) })
	}
}

// alsoOn adds resources of another node to an allocation, as after an evacuation that could not release its source
// host (Nova releases it only when that host is back).
func (s *world) alsoOn(t *testing.T, host string) {
	t.Helper()
	held := slices.DeleteFunc(s.cloud.Placement.Allocations(), func(a placementsim.Allocation) bool { return a.Consumer != instance })
	held = append(held, placementsim.Allocation{Consumer: instance, Provider: s.cloud.ProviderUUID(host), Class: "VCPU", Used: 2})
	s.write(t, held)
}

func (s *world) write(t *testing.T, held []placementsim.Allocation) {
	t.Helper()
	settled(t, s.cloud.Placement.Release(instance))
	settled(t, s.cloud.Placement.Claim(placementsim.Claim{Consumer: instance, Project: s.cloud.ProjectID("admin"), User: "u", Allocations: held}))
}

// onCall calls a function before each call of the hypervisor with a name.
func (h *hypervisor) onCall(name string, do func()) {
	h.hook = func(call int) {
		if h.calls[call-1] == name {
			do()
		}
	}
}

// An evacuated instance has allocations on two hosts until the source host is released. Its current host is unknown,
// so no device is attached that could be on the other host.
func TestADeviceIsAttachedOnlyWhereTheInstanceRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		result, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor(), Order: onHost(s.world, "cn1")})
		settled(t, err)
		s.alsoOn(t, "cn0")
		s.loseHost(t, "cn0")
		if got, err := s.flow.AddDevices(t.Context(), request("gpu")); err == nil && got.Host != result.Host {
			t.Errorf("the guest is on %s; its device is one of %s, which is down", result.Host, got.Host)
		}
	})
}

// Nova may move the allocation of a running instance while a device is attached.
func TestUnwindLeavesAnAllocationThatWasReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor(), Order: onHost(w, "cn0")})
		settled(t, err)
		var migrated []string
		req := request("gpu")
		req.Hooks.Claim = func(context.Context, *spawn.Attempt) error { // Nova migrates the instance during the attempt
			w.moveTo(t, "cn0", "cn1")
			migrated = w.held(instance)
			return fmt.Errorf("%w: it migrates", spawn.ErrAbort)
		}
		_, err = w.flow.AddDevices(t.Context(), req)
		if now := w.held(instance); !slices.Equal(migrated, now) {
			t.Errorf("%v; Nova wrote %v, now it holds %v", err, migrated, now)
		}
	})
}

// An allocation to which another client has added resources since it was read is not deleted.
func TestADeletionLeavesAnAllocationThatHasGrown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.launchOn(t, "cn0", spawn.Request{Instance: instance, Flavor: plainFlavor()})
		var held []string
		s.guests.onCall("destroy", func() {
			if held == nil {
				more := placementsim.Allocation{Consumer: instance, Provider: s.cloud.ProviderUUID("cn1"), Class: "VCPU", Used: 1}
				s.write(t, append(s.cloud.Placement.Allocations(), more))
				held = s.held(instance)
			}
		})
		err := s.ops.Delete(t.Context(), i)
		wantKinds(t, leftovers(err), spawn.LeftoverAllocation)
		if now := s.held(instance); len(certainlyLeft(err)) > 0 || len(now) == 0 || !slices.Equal(held, now) {
			t.Errorf("%v; it held %v, now %v", err, held, now)
		}
	})
}

// moveTo moves the allocation of the instance on one host to another host, as a migration does.
func (w *world) moveTo(t *testing.T, from, to string) {
	t.Helper()
	var held []placementsim.Allocation
	for _, a := range w.cloud.Placement.Allocations() {
		if a.Provider == w.cloud.ProviderUUID(from) {
			a.Provider = w.cloud.ProviderUUID(to)
			held = append(held, a)
		}
	}
	w.write(t, held)
}

// Another client may delete or migrate a running instance after its candidates were requested. A claim on top of the
// old allocation would allocate that again, or claim a device of the old host.
func TestADeviceIsNotClaimedForAConcurrentlyDeletedOrMovedInstance(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *world){
		"deleted": func(t *testing.T, w *world) { settled(t, w.cloud.Placement.Release(instance)) },
		"moved":   func(t *testing.T, w *world) { w.moveTo(t, "cn0", "cn1") },
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor(), Order: onHost(w, "cn0")})
			settled(t, err)
			var held []string
			req := request("gpu")
			req.Order = func(c []spawn.Candidate) []spawn.Candidate {
				change(t, w)
				held = w.held(instance)
				return c
			}
			if _, err = w.flow.AddDevices(t.Context(), req); !errors.Is(err, spawn.ErrClaim) || errors.Is(err, spawn.ErrLeftover) {
				t.Errorf("got %v, want ErrClaim", err)
			}
			checkDiff(t, "allocation (-before +after)", held, w.held(instance))
			if arqs := w.cloud.Cyborg.ARQs(); len(arqs) > 0 {
				t.Errorf("ARQs %v", arqs)
			}
		})
	}
}

// A hypervisor that dies between two calls leaves the guest with its rescue domain.
func TestRescueReturnsTheDomainThatItCouldNotRestore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		original := s.guests.saved[placeOf(i)]
		rescue := []byte(`<domain type="kvm"><name>rescue</name><memory>1</memory><os><type>hvm</type></os><devices/></domain>`)
		s.guests.onCall("start", func() { s.guests.down[i.Host] = true })
		lost, err := s.ops.Rescue(t.Context(), i, rescue)
		if err == nil {
			t.Fatal("no error")
		}
		s.guests.hook, s.guests.down = nil, nil
		saved, again := s.ops.Rescue(t.Context(), i, rescue)
		if len(lost) == 0 && string(saved) != original {
			t.Errorf("first: %q, %v; second: %v, saved %s", lost, err, again, saved)
		}
	})
}

// A repeated unbind may take effect after the ARQs are bound on the next host.
func TestALateUnbindUnbindsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{config: spawn.Config{Compat: spawn.Compat{Rebind: true}}})
		w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 404},
			fault.Rule{Operation: fault.ARQBind, Nth: 2, Action: fault.Late, Delay: 5 * time.Second}) // the unbind
		result, err := w.flow.Run(t.Context(), request("gpu"))
		time.Sleep(10 * time.Minute)
		w.checkPromise(t, result, err)
	})
}

// behind puts a proxy between the flow and the cloud.
func (w *world) behind(t *testing.T, config spawn.Config, proxy func(next http.RoundTripper, req *http.Request) (*http.Response, error)) {
	t.Helper()
	w.through(t, config, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) { return proxy(next, req) })
	})
}

// A server that accepts a request and never answers does not block the flow forever.
func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.behind(t, spawn.Config{MaxAttempts: 1}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
			if req.Method == "POST" && strings.HasSuffix(req.URL.Path, "/accelerator_requests") {
				select {
				case <-req.Context().Done():
				case <-time.After(1000 * time.Hour):
				}
				return nil, io.ErrUnexpectedEOF
			}
			return next.RoundTrip(req)
		})
		began := time.Now()
		_, err := w.flow.Run(context.Background(), request("gpu")) // as in the README
		if took := time.Since(began); took > time.Hour {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
