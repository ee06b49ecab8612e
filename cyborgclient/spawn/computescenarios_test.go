package spawn_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
)

// TestComputeScenarios has what Nova's tests of nova-compute and of its API
// demand, each by its row; where Nova loses devices the row demands better.
func TestComputeScenarios(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"accel_build_resources_no_device_profile":          buildWithoutProfile,
		"accel_build_resources":                            buildResources,
		"accel_build_resources_exception":                  buildException,
		"accel_build_resources_with_port_device_profile":   buildWithPort,
		"arq_bind_wait_exit_early":                         waitExitEarly,
		"arq_bind_wait_exit_early_no_arq_uuids":            waitWithoutUUIDs,
		"arq_bind_wait":                                    waitForEvents,
		"arq_bind_timeout":                                 waitTimeout,
		"arq_bind_exception":                               waitException,
		"spawn_called_with_accel_info":                     buildResources,
		"delete_arqs_if_build_res_exception":               startException,
		"delete_arqs_if_build_res_exception_no_dp":         startExceptionWithoutProfile,
		"split_network_arqs":                               buildWithPort,
		"delete_instance_with_accels_ok":                   deleteKinds("gpu", "accelerator.arq.delete arqs"),
		"delete_instance_no_dp":                            deleteKinds(""),
		"power_on_with_accels":                             powerOn,
		"reboot_with_accels_ok":                            rebootKinds("gpu", 1),
		"reboot_no_dp":                                     rebootKinds("", 0),
		"delete_arqs_if_needed_with_dp":                    deleteKinds("gpu", "accelerator.arq.delete arqs"),
		"delete_arqs_if_needed_without_dp":                 deleteKinds(""),
		"delete_arqs_if_needed_with_exception":             deleteException,
		"delete_arqs_if_needed_by_uuid":                    deleteKinds("port only", "accelerator.arq.delete arqs"),
		"delete_arqs_if_needed_by_uuid_and_dp":             deleteKinds("port", "accelerator.arq.delete arqs"),
		"shelve_and_offload_with_accel_uuids":              offloadDeletesOnce,
		"shelve_with_accel_uuids":                          shelveDeletesNone,
		"unshelve_with_arqs":                               unshelveWaits(0, nil),
		"unshelve_with_arqs_failes_cleanup_resources":      unshelveFails,
		"unshelve_with_arqs_timeout":                       unshelveWaits(10*time.Minute, externalevent.ErrTimeout),
		"shelved_poll_with_accel_uuids":                    offloadDeletesOnce,
		"block_accelerators":                               blockAccelerators,
		"block_port_accelerators":                          blockPortAccelerators,
		"shelve":                                           blockShelve,
		"shelve_offload":                                   blockShelveOffload,
		"provision_instances_with_accels_ok":               provisionGroups,
		"provision_instances_no_dp":                        provisionWithoutProfile,
		"local_delete_for_arqs":                            localDeleteForARQs,
		"resize_with_accelerator":                          resizeWithAccelerator,
		"check_support_vnic_accelerator_before_and_after":  supportVNIC,
		"accel_build_resources_of_a_flavor_and_of_several": buildSeveral,
	} {
		t.Run("10.5_"+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, run)
		})
	}
}

// gets counts the lists of ARQs, all and those of one instance.
func (s *site) gets() (n int) {
	for _, r := range s.cloud.Requests() {
		if r.Operation == fault.ARQList {
			n++
		}
	}
	return n
}

func buildWithoutProfile(t *testing.T) {
	s := newSite(t, worldOpts{})
	s.cloud.ForgetRequests()
	result, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.cloud.Requests() {
		if r.Service == "accelerator" {
			t.Errorf("Cyborg was asked: %s %s", r.Method, r.Path)
		}
	}
	s.checkPromise(t, result, err)
}

func buildResources(t *testing.T) {
	s := newSite(t, worldOpts{})
	result, err := s.flow.Run(t.Context(), request("mixed"))
	if err != nil || len(result.ARQs) != 4 || len(result.Devices) != 4 {
		t.Fatalf("%+v, %v; want four ARQs and their devices", result, err)
	}
	diff, err := domainxml.Diff(result.Domain, result.Devices)
	if err != nil || len(diff.Present) != 4 {
		t.Errorf("the hypervisor gets %+v, %v", diff, err)
	}
	s.checkPromise(t, result, nil)
}

