package spawn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
)

// TestScenarios has rows of Nova's functional tests of ports (10.3), and what Nova's tests lack (10.8).
// TestOperations has the rows of the operations, TestFailureTable the rows of failures.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for section, rows := range map[string]map[string]func(*testing.T){"10.3": portRows(), "10.8": missingRows()} {
		for name, run := range rows {
			bubble(t, section+"_"+name, run)
		}
	}
}

// fixtureSite returns a site and a request for an instance with accelerated ports.
func fixtureSite(t *testing.T, ports ...string) (*site, spawn.Request) {
	t.Helper()
	req := request("")
	for _, id := range ports {
		req.Ports = append(req.Ports, acceleratedPort(id, "fakedev-dp-port", ""))
	}
	return newSite(t, worldOpts{model: fixtureModel()}), req
}

// spawnOf spawns an instance and starts its guest.
func (s *site) spawnOf(t *testing.T, req spawn.Request) spawn.Instance {
	t.Helper()
	result, err := s.flow.Run(t.Context(), req)
	settled(t, err)
	i := spawn.InstanceOf(req, result)
	settled(t, errors.Join(s.guests.Define(t.Context(), i, result.Domain), s.guests.Start(t.Context(), i)))
	s.cloud.CheckNoLeaks(t)
	s.cloud.ForgetRequests()
	return i
}

func portRows() map[string]func(*testing.T) {
	reject := func(want error, text string, change func(*spawn.Request)) func(*testing.T) {
		return func(t *testing.T) {
			s, req := fixtureSite(t, port1)
			change(&req)
			if _, err := s.flow.Run(t.Context(), req); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %q", err, text)
			}
			if got := s.writes(); len(got) > 0 {
				t.Errorf("it wrote %v", got)
			}
		}
	}
	return map[string]func(*testing.T){
		"create_and_bind_arq_from_both": boundRow,
		"create_with_two_accels_ok": func(t *testing.T) {
			s, req := fixtureSite(t, port1, port2)
			i := s.spawnOf(t, req)
			s.checkUsage(t, i.Host, 2)
			settled(t, s.ops.Delete(t.Context(), i))
			s.nothingHeld(t)
			for _, port := range i.Ports {
				checkDiff(t, "binding profile after the delete (-want +got)", map[string]any{"trusted": true}, domainxml.CleanBindingProfile(port.BindingProfile))
			}
		},
		"port_binding_profile": func(t *testing.T) {
			s, req := fixtureSite(t, port1)
			req.Ports[0].BindingProfile = nil
			result, err := s.flow.Run(t.Context(), req)
			if err != nil || len(result.Ports) != 1 || len(result.Devices) != 0 {
				t.Fatalf("got %+v, %v", result, err)
			}
			profile := result.Ports[0].BindingProfile
			slot, _ := profile["pci_slot"].(string)
			want := map[string]any{"physical_network": "PHYNET1", "arq_uuid": result.ARQs[0].UUID, "pci_slot": slot}
			if diff := cmp.Diff(want, profile); diff != "" || !strings.HasPrefix(slot, "0000:0c:0.") {
				t.Errorf("slot %q, binding profile (-want +got):\n%s", slot, diff)
			}
		},
		// Neutron clears binding:profile when it unbinds a port, and does not list a deleted port. The ARQs to delete
		// are those that Cyborg lists for the instance.
		"delete_after_neutron_cleared_the_port": func(t *testing.T) {
			for _, remove := range []func(*spawn.Operations, context.Context, spawn.Instance) error{(*spawn.Operations).Delete, (*spawn.Operations).LocalDelete} {
				for name, ports := range map[string][]spawn.Port{"cleared": {{Port: requestspec.Port{UUID: port1}}}, "gone": nil} {
					s, req := fixtureSite(t, port1)
					i := s.spawnOf(t, req)
					i.Ports = ports
					s.cloud.RemoveGuest(i.UUID)
					if err := remove(s.ops, t.Context(), i); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					s.nothingHeld(t)
				}
			}
		},
		"port_multi_device_reject": reject(spawn.ErrRequest, "request multiple devices for single port", func(r *spawn.Request) {
			r.Ports[0].DeviceProfile = "fakedev-dp-multi"
		}),
		"port_old_version_service_reject": reject(spawn.ErrRequest, "Port with cyborg profile is not available until upgrade finished.", func(r *spawn.Request) {
			r.Options = requestspec.Options{ComputeVersion: 56}
		}),
		"port_without_profile_reject": reject(spawn.ErrRequest, "no device profile for port "+port1, func(r *spawn.Request) {
			r.Ports[0].DeviceProfile = ""
		}),
	}
}

// arqsFor runs the attempt of a request up to its bind.
func (w *world) arqsFor(t *testing.T, req spawn.Request) *spawn.Attempt {
	t.Helper()
	a, err := w.flow.Begin(t.Context(), req)
	settled(t, err)
	settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind))
	return a
}

// boundRow has the bindings that Nova passes to Cyborg: node name, provider of the group, instance, with all ARQs in
// one PATCH.
func boundRow(t *testing.T) {
	w := newWorld(t, worldOpts{model: portModel()})
	req := portRequest()
	calls := w.watched(t, spawn.Config{})
	a := w.arqsFor(t, req)
	want := 0
	for _, arq := range w.cloud.Cyborg.ARQs() {
		want++
		group := "device_profile_0" + a.PortOf[arq.UUID]
		if providers := a.Chosen.Mappings[group]; !slices.Equal(providers, []string{arq.DeviceRPUUID}) {
			t.Errorf("ARQ %s is on provider %s, group %s on %v", arq.UUID, arq.DeviceRPUUID, group, providers)
		}
		if arq.Hostname != a.Host || arq.InstanceUUID != instance || w.cloud.ProviderUUID(arq.Hostname) == "" {
			t.Errorf("ARQ %s: host %q, instance %s", arq.UUID, arq.Hostname, arq.InstanceUUID)
		}
	}
	if want != len(a.ARQs) || strings.Count(strings.Join(*calls, " "), "bind") != 1 {
		t.Errorf("%d ARQs of %d, calls %v; want one bind for all", want, len(a.ARQs), *calls)
	}
	a.Unwind(t.Context())
	w.cloud.CheckNoLeaks(t)
}
