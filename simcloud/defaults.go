package simcloud

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/bus"
)

// deviceProfileKey is the extra spec by which a flavor names its device profile.
const deviceProfileKey = "accel:device_profile"

// traitNVIDIA is the vendor's trait of the Rocky specification. Upstream's driver
// does not report it, so the default hosts configure it as an extra trait.
const traitNVIDIA = "CUSTOM_GPU_NVIDIA"

// DefaultModel is the zero Model with its defaults written out. Each of its hosts cn0 and
// cn1 has hardware on a synthetic bus, which the drivers read: two whole Tesla P100; a
// Tesla T4 divided into vGPUs of type nvidia-222; an Intel FPGA whose region waits for a
// function; and one whose region has two virtual functions. There is the fake device, too.
// Nova itself has the provider HOST_nic, an Intel QAT that it offers by a PCI alias, and a
// card that it divides into four vGPUs. All GPUs of Cyborg have the trait CUSTOM_GPU_NVIDIA,
// and the profiles with a vGPU require it, because a plain VGPU may be Nova's. If a model has
// hosts of its own, the same profiles accept any VGPU.
//
// With Cyborg.PlacementMode flat a zero Model has only the whole GPUs and the profile gpu,
// because the devices on the provider of a host have the same traits.
//
// Beside admin, demo, nova and cyborg there are the users manager and reader of the
// project demo, and alice, a member of the project lab.
//
// The device profiles are gpu, vgpu, fpga, fake and mixed (the two functions of one FPGA, a
// vGPU and another FPGA); each has a flavor accel.NAME, and accel.mixed asks for a virtual
// network function in a group of its own, too, unless no host has one.
func DefaultModel() Model { return Model{}.withDefaults() }

// ScaleModel is a [Scale] of whole GPUs.
func ScaleModel(hosts, gpusPerHost int) Model { return Scale{Hosts: hosts, GPUs: gpusPerHost}.Model() }

// Scale is a cloud of equal hosts cn0, cn1, ... A host has at most 240 cards: a GPU is one, and sixteen vGPUs share one.
type Scale struct {
	Hosts       int
	GPUs, VGPUs int // of each host
}

// Model is the model of the cloud. Profiles and flavors are the defaults.
func (s Scale) Model() Model {
	m := Model{Hosts: []Host{}}
	for i := range max(s.Hosts, 0) {
		h := Host{Name: fmt.Sprint("cn", i), Sysfs: &Sysfs{}}
		gpus := min(max(s.GPUs, 0), maxCards)
		for j := range gpus {
			h.Sysfs.Devices = append(h.Sysfs.Devices, bus.WholeGPU(cardAddress(j), firstBus+j))
		}
		h.addVGPUs(min(s.VGPUs, (maxCards-gpus)*vgpusPerCard))
		m.Hosts = append(m.Hosts, h)
	}
	return m.withDefaults()
}

const (
	firstBus     = 0x10
	maxCards     = 0x100 - firstBus
	vgpusPerCard = 16
	vgpuType     = "nvidia-222" // sixteen of them on a Tesla T4
)

func cardAddress(card int) string { return fmt.Sprintf("0000:%02x:00.0", firstBus+card) }

// addVGPUs adds the cards for a number of vGPUs, and enables their type. The last card may have room for fewer.
func (h *Host) addVGPUs(number int) {
	var addresses []string
	for card := len(h.Sysfs.Devices); number > 0; card++ {
		t4 := bus.TeslaT4(cardAddress(card), firstBus+card)
		t4.MdevTypes = t4.MdevTypes[:1]
		t4.MdevTypes[0].AvailableInstances = min(number, vgpusPerCard)
		h.Sysfs.Devices, addresses, number = append(h.Sysfs.Devices, t4), append(addresses, t4.Address), number-vgpusPerCard
	}
	if addresses != nil {
		h.Drivers = &builtin.Config{
			EnabledDrivers: []string{builtin.NVIDIA},
			NVIDIA:         &nvidia.Config{EnabledVGPUTypes: []nvidia.VGPUType{{Name: vgpuType, DeviceAddresses: addresses}}},
		}
	}
}

