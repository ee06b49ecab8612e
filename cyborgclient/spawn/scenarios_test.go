package spawn_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
)

// TestScenarios has what Nova's functional tests (10.3) and its tests of the
// conductor (10.4) demand, and what neither has (10.8), each by its row.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, table := range []struct {
		section string
		rows    map[string]func(*testing.T)
	}{
		{"10.3", serverRows()}, {"10.3", operationRows()}, {"10.3", portRows()},
		{"10.4", conductorRows()}, {"10.8", missingRows()},
	} {
		for name, run := range table.rows {
			t.Run(table.section+"_"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, run)
			})
		}
	}
}

func fixtureSite(t *testing.T, config spawn.Config) *site {
	return newSite(t, worldOpts{model: fixtureModel(), config: config})
}

// deletes counts the requests that deleted ARQs.
func (w *world) deletes() int {
	return strings.Count(w.arqCalls(), "delete")
}

func serverRows() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"create_delete_server_ok": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			i := s.spawnFor(t, false)
			s.checkUsage(t, i.Host, 1)
			if err := s.ops.Delete(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			if s.deletes() != 1 {
				t.Errorf("%d requests to delete ARQs, want 1", s.deletes())
			}
			s.nothingHeld(t)
		},
		"create_server_with_error": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			g := &startedGuests{w: s.world, failing: 9, err: spawn.ErrAbort}
			req := request("fakedev-dp")
			_, err := s.flow.On(g).Run(t.Context(), req)
			if !errors.Is(err, spawn.ErrAbort) || s.deletes() != 1 {
				t.Errorf("got error %v after %d requests to delete ARQs, want the abort after 1", err, s.deletes())
			}
			s.nothingHeld(t)
			if err := s.ops.Delete(t.Context(), spawn.Instance{UUID: instance, Host: "accel_host0", Flavor: req.Flavor}); err != nil {
				t.Fatal(err)
			}
			if s.deletes() != 1 {
				t.Errorf("%d requests to delete ARQs, want no second one: Cyborg lists none", s.deletes())
			}
		},
		"create_server_with_local_delete": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			i := s.spawnFor(t, false)
			if err := s.ops.Stop(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			s.powerCut(t, i.Host)
			if err := s.ops.LocalDelete(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			if s.deletes() != 1 || len(s.cloud.Placement.Allocations()) > 0 {
				t.Errorf("%d deletes, allocations %v", s.deletes(), s.cloud.Placement.Allocations())
			}
			if err := s.cloud.StartHost(t.Context(), i.Host); err != nil {
				t.Fatal(err)
			}
			s.cloud.RemoveGuest(instance)
			s.nothingHeld(t)
		},
		"resched": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			g := &startedGuests{w: s.world, failing: 1, err: errHook}
			result, err := s.flow.On(g).Run(t.Context(), request("fakedev-dp"))
			if err != nil || len(g.tried) != 2 || g.tried[0] == g.tried[1] || s.deletes() != 1 {
				t.Fatalf("error %v, spawns on %v, %d deletes; want the second host after one delete", err, g.tried, s.deletes())
			}
			s.checkUsage(t, result.Host, 1)
			s.cloud.CheckNoLeaks(t)
		},
		"resched_fails": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			g := &startedGuests{w: s.world, failing: 9, err: errHook}
			// Nova deletes three times for two hosts, the last time in vain.
			if _, err := s.flow.On(g).Run(t.Context(), request("fakedev-dp")); !errors.Is(err, errHook) || s.deletes() != 2 {
				t.Errorf("error %v after %d deletes, want 2", err, s.deletes())
			}
			s.nothingHeld(t)
		},
		"instance_with_cyborg_dev_profile_is_blocked": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			i := s.spawnFor(t, false)
			var blocked *spawn.BlockedError
			err := spawn.Permit(spawn.OpHealAllocations, i)
			want := "Healing allocation for instance " + instance + " with Cyborg device profile request is not supported."
			if !errors.As(err, &blocked) || blocked.Code != 8 || blocked.Text != want {
				t.Errorf("got %v", err)
			}
		},
	}
}

