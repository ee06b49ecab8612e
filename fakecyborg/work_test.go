package fakecyborg_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// hits checks that each rule has acted as often.
func hits(t *testing.T, faults *fault.Set, want int) {
	t.Helper()
	for _, state := range faults.Rules() {
		if state.Hits != want {
			t.Errorf("%s acted %d times, want %d", state.Rule.Operation, state.Hits, want)
		}
	}
}

// The agent does not answer the call that makes the mediated device, and no later call until it
// is restarted: the request is BindFailed, and everything is cleaned up when the agent restarts.
func TestAnAgentThatStopsFailsTheBindAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, when := range []fault.When{fault.Before, fault.After} {
		faults := fault.NewSet()
		w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 2, fakecyborg.WithFaults(faults))
		arqs := w.arqs("v")
		settled(t, faults.Set(fault.Rule{Operation: fault.AgentCall, Subject: "cn0", When: when, Action: fault.Drop}))
		r := w.patch(binding(instanceA, vgpuProvider(), arqs...))
		if r.status != 500 || !strings.Contains(r.fault(), "the agent is down on host cn0") {
			t.Errorf("%s: got %d %s", when, r.status, r.fault())
		}
		checkStates(t, w, "BindFailed", "Initial")
		hits(t, faults, 1)
		if err := w.server.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
			t.Errorf("%s: report of a silent agent: %v", when, err)
		}
		settled(t, w.server.StartAgent(t.Context(), "cn0"))
		w.want(w.delete("/v2/accelerator_requests?arqs="+strings.Join(arqs, ",")), 204, "")
		if card.present() != 0 || w.used() != 0 {
			t.Errorf("%s: left %d mediated devices, %d handles", when, card.present(), w.used())
		}
	}
}

func TestOneCallThatFailsDoesNotSilenceTheAgent(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet()
	w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 1, fakecyborg.WithFaults(faults))
	settled(t, faults.Set(fault.Rule{Operation: fault.AgentCall, Subject: "cn0", Action: fault.Status}))
	w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 500, "")
	w.want(w.patch(binding(instanceB, vgpuProvider(), w.arqs("v")...)), 202, "")
	checkStates(t, w, "BindFailed", "Bound")
	if card.present() != 1 || w.used() != 1 {
		t.Errorf("%d mediated devices, %d handles, want one of each", card.present(), w.used())
	}
}

func TestAFaultOfAReportConcernsItsHostOnly(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet()
	w, _ := vgpuWorld(t, fakecyborg.Config{}, 2, 1, fakecyborg.WithFaults(faults))
	settled(t, faults.Set(fault.Rule{Operation: fault.AgentReport, Subject: "cn9", Action: fault.Drop, Times: -1}))
	settled(t, w.server.Report(t.Context()))
	hits(t, faults, 0)
	for action, down := range map[fault.Action]bool{fault.Status: false, fault.Drop: true} {
		settled(t, faults.Set(fault.Rule{Operation: fault.AgentReport, Subject: "cn0", Action: action}))
		err := w.server.Report(t.Context())
		var report *driver.ReportError
		if !errors.As(err, &report) || report.Host != "cn0" || report.Step != "ask the agent" {
			t.Errorf("%s: got %v, want a ReportError of cn0", action, err)
		}
		again := w.server.Report(t.Context())
		if errors.Is(again, fakecyborg.ErrAgentDown) != down {
			t.Errorf("%s: the next report: %v", action, again)
		}
		settled(t, w.server.StartAgent(t.Context(), "cn0"))
	}
}