// withDefaults returns the model with its defaults written out.
func (m Model) withDefaults() Model {
	if m.Region == "" {
		m.Region = "RegionOne"
	}
	if m.Users == nil {
		m.Users = defaultUsers()
	}
	profiles := defaultProfiles(m.Hosts == nil)
	switch {
	case m.Hosts != nil:
	case m.Cyborg.PlacementMode == fakecyborg.ModeFlat:
		m.Hosts, profiles = []Host{flatHost("cn0"), flatHost("cn1")}, profiles[:1]
	default:
		m.Hosts = []Host{defaultHost("cn0"), defaultHost("cn1")}
	}
	hosts := make([]Host, len(m.Hosts))
	for i, h := range m.Hosts {
		if m.NovaMakesHosts {
			h = h.madeByNova()
		}
		hosts[i] = h.withDefaults(m.novaTraits())
	}
	m.Hosts = hosts
	if m.DeviceProfiles == nil {
		m.DeviceProfiles = profiles
	}
	if m.Flavors == nil {
		m.Flavors = []Flavor{}
		for _, p := range m.DeviceProfiles {
			m.Flavors = append(m.Flavors, m.flavorFor(p.Name))
		}
	}
	if m.Cyborg.Seed == 0 {
		m.Cyborg.Seed = m.Seed
	}
	if m.Placement.Seed == 0 {
		m.Placement.Seed = m.Seed
	}
	m.Cyborg.Collation = cmp.Or(m.Cyborg.Collation, m.Collation)
	m.Placement.Collation = cmp.Or(m.Placement.Collation, m.Collation)
	return m
}

// settled returns the model with the defaults written out that withDefaults leaves to the services.
func (m Model) settled() Model {
	m.TokenLifetime = cmp.Or(m.TokenLifetime, keystone.DefaultTokenLifetime)
	if release, err := nova.ParseRelease(m.NovaRelease); err == nil {
		m.NovaRelease = release.String()
	}
	m.Collation = cmp.Or(m.Collation, sim.CollationMySQL)
	m.Cyborg, m.Placement = m.Cyborg.WithDefaults(), m.placement().WithDefaults()
	m.Users = slices.Clone(m.Users)
	for i := range m.Users {
		m.Users[i].Password = cmp.Or(m.Users[i].Password, Password)
	}
	return m
}

// placement is the configuration of Placement, which alone would compare byte by byte.
func (m Model) placement() placementsim.Config {
	cfg := m.Placement
	cfg.Collation = cmp.Or(cfg.Collation, m.Collation, sim.CollationMySQL)
	return cfg
}

// novaTraits are the traits of all resource providers that the Nova of the model makes.
func (m Model) novaTraits() []string {
	release, _ := nova.ParseRelease(m.NovaRelease) // an unknown one is refused by validate
	return release.OwnerTraits()
}

// madeByNova returns the host without the providers that nova-compute makes; h does not change.
func (h Host) madeByNova() Host {
	h.Root, h.ProviderUUID, h.Providers = RootNova, "", nil
	h.VCPUs, h.MemoryMB, h.DiskGB, h.Traits = 0, 0, 0, nil
	if h.Nova != nil {
		h.Nova = &Nova{DeviceSpec: h.Nova.DeviceSpec}
	}
	return h
}

// withDefaults returns the host with its defaults written out; h does not change.
func (h Host) withDefaults(novaTraits []string) Host {
	if h.Root != RootNova {
		h = h.withRoot(novaTraits)
	}
	if h.Drivers == nil && h.Sysfs != nil {
		h.Drivers = &builtin.Config{NVIDIA: &nvidia.Config{}}
		if h.Sysfs.Dir != "" {
			h.Drivers = &builtin.Config{EnabledDrivers: builtin.Hardware()}
		}
	}
	return h
}

// withRoot returns the host with the defaults of its root provider.
func (h Host) withRoot(novaTraits []string) Host {
	for _, field := range []struct {
		value *int
		def   int
	}{{&h.VCPUs, 64}, {&h.MemoryMB, 262144}, {&h.DiskGB, 4000}} {
		if *field.value == 0 {
			*field.value = field.def
		}
	}
	if h.Traits == nil {
		h.Traits = append([]string{"COMPUTE_ACCELERATORS"}, novaTraits...)
	}
	return h
}