// spawnFor runs an instance with the device of its flavor, or of a port.
func (s *site) spawnFor(t *testing.T, port bool) spawn.Instance {
	t.Helper()
	if !port {
		return s.spawnOf(t, request("fakedev-dp"))
	}
	req := request("") // Nova's flavor without a profile
	req.Ports = []spawn.Port{acceleratedPort(port1, "fakedev-dp-port", "")}
	return s.spawnOf(t, req)
}

// spawnOf runs an instance whose guest the site starts.
func (s *site) spawnOf(t *testing.T, req spawn.Request) spawn.Instance {
	t.Helper()
	result, err := s.flow.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	i := spawn.InstanceOf(req, result)
	if err := errors.Join(s.guests.Define(t.Context(), i, result.Domain), s.guests.Start(t.Context(), i)); err != nil {
		t.Fatal(err)
	}
	s.cloud.CheckNoLeaks(t)
	s.cloud.ForgetRequests()
	return i
}

func (s *site) unshelve(ctx context.Context, i spawn.Instance) error {
	_, err := s.ops.Unshelve(ctx, i, spawn.MoveOpts{})
	return err
}

// keeps is a row of an operation that changes nothing of the accelerators.
func keeps(ports bool, run func(context.Context, *site, spawn.Instance) error) func(*testing.T) {
	return func(t *testing.T) {
		s := fixtureSite(t, spawn.Config{})
		i := s.spawnFor(t, ports)
		if err := run(t.Context(), s, i); err != nil {
			t.Fatal(err)
		}
		s.checkUsage(t, i.Host, 1)
		if s.deletes() > 0 {
			t.Errorf("ARQs were deleted: %s", s.arqCalls())
		}
		s.sound(t)
	}
}

func permitted(ops ...spawn.Operation) func(context.Context, *site, spawn.Instance) error {
	return func(_ context.Context, _ *site, i spawn.Instance) error {
		for _, op := range ops {
			if err := spawn.Permit(op, i); err != nil {
				return err
			}
		}
		return nil
	}
}

// harmless are the operations that Nova's tests try with the device of a flavor
// and with that of a port.
func harmless() map[string]func(context.Context, *site, spawn.Instance) error {
	return map[string]func(context.Context, *site, spawn.Instance) error{
		"soft_reboot": func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.SoftReboot(ctx, i) },
		"hard_reboot": func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.HardReboot(ctx, i, nil) },
		"stop_start": func(ctx context.Context, s *site, i spawn.Instance) error {
			return errors.Join(s.ops.Stop(ctx, i), s.ops.Start(ctx, i))
		},
		"pause_unpause": permitted(spawn.OpPause, spawn.OpUnpause),
		"lock_unlock":   permitted(spawn.OpLock, spawn.OpUnlock),
		"backup":        permitted(spawn.OpBackup),
		"create_image":  permitted(spawn.OpSnapshot),
		"rescue_unrescue": func(ctx context.Context, s *site, i spawn.Instance) error {
			saved, err := s.ops.Rescue(ctx, i, domainxml.NewDomain(domainxml.DomainOpts{Name: "rescue", UUID: i.UUID, MemoryMiB: 1, VCPUs: 1}))
			if err != nil {
				return err
			}
			return s.ops.Unrescue(ctx, i, saved)
		},
		"rebuild_ok": func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Rebuild(ctx, i, nil) },
	}
}

// refuses is a row of an operation that is blocked.
func refuses(ports bool, change func(*spawn.Instance), run func(context.Context, *site, spawn.Instance) error) func(*testing.T) {
	return func(t *testing.T) {
		s := fixtureSite(t, spawn.Config{})
		text := "Feature not supported with instances that have accelerators."
		if ports {
			text = "Feature not supported with Ports that have accelerators."
		}
		i := s.spawnFor(t, ports)
		if change != nil {
			change(&i)
		}
		var blocked *spawn.BlockedError
		if err := run(t.Context(), s, i); !errors.As(err, &blocked) || blocked.Code != http.StatusBadRequest || blocked.Text != text {
			t.Errorf("got %v, want 400 %s", err, text)
		}
		if got := s.writes(); len(got) > 0 {
			t.Errorf("the refused operation wrote %v", got)
		}
		s.checkUsage(t, i.Host, 1)
	}
}

