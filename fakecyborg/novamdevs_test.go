package fakecyborg_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
)

// asNova is what nova-compute does with a Bound request of type MDEV whose device libvirt does not have.
func (h *hardware) asNova(uuid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mdevs[uuid] = driver.Mdev{UUID: uuid, Parent: "0000:af:00.0", Type: "nvidia-222"}
}

// Where Nova creates the mediated devices, the agent creates none, neither for a bind nor after a restart, and removes
// them: at the unbind, at the deletion, and those that it could not when the request went.
func TestTheAgentRemovesWhatNovaHasCreated(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		for _, states := range []bool{false, true} {
			for _, delay := range []time.Duration{0, time.Second} {
				synctest.Test(t, func(t *testing.T) {
					name := fmt.Sprintf("quirks %t, states %t, delay %s", quirks, states, delay)
					cfg := fakecyborg.Config{UpstreamQuirks: quirks, BindingStates: states, BindDelay: delay, MdevCreation: fakecyborg.MdevsByNova}
					w, card := vgpuWorld(t, cfg, 4, 2)
					present := func(when string, want int) {
						t.Helper()
						if got := card.present(); got != want {
							t.Errorf("%s, %s: %d mediated devices, want %d", name, when, got, want)
						}
					}
					arqs := w.arqs("v")
					w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
					elapse(delay)
					w.server.CheckBound(t, instanceA, 2)
					present("after the bind", 0)
					for _, a := range w.server.ARQs() {
						card.asNova(a.AttachHandleUUID)
					}
					settled(t, w.server.Report(t.Context()))
					present("after a report", 2)
					w.want(w.patch(unbinding(arqs[0])), 202, "")
					present("after an unbind", 1)

					settled(t, w.server.StopAgent("cn0"))
					card.Reboot()
					settled(t, w.server.StartAgent(t.Context(), "cn0"))
					present("after a restart", 0)
					w.server.CheckState(t, arqs[1], fakecyborg.StateBound)
					w.want(w.delete("/v2/accelerator_requests?arqs="+strings.Join(arqs, ",")), 204, "") // without a device
					if used := w.used(); used != 0 {
						t.Errorf("%s: %d handles are in use", name, used)
					}
				})
			}
		}
	}
}

// A failure of the agent, which has nothing to create, does not fail the bind; it keeps the device at the unbind.
func TestAnAgentThatCreatesNothingIsNotCalledForABind(t *testing.T) {
	t.Parallel()
	set := fault.NewSet("test")
	w, card := vgpuWorld(t, fakecyborg.Config{MdevCreation: fakecyborg.MdevsByNova}, 4, 1, fakecyborg.WithFaults(set))
	settled(t, set.Set(fault.Rule{Operation: fault.MdevCreate, Action: fault.Status}, fault.Rule{Operation: fault.MdevRemove, Action: fault.Status}))
	arqs := w.arqs("v")
	w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
	card.asNova(w.server.ARQs()[0].AttachHandleUUID)
	w.want(w.patch(unbinding(arqs...)), 500, "")
	if got := card.present(); got != 1 {
		t.Errorf("%d mediated devices after an unbind that failed, want 1", got)
	}
	w.want(w.patch(unbinding(arqs...)), 202, "")
	if got := card.present(); got != 0 || w.used() != 0 {
		t.Errorf("%d mediated devices, %d handles in use after the unbind", got, w.used())
	}
}