// defaultUsers are users in addition to admin and demo, with roles that policies distinguish.
func defaultUsers() []User {
	return []User{
		{Name: "manager", Roles: map[string][]string{"demo": {"manager"}}},
		{Name: "reader", Roles: map[string][]string{"demo": {"reader"}}},
		{Name: "alice", Roles: map[string][]string{"lab": {"member"}}},
	}
}

func defaultHost(name string) Host {
	const t4 = "0000:af:00.0"
	return Host{
		Name: name,
		Providers: []Provider{{
			Name: name + "_nic", Inventory: map[string]int{classNetVF: 8}, Traits: []string{traitPublic},
		}},
		Nova: &Nova{
			VGPUs: []NovaDevice{{Address: "0000:e1:00.0", Total: 4}},
			PCI:   []NovaDevice{{Address: "0000:c1:00.0", Vendor: "8086", Product: "37c8"}},
		},
		Sysfs: &Sysfs{Devices: []sysfs.PCIDevice{
			bus.WholeGPU("0000:3b:00.0", 20), bus.WholeGPU("0000:5e:00.0", 21), bus.TeslaT4(t4, 22), bus.DualFPGA("0000:86:00.0", 23), bus.IntelFPGA("0000:d8:00.0", 24),
		}},
		Drivers: &builtin.Config{
			EnabledDrivers: []string{builtin.Fake, builtin.NVIDIA, builtin.IntelFPGA},
			NVIDIA: &nvidia.Config{
				EnabledVGPUTypes: []nvidia.VGPUType{{Name: vgpuType, DeviceAddresses: []string{t4}}},
				Policy:           driver.Policy{ExtraTraits: []string{traitNVIDIA}},
			},
		},
	}
}

// flatHost has two whole GPUs and no other accelerator, because the devices on the provider
// of a host have the same traits.
func flatHost(name string) Host {
	h := defaultHost(name)
	h.Sysfs.Devices = h.Sysfs.Devices[:2]
	h.Drivers = &builtin.Config{NVIDIA: &nvidia.Config{Policy: driver.Policy{ExtraTraits: []string{traitNVIDIA}}}}
	return h
}

// defaultProfiles begins with the profile for a whole GPU. If Nova also has vGPUs, a trait selects Cyborg's.
func defaultProfiles(novaHasVGPUs bool) []DeviceProfile {
	vgpu := map[string]string{"resources:VGPU": "1"}
	if novaHasVGPUs {
		vgpu["trait:"+traitNVIDIA] = "required"
	}
	profile := func(name string, groups ...map[string]string) DeviceProfile {
		return DeviceProfile{Name: name, Groups: groups}
	}
	return []DeviceProfile{
		profile("gpu", map[string]string{"resources:PGPU": "1"}),
		profile("vgpu", vgpu),
		profile("fpga", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL_PAC_ARRIA10": "required"}),
		profile("fake", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}),
		profile("mixed",
			map[string]string{"resources:FPGA": "2", "trait:CUSTOM_FPGA_INTEL_PAC_D5005": "required"},
			maps.Clone(vgpu),
			map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL_PAC_ARRIA10": "required"}),
	}
}

// flavorFor returns the flavor of a profile. The mixed one has a group for a network port where
// the model has the functions for it, which a Nova that makes the hosts does not report.
func (m Model) flavorFor(profile string) Flavor {
	f := Flavor{
		Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{deviceProfileKey: profile},
	}
	if profile == "mixed" {
		f.ExtraSpecs["group_policy"] = "none"
		if slices.ContainsFunc(m.Hosts, Host.hasNIC) {
			f.ExtraSpecs["resources_net:"+classNetVF], f.ExtraSpecs["trait_net:"+traitPublic] = "1", "required"
		}
	}
	return f
}

// The class and the trait of the virtual functions for network ports.
const (
	classNetVF  = "SRIOV_NET_VF"
	traitPublic = "CUSTOM_PHYSNET_PUBLIC"
)

// hasNIC reports whether Nova has functions for network ports on the host.
func (h Host) hasNIC() bool {
	return slices.ContainsFunc(h.Providers, func(p Provider) bool {
		return p.Inventory[classNetVF] > 0 && slices.Contains(p.Traits, traitPublic)
	})
}