func buildSeveral(t *testing.T) {
	s := newSite(t, worldOpts{model: portModel()})
	ports := []spawn.Port{acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"), acceleratedPort(port2, "nic", "52:54:00:1e:59:c4")}
	i := s.spawn(t, "mixed", ports...)
	if len(i.ARQs) != 6 {
		t.Errorf("ARQs %v, want four of the flavor and two of ports", i.ARQs)
	}
	if err := s.ops.HardReboot(t.Context(), i, domainxml.NewDomain(domainxml.DomainOpts{})); err != nil {
		t.Fatal(err)
	}
	s.running(t, i, true)
	s.sound(t)
}

func buildException(t *testing.T) {
	s := newSite(t, worldOpts{})
	s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 404, Times: -1})
	result, err := s.flow.Run(t.Context(), request("gpu"))
	var failure *spawn.Error
	if !errors.As(err, &failure) || failure.Step != spawn.StepWait || len(s.cloud.Cyborg.ARQs()) > 0 {
		t.Errorf("%v, ARQs %v; want the build aborted and the ARQs gone", err, s.cloud.Cyborg.ARQs())
	}
	s.checkPromise(t, result, err)
}

// buildWithPort: three ARQs, one of them a port's, are two accelerators and one
// for the network.
func buildWithPort(t *testing.T) {
	model := portModel()
	for n := range model.DeviceProfiles {
		if model.DeviceProfiles[n].Name == "gpu" {
			model.DeviceProfiles[n].Groups = []map[string]string{{"resources:FPGA": "2", "trait:CUSTOM_FPGA_INTEL": "required"}}
		}
	}
	s := newSite(t, worldOpts{model: model})
	req := request("gpu")
	req.Ports = []spawn.Port{acceleratedPort(port1, "nic", "52:54:00:1e:59:c3")}
	result, err := s.flow.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.ARQs) != 3 || len(result.Devices) != 2 || len(result.Ports) != 1 {
		t.Errorf("%d ARQs, devices %v, ports %v; want 3, 2, 1", len(result.ARQs), result.Devices, result.Ports)
	}
	if slices.ContainsFunc(result.Devices, func(d domainxml.Hostdev) bool { return d.ARQ == result.Ports[0].ARQ() }) {
		t.Error("the port's ARQ is a host device, too")
	}
	s.checkPromise(t, result, err)
}

func waitExitEarly(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "mixed")
	if err := s.ops.HardReboot(t.Context(), i, nil); err != nil {
		t.Fatal(err)
	}
	if n := s.gets(); n != 1 {
		t.Errorf("%d lists of ARQs, want one", n)
	}
	s.sound(t)
}

func waitWithoutUUIDs(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "mixed")
	i.ARQs = nil
	if err := s.ops.HardReboot(t.Context(), i, nil); err != nil {
		t.Fatal(err)
	}
	if n := s.gets(); n != 1 {
		t.Errorf("%d lists of ARQs, want one for the UUIDs and the states", n)
	}
	s.sound(t)
}

func waitForEvents(t *testing.T) {
	s := newSite(t, worldOpts{model: slowModel(10 * time.Second)})
	s.cloud.ForgetRequests()
	result, err := s.flow.Run(t.Context(), request("mixed"))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.gets(); n < 2 || n > 5 {
		t.Errorf("%d lists of ARQs, want one before the wait, one after and few polls", n)
	}
	s.checkPromise(t, result, err)
}

func waitTimeout(t *testing.T) {
	s := newSite(t, worldOpts{model: slowModel(time.Hour)})
	result, err := s.flow.Run(t.Context(), request("gpu"))
	if !errors.Is(err, externalevent.ErrTimeout) || !errors.Is(err, spawn.ErrNotBound) {
		t.Errorf("error %v, want the timeout", err)
	}
	s.checkPromise(t, result, err)
}

func waitException(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "gpu")
	s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403})
	err := s.ops.HardReboot(t.Context(), i, nil)
	if !errors.Is(err, cyborgclient.ErrForbidden) {
		t.Errorf("error %v, want the refusal of the list", err)
	}
	s.running(t, i, true)
	s.sound(t)
}

// failingStart spawns with a hypervisor that does not start the guest.
func failingStart(t *testing.T, req spawn.Request) *site {
	t.Helper()
	s := newSite(t, worldOpts{})
	s.cloud.ForgetRequests()
	result, err := s.flow.On(failsToStart(errors.Join(spawn.ErrAbort, errHypervisor))).Run(t.Context(), req)
	if !errors.Is(err, errHypervisor) {
		t.Errorf("error %v, want the hypervisor's", err)
	}
	s.checkPromise(t, result, err)
	return s
}

func startException(t *testing.T) {
	s := failingStart(t, request("gpu"))
	deleted := 0
	for _, asked := range s.asked() {
		if strings.HasPrefix(asked, "accelerator.arq.delete") {
			deleted++
		}
	}
	if deleted != 1 {
		t.Errorf("asked %v, want one deletion", s.asked())
	}
}