func operationRows() map[string]func(*testing.T) {
	resize := func(_ context.Context, _ *site, i spawn.Instance) error { return spawn.PermitResize(i, plainFlavor()) }
	suspend := permitted(spawn.OpSuspend)
	migrate := permitted(spawn.OpMigrate)
	live := permitted(spawn.OpLiveMigrate)
	evacuate := func(ctx context.Context, s *site, i spawn.Instance) error {
		_, err := s.ops.Evacuate(ctx, i, spawn.MoveOpts{})
		return err
	}
	rebuild := func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Rebuild(ctx, i, nil) }
	shelve := func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Shelve(ctx, i) }
	offload := func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.ShelveOffload(ctx, i) }
	service := func(version int) func(*spawn.Instance) {
		return func(i *spawn.Instance) { i.ServiceVersion = version }
	}
	rpc := func(version int) func(*spawn.Instance) { return func(i *spawn.Instance) { i.RPC = version } }
	attach := func(_ context.Context, _ *site, i spawn.Instance) error {
		return spawn.Permit(spawn.OpAttachPort, withOnlyPort(i, acceleratedPort(port2, "fakedev-dp-port", "")))
	}
	detach := func(_ context.Context, _ *site, i spawn.Instance) error {
		return spawn.Permit(spawn.OpDetachPort, withOnlyPort(i, i.Ports[0]))
	}
	rows := map[string]func(*testing.T){
		"resize_fails":                    refuses(false, nil, resize),
		"suspend_fails":                   refuses(false, nil, suspend),
		"migrate_fails":                   refuses(false, nil, migrate),
		"live_migrate_fails":              refuses(false, nil, live),
		"evacuate_old_compute":            refuses(false, service(52), evacuate),
		"rebuild_old_compute":             refuses(false, service(52), rebuild),
		"shelve_old_compute":              refuses(false, service(53), shelve),
		"shelve_with_compute_rpc_pin_5_0": refuses(false, rpc(1), shelve),
		"shelve_with_compute_rpc_pin_5_13": keeps(false, func(ctx context.Context, s *site, i spawn.Instance) error {
			i.RPC = 13
			return errors.Join(s.ops.Shelve(ctx, i), s.unshelve(ctx, i))
		}),
		"shelve_and_unshelve_ok": keeps(false, func(ctx context.Context, s *site, i spawn.Instance) error {
			if err := s.ops.Shelve(ctx, i); err != nil {
				return err
			}
			if n := len(s.cloud.Cyborg.ARQs()); n != 1 {
				return errors.New("the ARQ is gone while SHELVED")
			}
			return s.unshelve(ctx, i)
		}),
		"shelve_offload_and_unshelve_ok":   shelveOffloadRow(0),
		"shelve_offload_instance_rpc_5_0":  shelveOffloadRow(1),
		"shelve_offload_instance_rpc_5_13": shelveOffloadRow(13),
		"evacuate_ok":                      evacuateRow,
		"port_resize_reject":               refuses(true, nil, resize),
		"port_suspend_reject":              refuses(true, nil, suspend),
		"port_migrate_reject":              refuses(true, nil, migrate),
		"port_live_migrate_reject":         refuses(true, nil, live),
		"port_shelve_reject":               refuses(true, nil, shelve),
		"port_shelve_offload_reject":       refuses(true, nil, offload),
		"port_evacuate_reject":             refuses(true, nil, evacuate),
		"port_attach_reject":               refuses(true, nil, attach),
		"port_detach_reject":               refuses(true, nil, detach),
	}
	for name, run := range harmless() {
		rows[name] = keeps(false, run)
		rows["port_"+name] = keeps(true, run)
	}
	return rows
}

