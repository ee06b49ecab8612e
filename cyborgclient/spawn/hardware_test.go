package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestHardwareFaults spawns while the hardware fails. Either an ARQ becomes BindFailed or the spawn succeeds. The
// error names the resources that a host cannot release while it is down. They are freed once the host is back and the
// instance is released.
func TestHardwareFaults(t *testing.T) {
	t.Parallel()
	const image = "cccccccc-0000-4000-8000-000000000001"
	tests := []struct {
		name    string
		profile string
		rule    fault.Rule
		states  bool   // Cyborg has binding states, and releases the ARQs of a silent host
		says    string // in the error, which is ErrNotBound; empty: no error
		left    bool   // the error or the result names leftovers
	}{
		{name: "mdev create fails", profile: "mixed", says: "BindFailed", rule: fault.Rule{Operation: fault.MdevCreate, Action: fault.Status}},
		{name: "mdev made, word lost", profile: "mixed", says: "BindFailed", rule: fault.Rule{Operation: fault.MdevCreate, Action: fault.Drop, When: fault.After}},
		{name: "mdev slow, in time", profile: "mixed", rule: fault.Rule{Operation: fault.MdevCreate, Action: fault.Delay, Delay: 30 * time.Second}},
		{name: "mdev slow, bind timeout", profile: "mixed", says: "BindFailed", rule: fault.Rule{Operation: fault.MdevCreate, Action: fault.Delay, Delay: 90 * time.Second}},
		{name: "programming fails", profile: "bitstream", says: "BindFailed (not Bound: the log of Cyborg's agent on host cn0 has the cause)", rule: fault.Rule{Operation: fault.DeployableWrite, Action: fault.Status}},
		{name: "programmed, word lost", profile: "bitstream", says: "BindFailed", rule: fault.Rule{Operation: fault.DeployableWrite, Action: fault.Drop, When: fault.After}},
		{name: "agent fails one call", profile: "vgpu", says: "BindFailed", rule: fault.Rule{Operation: fault.AgentCall, Action: fault.Status}},
		{name: "agent silent", profile: "mixed", says: "BindFailed", left: true, rule: fault.Rule{Operation: fault.AgentCall, Action: fault.Drop}},
		{name: "agent silent, mdev made", profile: "mixed", says: "BindFailed", left: true, rule: fault.Rule{Operation: fault.AgentCall, Action: fault.Drop, When: fault.After}},
		{name: "agent silent, binding states", profile: "mixed", states: true, says: "BindFailed", rule: fault.Rule{Operation: fault.AgentCall, Action: fault.Drop, When: fault.After}},
		{name: "host reboots", profile: "mixed", says: "BindFailed", left: true, rule: fault.Rule{Operation: fault.AgentCall, Action: fault.Reboot, Delay: 5 * time.Minute}},
		{name: "host reboots, mdev made", profile: "mixed", says: "BindFailed", left: true, rule: fault.Rule{Operation: fault.AgentCall, Action: fault.Reboot, When: fault.After, Delay: 5 * time.Minute}},
		{name: "host reboots, binding states", profile: "mixed", states: true, says: "BindFailed", rule: fault.Rule{Operation: fault.AgentCall, Action: fault.Reboot, When: fault.After, Delay: 5 * time.Minute}},
	}
	for _, tt := range tests {
		for _, hosts := range []int{1, 2} {
			bubble(t, fmt.Sprintf("%s, %d tried", tt.name, hosts), func(t *testing.T) {
				model := simcloud.DefaultModel()
				model.Cyborg.AsyncBind, model.Cyborg.BindingStates = true, tt.states
				model.Images = []simcloud.Image{{ID: image, Name: "gzip", Data: fpgaImage(gzipID)}}
				model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "bitstream", Groups: []map[string]string{
					{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL_PAC_ARRIA10": "required", "accel:bitstream_id": image},
				}})
				w := newWorld(t, worldOpts{model: &model})
				w.connect(t, w.cloud.Provider(t), spawn.WithConfig(spawn.Config{MaxAttempts: hosts, PlacementOrder: true}),
					spawn.WithObserver(func(_ context.Context, p spawn.Progress) {
						if p.Step == spawn.StepClaim && p.Host == "cn1" { // which is sound
							w.cloud.Faults().Clear()
						}
					}))
				w.fail(t, tt.rule)
				result, err := w.flow.Run(t.Context(), request(tt.profile))
				if rules := w.cloud.Faults().Rules(); len(rules) > 0 && rules[0].Hits != 1 || len(rules) == 0 && result.Host != "cn1" {
					t.Errorf("the fault did not strike once: %v", rules)
				}
				left := errors.Is(err, spawn.ErrLeftover)
				if tt.says != "" && hosts == 1 && (!errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), tt.says)) {
					t.Errorf("got error %v, want ErrNotBound with %q", err, tt.says)
				}
				if tt.says == "" || hosts == 2 {
					settled(t, err)
				}
				if hosts == 2 {
					left = len(result.Leftovers) > 0
					w.define(t, result)
				}
				if left != tt.left {
					t.Errorf("leftovers %t, want %t: %v, %v", left, tt.left, err, result)
				}
				w.cloud.Faults().Clear()
				w.comeBack(t, tt.rule)
				if result != nil {
					for _, l := range result.Leftovers {
						settled(t, w.cyborg.DeleteARQs(t.Context(), []string{l.ID}))
					}
				} else if tt.left {
					settled(t, w.flow.Release(t.Context(), instance))
				}
				w.checkPromise(t, result, err)
				w.checkUnharmed(t, result, tt.profile)
			})
		}
	}
}

