package simcloud_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// givenBy returns the case of a driver.
func givenBy(t *testing.T, name string) given {
	t.Helper()
	list := givenDrivers()
	i := slices.IndexFunc(list, func(g given) bool { return g.name == name })
	if i < 0 {
		t.Fatalf("no driver %s", name)
	}
	return list[i]
}

// totals are the inventories of a provider, by the provider's name.
func totals(t *testing.T, cloud *simcloud.Cloud, provider string) map[string]int {
	t.Helper()
	for _, p := range cloud.Placement.ResourceProviders() {
		if p.Name == provider {
			amounts := make(map[string]int)
			for class, inventory := range p.Inventories {
				amounts[class] = inventory.Total - inventory.Reserved
			}
			return amounts
		}
	}
	return nil
}

const (
	ddr = "CUSTOM_ACCELERATOR_MEMORY_DDR4"
	hbm = "CUSTOM_ACCELERATOR_MEMORY_HBM"
)

func boardMemory() []driver.LocalMemory {
	return []driver.LocalMemory{{Type: "DDR4", MiB: 8192}, {Type: "HBM", MiB: 4096, Shared: true}}
}

func TestLocalMemoryIsClaimedWithoutARequest(t *testing.T) {
	t.Parallel()
	g := givenBy(t, "fpga-intel")
	g.group = map[string]string{
		"resources:FPGA": "1", "resources:" + ddr: "2048", "resources:" + hbm: "1024", "trait:CUSTOM_FPGA_INTEL": "required",
	}
	m := oneHost(g)
	m.Hosts[0].Drivers.FPGA = &fpga.Config{Policy: driver.Policy{LocalMemory: boardMemory()}}
	s := newSpawner(t, m)
	const provider = "cn0_0000:23:00.0"
	if diff := cmp.Diff(map[string]int{"FPGA": 1, ddr: 8192, hbm: 4096}, totals(t, s.cloud, provider)); diff != "" {
		t.Errorf("inventories (-want +got):\n%s", diff)
	}
	result := s.spawn(t, 1, g)
	if len(result.ARQs) != 1 {
		t.Errorf("%d requests, want one", len(result.ARQs))
	}
	s.cloud.Placement.CheckUsage(t, result.ARQs[0].DeviceRPUUID, ddr, 2048)
	s.cloud.Placement.CheckUsage(t, result.ARQs[0].DeviceRPUUID, hbm, 1024)
	s.cloud.CheckNoLeaks(t)
	s.release(t, 1)
	s.cloud.CheckNoLeaks(t)
	device := s.cloud.Cyborg.Devices()[0].UUID
	must(t, s.cloud.Cyborg.SetDeviceStatus(t.Context(), device, fakecyborg.StatusMaintaining))
	if diff := cmp.Diff(map[string]int{"FPGA": 0, ddr: 0, hbm: 0}, totals(t, s.cloud, provider)); diff != "" {
		t.Errorf("free in a device that is disabled (-want +got):\n%s", diff)
	}
}

// cardWithMemory is a host with a card of two regions, which share memory.
func cardWithMemory(mode fakecyborg.PlacementMode) simcloud.Model {
	card := sysfs.PCIDevice{Address: "0000:24:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
		VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "09c5"},
		FPGA: &sysfs.FPGA{Dev: 1, Regions: []sysfs.FPGARegion{{Number: 1, InterfaceID: regionType}, {Number: 2, InterfaceID: "0f" + regionType[2:]}},
			Ports: []sysfs.FPGAPort{{Number: 1, AFUID: function1, VF: 1}, {Number: 2, AFUID: function2, VF: 2}}}}
	m := oneHost(given{name: "x", devices: []sysfs.PCIDevice{card}, load: func(d *builtin.Config) { d.FPGA = &fpga.Config{} }, group: map[string]string{"resources:FPGA": "1"}})
	m.Hosts[0].Drivers.LocalMemory = boardMemory()
	m.Cyborg.PlacementMode = mode
	return m
}

func TestReleaseDevicesReleasesSharedMemory(t *testing.T) {
	t.Parallel()
	m := cardWithMemory(fakecyborg.ModeNested)
	m.DeviceProfiles = []simcloud.DeviceProfile{{Name: "x", Groups: []map[string]string{
		{"resources:FPGA": "1", "resources:" + ddr: "2048"}, {"resources:" + hbm: "1024"},
	}}}
	s := newSpawner(t, m)
	result, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance(1), Flavor: requestspec.Flavor{
		Name: "accel.x", VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "x"},
	}})
	must(t, err)
	must(t, s.cloud.DefineGuest(sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}))
	s.cloud.CheckNoLeaks(t)
	must(t, s.flow.ReleaseDevices(t.Context(), result.Instance))
	for _, a := range s.cloud.Placement.Allocations() {
		if a.Class == ddr || a.Class == hbm || a.Class == "FPGA" {
			t.Errorf("after ReleaseDevices without an error the instance still has %d %s", a.Used, a.Class)
		}
	}
}

