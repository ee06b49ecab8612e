package simcloud_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/ascend"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/ssd"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const (
	regionType = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
	function1  = "d8424dc4a4a3c413f89e433683f9040b"
	function2  = "f7df405cbd7acf7222f144b0b93acd18"
	wholeT4    = "0000:21:00.0"
	vgpuT4     = "0000:22:00.0"
)

// given is a driver with its hardware, and a device profile for that hardware.
type given struct {
	name    string
	kind    string // the type of the device
	devices []sysfs.PCIDevice
	parents []sysfs.MdevParent
	load    func(*builtin.Config)
	group   map[string]string
	// pci are the addresses that a guest may get; empty for a mediated device, which is created on parent.
	pci    []string
	parent string
	// leftOut are the addresses that must not be offered.
	leftOut []string
}

// mediated reports whether the guest gets a mediated device, fake whether it gets a device
// that is not in its domain.
func (g given) mediated() bool { return g.parent != "" }
func (g given) fake() bool     { return g.parent == "" && g.pci == nil }

const blackwellType = "NVIDIA RTX Pro 6000 Blackwell DC-48Q"

// givenDrivers has every driver with devices for guests. The devices have different
// addresses, so that one host can have them all.
func givenDrivers() []given {
	whitelist := pci.Whitelist{{VendorID: "8086", ProductID: "1520"}}
	networks := nic.Mappings{"physnet1": {"eth3"}}
	gpu := sysfs.PCIDevice{Address: wholeT4, Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia"}
	divided := gpu
	divided.Address = vgpuT4
	divided.MdevTypes = []sysfs.MdevType{{Type: "nvidia-222", Name: "GRID T4-1B", AvailableInstances: 4}}
	return []given{
		{name: "fake", kind: driver.TypeFPGA, load: func(d *builtin.Config) { d.Fake = true },
			group: map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}},
		{name: "nvidia", kind: driver.TypeGPU, devices: []sysfs.PCIDevice{gpu},
			load:  func(d *builtin.Config) { cards(d) },
			group: map[string]string{"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_1EB8": "required"}, pci: []string{wholeT4}},
		{name: "nvidia-vgpu", kind: driver.TypeGPU, devices: []sysfs.PCIDevice{divided},
			load: func(d *builtin.Config) {
				cards(d).EnabledVGPUTypes = []nvidia.VGPUType{{Name: "nvidia-222", DeviceAddresses: []string{vgpuT4}}}
			},
			group: map[string]string{"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_1B": "required"}, parent: vgpuT4},
		{name: "fpga-intel", kind: driver.TypeFPGA, devices: []sysfs.PCIDevice{{Address: "0000:23:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
			FPGA: &sysfs.FPGA{Dev: 0, InterfaceID: regionType, Ports: []sysfs.FPGAPort{{Number: 0, AFUID: function1}}}, VFs: &sysfs.VFs{Total: 1, Product: "09c5"}}},
			load:  func(d *builtin.Config) { d.FPGA = &fpga.Config{} },
			group: map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required"}, pci: []string{"0000:23:00.0"}},
		{name: "fpga-intel-vf", kind: driver.TypeFPGA, devices: []sysfs.PCIDevice{{Address: "0000:24:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
			FPGA: &sysfs.FPGA{Dev: 1, InterfaceID: "0f" + regionType[2:], Ports: []sysfs.FPGAPort{{Number: 0, AFUID: function2, VF: 1}}},
			VFs:  &sysfs.VFs{Total: 1, Enabled: 1, Product: "09c5"}}},
			load:  func(d *builtin.Config) { d.FPGA = &fpga.Config{} },
			group: map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_REGION_INTEL_0F" + strings.ToUpper(regionType[2:]): "required"},
			pci:   []string{"0000:24:00.1"}, leftOut: []string{"0000:24:00.0"}},
		{name: "fpga-xilinx", kind: driver.TypeFPGA, devices: []sysfs.PCIDevice{
			{Address: "0000:25:00.0", Vendor: "10ee", Product: "5000", Class: "1200", Driver: "xclmgmt"},
			{Address: "0000:25:00.1", Vendor: "10ee", Product: "5001", Class: "1200", Driver: "xocl"}},
			load:  func(d *builtin.Config) { d.FPGA = &fpga.Config{} },
			group: map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_PRODUCT_ID_5001": "required"}, pci: []string{"0000:25:00.1"}, leftOut: []string{"0000:25:00.0"}},
		{name: "fpga-inspur", kind: driver.TypeFPGA, devices: []sysfs.PCIDevice{{Address: "0000:26:00.0", Vendor: "1bd4", Product: "a115", Class: "1200"}},
			load:  func(d *builtin.Config) { d.FPGA = &fpga.Config{} },
			group: map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INSPUR": "required"}, pci: []string{"0000:26:00.0"}},
		{name: "qat", kind: driver.TypeQAT, devices: []sysfs.PCIDevice{{Address: "0000:27:00.0", Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx",
			VFs: &sysfs.VFs{Total: 16, Enabled: 2, Product: "37c9", Driver: "vfio-pci"}}},
			load:  func(d *builtin.Config) { d.QAT = &qat.Config{} },
			group: map[string]string{"resources:CUSTOM_QAT": "1"}, pci: []string{"0000:27:00.1", "0000:27:00.2"}, leftOut: []string{"0000:27:00.0"}},
		{name: "nic", kind: driver.TypeNIC, devices: []sysfs.PCIDevice{
			{Address: "0000:28:00.0", Vendor: "8086", Product: "1572", Class: "0200", Driver: "i40e", Interfaces: []sysfs.Interface{{Name: "eth2", Up: true}}},
			{Address: "0000:28:00.1", Vendor: "8086", Product: "1572", Class: "0200", Driver: "i40e", Interfaces: []sysfs.Interface{{Name: "eth3", Up: true}},
				VFs: &sysfs.VFs{Total: 4, Enabled: 2, Offset: 16, Product: "154c", Driver: "iavf"}}},
			load: func(d *builtin.Config) {
				d.NIC = &nic.Config{EnabledNICTypes: []nic.Type{{Name: "x710_static", PhysicalDeviceMappings: networks}}}
			},
			group: map[string]string{"resources:CUSTOM_NIC": "1", "trait:CUSTOM_PHYSNET1": "required", "trait:CUSTOM_VF": "required"},
			pci:   []string{"0000:28:02.1", "0000:28:02.2"}, leftOut: []string{"0000:28:00.0", "0000:28:00.1"}},
		{name: "ssd", kind: driver.TypeSSD, devices: []sysfs.PCIDevice{
			{Address: "0000:29:00.0", Vendor: "1bd4", Product: "1001", Class: "010802", Driver: "nvme", Disks: []sysfs.Disk{{Name: "nvme0n1", Major: 259}}},
			{Address: "0000:2a:00.0", Vendor: "1bd4", Product: "1001", Class: "010802", Driver: "nvme", Disks: []sysfs.Disk{{Name: "nvme1n1", Major: 259, Minor: 1, Holders: []string{"dm-0"}}}}},
			load:  func(d *builtin.Config) { d.SSD = &ssd.Config{DeviceSpec: []ssd.Spec{{VendorID: "1bd4"}}} },
			group: map[string]string{"resources:CUSTOM_SSD": "1", "trait:CUSTOM_SSD_INSPUR": "required"}, pci: []string{"0000:29:00.0"}, leftOut: []string{"0000:2a:00.0"}},
		{name: "ascend", kind: driver.TypeAICHIP, devices: []sysfs.PCIDevice{{Address: "0000:2b:00.0", Vendor: "19e5", Product: "d100", Class: "1200", Driver: "devdrv_device_driver"}},
			load:  func(d *builtin.Config) { d.Ascend = &ascend.Config{} },
			group: map[string]string{"resources:CUSTOM_AICHIP": "1", "trait:CUSTOM_AICHIP_HUAWEI": "required"}, pci: []string{"0000:2b:00.0"}},
		{name: "hpts", kind: driver.TypeHPTS, devices: []sysfs.PCIDevice{{Address: "0000:2c:00.0", Vendor: "1cf2", Product: "2001", Class: "1110", Driver: "hpts",
			Clocks: []sysfs.Clock{{Name: "ptp5", ClockName: "hpts"}}}},
			load:  func(d *builtin.Config) { d.HPTS = &hpts.Config{} },
			group: map[string]string{"resources:CUSTOM_ACCELERATOR_HPTS": "1", "trait:CUSTOM_HPTS_ZTE": "required"}, pci: []string{"0000:2c:00.0"}},
		{name: "pci", kind: driver.TypeGPU, devices: []sysfs.PCIDevice{{Address: "0000:2d:00.0", Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb",
			VFs: &sysfs.VFs{Total: 7, Enabled: 1, Offset: 128, Product: "1520", Driver: "igbvf"}}},
			load:  func(d *builtin.Config) { d.PCI = &pci.Config{PassthroughWhitelist: whitelist} },
			group: map[string]string{"resources:CUSTOM_PCI": "1", "trait:CUSTOM_PCI_PRODUCT_ID_1520": "required"}, pci: []string{"0000:2d:10.0"}},
		{name: "mdev", kind: driver.TypeGPU, parents: []sysfs.MdevParent{{Name: "mtty", Types: []sysfs.MdevType{{Type: "mtty-2", Name: "Dual port serial", AvailableInstances: 12}}}},
			load: func(d *builtin.Config) {
				d.Mdev = &mdev.Config{EnabledMdevTypes: []mdev.Type{{Name: "mtty-2", Parents: []string{"mtty"}, Class: "CUSTOM_SERIAL"}}}
			},
			group: map[string]string{"resources:CUSTOM_SERIAL": "1"}, parent: "mtty"},
		{name: "nvidia-vgpu-vf", kind: driver.TypeGPU, devices: []sysfs.PCIDevice{{Address: "0000:2e:00.0", Vendor: "10de", Product: "2bb5", Class: "0302", Driver: "nvidia",
			VFs: &sysfs.VFs{Total: 2, Enabled: 2, Offset: 2, Driver: "nvidia", VGPUs: &sysfs.VGPUCard{Types: []sysfs.VGPUType{
				{ID: 1555, Name: blackwellType, FramebufferMiB: 49152, MaxInstances: 2}}}}}},
			load: func(d *builtin.Config) {
				c := cards(d)
				c.EnabledVGPUTypes = append(c.EnabledVGPUTypes, nvidia.VGPUType{
					Name: "nvidia-1555", DeviceAddresses: []string{"0000:2e:00.0"}, MaxInstances: 2, VGPUName: blackwellType})
			},
			group: map[string]string{"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_2BB5_RTX_PRO_6000_BLACKWELL_DC_48Q": "required"},
			pci:   []string{"0000:2e:00.2", "0000:2e:00.3"}},
	}
}

// cards is the section of nvidia, which two of the cases share.
func cards(d *builtin.Config) *nvidia.Config {
	if d.NVIDIA == nil {
		d.NVIDIA = &nvidia.Config{}
	}
	return d.NVIDIA
}

// oneHost is a cloud of one host with the hardware of all cases.
func oneHost(list ...given) simcloud.Model {
	host := simcloud.Host{Name: "cn0", Sysfs: &simcloud.Sysfs{}, Drivers: &builtin.Config{}}
	m := simcloud.Model{Flavors: []simcloud.Flavor{}, DeviceProfiles: []simcloud.DeviceProfile{}}
	for _, g := range list {
		host.Sysfs.Devices = append(host.Sysfs.Devices, g.devices...)
		host.Sysfs.MdevParents = append(host.Sysfs.MdevParents, g.parents...)
		g.load(host.Drivers)
		m.DeviceProfiles = append(m.DeviceProfiles, simcloud.DeviceProfile{Name: g.name, Groups: []map[string]string{g.group}})
	}
	m.Hosts = []simcloud.Host{host}
	return m
}

// spawner plays Nova.
type spawner struct {
	cloud *simcloud.Cloud
	flow  *spawn.Flow
}

func newSpawner(t *testing.T, m simcloud.Model) spawner {
	t.Helper()
	return spawnerOn(t, simcloud.Run(t, m))
}

func spawnerOn(t *testing.T, cloud *simcloud.Cloud) spawner {
	t.Helper()
	events, provider := externalevent.NewRegistry(), cloud.Provider(t)
	cyborg, err := cyborgclient.New(provider, cyborgclient.WithServiceProvider(cloud.ServiceProvider(t)))
	must(t, err)
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	must(t, err)
	cloud.HandleEvents(events.Handler())
	flow, err := spawn.New(cyborg, placement, spawn.WithEvents(events))
	must(t, err)
	return spawner{cloud, flow}
}

// spawn gives guest n a device of a driver and checks the answer and the domain.
func (s spawner) spawn(t *testing.T, n int, g given) *spawn.Result {
	t.Helper()
	result, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance(n), Flavor: requestspec.Flavor{
		Name: "accel." + g.name, VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: g.name},
	}})
	if err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	must(t, s.cloud.DefineGuest(sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}))
	inDomain, err := domainxml.Read(result.Domain)
	if g.fake() {
		if err != nil || len(inDomain) != 0 || len(result.Skipped) != 1 {
			t.Fatalf("%s: the domain has %d devices (%v), skipped %v, want one", g.name, len(inDomain), err, result.Skipped)
		}
		return result
	}
	if err != nil || len(inDomain) != 1 || len(result.Devices) != 1 {
		t.Fatalf("%s: the domain has %d devices (%v), the result %d, want 1", g.name, len(inDomain), err, len(result.Devices))
	}
	if device := inDomain[0]; g.mediated() {
		s.isMediated(t, g, device)
	} else if device.PCI == nil || !slices.Contains(g.pci, addressOf(*device.PCI)) {
		t.Errorf("%s: the domain has %+v, want one of %v", g.name, device, g.pci)
	}
	return result
}

