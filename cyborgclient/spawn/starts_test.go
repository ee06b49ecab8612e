package spawn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// noting is a hypervisor that records the instances that it starts.
type noting struct {
	*hypervisor
	started []spawn.Instance
}

// Start implements spawn.Hypervisor.
func (n *noting) Start(ctx context.Context, i spawn.Instance) error {
	n.started = append(n.started, i)
	return n.hypervisor.Start(ctx, i)
}

// An agent needs the binding profiles of the ports, and may keep the instance as it is.
func TestTheHypervisorGetsTheWholeInstance(t *testing.T) {
	t.Parallel()
	plainPort := spawn.Port{Port: requestspec.Port{UUID: port2, VNICType: "normal"}}
	for name, tt := range map[string]struct {
		ports []spawn.Port
		run   func(ctx context.Context, s *site, flow *spawn.Flow, req spawn.Request) (*spawn.Result, error)
	}{
		"spawn": {[]spawn.Port{acceleratedPort(port1, "nic", mac1), plainPort}, func(ctx context.Context, _ *site, flow *spawn.Flow, req spawn.Request) (*spawn.Result, error) {
			return flow.Run(ctx, req)
		}},
		"unshelve": {[]spawn.Port{plainPort}, func(ctx context.Context, s *site, flow *spawn.Flow, req spawn.Request) (*spawn.Result, error) {
			i, err := s.launch(ctx, "gpu", req.Ports...)
			if err != nil {
				return nil, err
			}
			ops, err := flow.Operations()
			if err != nil {
				return nil, err
			}
			if err := ops.ShelveOffload(ctx, i); err != nil {
				return nil, err
			}
			i.Host = ""
			return ops.Unshelve(ctx, i, spawn.MoveOpts{})
		}},
		"evacuate": {[]spawn.Port{plainPort}, func(ctx context.Context, s *site, flow *spawn.Flow, req spawn.Request) (*spawn.Result, error) {
			i, err := s.launch(ctx, "gpu", req.Ports...)
			if err != nil {
				return nil, err
			}
			if err := s.guests.powerCut(i.Host); err != nil {
				return nil, err
			}
			s.guests.down[i.Host] = true
			ops, err := flow.Operations()
			if err != nil {
				return nil, err
			}
			return ops.Evacuate(ctx, i, spawn.MoveOpts{})
		}},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: portModel()})
			guests := &noting{hypervisor: s.guests}
			req := request("gpu")
			req.Ports = tt.ports
			result, err := tt.run(t.Context(), s, s.flow.On(guests), req)
			settled(t, err)
			if len(guests.started) != 1 {
				t.Fatalf("%d starts, want 1", len(guests.started))
			}
			req.ProjectID = s.cloud.ProjectID("admin")
			want := spawn.InstanceOf(req, result)
			want.UserID = guests.started[0].UserID
			if diff := cmp.Diff(want, guests.started[0]); diff != "" {
				t.Errorf("started instance (-want +got):\n%s", diff)
			}
			if name == "spawn" && want.Ports[0].ARQ() == "" {
				t.Error("the binding profile of the port names no ARQ")
			}
		})
	}
}

// The domain of a guest that did not start is deleted on its host.
func TestAGuestThatDidNotStartIsUndefined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		s.guests.fail["start"] = 1
		result, err := s.starts().Run(t.Context(), request("mixed"))
		settled(t, err)
		for at := range s.guests.saved {
			if at.host != result.Host {
				t.Errorf("host %s has the domain of instance %s, which is on %s", at.host, at.instance, result.Host)
			}
		}
		s.running(t, spawn.InstanceOf(request("mixed"), result), true)
		s.sound(t)
	})
}

// If the hypervisor cannot define the domain, the guest does not start there.
func TestAGuestThatCannotBeDefinedIsTriedOnTheNextHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		s.guests.fail["define"] = 1
		result, err := s.starts().Run(t.Context(), request("mixed"))
		settled(t, err)
		s.running(t, spawn.InstanceOf(request("mixed"), result), true)
		s.sound(t)
	})
}

// AddDevices attaches devices to a running instance: it creates its mediated devices, and neither starts nor destroys
// the guest, even after a failure.
func TestAddDevicesLeavesTheGuestAlone(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(context.Context, *spawn.Attempt) error{
		"success": nil,
		"failure": func(context.Context, *spawn.Attempt) error { return errHook },
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaMdevModel()})
			i := s.spawn(t, "")
			req := request("vgpu")
			req.Domain, req.Hooks.Prepare = []byte(s.guests.saved[placeOf(i)]), prepare
			result, err := s.starts().AddDevices(t.Context(), req)
			s.running(t, i, true)
			for _, call := range s.guests.calls {
				if call != "create mdev" && call != "remove mdev" {
					t.Errorf("call %q of the hypervisor", call)
				}
			}
			if err != nil {
				if !errors.Is(err, errHook) || len(s.definitions(t)) > 0 {
					t.Errorf("error %v with definitions %v", err, s.definitions(t))
				}
				s.sound(t)
				return
			}
			if defined := s.definitions(t); len(defined) != 1 || defined[0] != result.ARQs[0].AttachHandleUUID {
				t.Errorf("definitions %v, want the device of %v", defined, result.ARQs)
			}
			i.ARQs = uuidsOf(result.ARQs)
			settled(t, s.ops.HardReboot(t.Context(), i, result.Domain))
			s.sound(t)
			settled(t, s.guests.Destroy(t.Context(), i))
			settled(t, s.guests.Define(t.Context(), i, req.Domain))
			settled(t, s.starts().ReleaseDevices(t.Context(), i.UUID))
			if left := s.definitions(t); len(left) > 0 {
				t.Errorf("definitions %v after ReleaseDevices", left)
			}
			s.sound(t)
		})
	}
}

// A caller that starts the guest itself also destroys it before Release, which removes the definitions of its
// mediated devices.
func TestReleaseRemovesTheDefinitionsOfMdevs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: novaMdevModel()})
		i := s.spawn(t, "vgpu")
		settled(t, s.guests.Destroy(t.Context(), i))
		settled(t, s.guests.Undefine(t.Context(), i))
		settled(t, s.starts().Release(t.Context(), i.UUID))
		if left := s.definitions(t); len(left) > 0 {
			t.Errorf("definitions %v", left)
		}
		s.sound(t)
	})
}

// Without a hypervisor a flow ends with Compose, and has no operations.
func TestAFlowWithoutAHypervisorEndsWithCompose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	a, err := w.flow.Begin(t.Context(), request("gpu"))
	settled(t, err)
	settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind,
		a.ClaimHost, a.WaitBound, a.PrepareGuest, a.Compose, a.StartGuest))
	w.define(t, a.Result())
	w.cloud.CheckNoLeaks(t)
	again, err := w.flow.Begin(t.Context(), request("gpu")) // which would wait
	settled(t, err)
	again.Unwind(t.Context())
	if _, err := w.flow.Operations(); !errors.Is(err, spawn.ErrConfig) {
		t.Errorf("operations: %v, want ErrConfig", err)
	}
}