func startExceptionWithoutProfile(t *testing.T) {
	s := failingStart(t, spawn.Request{Instance: instance, Flavor: plainFlavor()})
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("Cyborg was asked for %v", asked)
	}
}

// deleteKinds deletes an instance and compares the requests to Cyborg.
func deleteKinds(kind string, want ...string) func(*testing.T) {
	return func(t *testing.T) {
		s := newSite(t, worldOpts{model: portModel()})
		var i spawn.Instance
		switch kind {
		case "port only":
			i = s.spawn(t, "", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
		case "port":
			i = s.spawn(t, "gpu", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
		default:
			i = s.spawn(t, kind)
		}
		if err := s.ops.Delete(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]string{}, want...), s.asked()); diff != "" {
			t.Errorf("asked of Cyborg (-want +got):\n%s", diff)
		}
		settled(t, gone(s, i))
	}
}

func deleteException(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "gpu")
	s.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: -1})
	err := s.ops.Delete(t.Context(), i)
	var failure *spawn.Error
	if !errors.As(err, &failure) || failure.Leftovers[0].ID != i.ARQs[0] {
		t.Errorf("error %v; Nova logs it, here it names the ARQ", err)
	}
	if len(s.cloud.Placement.Allocations()) > 0 {
		t.Error("the allocation was kept for the ARQ's sake")
	}
	s.cloud.Faults().Clear()
	if err := s.ops.Delete(t.Context(), i); err != nil {
		t.Error(err)
	}
	settled(t, gone(s, i))
}

func powerOn(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "mixed")
	if err := s.ops.Stop(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if err := s.ops.Start(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	s.running(t, i, true)
	if devices, err := domainxml.Read([]byte(s.guests.runs[placeOf(i)])); err != nil || len(devices) != 4 {
		t.Errorf("the guest has %v, %v", devices, err)
	}
	s.sound(t)
}

func rebootKinds(profile string, lists int) func(*testing.T) {
	return func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, profile)
		for n, reboot := range []func() error{
			func() error { return s.ops.SoftReboot(t.Context(), i) },
			func() error { return s.ops.HardReboot(t.Context(), i, nil) },
		} {
			s.cloud.ForgetRequests()
			if err := reboot(); err != nil {
				t.Fatal(err)
			}
			if got := s.gets(); got != lists {
				t.Errorf("reboot %d: %d lists of ARQs, want %d", n, got, lists)
			}
			s.running(t, i, true)
		}
		s.sound(t)
	}
}

func offloadDeletesOnce(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "mixed")
	if err := s.ops.Shelve(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if err := s.ops.ShelveOffload(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"accelerator.arq.delete arqs"}, s.asked()); diff != "" {
		t.Errorf("asked of Cyborg (-want +got):\n%s", diff)
	}
	settled(t, gone(s, i))
}

func shelveDeletesNone(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "mixed")
	if err := s.unchanged(t, i, func() error { return s.ops.Shelve(t.Context(), i) }); err != nil {
		t.Error(err)
	}
}

// unshelveWaits unshelves an offloaded instance whose bind takes a while.
func unshelveWaits(delay time.Duration, want error) func(*testing.T) {
	return func(t *testing.T) {
		s := newSite(t, worldOpts{model: slowModel(delay)})
		i := spawn.Instance{UUID: instance, Flavor: flavor("gpu")}
		result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
		if !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
		if want == nil {
			i.Host = result.Host
			s.running(t, i, true)
		}
		s.sound(t)
	}
}

func unshelveFails(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := spawn.Instance{UUID: instance, Flavor: flavor("gpu")}
	s.guests.fail["start"] = 9
	if _, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{}); !errors.Is(err, errHypervisor) {
		t.Errorf("error %v, want the hypervisor's", err)
	}
	settled(t, gone(s, i))
	s.sound(t)
	clear(s.guests.fail)
	if _, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{}); err != nil {
		t.Errorf("the next unshelve: %v", err)
	}
	s.sound(t)
}

func blockAccelerators(t *testing.T) {
	plain, accelerated := spawn.Instance{UUID: instance, Flavor: plainFlavor()}, spawn.Instance{UUID: instance, Flavor: flavor("gpu")}
	if err := spawn.Permit(spawn.OpSuspend, plain); err != nil {
		t.Errorf("no profile: %v", err)
	}
	blocked(t, spawn.Permit(spawn.OpSuspend, accelerated), 400, forbiddenAccelerators)
	accelerated.ServiceVersion = 54
	if err := spawn.Permit(spawn.OpRebuild, accelerated); err != nil {
		t.Errorf("until 53, service 54: %v", err)
	}
	accelerated.ServiceVersion = 52
	blocked(t, spawn.Permit(spawn.OpRebuild, accelerated), 400, forbiddenAccelerators)
}