func addressOf(a domainxml.PCIAddress) string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", a.Domain, a.Bus, a.Slot, a.Function)
}

func (s spawner) isMediated(t *testing.T, g given, device domainxml.Hostdev) {
	t.Helper()
	mdevs, err := s.cloud.Mdevs("cn0")
	must(t, err)
	if !slices.ContainsFunc(mdevs, func(m driver.Mdev) bool {
		return m.UUID == device.MDEV && m.Parent == g.parent
	}) {
		t.Errorf("%s: the domain has %+v, the host %+v, want one of these on %s", g.name, device, mdevs, g.parent)
	}
}

// release removes guest n.
func (s spawner) release(t *testing.T, n int) {
	t.Helper()
	s.cloud.RemoveGuest(instance(n))
	must(t, s.flow.Release(t.Context(), instance(n)))
}

// offeredOn counts the attach handles of a host, by address or by parent.
func offeredOn(t *testing.T, cloud *simcloud.Cloud) map[string]int {
	t.Helper()
	offered := make(map[string]int)
	for _, h := range cloud.Cyborg.AttachHandles() {
		handle := driver.AttachHandle{Type: h.Type, Info: h.Info}
		if h.Type == driver.HandleTestPCI {
			continue
		}
		if h.Type == driver.HandleMDEV {
			m, err := handle.Mdev(h.UUID)
			must(t, err)
			offered[m.Parent]++
			continue
		}
		address, err := driver.PCIAddressOf(h.Info)
		must(t, err)
		offered[address.String()]++
	}
	return offered
}