// shelveOffloadRow goes from one ARQ to none and back to one.
func shelveOffloadRow(rpc int) func(*testing.T) {
	return func(t *testing.T) {
		s := fixtureSite(t, spawn.Config{})
		i := s.spawnFor(t, false)
		i.RPC = rpc
		if err := s.ops.ShelveOffload(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		s.nothingHeld(t)
		i.Host, i.ARQs = "", nil
		result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
		if err != nil {
			t.Fatal(err)
		}
		s.checkUsage(t, result.Host, 1)
		s.sound(t)
	}
}

func evacuateRow(t *testing.T) {
	s := fixtureSite(t, spawn.Config{})
	i := s.spawnFor(t, false)
	s.loseHost(t, i.Host)
	result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
	if err != nil || result.Host == i.Host {
		t.Fatalf("got %+v, %v; want another host than %s", result, err, i.Host)
	}
	s.checkUsage(t, result.Host, 1)
	s.sound(t)
}

func fixturePorts(ids ...string) []spawn.Port {
	var ports []spawn.Port
	for _, id := range ids {
		ports = append(ports, acceleratedPort(id, "fakedev-dp-port", ""))
	}
	return ports
}

func portRows() map[string]func(*testing.T) {
	reject := func(want error, text string, change func(*spawn.Request)) func(*testing.T) {
		return func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			req := request("")
			req.Ports = fixturePorts(port1)
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
		"create_with_two_accels_ok": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			req := request("")
			req.Ports = fixturePorts(port1, port2)
			i := s.spawnOf(t, req)
			s.checkUsage(t, i.Host, 2)
			if err := s.ops.Delete(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			s.nothingHeld(t)
			for _, port := range i.Ports {
				if diff := cmp.Diff(map[string]any{"trusted": true}, domainxml.CleanBindingProfile(port.BindingProfile)); diff != "" {
					t.Errorf("binding profile after the delete (-want +got):\n%s", diff)
				}
			}
		},
		"create_with_two_accels_all_binding_error": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			req := request("")
			req.Ports = fixturePorts(port1, port2)
			s.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, Times: -1})
			if result, err := s.flow.Run(t.Context(), req); err == nil || result != nil {
				t.Errorf("got %+v, %v", result, err)
			}
			s.nothingHeld(t)
		},
		"port_binding_profile": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			req := request("")
			req.Ports = fixturePorts(port1)
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
		"port_delete_server": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			i := s.spawnFor(t, true)
			if err := s.ops.Delete(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			s.nothingHeld(t)
		},
		// Neutron clears binding:profile when it unbinds a port, and lists no port that was
		// deleted: what Cyborg lists of the instance is what has to go.
		"delete_after_neutron_cleared_the_port": func(t *testing.T) {
			for _, remove := range []func(*spawn.Operations, context.Context, spawn.Instance) error{(*spawn.Operations).Delete, (*spawn.Operations).LocalDelete} {
				for name, ports := range map[string][]spawn.Port{"cleared": {{Port: requestspec.Port{UUID: port1}}}, "gone": nil} {
					s := fixtureSite(t, spawn.Config{})
					i := s.spawnFor(t, true)
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
		"port_and_flavor_accels_both": func(t *testing.T) {
			s := fixtureSite(t, spawn.Config{})
			req := request("fakedev-dp")
			req.Ports = fixturePorts(port1)
			i := s.spawnOf(t, req)
			s.checkUsage(t, i.Host, 2)
			if err := s.ops.Delete(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			s.nothingHeld(t)
		},
	}
}

// arqsFor makes the attempt of a request up to its bind.
func (w *world) arqsFor(t *testing.T, req spawn.Request) *spawn.Attempt {
	t.Helper()
	a, err := w.flow.Begin(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind); err != nil {
		t.Fatal(err)
	}
	return a
}

func conductorRows() map[string]func(*testing.T) {
	bound := func(flavor, port bool) func(*testing.T) {
		return func(t *testing.T) { boundRow(t, flavor, port) }
	}
	bindFails := func(t *testing.T) {
		w := newWorld(t, worldOpts{model: portModel(), config: spawn.Config{MaxAttempts: 1}})
		w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, When: fault.After})
		result, err := w.flow.Run(t.Context(), portRequest())
		w.failed(t, result, err, spawn.StepBind, cyborgclient.ErrUnavailable)
		w.checkWrites(t, claimed, created, created, "arq.bind Internal Server Error", arqDeleted, unclaimed)
	}
	return map[string]func(*testing.T){
		"build_instances_arq_failure": func(t *testing.T) {
			w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1, ExclusiveProject: true}})
			w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, Times: -1})
			for _, id := range []string{instance, "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"} {
				req := request("gpu")
				req.Instance = id
				if _, err := w.flow.Run(t.Context(), req); err == nil || len(certainlyLeft(err)) > 0 {
					t.Errorf("instance %s: %v", id, err)
				}
			}
			if w.deletes() != 2 {
				t.Errorf("%d cleanups, want one for each instance", w.deletes())
			}
			w.cloud.CheckNoLeaks(t)
		},
		"create_bind_arqs_no_device_profile": func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.spawned(t, request(""))
			if calls := w.arqCalls(); calls != "" {
				t.Errorf("Cyborg was asked for %s", calls)
			}
		},
		"create_bind_arqs": bound(true, false),
		"create_bind_arqs_device_profile_arq_get_fail": func(t *testing.T) {
			w := newWorld(t, worldOpts{model: portModel()})
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 400, Nth: 2})
			result, err := w.flow.Run(t.Context(), portRequest())
			w.failed(t, result, err, spawn.StepCreate, cyborgclient.ErrInvalid)
		},
		"create_arq_for_port":                     bound(false, true),
		"create_bind_arqs_for_port_multi_devices": rowPortMulti,
		"schedule_and_build_with_arqs_bind_ok":    bound(true, true),
		"schedule_and_build_with_device_profile":  bound(true, false),
		"schedule_and_build_bind_exception":       bindFails,
		"create_and_bind_arq_for_instance":        bindFails,
		"create_and_bind_arq_from_extra_spec":     bound(true, false),
		"create_and_bind_arq_from_request_net":    bound(false, true),
		"create_and_bind_arq_from_both":           bound(true, true),
		"unshelve_instance_with_device_profile":   shelveOffloadRow(0),
		"unshelve_instance_arq_bind_fail":         unshelveBindFails,
		"rebuild_instance_with_device_profile":    harmlessRow("rebuild_ok"),
		"evacuate_instance_with_device_profile":   evacuateRow,
		"evacuate_instance_arq_bind_fail":         evacuateBindFails,
		"cleanup_arqs_on_reschedule":              func(t *testing.T) { cleanupOnReschedule(t, request("gpu")) },
		"cleanup_arqs_on_reschedule_by_uuid":      func(t *testing.T) { cleanupOnReschedule(t, portRequest()) },
	}
}