// comeBack waits until the host of a rule is up, or starts it.
func (w *world) comeBack(t *testing.T, rule fault.Rule) {
	t.Helper()
	switch {
	case rule.Action == fault.Reboot:
		time.Sleep(rule.Delay + time.Second)
	case rule.Operation == fault.AgentCall && rule.Action == fault.Drop:
		for _, host := range w.cloud.HostNames() {
			if err := w.cloud.StartHost(t.Context(), host); err != nil {
				t.Error(err)
			}
		}
	}
}

// checkUnharmed checks that another spawn succeeds.
func (w *world) checkUnharmed(t *testing.T, result *spawn.Result, profile string) {
	t.Helper()
	if result != nil {
		return
	}
	for _, host := range w.cloud.HostNames() {
		if err := w.cloud.Cyborg.ReportHost(t.Context(), host); err != nil {
			t.Errorf("report of host %s: %v", host, err)
		}
	}
	again, err := w.flow.Run(t.Context(), request(profile))
	if err != nil {
		t.Fatalf("the same spawn without a fault: %v", err)
	}
	w.checkPromise(t, again, nil)
}

// A device that vanishes between the claim and the bind stays in Placement and in Cyborg until its allocation is
// deleted. The ARQ becomes BindFailed or Bound, and nothing leaks.
func TestADeviceThatVanishesUnderASpawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		a := w.begin(t, instance)
		settled(t, a.Match(t.Context()))
		i := slices.IndexFunc(w.cloud.Cyborg.Deployables(), func(d fakecyborg.StoredDeployable) bool {
			return d.ProviderUUID == a.Bindings[0].DeviceRP
		})
		name := w.cloud.Cyborg.Deployables()[i].Name
		w.fail(t, fault.Rule{Operation: fault.DeviceFind, Subject: name, Action: fault.Drop, Times: -1})
		if err := w.cloud.Cyborg.ReportHost(t.Context(), a.Host); err == nil {
			t.Error("want an error of the report, because the provider is in use")
		}
		if err := walk(t.Context(), a.Bind, a.WaitBound); err != nil && !errors.Is(err, spawn.ErrNotBound) {
			t.Errorf("got error %v, want ErrNotBound or none", err)
		}
		unwindAll(t, a)
		if err := w.cloud.Cyborg.ReportHost(t.Context(), a.Host); err != nil {
			t.Error(err)
		}
		if slices.ContainsFunc(w.cloud.Cyborg.Deployables(), func(d fakecyborg.StoredDeployable) bool { return d.Name == name }) {
			t.Errorf("device %s is still offered", name)
		}
		w.checkPromise(t, nil, errors.New("given up"))
	})
}

// The periodic reports of the agents hit the same faults. The ARQs of a silent agent have the state unknown until the
// agent is back.
func TestAnAgentThatStopsAnsweringDuringItsReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := simcloud.DefaultModel()
		model.Cyborg.BindingStates = true
		w := newWorld(t, worldOpts{model: &model})
		result, err := w.flow.Run(t.Context(), request("vgpu"))
		settled(t, err)
		w.fail(t, fault.Rule{Operation: fault.AgentReport, Subject: result.Host, Action: fault.Drop})
		if err := w.cloud.Cyborg.ReportHost(t.Context(), result.Host); !errors.Is(err, fakecyborg.ErrAgentDown) {
			t.Errorf("got error %v, want ErrAgentDown", err)
		}
		time.Sleep(time.Minute)
		arq, err := w.cyborg.GetARQ(t.Context(), result.ARQs[0].UUID)
		if err != nil || arq.State != "unknown" {
			t.Errorf("got state %v, %v; want unknown", arq, err)
		}
		waiter, err := w.events.Prepare(instance, result.ARQs[0].UUID)
		settled(t, err)
		defer waiter.Close()
		settled(t, w.cloud.StartHost(t.Context(), result.Host))
		if err := waiter.Wait(t.Context(), time.Minute); err != nil {
			t.Errorf("no event for the ARQ that came back: %v (%v)", err, externalevent.ErrTimeout)
		}
		waiter.Close()
		w.checkPromise(t, result, nil)
	})
}
