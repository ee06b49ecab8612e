package fakecyborg_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

func TestMdevsAreMadeAgainWhenTheAgentStarts(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		// upstream creates no device again, so that no request may be shown to wait for one
		w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks, BindingStates: quirks}, 4, 2)
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
		settled(t, w.server.StopAgent("cn0"))
		if err := w.server.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
			t.Errorf("report of a host that is down: %v", err)
		}
		w.want(w.patch(binding(instanceB, vgpuProvider(), w.arqs("v")...)), 500, "") // no driver creates the device
		card.Reboot()
		settled(t, w.server.StartAgent(t.Context(), "cn0"))
		if got, want := card.present(), either(quirks, 2, 0); got != want {
			t.Errorf("quirks %t: %d mediated devices after the restart, want %d", quirks, got, want)
		}
		w.server.CheckBound(t, instanceA, 2)
		w.checkPosts(1) // the bind's
	}
}

// bootWorld is a world with two bound requests, that shows binding states.
func bootWorld(t *testing.T) (*world, *hardware, []string) {
	t.Helper()
	w, card := vgpuWorld(t, fakecyborg.Config{BindingStates: true, HeartbeatPeriod: 5 * time.Second, MissedBeats: 2}, 4, 2)
	arqs := w.arqs("v")
	w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
	return w, card, arqs
}

// shown checks what the API shows of the requests of the instance, and that a
// state of the specification shows no handle and is not resolved.
func (w *world) shown(want ...fakecyborg.State) {
	w.t.Helper()
	var have []fakecyborg.State
	hidden := false
	for _, a := range w.get("/v2/accelerator_requests?instance="+instanceA).list(w.t, "arqs") {
		state := fakecyborg.State(a["state"].(string))
		have = append(have, state)
		resolved := state == fakecyborg.StateBound || state == fakecyborg.StateBindFailed
		hidden = hidden || !resolved
		if (a["attach_handle_type"] != "") != (state == fakecyborg.StateBound) {
			w.t.Errorf("%s shows the handle %v %v", state, a["attach_handle_type"], a["attach_handle_uuid"])
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		w.t.Errorf("states shown (-want +got):\n%s", diff)
	}
	w.want(w.get("/v2/accelerator_requests?bind_state=resolved&instance="+instanceA), either(hidden, 200, 423), "")
}

func TestSilentAgentMakesStatesUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, arqs := bootWorld(t)
		time.Sleep(time.Hour)
		w.shown("Bound", "Bound") // the agent runs
		time.Sleep(3 * time.Second)
		settled(t, w.server.StopAgent("cn0")) // 3 s after its last beat
		time.Sleep(7 * time.Second)
		w.shown("Bound", "Bound")
		time.Sleep(time.Second)
		w.shown("unknown", "unknown")
		w.server.CheckState(t, arqs[0], fakecyborg.StateUnknown)
		w.want(w.patch(binding(instanceB, vgpuProvider(), arqs[0])), 409,
			"Bad state: unknown for ARQ: "+arqs[0]+". Expected state(s): ['Initial', 'Unbound']")
		settled(t, w.server.StartAgent(t.Context(), "cn0"))
		w.shown("Bound", "Bound")
	})
}

func TestUnknownRequestsCanBeReleased(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"unbind", "delete"} {
		synctest.Test(t, func(t *testing.T) {
			w, card, arqs := bootWorld(t)
			settled(t, w.server.StopAgent("cn0"))
			time.Sleep(time.Minute)
			if how == "unbind" {
				w.want(w.patch(unbinding(arqs...)), 202, "")
				checkStates(t, w, "Unbound", "Unbound")
			} else {
				w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
				checkStates(t, w)
			}
			if w.used() != 2 {
				t.Errorf("%s: %d handles in use, want 2: their mediated devices may still be there", how, w.used())
			}
			settled(t, w.server.StartAgent(t.Context(), "cn0"))
			if w.used() != 0 || card.present() != 0 {
				t.Errorf("%s: left: %d handles, %d mediated devices", how, w.used(), card.present())
			}
		})
	}
}

