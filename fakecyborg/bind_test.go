package fakecyborg_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// vgpuProvider is the provider of the card of a vgpuWorld.
func vgpuProvider() string { return driver.ProviderUUID("cn0_0000:af:00.0") }

// vgpuWorld is a world with one card that makes n mediated devices, and a
// profile "v" for units of it.
func vgpuWorld(t *testing.T, cfg fakecyborg.Config, n, units int, opts ...fakecyborg.Option) (*world, *hardware) {
	t.Helper()
	card := newHardware("test", vgpu("af", n))
	w := newWorld(t, cfg, []driver.Driver{card}, opts...)
	w.profile("v", fmt.Sprintf(`[{"resources:VGPU":"%d"}]`, units))
	return w, card
}

// testBindAMediatedDevice: the mediated device has the handle's uuid.
func testBindAMediatedDevice(t *testing.T, quirks bool) {
	w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, 2, 1)
	arq := w.arqs("v")[0]
	w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
	got := w.get("/v2/accelerator_requests/" + arq).object(t)
	uuid, _ := got["attach_handle_uuid"].(string)
	want := map[string]driver.Mdev{uuid: {UUID: uuid, Parent: "0000:af:00.0", Type: "nvidia-222"}}
	if diff := cmp.Diff(want, card.mdevs); diff != "" || got["attach_handle_type"] != "MDEV" {
		t.Errorf("mediated devices (-want +got):\n%s\nARQ %v", diff, got)
	}
	w.want(w.patch(unbinding(arq)), 202, "")
	w.checkFreed(card)
}

// testAgentFailsToCreateAMediatedDevice: a mediated device that could not be made leaves nothing.
func testAgentFailsToCreateAMediatedDevice(t *testing.T, quirks bool) {
	w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, 2, 2)
	arqs := w.arqs("v")
	card.failMake = errors.New("no room on the card")
	r := w.patch(binding(instanceA, vgpuProvider(), arqs...))
	if r.status != 500 || !strings.Contains(r.fault(), "no room on the card") || !strings.Contains(r.fault(), "cn0") {
		t.Errorf("got %d %s", r.status, r.fault())
	}
	checkStates(t, w, "BindFailed", "Initial")
	left := either(quirks, 0, 1)
	if card.present() != left || w.used() != left {
		t.Errorf("after the failure: %d mediated devices, %d handles; want %d", card.present(), w.used(), left)
	}
	w.checkPosts(0)
	w.want(w.patch(unbinding(arqs[0])), 202, "")
	w.checkFreed(card)
	card.failMake = nil
	w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
	w.server.CheckBound(t, instanceA, 2)
}

func TestFailedMdevThatCannotBeRemovedKeepsItsHandle(t *testing.T) {
	t.Parallel()
	w, card := vgpuWorld(t, fakecyborg.Config{}, 1, 1)
	arq := w.arqs("v")[0]
	card.failMake, card.failDrop = errors.New("broken"), errors.New("stuck")
	w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 500, "")
	if w.used() != 1 {
		t.Error("the handle of a mediated device that may exist was released")
	}
	card.failDrop = nil
	w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
	w.checkFreed(card)
}

func TestFailedMdevRemovalCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, 2, 2)
		arqs := w.arqs("v")
		w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
		card.failDrop = errors.New("busy")
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 500, either(quirks, "", "'UnbindFailed'"))
		checkStates(t, w, "Bound", "Bound")
		card.failDrop = nil
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		w.checkFreed(card)
	}
}

func TestDeletionOvertakesABind(t *testing.T) {
	t.Parallel()
	for _, remove := range []string{"delete", "unbind"} {
		t.Run(remove, func(t *testing.T) {
			t.Parallel()
			w, card := vgpuWorld(t, fakecyborg.Config{}, 1, 1)
			arq := w.arqs("v")[0]
			card.during = func() { // the client gave up on its PATCH and cleans up
				card.during = nil
				if remove == "delete" {
					w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
				} else {
					w.want(w.patch(unbinding(arq)), 202, "")
				}
			}
			w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 409, "ARQ "+arq+" was unbound or deleted while it was being bound")
			if w.used() != 0 || card.present() != 0 || card.made != 1 {
				t.Errorf("left: %d mediated devices, %d handles", card.present(), w.used())
			}
			if remove == "unbind" {
				checkStates(t, w, "Unbound")
			} else {
				checkStates(t, w)
			}
		})
	}
}