// A device that vanishes is no longer offered, and a bind to it fails; a device in use stays
// until it is released.
func TestAVanishedDevice(t *testing.T) {
	t.Parallel()
	vanish := fault.Rule{Operation: fault.DeviceFind, Subject: "cn0_0000:af:00.0", Action: fault.Drop, Times: -1}
	t.Run("unused", func(t *testing.T) {
		t.Parallel()
		faults := fault.NewSet()
		w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 1, fakecyborg.WithFaults(faults))
		arqs := w.arqs("v")
		settled(t, faults.Set(vanish))
		if err := w.server.Report(t.Context()); err != nil || len(w.server.Devices()) != 0 {
			t.Errorf("report %v, devices %v", err, w.server.Devices())
		}
		w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 404,
			"Deployable not found with resource provider uuid="+vgpuProvider())
		checkStates(t, w, "BindFailed")
		faults.Clear()
		if err := w.server.Report(t.Context()); err != nil || len(w.server.Devices()) != 1 {
			t.Errorf("report of the device that is back %v, devices %v", err, w.server.Devices())
		}
		w.checkFreed(card)
	})
	t.Run("in use", func(t *testing.T) {
		t.Parallel()
		faults := fault.NewSet()
		w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 1, fakecyborg.WithFaults(faults))
		arqs := w.arqs("v")
		w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
		settled(t, faults.Set(vanish))
		if err := w.server.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "is in use by ARQ "+arqs[0]) {
			t.Errorf("report: %v, want the ARQ named", err)
		}
		w.server.CheckBound(t, instanceA, 1)
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		if err := w.server.Report(t.Context()); err != nil || len(w.server.Devices()) != 0 || card.present() != 0 {
			t.Errorf("report %v, devices %v, %d mediated devices", err, w.server.Devices(), card.present())
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		faults := fault.NewSet()
		w, _ := vgpuWorld(t, fakecyborg.Config{}, 2, 1, fakecyborg.WithFaults(faults))
		settled(t, faults.Set(fault.Rule{Operation: fault.DeviceFind, Action: fault.Status}))
		if err := w.server.Report(t.Context()); err == nil || len(w.server.Devices()) != 1 {
			t.Errorf("report %v, devices %v; want an error and the device", err, w.server.Devices())
		}
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
	})
}

// If a bitstream cannot be written, or the agent's answer is lost, the request is BindFailed,
// with its event, and the handle is freed.
func TestAFailedProgrammingFailsTheBind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule   fault.Rule
		writes int
	}{
		{fault.Rule{Operation: fault.DeployableWrite, Subject: "cn0_0000:3b:00.0", Action: fault.Status}, 0},
		{fault.Rule{Operation: fault.DeployableWrite, Action: fault.Drop, When: fault.After}, 1},
		{fault.Rule{Operation: fault.AgentCall, Subject: "cn0", Action: fault.Status}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			faults := fault.NewSet()
			w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:bitstream_id":"`+imageOne+`"`, fakecyborg.WithFaults(faults))
			settled(t, faults.Set(tt.rule))
			w.want(w.bindF(instanceA, "f"), 202, "")
			checkStates(t, w, "BindFailed")
			hits(t, faults, 1)
			posts := w.nova.sent()
			if len(posts) != 1 || posts[0][0].Status != "failed" || w.used() != 0 || len(card.images) != tt.writes {
				t.Errorf("posts %v, %d handles, %d writes", posts, w.used(), len(card.images))
			}
			w.want(w.bindF(instanceB, "f"), 202, "") // the region is as good as before
			w.server.CheckBound(t, instanceB, 1)
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
			w.server.CheckHandlesInUse(t, fpgaProvider(), 0)
		})
	}
}

// A host that reboots while a bind is under way: the bind fails, and the agent is back
// after the delay.
func TestAHostThatRebootsFailsTheBindAndComesBack(t *testing.T) {
	t.Parallel()
	for _, when := range []fault.When{fault.Before, fault.After} {
		synctest.Test(t, func(t *testing.T) {
			faults := fault.NewSet()
			card := newHardware("test", vgpu("af", 4))
			w := newWorld(t, fakecyborg.Config{}, nil, fakecyborg.WithFaults(faults))
			settled(t, w.server.AddHost(driver.Host{Name: "cn1", Drivers: []driver.Driver{card}, Reboot: card.Reboot}))
			settled(t, w.server.Report(t.Context()))
			w.profile("v", `[{"resources:VGPU":"1"}]`)
			w.want(w.patch(binding(instanceB, vgpuProvider(), w.arqs("v")...)), 202, "") // has its device made again
			settled(t, faults.Set(fault.Rule{Operation: fault.AgentCall, Subject: "cn1", When: when, Action: fault.Reboot, Delay: time.Minute}))
			r := w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...))
			if r.status != 500 || !strings.Contains(r.fault(), "cn1, which reboots") || card.present() != 0 {
				t.Errorf("%s: got %d %s, %d mediated devices", when, r.status, r.fault(), card.present())
			}
			checkStates(t, w, "Bound", "BindFailed")
			time.Sleep(time.Minute + time.Second)
			if card.present() != 1 {
				t.Errorf("%s: %d mediated devices after the restart, want the other instance's", when, card.present())
			}
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
			if card.present() != 0 || w.used() != 0 {
				t.Errorf("%s: left %d mediated devices, %d handles", when, card.present(), w.used())
			}
		})
	}
}

