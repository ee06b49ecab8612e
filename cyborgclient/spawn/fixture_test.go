package spawn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The cloud of nova/tests/fixtures/cyborg.py and of the functional tests that use it: three devices on accel_host0,
// one on accel_host1, with two FPGAs each.
const (
	fixtureTrait = "CUSTOM_FAKE_DEVICE"
	fixtureHost0 = "accel_host0"
	fixtureHost1 = "accel_host1"
)

// fixtureDevice is FakeDevice<i> with the attach handles of Nova's fixture.
func fixtureDevice(host string, i int) driver.Device {
	part := driver.Deployable{
		Name: fmt.Sprintf("%s_FakeDevice%d", host, i), NumAccelerators: 2, DriverName: "fake",
		Class: "FPGA", Traits: []string{fixtureTrait},
	}
	for n := range 2 {
		part.AttachHandles = append(part.AttachHandles, driver.AttachHandle{Type: driver.HandleTestPCI, Info: driver.Info{
			"domain": "0000", "bus": "0c", "device": "0", "function": fmt.Sprint(2*i + n), "physical_network": "PHYNET1",
		}})
	}
	return driver.Device{
		Vendor: "0xABCD", Model: "miss model info", Type: driver.TypeFPGA, Deployables: []driver.Deployable{part},
		ControlPath: driver.PCIAddress{Bus: 0x0c, Device: uint8(i)}.ControlPath(),
	}
}

func fixtureModel() *simcloud.Model {
	group := map[string]string{"resources:FPGA": "1", "trait:" + fixtureTrait: "required"}
	return &simcloud.Model{
		Hosts: []simcloud.Host{
			{Name: fixtureHost0, Devices: []driver.Device{fixtureDevice(fixtureHost0, 0), fixtureDevice(fixtureHost0, 1), fixtureDevice(fixtureHost0, 2)}},
			{Name: fixtureHost1, Devices: []driver.Device{fixtureDevice(fixtureHost1, 3)}},
		},
		DeviceProfiles: []simcloud.DeviceProfile{
			{Name: "fakedev-dp", Groups: []map[string]string{group}},
			{Name: "fakedev-dp-port", Groups: []map[string]string{group}},
			{Name: "fakedev-dp-multi", Groups: []map[string]string{
				{"resources:FPGA": "2", "trait:" + fixtureTrait: "required"},
				{"resources:CUSTOM_FPGA2": "1", "trait:" + fixtureTrait: "required"},
			}},
		},
	}
}

// held lists the allocations of an instance: provider name, class and amount.
func (w *world) held(instance string) []string {
	names := map[string]string{}
	for _, p := range w.cloud.Placement.ResourceProviders() {
		names[p.UUID] = p.Name
	}
	list := []string{}
	for _, a := range w.cloud.Placement.Allocations() {
		if a.Consumer == instance {
			list = append(list, fmt.Sprintf("%s %s %d", names[a.Provider], a.Class, a.Used))
		}
	}
	slices.Sort(list)
	return list
}

// checkUsage is Nova's standard check: the root provider has exactly the flavor's resources, the devices have one
// allocated FPGA for each ARQ, and the ARQs name the host.
func (w *world) checkUsage(t *testing.T, host string, arqs int) {
	t.Helper()
	held := w.held(instance)
	root := []string{host + " DISK_GB 20", host + " MEMORY_MB 2048", host + " VCPU 2"}
	if arqs == 0 {
		root = nil
	}
	var devices, rest []string
	for _, line := range held {
		if strings.Contains(line, "_FakeDevice") {
			devices = append(devices, line)
		} else {
			rest = append(rest, line)
		}
	}
	if diff := cmp.Diff(root, rest); diff != "" {
		t.Errorf("root provider (-want +got):\n%s", diff)
	}
	amounts, total := map[string]int{}, 0
	for _, arq := range w.cloud.Cyborg.ARQs() {
		if arq.InstanceUUID != instance {
			continue
		}
		if arq.State != "Bound" || arq.Hostname != host {
			t.Errorf("ARQ %s is %s on host %s, want Bound on %s", arq.UUID, arq.State, arq.Hostname, host)
		}
		provider, err := w.cloud.Placement.ResourceProvider(arq.DeviceRPUUID)
		settled(t, err)
		amounts[provider.Name]++
		total++
	}
	var bound []string
	for name, amount := range amounts {
		bound = append(bound, fmt.Sprintf("%s FPGA %d", name, amount))
	}
	slices.Sort(bound)
	if diff := cmp.Diff(devices, bound); diff != "" || total != arqs {
		t.Errorf("%d ARQs, want %d; devices that are allocated and bound (-allocated +bound):\n%s", total, arqs, diff)
	}
	for _, line := range held {
		if !strings.HasPrefix(line, host) {
			t.Errorf("another host holds %s", line)
		}
	}
}