func TestMemoryIsOnTheProviderThatHasIt(t *testing.T) {
	t.Parallel()
	t.Run("nested", func(t *testing.T) {
		t.Parallel()
		cloud := simcloud.Run(t, cardWithMemory(fakecyborg.ModeNested))
		for provider, want := range map[string]map[string]int{
			"cn0_FPGA_0000:24:00.0": {hbm: 4096}, "cn0_0000:24:00.0_region0": {"FPGA": 1, ddr: 8192}, "cn0_0000:24:00.0_region1": {"FPGA": 1, ddr: 8192},
		} {
			if diff := cmp.Diff(want, totals(t, cloud, provider)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", provider, diff)
			}
		}
		cloud.ForgetRequests()
		if err := cloud.Cyborg.Report(t.Context()); err != nil {
			t.Error(err)
		}
		for _, r := range cloud.Requests() {
			if r.Method != "GET" {
				t.Errorf("a report without changes sends %s %s", r.Method, r.Path)
			}
		}
	})
	t.Run("flat", func(t *testing.T) {
		t.Parallel()
		m := cardWithMemory(fakecyborg.ModeFlat)
		m.Hosts[0].Sysfs.Devices[0].FPGA.Regions[1].InterfaceID = regionType // all devices of a flat host are alike
		m.Hosts[0].Sysfs.Devices[0].FPGA.Ports[1].AFUID = function1
		cloud := simcloud.Run(t, m)
		got := totals(t, cloud, "cn0")
		if got["FPGA"] != 2 || got[ddr] != 16384 || got[hbm] != 4096 {
			t.Errorf("inventories of the host: %v", got)
		}
	})
	t.Run("nowhere for shared memory", func(t *testing.T) {
		t.Parallel()
		_, err := simcloud.New(t.Context(), cardWithMemory(fakecyborg.ModeTree))
		if err == nil || !strings.Contains(err.Error(), `cannot share memory; placement_mode "nested"`) {
			t.Errorf("%v", err)
		}
	})
}

func uuids(t *testing.T, cloud *simcloud.Cloud) []string {
	t.Helper()
	mdevs, err := cloud.Mdevs("cn0")
	must(t, err)
	var list []string
	for _, m := range mdevs {
		list = append(list, m.UUID+" "+m.Parent)
	}
	return list
}

func TestMediatedDevicesKeepTheirUUIDsAfterAReboot(t *testing.T) {
	t.Parallel()
	vgpu, serial := givenBy(t, "nvidia-vgpu"), givenBy(t, "mdev")
	s := newSpawner(t, oneHost(vgpu, serial))
	for n, g := range []given{vgpu, serial, vgpu, serial} {
		s.spawn(t, n, g)
	}
	before := uuids(t, s.cloud)
	if len(before) != 4 {
		t.Fatalf("mediated devices: %v", before)
	}
	must(t, s.cloud.StopHost("cn0"))
	if gone := uuids(t, s.cloud); len(gone) != 0 {
		t.Fatalf("after the host went down: %v", gone)
	}
	must(t, s.cloud.StartHost(t.Context(), "cn0"))
	if diff := cmp.Diff(before, uuids(t, s.cloud)); diff != "" {
		t.Errorf("after the host came up (-before +after):\n%s", diff)
	}
	s.cloud.CheckNoLeaks(t)
	for n := range 4 {
		s.release(t, n)
	}
	if left := uuids(t, s.cloud); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestAForeignMediatedDeviceLowersTheCapacity creates a mediated device of another type on
// the card while the host is down.
func TestAForeignMediatedDeviceLowersTheCapacity(t *testing.T) {
	t.Parallel()
	vgpu := givenBy(t, "nvidia-vgpu")
	vgpu.devices[0].MdevTypes = append(vgpu.devices[0].MdevTypes, sysfs.MdevType{Type: "nvidia-223", Name: "GRID T4-2B", AvailableInstances: 2})
	s := newSpawner(t, oneHost(vgpu))
	const provider, types = "cn0_" + vgpuT4, "class/mdev_bus/" + vgpuT4 + "/mdev_supported_types/nvidia-223"
	const foreign = "99999999-9999-4999-8999-999999999999"
	capacity := func(step string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, totals(t, s.cloud, provider)); diff != "" {
			t.Errorf("%s: capacity (-want +got):\n%s", step, diff)
		}
	}
	capacity("at first", map[string]int{"VGPU": 4})
	s.spawn(t, 1, vgpu)
	s.spawn(t, 2, vgpu)
	must(t, s.cloud.StopHost("cn0"))
	must(t, s.cloud.Tree("cn0").WriteFile(types+"/create", []byte(foreign)))
	if err := s.cloud.StartHost(t.Context(), "cn0"); err == nil {
		t.Error("the mediated devices of the guests came back beside a foreign one")
	}
	capacity("with a foreign device", map[string]int{"VGPU": 2}) // the bound requests only
	for range 2 {
		if err := s.cloud.Cyborg.Report(t.Context()); err == nil {
			t.Error("a report says nothing of the guests without devices")
		}
		capacity("in the next report", map[string]int{"VGPU": 2})
	}
	must(t, s.cloud.Tree("cn0").WriteFile(types+"/devices/"+foreign+"/remove", []byte("1")))
	_ = s.cloud.Cyborg.Report(t.Context()) // it looks first, and then makes the devices again
	if err := s.cloud.Cyborg.Report(t.Context()); err != nil {
		t.Error(err)
	}
	capacity("without it", map[string]int{"VGPU": 4})
	s.cloud.CheckNoLeaks(t)
	for n := range 2 {
		s.release(t, n+1)
	}
	must(t, s.cloud.Tree("cn0").WriteFile(types+"/create", []byte(foreign)))
	if err := s.cloud.Cyborg.Report(t.Context()); err != nil {
		t.Error(err)
	}
	capacity("taken over", nil)
	if reason := s.cloud.Findings()[0].LeftOut; len(reason) != 1 || !strings.Contains(reason[0].Reason, "no instance of vGPU type nvidia-222 is available") {
		t.Errorf("left out: %+v", reason)
	}
}

