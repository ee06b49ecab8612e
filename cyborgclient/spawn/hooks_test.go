package spawn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/sim"
)

func TestHooksRunInTheOrderOfNova(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	var calls []string
	call := func(name string) func(context.Context, *spawn.Attempt) error {
		return func(_ context.Context, a *spawn.Attempt) error {
			bound := 0
			for _, arq := range a.ARQs {
				if arq.State == cyborgclient.StateBound {
					bound++
				}
			}
			calls = append(calls, fmt.Sprintf("%s with %d known Bound", name, bound))
			return nil
		}
	}
	req := request("mixed")
	req.Hooks = spawn.Hooks{Claim: call("claim"), Prepare: call("prepare")}
	guests := &guestFuncs{
		mdevHooks: mdevHooks{create: func(mdev string) error {
			calls = append(calls, "mdev "+mdev)
			return nil
		}},
		start: func(_ context.Context, g sim.Guest) error {
			devices, err := domainxml.Read([]byte(g.Domain))
			calls = append(calls, fmt.Sprintf("start with %d devices", len(devices)))
			return err
		},
		destroy: func(context.Context, sim.Guest) error {
			calls = append(calls, "destroy")
			return nil
		},
	}
	result, err := w.flow.On(guests).Run(t.Context(), req)
	settled(t, err)
	want := []string{"claim with 0 known Bound", "prepare with 4 known Bound", "mdev " + result.ARQs[2].AttachHandleUUID, "start with 4 devices"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	var steps []string
	for _, step := range result.Trace {
		steps = append(steps, step.Step.String())
	}
	if got := strings.Join(steps[7:], " "); got != "bind host wait prepare compose start" {
		t.Errorf("steps from the bind on: %s", got)
	}
	w.checkPromise(t, result, err)
}

func TestAPanicOfAHookLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	g := &startedGuests{w: w, started: func() { panic("hook") }}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = w.flow.On(g).Run(t.Context(), request("mixed"))
	}()
	if len(g.removed) != 1 {
		t.Errorf("the guest was removed %d times", len(g.removed))
	}
	w.cloud.CheckNoLeaks(t)
}

func TestACancelledStartIsUnwoundAndNotTriedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	ctx, cancel := context.WithCancel(t.Context())
	g := &startedGuests{w: w, failing: 9, err: context.Canceled, started: cancel}
	result, err := w.flow.On(g).Run(ctx, request("mixed"))
	w.failed(t, result, err, spawn.StepStart, context.Canceled)
	if len(g.tried) != 1 || len(g.removed) != 1 {
		t.Errorf("started on %v, removed from %v", g.tried, g.removed)
	}
}

func TestAPortsDeviceIsAnInterfaceOfTheDomain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: portModel()})
	req := portRequest()
	req.Ports = append(req.Ports, acceleratedPort(port2, "nic", ""))
	req.Ports[0].VLAN = 100
	result, err := w.flow.Run(t.Context(), req)
	settled(t, err)
	if len(result.ARQs) != 3 || len(result.Devices) != 1 || len(result.Ports) != 2 {
		t.Fatalf("got %s and ports %v", outcome(result, err), result.Ports)
	}
	domain := string(result.Domain)
	if strings.Count(domain, `<interface type="hostdev"`) != 1 || !strings.Contains(domain, "52:54:00:1e:59:c3") || !strings.Contains(domain, `<tag id="100"`) {
		t.Errorf("the domain lacks the interface of the port whose MAC is known:\n%s", domain)
	}
	want := map[string]any{
		"trusted": true, "arq_uuid": result.Ports[0].ARQ(), "physical_network": "PHYNET1", "pci_slot": "0000:0d:0.1",
	}
	if diff := cmp.Diff(want, result.Ports[0].BindingProfile); diff != "" {
		t.Errorf("binding profile (-want +got):\n%s", diff)
	}
	settled(t, w.flow.Release(t.Context(), instance))
	w.cloud.CheckNoLeaks(t)
}