func TestProvisioningEndsBoundOrFailed(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("broken=%t", broken), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, card, arqs := bootWorld(t)
				settled(t, w.server.StopAgent("cn0"))
				card.Reboot()
				if broken {
					card.failMake = errors.New("no room")
				}
				card.during = func() { time.Sleep(time.Second) }
				done := make(chan error)
				go func() { done <- w.server.StartAgent(t.Context(), "cn0") }()
				time.Sleep(500 * time.Millisecond)
				w.shown("provisioning", "provisioning")
				w.want(w.patch(binding(instanceB, vgpuProvider(), arqs[0])), 409, "")
				err := <-done
				if (err != nil) != broken {
					t.Errorf("start: %v", err)
				}
				state, status := fakecyborg.StateBound, "completed"
				if broken { // three reports in a row have to fail
					w.shown("provisioning", "provisioning")
					for range 2 {
						if err := w.server.ReportHost(t.Context(), "cn0"); err == nil {
							t.Error("the report names no failure")
						}
					}
					state, status = fakecyborg.StateBindFailed, "failed"
				}
				w.shown(state, state)
				want := []sim.Event{
					{Name: "accelerator-request-bound", ServerUUID: instanceA, Tag: &arqs[0], Status: status},
					{Name: "accelerator-request-bound", ServerUUID: instanceA, Tag: &arqs[1], Status: status},
				}
				if posts := w.nova.sent(); len(posts) != 2 {
					t.Errorf("%d posts of events, want the bind's and one more", len(posts))
				} else if diff := cmp.Diff(want, posts[1]); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				card.failMake = nil
				w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
				w.checkFreed(card)
			})
		})
	}
}

// TestAFailedRestoreIsTriedAgain: each report tries again, also after the request is BindFailed.
func TestAFailedRestoreIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{1, 2, 3, 7} {
		w, card, arqs := bootWorld(t)
		settled(t, w.server.StopAgent("cn0"))
		card.Reboot()
		card.failMake = errors.New("no room")
		_ = w.server.StartAgent(t.Context(), "cn0")
		for range failures - 1 {
			_ = w.server.ReportHost(t.Context(), "cn0")
		}
		state, posts := "provisioning", 2
		if failures >= 3 {
			state, posts = "BindFailed", 3
		}
		w.shown(fakecyborg.State(state), fakecyborg.State(state))
		card.failMake = nil
		if err := w.server.ReportHost(t.Context(), "cn0"); err != nil {
			t.Errorf("%d failures: %v", failures, err)
		}
		w.shown(fakecyborg.StateBound, fakecyborg.StateBound)
		want := []sim.Event{
			{Name: "accelerator-request-bound", ServerUUID: instanceA, Tag: &arqs[0], Status: "completed"},
			{Name: "accelerator-request-bound", ServerUUID: instanceA, Tag: &arqs[1], Status: "completed"},
		}
		sent := w.nova.sent()
		if len(sent) != posts {
			t.Fatalf("%d failures: %d posts of events, want %d", failures, len(sent), posts)
		}
		if diff := cmp.Diff(want, sent[posts-1]); diff != "" {
			t.Errorf("%d failures: last events (-want +got):\n%s", failures, diff)
		}
		if card.present() != 2 {
			t.Errorf("%d failures: %d mediated devices, want 2", failures, card.present())
		}
	}
}

func TestProvisioningRequestsCanBeReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card, arqs := bootWorld(t)
		settled(t, w.server.StopAgent("cn0"))
		card.Reboot()
		card.during = func() { time.Sleep(time.Second) }
		done := make(chan error)
		go func() { done <- w.server.StartAgent(t.Context(), "cn0") }()
		time.Sleep(500 * time.Millisecond)
		w.want(w.patch(unbinding(arqs[0])), 202, "")                        // the agent is at work on this one
		w.want(w.delete("/v2/accelerator_requests?arqs="+arqs[1]), 204, "") // and not yet on that one
		if err := <-done; err != nil {
			t.Error(err)
		}
		checkStates(t, w, "Unbound")
		w.checkFreed(card)
		w.checkPosts(1) // the bind's
	})
}

// TestHostThatGoesDownAgainWhileProvisioning leaves the work to its next start.
func TestHostThatGoesDownAgainWhileProvisioning(t *testing.T) {
	t.Parallel()
	w, card, _ := bootWorld(t)
	settled(t, w.server.StopAgent("cn0"))
	card.Reboot()
	card.failMake = errors.New("power failure")
	card.during = func() { _ = w.server.StopAgent("cn0") }
	if err := w.server.StartAgent(t.Context(), "cn0"); err == nil {
		t.Error("the start succeeded")
	}
	w.shown("provisioning", "provisioning")
	card.failMake, card.during = nil, nil
	settled(t, w.server.StartAgent(t.Context(), "cn0"))
	w.shown("Bound", "Bound")
	if card.present() != 2 {
		t.Errorf("%d mediated devices", card.present())
	}
}

func TestUnknownHostHasNoAgent(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	if err := w.server.StopAgent("cn9"); !errors.Is(err, fakecyborg.ErrHost) {
		t.Error(err)
	}
	if err := w.server.StartAgent(t.Context(), "cn9"); !errors.Is(err, fakecyborg.ErrHost) {
		t.Error(err)
	}
}

func TestAgentThatIsDownProgramsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{newHardware("test", fpgaCard("FPGA"))}, withImages(t))
	settled(t, w.server.StopAgent("cn0"))
	if r := w.programAPI(imageOne, ""); r.status != 500 || !strings.Contains(r.fault(), "the agent is down on host cn0") {
		t.Errorf("got %d %s", r.status, r.fault())
	}
}