// leftOutOn lists the addresses that the drivers left out.
func leftOutOn(cloud *simcloud.Cloud) map[string]bool {
	list := make(map[string]bool)
	for _, r := range cloud.Findings() {
		for _, l := range r.LeftOut {
			list[l.Address] = true
		}
	}
	return list
}

func TestEveryDriversDeviceReachesAGuest(t *testing.T) {
	t.Parallel()
	for _, g := range givenDrivers() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			s := newSpawner(t, oneHost(g))
			s.spawn(t, 1, g)
			s.cloud.CheckNoLeaks(t)
			s.release(t, 1)
			s.cloud.CheckNoLeaks(t)
			for _, h := range s.cloud.Cyborg.AttachHandles() {
				if h.InUse {
					t.Errorf("handle %+v is still in use", h)
				}
			}
		})
	}
}

func TestOneHostHasEveryDeviceOnce(t *testing.T) {
	t.Parallel()
	list := givenDrivers()
	s := newSpawner(t, oneHost(list...))
	want, leftOut := make(map[string]int), make(map[string]bool)
	for _, g := range list {
		for _, address := range g.pci {
			want[address] = 1
		}
		for _, address := range g.leftOut {
			leftOut[address] = true
		}
	}
	want[vgpuT4], want["mtty"] = 4, 12
	if diff := cmp.Diff(want, offeredOn(t, s.cloud)); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(leftOut, leftOutOn(s.cloud)); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	for _, r := range s.cloud.Findings() {
		if len(r.Problems) > 0 || r.Devices == 0 {
			t.Errorf("%s: %d devices, problems %v", r.Driver, r.Devices, r.Problems)
		}
	}
	for i, g := range list {
		s.spawn(t, i, g)
	}
	s.cloud.CheckNoLeaks(t)
	given := make(map[string]int)
	for _, guest := range s.cloud.Guests() {
		devices, err := domainxml.Read([]byte(guest.Domain))
		must(t, err)
		for _, d := range devices {
			if d.PCI != nil {
				given[addressOf(*d.PCI)]++
			}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(given)) {
		if given[address] > 1 {
			t.Errorf("%s was given to %d guests", address, given[address])
		}
	}
	for i := range list {
		s.release(t, i)
	}
	s.cloud.CheckNoLeaks(t)
}

func TestEveryDriversDeviceReachesAGuestByTheNamesOfTheSpecifications(t *testing.T) {
	t.Parallel()
	for _, shape := range []driver.TraitShape{driver.ShapeRockyScheduling, driver.ShapeRockyAgent} {
		for _, g := range givenDrivers() {
			if g.fake() {
				continue // its names are always the same
			}
			t.Run(string(shape)+"/"+g.name, func(t *testing.T) {
				t.Parallel()
				g.group = map[string]string{"resources:CUSTOM_ACCELERATOR_" + g.kind: "1", "trait:OWNER_CYBORG": "required"}
				m := oneHost(g)
				m.Hosts[0].Drivers.TraitShape = shape
				s := newSpawner(t, m)
				s.spawn(t, 1, g)
				s.release(t, 1)
				s.cloud.CheckNoLeaks(t)
			})
		}
	}
}

func TestAModelWithADeviceForTwoDriversIsRefused(t *testing.T) {
	t.Parallel()
	list := givenDrivers()
	accelerator := list[slices.IndexFunc(list, func(g given) bool { return g.name == "qat" })]
	m := oneHost(accelerator)
	m.Hosts[0].Drivers.PCI = &pci.Config{PassthroughWhitelist: pci.Whitelist{{VendorID: "8086", ProductID: "37c9"}}}
	cloud, err := simcloud.New(t.Context(), m)
	if err == nil {
		t.Fatal("there is a cloud", cloud.Close())
	}
	if !errors.Is(err, simcloud.ErrModel) || !errors.Is(err, driver.ErrDoubleClaim) || !strings.Contains(err.Error(), "intel_qat and pci report 0000:27:00.1") {
		t.Errorf("New: %v, want both drivers and the address", err)
	}
}
