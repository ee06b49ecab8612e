package spawn_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

// blackwellModel has two hosts with one card each, whose vGPUs have no mediated devices. Two vGPUs of the type in the
// profile vgpu fit on a card, but the inventory of the first card is larger.
func blackwellModel() simcloud.Model {
	const card, name = "0001:c8:00.0", "NVIDIA RTX Pro 6000 Blackwell DC-48Q"
	model := simcloud.DefaultModel()
	model.DeviceProfiles = []simcloud.DeviceProfile{{Name: "vgpu", Groups: []map[string]string{{
		"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_2BB5_RTX_PRO_6000_BLACKWELL_DC_48Q": "required",
	}}}}
	for i := range model.Hosts[:2] {
		group := 7
		model.Hosts[i] = simcloud.Host{
			Name: model.Hosts[i].Name,
			Sysfs: &simcloud.Sysfs{Devices: []sysfs.PCIDevice{{
				Address: card, Vendor: "10de", Product: "2bb5", Class: "0302", Driver: "nvidia", IOMMUGroup: &group,
				VFs: &sysfs.VFs{Total: 6, Enabled: 6, Offset: 2, Driver: "nvidia", VGPUs: &sysfs.VGPUCard{Types: []sysfs.VGPUType{
					{ID: 1555, Name: name, FramebufferMiB: 49152, MaxInstances: 2},
				}}},
			}}},
			Drivers: &builtin.Config{NVIDIA: &nvidia.Config{EnabledVGPUTypes: []nvidia.VGPUType{
				{Name: "nvidia-1555", DeviceAddresses: []string{card}, MaxInstances: 3 - i, VGPUName: name},
			}}},
		}
	}
	model.Hosts = model.Hosts[:2]
	return model
}

func newVGPUSite(t *testing.T, change ...func(*simcloud.Model)) *site {
	t.Helper()
	model := blackwellModel()
	for _, c := range change {
		c(&model)
	}
	return newSite(t, worldOpts{model: &model})
}

func TestAVGPUWithoutAMediatedDevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVGPUSite(t)
		i := s.spawn(t, "vgpu")
		domain := s.guests.saved[placeOf(i)]
		if !strings.Contains(domain, `managed="no"`) || !strings.Contains(domain, `<address domain="0x0001" bus="0xc8" slot="0x00" function="0x2"`) {
			t.Errorf("the function is not in the domain as one that libvirt leaves to its driver:\n%s", domain)
		}
		if err := s.ops.Delete(t.Context(), i); err != nil {
			t.Error(err)
		}
		s.sound(t)
	})
}

// An instance may have several vGPUs: of one card, of two groups, and in addition to the vGPUs that Nova manages for
// its flavor. Nova supports all of these since 34.0.0.
func TestAnInstanceHasSeveralVGPUs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		model  func() simcloud.Model
		groups []map[string]string
		own    map[string]string // of the flavor
		want   int
	}{
		"without mediated devices": {
			model:  blackwellModel,
			groups: []map[string]string{{"resources:VGPU": "2", "trait:CUSTOM_NVIDIA_2BB5_RTX_PRO_6000_BLACKWELL_DC_48Q": "required"}},
			want:   2,
		},
		"mediated devices": {
			model: simcloud.DefaultModel, want: 3,
			groups: []map[string]string{{"resources:VGPU": "2"}, {"resources:VGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}},
		},
		"beside Nova's": {
			model: simcloud.DefaultModel, want: 2,
			groups: []map[string]string{{"resources:VGPU": "2", "trait:CUSTOM_GPU_NVIDIA": "required"}},
			own:    map[string]string{"resources1:CUSTOM_NOVA_VGPU": "1", "resources2:CUSTOM_NOVA_VGPU": "1", "group_policy": "none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model := tt.model()
				model.DeviceProfiles = []simcloud.DeviceProfile{{Name: "several", Groups: tt.groups}}
				for i := range model.Hosts {
					h := &model.Hosts[i]
					h.Providers = append(h.Providers, simcloud.Provider{Name: h.Name + "_nova", Inventory: map[string]int{"CUSTOM_NOVA_VGPU": 2}})
				}
				s := newSite(t, worldOpts{model: &model})
				req := request("several")
				for key, value := range tt.own {
					req.Flavor.ExtraSpecs[key] = value
				}
				result, err := s.flow.Run(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Count(string(result.Domain), "<hostdev "); len(result.ARQs) != tt.want || got != tt.want {
					t.Errorf("%d accelerator requests and %d devices in the domain, want %d of each:\n%s", len(result.ARQs), got, tt.want, result.Domain)
				}
				nova := 0
				for _, a := range s.cloud.Placement.Allocations() {
					if a.Class == "CUSTOM_NOVA_VGPU" {
						nova += a.Used
					}
				}
				if nova != len(tt.own)/3*2 {
					t.Errorf("%d vGPUs of Nova's are allocated", nova)
				}
			})
		})
	}
}

