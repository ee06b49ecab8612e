package spawn_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

// spawnGuest is a whole spawn, guest included.
func (s *stage) spawnGuest(req spawn.Request) drill.Flow {
	return func(ctx context.Context, cloud *simcloud.Cloud) error {
		w, err := s.agentOn(ctx, cloud)
		if err != nil {
			return err
		}
		result, err := w.flow.Run(ctx, req)
		if err != nil {
			return err
		}
		return cloud.DefineGuest(sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)})
	}
}

// deleteGuest removes the guest and then releases its accelerators.
func (s *stage) deleteGuest(ctx context.Context, cloud *simcloud.Cloud) error {
	w, err := s.agentOn(ctx, cloud)
	if err != nil {
		return err
	}
	cloud.RemoveGuest(instance)
	return w.flow.Release(ctx, instance)
}

// Every flow is drilled with a few faults here, and with all of them under the build tag drill. A test that calls
// drill.Run itself is not parallel. Its cases are, and would have to wait for all other parallel tests.
func TestDrillSpawn(t *testing.T) {
	t.Parallel()
	for name, isUnkind := range map[string]bool{"kind": false, "unkind": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage()
			drill.Run(t, s.beside(s.spawnGuest(request("mixed"))), s.drilled(drilled(400), isUnkind))
		})
	}
}

func TestDrillDelete(t *testing.T) {
	s := newStage()
	config := s.drilled(drilled(100), true)
	config.Setup = s.spawnGuest(request("mixed"))
	drill.Run(t, s.beside(s.deleteGuest), config)
}

// spawnOnBrokenHost prefers the first host, whose card permanently fails to create mediated devices.
func (s *stage) spawnOnBrokenHost(ctx context.Context, cloud *simcloud.Cloud) error {
	var rules []fault.Rule
	for _, handle := range cloud.Cyborg.AttachHandles() {
		if handle.Hostname == "cn0" && handle.Type == driver.HandleMDEV {
			rules = append(rules, fault.Rule{Operation: fault.MdevCreate, Subject: handle.UUID, Action: fault.Status, Times: -1})
		}
	}
	for _, state := range cloud.Faults().Rules() {
		rules = append(rules, state.Rule)
	}
	if err := cloud.Faults().Set(rules...); err != nil {
		return err
	}
	req := request("mixed")
	req.Order = preferring(cloud, "cn0")
	err := s.spawnGuest(req)(ctx, cloud)
	for _, guest := range cloud.Guests() {
		if guest.UUID != neighbor && guest.Host != "cn1" {
			panic("the guest is on host " + guest.Host)
		}
	}
	return err
}

// The bind on the first host fails permanently. The guest starts on the second host.
func TestDrillReschedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t)
		settled(t, newStage().spawnOnBrokenHost(t.Context(), cloud))
		var binds []int
		for _, r := range cloud.Requests() {
			if r.Operation == fault.ARQBind {
				binds = append(binds, r.Status)
			}
		}
		if len(binds) != 2 || binds[0] < 400 || binds[1] >= 400 {
			t.Errorf("binds answered %v, want a failure and a success", binds)
		}
	})
	s := newStage()
	drill.Run(t, s.beside(s.spawnOnBrokenHost), s.drilled(drilled(200), false))
}
