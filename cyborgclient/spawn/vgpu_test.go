package spawn_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
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
		settled(t, s.ops.Delete(t.Context(), i))
		s.sound(t)
	})
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
		settled(t, s.cloud.StartHost(t.Context(), i.Host))
		settled(t, s.ops.ResumeAfterHostReboot(t.Context(), i))
		s.running(t, i, true)
		s.sound(t)
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
		settled(t, s.cloud.Cyborg.StopAgent(i.Host))
		s.cloud.RemoveGuest(i.UUID)
		settled(t, s.flow.Release(t.Context(), i.UUID))
		settled(t, s.cloud.Cyborg.StartAgent(t.Context(), i.Host))
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