// A restart of the host resets the vGPU types. The agent writes them again.
func TestAVGPUIsThereAgainAfterAHostReboot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVGPUSite(t)
		i := s.spawn(t, "vgpu")
		s.powerCut(t, i.Host)
		if leaks := s.cloud.Leaks(); len(leaks) != 1 || !strings.Contains(leaks[0].Text, "has no vGPU type 1555") {
			t.Errorf("while the host is down: %v", leaks)
		}
		if err := s.cloud.StartHost(t.Context(), i.Host); err != nil {
			t.Fatal(err)
		}
		if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
			t.Error(err)
		}
		s.running(t, i, true)
		s.sound(t)
	})
}

// The inventory has more vGPUs than the card supports. The kernel refuses the type, the bind fails, and the next host
// is tried.
func TestACardThatRefusesAVGPU(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVGPUSite(t)
		requests := make([]spawn.Request, 5)
		for n := range requests {
			requests[n] = request("vgpu")
			requests[n].Instance = benchInstance(0xc, n)
			result, err := s.flow.Run(t.Context(), requests[n])
			if n == 4 {
				if !errors.Is(err, spawn.ErrNotBound) && !strings.Contains(err.Error(), "no space left on device") {
					t.Errorf("the fifth of four: %v", err)
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			s.define(t, result)
			if want := s.cloud.HostNames()[n/2]; result.Host != want {
				t.Errorf("spawn %d is on %s, want %s", n, result.Host, want)
			}
		}
		s.sound(t)
	})
}

// A function that a guest still uses cannot be cleared. Its handle stays in use, and the error names the ARQ. The
// deletion can be repeated.
func TestAVGPUThatCannotBeClearedIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVGPUSite(t)
		i := s.spawn(t, "vgpu")
		arq := s.arqs(t, i)[0]
		s.fail(t, fault.Rule{Operation: fault.VGPUClear, Action: fault.Status, Times: -1})
		if err := s.ops.Delete(t.Context(), i); err == nil || !strings.Contains(err.Error(), arq.UUID) {
			t.Errorf("Delete: %v, want one that names ARQ %s", err, arq.UUID)
		}
		s.cloud.Cyborg.CheckHandlesInUse(t, arq.DeviceRPUUID, 1)
		if err := s.cloud.Faults().Set(); err != nil {
			t.Fatal(err)
		}
		if err := s.ops.Delete(t.Context(), i); err != nil {
			t.Error(err)
		}
		s.sound(t)
	})
}

// The kernel refuses to take the type from a function while a guest has it. The handle stays in use, and is freed by
// a later report after the guest has stopped.
func TestTheVGPUOfARunningGuestIsNotCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVGPUSite(t)
		i := s.spawn(t, "vgpu")
		arq := s.arqs(t, i)[0]
		if err := s.flow.Release(t.Context(), i.UUID); err == nil || !strings.Contains(err.Error(), "device or resource busy") {
			t.Errorf("Release while the guest runs: %v, want EBUSY", err)
		}
		s.cloud.Cyborg.CheckHandlesInUse(t, arq.DeviceRPUUID, 1)
		s.cloud.RemoveGuest(i.UUID)
		if err := s.flow.Release(t.Context(), i.UUID); err != nil {
			t.Error(err)
		}
		s.sound(t)
		want := []string{"bus/pci/devices/0001:c8:00.2/nvidia/current_vgpu_type"}
		if diff := cmp.Diff(want, s.cloud.Written(i.Host)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

func TestDrillSpawnOfAVGPU(t *testing.T) {
	s := newStage()
	config := drilled(150)
	config.Model = blackwellModel()
	drill.Run(t, s.beside(s.spawnGuest(request("vgpu"))), s.drilled(config, false))
}

func TestDrillDeleteOfAVGPU(t *testing.T) {
	s := newStage()
	config := s.drilled(drilled(100), false)
	config.Model = blackwellModel()
	config.Setup = s.spawnGuest(request("vgpu"))
	drill.Run(t, s.beside(s.deleteGuest), config)
}

// The report reads the hardware first and then clears the vGPU of an ARQ that was deleted while the agent was down.
// It does not treat that vGPU as a foreign one.
func TestAReportThatClearsAVGPUOffersItsFunctionAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVGPUSite(t, func(m *simcloud.Model) { m.Cyborg.BindingStates = true })
		i := s.spawn(t, "vgpu")
		arq := s.arqs(t, i)[0]
		if err := s.cloud.Cyborg.StopAgent(i.Host); err != nil {
			t.Fatal(err)
		}
		s.cloud.RemoveGuest(i.UUID)
		if err := s.flow.Release(t.Context(), i.UUID); err != nil {
			t.Fatal(err)
		}
		if err := s.cloud.Cyborg.StartAgent(t.Context(), i.Host); err != nil {
			t.Fatal(err)
		}
		s.cloud.Cyborg.CheckHandlesInUse(t, arq.DeviceRPUUID, 0)
		handles := 0
		for _, h := range s.cloud.Cyborg.AttachHandles() {
			if h.ProviderUUID == arq.DeviceRPUUID {
				handles++
			}
		}
		if handles != 3 {
			t.Errorf("%d attach handles after the report, want 3", handles)
		}
		s.sound(t)
	})
}
