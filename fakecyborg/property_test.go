package fakecyborg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// TestNothingLeaksInAnyOrder has clients, hardware and agent do anything
// in any order, and then cleans up as a client would.
func TestNothingLeaksInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		card := newHardware("test", vgpu("af", 3), gpu("3b", "PGPU", nil, "0", "1"))
		w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card})
		w.profile("v", `[{"resources:VGPU":"2"}]`)
		w.profile("g", `[{"resources:PGPU":"1"}]`)
		var arqs []string
		some := func() string { return rapid.SampledFrom(arqs).Draw(rt, "arq") }
		instance := func() string {
			return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", rapid.IntRange(1, 3).Draw(rt, "instance"))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) {
				arqs = append(arqs, w.arqs(rapid.SampledFrom([]string{"v", "g"}).Draw(rt, "profile"))...)
			},
			"bind": func(rt *rapid.T) {
				if len(arqs) == 0 {
					rt.Skip()
				}
				provider := rapid.SampledFrom([]string{vgpuProvider(), driver.ProviderUUID("cn0_0000:3b:00.0"), unknownID}).Draw(rt, "provider")
				w.patch(binding(instance(), provider, some(), some()))
			},
			"unbind": func(rt *rapid.T) {
				if len(arqs) == 0 {
					rt.Skip()
				}
				w.patch(unbinding(some()))
			},
			"delete": func(rt *rapid.T) {
				if len(arqs) == 0 {
					rt.Skip()
				}
				w.delete("/v2/accelerator_requests?arqs=" + some())
			},
			"delete by instance": func(*rapid.T) { w.delete("/v2/accelerator_requests?instance=" + instance()) },
			"break": func(rt *rapid.T) {
				card.failMake = rapid.SampledFrom([]error{nil, errors.New("no room")}).Draw(rt, "make")
				card.failDrop = rapid.SampledFrom([]error{nil, errors.New("stuck")}).Draw(rt, "drop")
			},
			"hardware": func(rt *rapid.T) {
				card.set(rapid.SampledFrom([][]driver.Device{
					{vgpu("af", 3), gpu("3b", "PGPU", nil, "0", "1")}, {vgpu("af", 1)}, {gpu("3b", "PGPU", nil, "1")}, {},
				}).Draw(rt, "devices")...)
				_ = w.server.Report(t.Context()) // a device in use is an error
			},
			"": func(rt *rapid.T) { checkInvariants(rt, w, card) },
		})
		card.failMake, card.failDrop = nil, nil
		for _, a := range w.server.ARQs() {
			if r := w.delete("/v2/accelerator_requests?arqs=" + a.UUID); r.status != http.StatusNoContent {
				rt.Fatalf("delete %s in state %s: %d %s", a.UUID, a.State, r.status, r.fault())
			}
		}
		if err := w.server.Report(t.Context()); err != nil {
			rt.Fatalf("report: %v", err)
		}
		if w.used() != 0 || card.present() != 0 {
			rt.Fatalf("left: %d handles, %d mediated devices", w.used(), card.present())
		}
		w.want(w.delete("/v2/device_profiles?value=v,g"), http.StatusNoContent, "")
	})
}

// TestParallelUseLeaksNothing has clients and agent at work at the same time;
// the race detector looks on.
func TestParallelUseLeaksNothing(t *testing.T) {
	t.Parallel()
	card := newHardware("test", vgpu("af", 3), gpu("3b", "PGPU", nil, "0", "1"))
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card})
	w.profile("v", `[{"resources:VGPU":"2"}]`)
	var wg sync.WaitGroup
	try := func(s sent) reply {
		r, err := w.trySend(s)
		if err != nil {
			t.Error(err)
		}
		return r
	}
	const arqs = "/v2/accelerator_requests"
	for client := range 4 {
		wg.Go(func() {
			instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", client)
			for range 25 {
				created := try(sent{method: "POST", path: arqs, body: `{"device_profile_name":"v"}`})
				var body struct {
					ARQs []struct{ UUID string } `json:"arqs"`
				}
				if json.Unmarshal([]byte(created.text), &body) != nil || len(body.ARQs) != 2 {
					t.Errorf("created: %s", created.text)
					return
				}
				a, b := body.ARQs[0].UUID, body.ARQs[1].UUID
				bind := try(sent{method: "PATCH", path: arqs, body: binding(instance, vgpuProvider(), a, b)})
				if bind.status != http.StatusAccepted && bind.status != http.StatusNotFound {
					t.Errorf("bind: %d %s", bind.status, bind.text)
				}
				try(sent{method: "GET", path: arqs})
				for _, path := range []string{arqs + "?instance=" + instance, arqs + "?arqs=" + a, arqs + "?arqs=" + b} {
					if r := try(sent{method: "DELETE", path: path}); r.status >= 500 {
						t.Errorf("delete: %d %s", r.status, r.text)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 25 {
			if i%2 == 0 {
				card.set(vgpu("af", 3))
			} else {
				card.set(vgpu("af", 3), gpu("3b", "PGPU", nil, "0", "1"))
			}
			if err := w.server.Report(t.Context()); err != nil {
				t.Error(err)
			}
			try(sent{method: "GET", path: "/v2/deployables?filters.field=limit&filters.value=1"})
		}
	})
	wg.Wait()
	if len(w.states()) != 0 || w.used() != 0 || card.present() != 0 {
		t.Errorf("left: %v, %d handles, %d mediated devices", w.states(), w.used(), card.present())
	}
}

// checkInvariants holds what is true at every moment between two calls.
func checkInvariants(t *rapid.T, w *world, card *hardware) {
	holders := make(map[string]string)
	for _, a := range w.server.ARQs() {
		switch {
		case a.State == fakecyborg.StateBindStarted:
			t.Fatalf("%s is still in BindStarted", a.UUID)
		case a.State == fakecyborg.StateBound && a.AttachHandleUUID == "":
			t.Fatalf("%s is Bound without a handle", a.UUID)
		case a.AttachHandleUUID != "" && holders[a.AttachHandleUUID] != "":
			t.Fatalf("%s and %s hold the same handle", a.UUID, holders[a.AttachHandleUUID])
		}
		holders[a.AttachHandleUUID] = a.UUID
		if _, there := card.mdevs[a.AttachHandleUUID]; a.State == fakecyborg.StateBound && a.AttachHandleType == driver.HandleMDEV && !there {
			t.Fatalf("%s is Bound and its mediated device is not there", a.UUID)
		}
	}
	for _, h := range w.server.AttachHandles() {
		if h.InUse != (h.ARQ != "") || h.ARQ != holders[h.UUID] {
			t.Fatalf("handle %+v, held by %q", h, holders[h.UUID])
		}
		if _, there := card.mdevs[h.UUID]; there && !h.InUse {
			t.Fatalf("the mediated device of the free handle %s is there", h.UUID)
		}
	}
}