func TestUnbindThatWasOvertakenLeavesTheNewBindAlone(t *testing.T) {
	t.Parallel()
	w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 1)
	arq := w.arqs("v")[0]
	w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
	card.dropping = func() { // a second caller unbinds and binds again in the meantime
		card.dropping = nil
		w.want(w.patch(unbinding(arq)), 202, "")
		w.want(w.patch(binding(instanceB, vgpuProvider(), arq)), 202, "")
	}
	w.want(w.patch(unbinding(arq)), 202, "")
	checkStates(t, w, "Unbound") // the first caller's unbind still holds, and frees the second handle, too
	w.checkFreed(card)
}

func TestOrphanedMdevIsReapedByTheNextReport(t *testing.T) {
	t.Parallel()
	w, card := vgpuWorld(t, fakecyborg.Config{}, 1, 1)
	arq := w.arqs("v")[0]
	card.during = func() {
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		card.mu.Lock()
		card.failDrop = errors.New("stuck")
		card.mu.Unlock()
	}
	w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 409, "")
	if w.used() != 1 || w.server.AttachHandles()[0].ARQ != "" {
		t.Fatalf("handle: %+v", w.server.AttachHandles())
	}
	if err := w.server.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("report: %v", err)
	}
	card.failDrop = nil
	settled(t, w.server.Report(t.Context()))
	w.checkFreed(card)
}

func TestMdevsAreMadeAgainAfterTheHostRestarted(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, 3, 2)
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
		before := maps.Clone(card.mdevs)
		clear(card.mdevs)
		settled(t, w.server.Report(t.Context()))
		if diff := cmp.Diff(either(quirks, before, map[string]driver.Mdev{}), card.mdevs); diff != "" {
			t.Errorf("quirks %t: mediated devices (-want +got):\n%s", quirks, diff)
		}
	}
}

func TestDeletionOvertakesARestoration(t *testing.T) {
	t.Parallel()
	w, card := vgpuWorld(t, fakecyborg.Config{}, 1, 1)
	w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
	card.during = func() { w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "") }
	settled(t, w.server.Report(t.Context()))
	w.checkFreed(card)
}

func TestConcurrentPatchesForOneInstanceBindOnlyOnce(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	w.fakeProfile("p", 1)
	const callers = 8
	var arqs []string
	for range callers {
		arqs = append(arqs, w.arqs("p")...)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for _, arq := range arqs {
		wg.Go(func() {
			r, err := w.trySend(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), arq)})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[r.status]++
		})
	}
	wg.Wait()
	if diff := cmp.Diff(map[int]int{202: 1, 400: callers - 1}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	w.server.CheckBound(t, instanceA, 1)
}