func harmlessRow(name string) func(*testing.T) { return keeps(false, harmless()[name]) }

// boundRow has the bindings that Nova hands to Cyborg: node name, provider of
// the group, instance; all ARQs in one PATCH.
func boundRow(t *testing.T, flavor, port bool) {
	w := newWorld(t, worldOpts{model: portModel()})
	req := portRequest()
	if !flavor {
		req.Flavor = request("").Flavor
	}
	if !port {
		req.Ports = nil
	}
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

func rowPortMulti(t *testing.T) {
	w := newWorld(t, worldOpts{model: portModel()})
	w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper { return renamed{next, `"nic"`, `"nic2"`} })
	result, err := w.flow.Run(t.Context(), portRequest())
	w.failed(t, result, err, spawn.StepCreate, nil)
}

func unshelveBindFails(t *testing.T) {
	s := fixtureSite(t, spawn.Config{})
	i := s.spawnFor(t, false)
	if err := s.ops.ShelveOffload(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	i.Host, i.ARQs = "", nil
	s.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, When: fault.After, Times: -1})
	if err := s.unshelve(t.Context(), i); err == nil || len(certainlyLeft(err)) > 0 {
		t.Errorf("got %v", err)
	}
	s.nothingHeld(t)
}

func evacuateBindFails(t *testing.T) {
	s := fixtureSite(t, spawn.Config{})
	i := s.spawnFor(t, false)
	s.loseHost(t, i.Host)
	s.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, When: fault.After, Times: -1})
	if _, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{}); err == nil || len(certainlyLeft(err)) > 0 {
		t.Errorf("got %v", err)
	}
	if arqs := s.cloud.Cyborg.ARQs(); len(arqs) > 0 {
		t.Errorf("ARQs stay: %v", arqs)
	}
}

func cleanupOnReschedule(t *testing.T, req spawn.Request) {
	w := newWorld(t, worldOpts{model: portModel()})
	g := &startedGuests{w: w, failing: 9, err: errHook}
	result, err := w.flow.On(g).Run(t.Context(), req)
	w.failed(t, result, err, spawn.StepStart, errHook)
	if len(g.tried) != 2 || w.deletes() != 2 {
		t.Errorf("started on %v, %d cleanups", g.tried, w.deletes())
	}
}