func TestPortsPassWithTheHandover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: portModel()})
	a := w.arqsFor(t, portRequest())
	handover, err := a.Handover(t.Context())
	settled(t, err)
	data, err := json.Marshal(handover)
	settled(t, err)
	parsed, err := parseHandover(data)
	settled(t, err)
	if diff := cmp.Diff(handover, parsed, cmpopts.IgnoreUnexported(spawn.Candidate{})); diff != "" {
		t.Errorf("handover after JSON (-want +got):\n%s", diff)
	}
	b, err := w.flow.Resume(t.Context(), parsed, nil)
	settled(t, err)
	settled(t, walk(t.Context(), b.WaitBound, b.Compose))
	if len(b.Devices) != 1 || len(b.Ports) != 1 {
		t.Errorf("got %d devices and %d ports, want one of each", len(b.Devices), len(b.Ports))
	}
	w.checkPromise(t, b.Result(), nil)

	parsed.Ports = nil
	if _, err := w.flow.Resume(t.Context(), parsed, nil); !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("an ARQ of a port that is not given: %v, want ErrRequest", err)
	}
}

func TestReconcileFindsOldUnboundARQs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		result := w.spawned(t, request("gpu"))
		settled(t, w.cyborg.UnbindARQs(t.Context(), []string{result.ARQs[0].UUID}))
		opts := w.scope()
		opts.Living = noneLiving
		young, err := w.flow.Reconcile(t.Context(), opts)
		if err != nil || len(young) != 1 || young[0].Kind != "allocation" {
			t.Errorf("at once: %+v, %v; want the allocation alone", young, err)
		}
		time.Sleep(20 * time.Minute)
		opts.Free = true
		old, err := w.flow.Reconcile(t.Context(), opts)
		if err != nil || len(old) != 2 || old[1].ID != result.ARQs[0].UUID || old[1].Err != nil {
			t.Errorf("later: %+v, %v", old, err)
		}
		w.cloud.RemoveGuest(instance)
		w.cloud.CheckNoLeaks(t)
	})
}

// Cyborg in Ussuri has no project in bindings. Its ARQs get the project of the token, which has to be the project of
// the instance.
func TestAnOldCyborgBindsWithoutAProject(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		w := newWorld(t, worldOpts{})
		w.through(t, spawn.Config{}, func(next httpTransport) httpTransport {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.URL.Path, "/accelerator/v2") {
					return answer(req, http.StatusOK, `{"id": "v2.0", "max_version": "2.0", "min_version": "2.0", "status": "CURRENT"}`), nil
				}
				res, err := next.RoundTrip(req)
				if err == nil && strings.Contains(req.URL.Path, "/accelerator") {
					res.Header.Set("OpenStack-API-Maximum-Version", "2.0")
				}
				return res, err
			})
		})
		req := request("mixed")
		if !own {
			req.ProjectID = w.cloud.ProjectID("demo")
		}
		result, err := w.flow.Run(t.Context(), req)
		if own && err != nil || !own && !errors.Is(err, cyborgclient.ErrMicroversion) {
			t.Errorf("the token's project: %v; got error %v", own, err)
		}
		w.checkPromise(t, result, err)
	}
}

// A hook that calls Goexit, as t.Fatal does, is treated like a hook that failed to destroy the guest. The guest keeps
// its devices. Once the caller knows that the guest does not exist, Reconcile frees them.
func TestAPanicOfDestroyLeavesTheGuestItsDevices(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"panic": func() { panic("destroy") }, "Goexit": runtime.Goexit} {
		w := newWorld(t, worldOpts{})
		guests := failsToStart(errHook)
		guests.destroy = func(context.Context, sim.Guest) error { leave(); return nil }
		done := make(chan any)
		go func() {
			returned := false
			defer func() {
				recovered := recover()
				if returned || name == "panic" && recovered != "destroy" {
					t.Errorf("%s: returned %t, recovered %v", name, returned, recovered)
				}
				close(done)
			}()
			_, _ = w.flow.On(guests).Run(t.Context(), request("mixed"))
			returned = true
		}()
		<-done
		if arqs, held := w.cloud.Cyborg.ARQs(), w.cloud.Placement.Allocations(); len(arqs) != 4 || len(held) == 0 {
			t.Errorf("%s: the guest has %d ARQs and %d allocations, want all", name, len(arqs), len(held))
		}
		_, err := w.flow.Reconcile(t.Context(), w.freeing())
		settled(t, err)
		w.cloud.CheckNoLeaks(t)
	}
}