func blockPortAccelerators(t *testing.T) {
	i := spawn.Instance{UUID: instance, Flavor: plainFlavor()}
	for kind, want := range map[string]bool{
		"": false, "normal": false, "direct": false,
		requestspec.VNICAcceleratorDirect: true, requestspec.VNICAcceleratorDirectPhysical: true,
	} {
		port := acceleratedPort(port1, "nic", "")
		port.VNICType = kind
		i.Ports = []spawn.Port{port}
		err := spawn.Permit(spawn.OpShelve, i)
		if want {
			blocked(t, err, 400, forbiddenPorts)
		} else if err != nil {
			t.Errorf("vnic %q: %v", kind, err)
		}
	}
}

func blockShelve(t *testing.T) {
	i := spawn.Instance{UUID: instance, Flavor: flavor("gpu")}
	if err := spawn.Permit(spawn.OpShelve, i); err != nil {
		t.Error(err)
	}
	i.RPC = 12
	blocked(t, spawn.Permit(spawn.OpShelve, i), 400, forbiddenAccelerators)
	i.RPC, i.ServiceVersion = 13, 53
	blocked(t, spawn.Permit(spawn.OpShelve, i), 400, forbiddenAccelerators)
	i.ServiceVersion, i.Ports = 54, []spawn.Port{acceleratedPort(port1, "nic", "")}
	blocked(t, spawn.Permit(spawn.OpShelve, i), 400, forbiddenPorts)
}

func blockShelveOffload(t *testing.T) {
	i := spawn.Instance{UUID: instance, Flavor: flavor("gpu")}
	for _, rpc := range []int{0, 1, 13} {
		if i.RPC = rpc; spawn.Permit(spawn.OpShelveOffload, i) != nil {
			t.Errorf("RPC 5.%d: blocked", rpc)
		}
	}
	i.Ports = []spawn.Port{acceleratedPort(port1, "nic", "")}
	blocked(t, spawn.Permit(spawn.OpShelveOffload, i), 400, forbiddenPorts)
}

func provisionGroups(t *testing.T) {
	s := newSite(t, worldOpts{})
	req := request("mixed")
	req.Flavor.ExtraSpecs["resources_net:SRIOV_NET_VF"] = "1"
	a, err := s.flow.Begin(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.ReadProfile(t.Context()), a.BuildRequest(t.Context())); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, group := range a.Spec.Groups {
		ids = append(ids, group.RequesterID)
	}
	for _, id := range []string{"_net", "device_profile_0", "device_profile_1", "device_profile_2"} {
		if !slices.Contains(ids, id) {
			t.Errorf("groups %v lack %s", ids, id)
		}
	}
	a.Unwind(t.Context())
}

func provisionWithoutProfile(t *testing.T) {
	s := newSite(t, worldOpts{})
	s.cloud.ForgetRequests()
	a, err := s.flow.Begin(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.ReadProfile(t.Context()), a.BuildRequest(t.Context())); err != nil {
		t.Fatal(err)
	}
	if requests := s.cloud.Requests(); len(requests) > 0 {
		t.Errorf("asked: %+v", requests)
	}
	a.Unwind(t.Context())
}

func localDeleteForARQs(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "gpu")
	s.powerCut(t, i.Host)
	if err := s.ops.LocalDelete(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"accelerator.arq.delete arqs"}, s.asked()); diff != "" {
		t.Errorf("asked of Cyborg (-want +got):\n%s", diff)
	}
	settled(t, gone(s, i))
}

func resizeWithAccelerator(t *testing.T) {
	s := newSite(t, worldOpts{})
	i := s.spawn(t, "gpu")
	err := s.unchanged(t, i, func() error { return spawn.PermitResize(i, plainFlavor()) })
	blocked(t, err, 400, forbiddenAccelerators)
}

func supportVNIC(t *testing.T) {
	i := spawn.Instance{UUID: instance, Flavor: plainFlavor(), Ports: []spawn.Port{acceleratedPort(port1, "nic", "")}}
	i.ServiceVersion = 57
	if err := spawn.Permit(spawn.OpCreate, i); err != nil {
		t.Errorf("service 57: %v", err)
	}
	i.ServiceVersion = 56
	blocked(t, spawn.Permit(spawn.OpCreate, i), 400, "Port with cyborg profile is not available until upgrade finished.")
}