// A silent agent does not answer for the time of its rule, and then continues; the host loses nothing.
func TestAnAgentThatIsSilentForATime(t *testing.T) {
	t.Parallel()
	for _, operation := range []sim.OperationName{fault.AgentCall, fault.AgentReport} {
		synctest.Test(t, func(t *testing.T) {
			faults := fault.NewSet()
			w, card := vgpuWorld(t, fakecyborg.Config{BindingStates: true}, 2, 2, fakecyborg.WithFaults(faults))
			defer w.server.Close()
			arqs := w.arqs("v")
			w.want(w.patch(binding(instanceB, vgpuProvider(), arqs[0])), 202, "")
			settled(t, faults.Set(fault.Rule{Operation: operation, Subject: "cn0", Action: fault.Drop, Delay: 5 * time.Minute}))
			if operation == fault.AgentCall {
				w.want(w.patch(binding(instanceA, vgpuProvider(), arqs[1])), 500, "")
			} else if err := w.server.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
				t.Errorf("the report of a silent agent: %v", err)
			}
			hits(t, faults, 1)
			time.Sleep(4 * time.Minute)
			if err := w.server.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
				t.Errorf("%s: after four minutes: %v", operation, err)
			}
			if state := w.server.ARQs()[0].State; state != "unknown" {
				t.Errorf("%s: the bound request is %s while the agent is silent, want unknown", operation, state)
			}
			time.Sleep(time.Minute + time.Second)
			if err := w.server.Report(t.Context()); err != nil {
				t.Errorf("%s: after its time: %v", operation, err)
			}
			if state := w.server.ARQs()[0].State; state != "Bound" || card.present() != 1 {
				t.Errorf("%s: afterwards %s, %d mediated devices", operation, state, card.present())
			}
		})
	}
}

// The fault rule of an instance applies to the POST of its events.
func TestEventsAreSentAsTheirRuleSays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		rule   fault.Rule
		status int
		want   string // POSTs by the places of the ARQs
		after  time.Duration
	}{
		{"no fault", fault.Rule{}, 202, "012", 0},
		{"drop", fault.Rule{Action: fault.Drop}, 202, "", 0},
		{"drop the answer", fault.Rule{Action: fault.Drop, When: fault.After}, 202, "012", 0},
		{"delay", fault.Rule{Action: fault.Delay, Delay: time.Minute}, 202, "012", time.Minute},
		{"duplicate", fault.Rule{Action: fault.Duplicate}, 202, "012 012", 0},
		{"reorder", fault.Rule{Action: fault.Reorder}, 202, "210", 0},
		{"fail", fault.Rule{Action: fault.Status, Status: 503}, 400, "", 0},
	}
	for _, tt := range tests {
		for _, form := range []fakecyborg.EventForm{"shipped", "train"} {
			t.Run(tt.name+"/"+string(form), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					faults := fault.NewSet()
					w, arqs := formWorld(t, fakecyborg.Config{EventForm: form}, faults)
					if rule := tt.rule; rule.Action != "" {
						rule.Operation, rule.Subject = fault.EventSend, instanceA
						settled(t, faults.Set(rule))
					}
					began := time.Now()
					w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), tt.status, "")
					var posts []string
					for _, post := range w.nova.sent() {
						places := ""
						for _, event := range post {
							places += fmt.Sprint(slices.Index(arqs, *event.Tag))
						}
						posts = append(posts, places)
					}
					if got := strings.Join(posts, " "); got != tt.want || time.Since(began) != tt.after {
						t.Errorf("POSTs %q after %s, want %q after %s", got, time.Since(began), tt.want, tt.after)
					}
					checkStates(t, w, "Bound", "Bound", "Bound")
				})
			})
		}
	}
}

func TestWorkTakesItsOwnActionsOnly(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet()
	newWorld(t, fakecyborg.Config{}, nil, fakecyborg.WithFaults(faults))
	for _, rule := range []fault.Rule{
		{Operation: fault.MdevCreate, Action: fault.Reboot, Delay: time.Second},
		{Operation: fault.MdevCreate, Action: fault.Truncate},
		{Operation: fault.DeviceFind, Action: fault.Delay, Delay: time.Second},
		{Operation: fault.ARQBind, Action: fault.Reboot, Delay: time.Second},
		{Operation: fault.EventSend, Action: fault.Malformed},
		{Operation: fault.MdevCreate, Action: fault.Duplicate},
	} {
		if err := faults.Set(rule); !errors.Is(err, fault.ErrRule) {
			t.Errorf("%s %s: got error %v, want ErrRule", rule.Operation, rule.Action, err)
		}
	}
	var names []sim.OperationName
	for _, o := range faults.Describe() {
		names = append(names, o.Name)
	}
	if !slices.Equal(names, fakecyborg.Operations()) {
		t.Errorf("described %v, want %v", names, fakecyborg.Operations())
	}
}