func TestTenantKeepsItsRequestWhenAnOperatorBindsIt(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w := fakeWorld(t, fakecyborg.Config{UpstreamQuirks: quirks})
		w.fakeProfile("p", 1)
		r := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"p"}`, token: "demo"})
		arq := r.list(t, "arqs")[0]["uuid"].(string)
		w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
		seen := w.send(sent{method: "GET", path: "/v2/accelerator_requests", token: "demo", plain: true}).list(t, "arqs")
		if want := either(quirks, 1, 0); len(seen) != want {
			t.Errorf("quirks %t: the tenant sees %d requests, want %d", quirks, len(seen), want)
		}
		w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceA, token: "demo"}), 204, "")
		w.server.CheckARQs(t, instanceA, either(quirks, 0, 1))
	}
}

func TestBindWithDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := vgpuWorld(t, fakecyborg.Config{BindDelay: 10 * time.Second}, 2, 2)
		arqs := w.arqs("v")
		start := time.Now()
		w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
		if time.Since(start) != 0 {
			t.Errorf("the PATCH took %s", time.Since(start))
		}
		checkStates(t, w, "BindStarted", "BindStarted")
		if got := w.get("/v2/accelerator_requests/" + arqs[0]).object(t); got["attach_handle_type"] != "" || got["instance_uuid"] != instanceA {
			t.Errorf("while binding: %v", got)
		}
		w.want(w.get("/v2/accelerator_requests?bind_state=resolved&instance="+instanceA), 423, "")
		elapse(10*time.Second - 1)
		checkStates(t, w, "BindStarted", "BindStarted")
		elapse(time.Nanosecond)
		w.server.CheckBound(t, instanceA, 2)
		if got := w.nova.sent(); len(got) != 1 || len(got[0]) != 2 || got[0][1].Status != "completed" || card.present() != 2 {
			t.Errorf("events %v, %d mediated devices", got, card.present())
		}
	})
}

func TestBindThatTakesLongerThanItsTimeoutFails(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		t.Run(fmt.Sprintf("quirks=%t", quirks), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, card := vgpuWorld(t, fakecyborg.Config{BindDelay: 90 * time.Second, UpstreamQuirks: quirks}, 1, 1)
				w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
				elapse(60 * time.Second)
				checkStates(t, w, either[fakecyborg.State](quirks, "BindFailed", "BindStarted"))
				elapse(time.Minute)
				if quirks { // upstream: bound, but no event is sent
					checkStates(t, w, "Bound")
					w.checkPosts(0)
					return
				}
				if got := w.nova.sent(); len(got) != 1 || got[0][0].Status != "failed" {
					t.Errorf("events: %v", got)
				}
				w.checkFreed(card)
			})
		})
	}
}

// An agent that hangs does not block a bind; upstream's bind goes on when the agent does.
func TestBindWhoseAgentHangsEnds(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, card := fpgaWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, `"accel:bitstream_id":"`+imageOne+`"`)
			card.writes = make(chan struct{})
			w.want(w.bindF(instanceA, "f"), 202, "")
			elapse(2 * time.Minute)
			checkStates(t, w, either[fakecyborg.State](quirks, "BindFailed", "BindStarted"))
			close(card.writes)
			synctest.Wait()
			checkStates(t, w, either[fakecyborg.State](quirks, "BindFailed", "Bound"))
		})
	}
}

func TestDelayedBindThatFailsNotifiesNova(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := vgpuWorld(t, fakecyborg.Config{BindDelay: time.Second}, 1, 1)
		card.failMake = errors.New("no room")
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
		elapse(time.Second)
		checkStates(t, w, "BindFailed")
		if got := w.nova.sent(); len(got) != 1 || got[0][0].Status != "failed" || w.used() != 0 || card.present() != 0 {
			t.Errorf("events %v, %d handles, %d mediated devices", got, w.used(), card.present())
		}
	})
}

// testRequestDeletedDuringABind: a request deleted during a bind still has its event.
func testRequestDeletedDuringABind(t *testing.T, quirks bool) {
	for _, rebind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks, BindDelay: 10 * time.Second}, 1, 1)
			arq := w.arqs("v")[0]
			w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
			time.Sleep(5 * time.Second)
			if rebind {
				w.want(w.patch(unbinding(arq)), 202, "")
				w.want(w.patch(binding(instanceB, vgpuProvider(), arq)), 202, "")
			} else {
				w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
			}
			elapse(6 * time.Second)
			if got := w.nova.sent(); len(got) != 1 || got[0][0].Status != "failed" || got[0][0].ServerUUID != instanceA {
				t.Errorf("events of the bind that was overtaken: %v", got)
			}
			elapse(time.Minute)
			want := 0
			if rebind {
				want = 1
				w.server.CheckBound(t, instanceB, 1)
			}
			if w.used() != want || card.present() != want {
				t.Errorf("left: %d mediated devices, %d handles, want %d", card.present(), w.used(), want)
			}
		})
	}
}

func TestCloseEndsDelayedBinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := vgpuWorld(t, fakecyborg.Config{BindDelay: time.Hour, BindTimeout: 2 * time.Hour}, 1, 1)
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
		start := time.Now()
		w.server.Close()
		if time.Since(start) != 0 {
			t.Errorf("Close took %s", time.Since(start))
		}
		checkStates(t, w, "BindStarted")
		w.want(w.get("/v2/accelerator_requests"), 200, "")
	})
}

func TestFaultsOfAgentAndEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		rule   fault.Rule
		status int
		state  fakecyborg.State
		posts  int
		mdevs  int
	}{
		{"none", fault.Rule{Operation: fault.ARQDelete, Action: fault.Drop}, 202, "Bound", 1, 1},
		{"mdev fails", fault.Rule{Operation: fault.MdevCreate, Action: fault.Status}, 500, "BindFailed", 0, 0},
		{"mdev made, reply lost", fault.Rule{Operation: fault.MdevCreate, Action: fault.Drop, When: fault.After}, 500, "BindFailed", 0, 0},
		{"event lost", fault.Rule{Operation: fault.EventSend, Action: fault.Drop}, 202, "Bound", 0, 1},
		{"event refused", fault.Rule{Operation: fault.EventSend, Action: fault.Status, Status: 503}, 400, "Bound", 0, 1},
		{"event sent, reply lost", fault.Rule{Operation: fault.EventSend, Action: fault.Status, When: fault.After}, 400, "Bound", 1, 1},
		{"event late", fault.Rule{Operation: fault.EventSend, Action: fault.Delay, Delay: time.Nanosecond}, 202, "Bound", 1, 1},
		{"bind refused", fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 503}, 503, "Initial", 0, 0},
		{"bind done, answer spoilt", fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 503, When: fault.After}, 503, "Bound", 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			faults := fault.NewSet()
			w, card := vgpuWorld(t, fakecyborg.Config{}, 1, 1, fakecyborg.WithFaults(faults))
			settled(t, faults.Set(tt.rule))
			w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), tt.status, "")
			checkStates(t, w, tt.state)
			if got := len(w.nova.sent()); got != tt.posts || card.present() != tt.mdevs {
				t.Errorf("%d events, %d mediated devices; want %d, %d", got, card.present(), tt.posts, tt.mdevs)
			}
		})
	}
}

func TestEventsAreKeptWithoutANova(t *testing.T) {
	t.Parallel()
	server := newServer(t, fakecyborg.Config{})
	settled(t, server.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{fake.New("cn0")}}))
	settled(t, server.Report(t.Context()))
	w := &world{t: t, server: server, client: inProcess(server)}
	arq := oneARQ(w)
	w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
	want := []sim.Event{{Name: "accelerator-request-bound", ServerUUID: instanceA, Tag: &arq, Status: "completed"}}
	if diff := cmp.Diff(want, server.Events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEventArrivesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	arq := oneARQ(w)
	var seen fakecyborg.State
	w.nova.onPost = func() { // Nova may ask Cyborg at once: no lock may be held
		seen = fakecyborg.State(w.get("/v2/accelerator_requests/" + arq).object(t)["state"].(string))
	}
	w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
	if seen != fakecyborg.StateBound {
		t.Errorf("state while the event is delivered: %q", seen)
	}
}

func TestMixedPatchBindsAndUnbinds(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	w.fakeProfile("p", 2)
	arqs := w.arqs("p")
	w.want(w.patch(binding(instanceA, fakeProvider(), arqs[0])), 202, "")
	add, remove := binding(instanceB, fakeProvider(), arqs[1]), unbinding(arqs[0])
	w.want(w.patch(add[:len(add)-1]+","+remove[1:]), 202, "")
	checkStates(t, w, "Unbound", "Bound")
	if got := w.nova.sent(); len(got) != 2 || len(got[1]) != 1 {
		t.Errorf("events: %v", got)
	}
}

func TestDelayedPatchThatIsRefusedHalfwaySendsNoEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := vgpuWorld(t, fakecyborg.Config{BindDelay: time.Second}, 1, 2)
		r := w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...))
		w.want(r, 404, "AttachHandle not found Matching deployable_id 1")
		elapse(time.Second)
		checkStates(t, w, "Bound", "BindFailed")
		w.checkPosts(0) // the answer has reported the failure
	})
}

func TestFailedUnbindDuringADelayedBind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := vgpuWorld(t, fakecyborg.Config{BindDelay: time.Second}, 1, 1)
		arq := w.arqs("v")[0]
		w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
		card.failDrop = errors.New("stuck")
		w.want(w.patch(unbinding(arq)), 500, "")
		elapse(time.Minute)
		checkStates(t, w, "BindFailed") // resolved, and not BindStarted
		card.failDrop = nil
		w.want(w.patch(unbinding(arq)), 202, "")
		w.checkFreed(card)
	})
}

func TestOneStuckMdevDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, 3, 3)
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
		failed := false
		card.dropping = func() { // only the first removal fails
			card.failDrop = nil
			if !failed {
				card.failDrop, failed = errors.New("stuck"), true
			}
		}
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 500, "")
		if want := either(quirks, 1, 3); len(w.states()) != want || w.used() != want || card.present() != want {
			t.Errorf("quirks %t: %d ARQs, %d handles, %d mediated devices; want %d", quirks, len(w.states()), w.used(), card.present(), want)
		}
	}
}