// TestNovaFixture has the parts of Nova's Cyborg fixture and its set-up, by their names.
func TestNovaFixture(t *testing.T) {
	t.Parallel()
	rows := map[string]func(*testing.T, *world){
		"device_profiles": func(t *testing.T, w *world) {
			got, err := w.cyborg.ListDeviceProfiles(t.Context(), cyborgclient.ListDeviceProfilesOpts{Names: []string{"fakedev-dp", "fakedev-dp-port"}})
			if err != nil || len(got) != 2 {
				t.Fatal(got, err)
			}
			if diff := cmp.Diff(got[0].Groups, got[1].Groups); diff != "" {
				t.Errorf("groups of the two profiles (-dp +port):\n%s", diff)
			}
		},
		"multi_is_refused_for_ports": func(t *testing.T, _ *world) {
			profile := requestspec.Profile{Name: "fakedev-dp-multi", Groups: fixtureModel().DeviceProfiles[2].Groups}
			port := requestspec.Port{UUID: "ce531f90-199f-48c0-816c-13e38010b442", VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: profile.Name}
			if _, err := requestspec.PortGroups(port, &profile, 0); err == nil {
				t.Error("three devices were taken for a port")
			}
		},
		"arqs_are_initial_and_of_group_0": func(t *testing.T, w *world) {
			for range 4 {
				got, err := w.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "fakedev-dp"})
				if err != nil || len(got) != 1 || got[0].State != cyborgclient.StateInitial || got[0].DeviceProfileGroupID != 0 ||
					got[0].AttachHandleType != "" || got[0].InstanceUUID != "" {
					t.Errorf("got %+v, %v; want one, Initial, of group 0, bound to nothing", got, err)
				}
			}
		},
		"bound_forms": func(t *testing.T, w *world) {
			for i := range 4 {
				req := request("fakedev-dp")
				req.Instance = fmt.Sprintf("2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b00%d", i)
				result, err := w.flow.Run(t.Context(), req)
				settled(t, err)
				arq := result.ARQs[0]
				info := arq.AttachHandleInfo
				if arq.AttachHandleType != cyborgclient.HandleTestPCI || info["bus"] != "0c" || info["physical_network"] != "PHYNET1" {
					t.Errorf("handle %s %v", arq.AttachHandleType, info)
				}
				if len(result.Devices) != 0 || len(result.Skipped) != 1 {
					t.Errorf("devices %v, skipped %v; want TEST_PCI skipped and named", result.Devices, result.Skipped)
				}
			}
		},
		"bind_stores_and_list_returns_bound": func(t *testing.T, w *world) {
			result := w.spawnFixture(t)
			got, err := w.cyborg.ListARQs(t.Context(), cyborgclient.ListARQsOpts{Instance: instance})
			if err != nil || len(got) != 1 || got[0].State != cyborgclient.StateBound || got[0].Hostname != result.Host || got[0].InstanceUUID != instance {
				t.Errorf("got %+v, %v", got, err)
			}
		},
		"delete_clears": func(t *testing.T, w *world) {
			result := w.spawnFixture(t)
			settled(t, w.flow.Release(t.Context(), instance))
			w.checkUsage(t, result.Host, 0)
			w.cloud.CheckNoLeaks(t)
		},
		"compute_setup": func(t *testing.T, w *world) {
			want := placementsim.Inventory{Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1}
			devices := map[string]int{}
			for _, p := range w.cloud.Placement.ResourceProviders() {
				host, _, ok := strings.Cut(p.Name, "_FakeDevice")
				if !ok {
					continue
				}
				devices[host]++
				if diff := cmp.Diff(map[string]placementsim.Inventory{"FPGA": want}, p.Inventories); diff != "" || p.Parent != w.cloud.ProviderUUID(host) || !slices.Contains(p.Traits, fixtureTrait) {
					t.Errorf("%s: parent %s, traits %v, inventories (-want +got):\n%s", p.Name, p.Parent, p.Traits, diff)
				}
			}
			if diff := cmp.Diff(map[string]int{fixtureHost0: 3, fixtureHost1: 1}, devices); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		},
		"usage": func(t *testing.T, w *world) {
			result := w.spawnFixture(t)
			w.checkUsage(t, result.Host, 1)
		},
	}
	for row, test := range rows {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, worldOpts{model: fixtureModel()}))
		})
	}
}

func (w *world) spawnFixture(t *testing.T) *spawn.Result {
	t.Helper()
	result, err := w.flow.Run(t.Context(), request("fakedev-dp"))
	settled(t, err)
	return result
}