func TestEnabledDriversOfAModel(t *testing.T) {
	t.Parallel()
	host := func(drivers string) string {
		return `{"hosts": [{"name": "a", "sysfs": {"devices": [
			{"address": "0000:27:00.0", "vendor": "8086", "product": "37c8", "class": "0b40"},
			{"address": "0000:28:00.0", "vendor": "10ee", "product": "5000", "class": "1200"}]}, "drivers": ` + drivers + `}], "device_profiles": [], "flavors": []}`
	}
	for _, tt := range []struct {
		name, drivers string
		want          string // the drivers, or after "!" a part of the error
	}{
		{"named", `{"enabled_drivers": ["intel_qat_driver", "fake_driver"]}`, "intel_qat fake"},
		{"by their sections", `{"qat": {}, "fake": true, "fpga": {}}`, "fake intel_fpga xilinx_fpga inspur_fpga intel_qat"},
		{"one of three", `{"enabled_drivers": ["xilinx_fpga_driver"], "fpga": {"doubled_handles": true}}`, "xilinx_fpga"},
		{"none", `{"enabled_drivers": []}`, ""},
		{"common options", `{"qat": {"extra_traits": ["CUSTOM_OWN"]}, "trait_shape": "rocky-agent", "extra_traits": ["CUSTOM_ALL"]}`, "intel_qat"},
		{"unknown", `{"enabled_drivers": ["amd_driver"]}`, "!hosts[0].drivers.enabled_drivers[0]: unknown driver"},
		{"twice", `{"enabled_drivers": ["fake_driver", "fake_driver"]}`, "!hosts[0].drivers.enabled_drivers[1]"},
		{"a section without its driver", `{"enabled_drivers": ["fake_driver"], "qat": {}}`, "!hosts[0].drivers.qat: enabled_drivers does not name"},
		{"a bad common option", `{"qat": {}, "trait_shape": "train"}`, "!trait shape"},
		{"a bad option", `{"nic": {"enabled_nic_types": [{"name": ""}]}}`, "!hosts[0].drivers.nic"},
		{"an unknown option", `{"qat": {"trait_shapes": "x"}}`, "!hosts[0].drivers.qat.trait_shapes: unknown field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, err := simcloud.ParseModel([]byte(host(tt.drivers)))
			var cloud *simcloud.Cloud
			if err == nil {
				if cloud, err = simcloud.New(t.Context(), model); err == nil {
					defer cloud.Close()
				}
			}
			if text, bad := strings.CutPrefix(tt.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want %s", err, text)
				}
				return
			}
			must(t, err)
			var names []string
			for _, r := range cloud.Findings() {
				names = append(names, r.Driver)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("drivers %s, want %s", got, tt.want)
			}
		})
	}
}

// TestCapacityIsNeverBelowTheBoundRequests has a card with too few instances after a restart: the
// mediated devices of the guests cannot be created.
func TestCapacityIsNeverBelowTheBoundRequests(t *testing.T) {
	t.Parallel()
	vgpu := givenBy(t, "nvidia-vgpu")
	s := newSpawner(t, oneHost(vgpu))
	s.spawn(t, 1, vgpu)
	s.spawn(t, 2, vgpu)
	must(t, s.cloud.StopHost("cn0"))
	tree, ok := s.cloud.Tree("cn0").(interface {
		SetFile(name string, data []byte)
	})
	if !ok {
		t.Fatal("the hardware cannot be changed")
	}
	const dir = "class/mdev_bus/" + vgpuT4 + "/mdev_supported_types/nvidia-222"
	tree.SetFile(dir+"/available_instances", []byte("1\n"))
	tree.SetFile(dir+"/create", nil) // without the kernel's effect
	if err := s.cloud.StartHost(t.Context(), "cn0"); err == nil {
		t.Error("the mediated devices were made of nothing")
	}
	if diff := cmp.Diff(map[string]int{"VGPU": 2}, totals(t, s.cloud, "cn0_"+vgpuT4)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
}
