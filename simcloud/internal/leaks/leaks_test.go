package leaks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
)

// These states are written by hand, because Cyborg prevents them or repairs them at the
// next report.
func TestLeaksOfHandlesAndMediatedDevices(t *testing.T) {
	t.Parallel()
	bound := fakecyborg.ARQ{UUID: "arq", State: fakecyborg.StateBound, InstanceUUID: "vm", Hostname: "cn0", AttachHandleUUID: "handle"}
	failed := bound
	failed.State = fakecyborg.StateBindFailed
	handle := fakecyborg.StoredAttachHandle{UUID: "handle", Hostname: "cn0", ProviderUUID: "rp", Type: driver.HandleMDEV, InUse: true, ARQ: "arq"}
	with := func(change func(*fakecyborg.StoredAttachHandle)) fakecyborg.StoredAttachHandle {
		h := handle
		change(&h)
		return h
	}
	mdev := Mdev{Host: "cn0", Mdev: driver.Mdev{UUID: "handle", Parent: "0000:af:00.0", Type: "nvidia-222"}}
	older := mdev
	older.Older = true
	const what = "mediated device handle (nvidia-222 on 0000:af:00.0) of host cn0 "
	tests := []struct {
		name   string
		arq    fakecyborg.ARQ
		handle fakecyborg.StoredAttachHandle
		mdevs  []Mdev
		want   []Leak
	}{
		{"all well", bound, handle, []Mdev{mdev}, nil},
		{"free handle", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.InUse, h.ARQ = false, "" }), nil, nil},
		{"in use by no request", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.ARQ = "" }), nil,
			[]Leak{{KindHandle, "handle", "attach handle handle of provider rp on host cn0 is in use by no accelerator request", ""}}},
		{"in use by an unknown request", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.ARQ = "gone" }), nil,
			[]Leak{{KindHandle, "handle", "attach handle handle of provider rp on host cn0 is in use by ARQ gone, which does not hold it", ""}}},
		{"request holds another", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.UUID = "other" }), nil,
			[]Leak{{KindHandle, "other", "attach handle other of provider rp on host cn0 is in use by ARQ arq, which does not hold it", "arq"}}},
		{"mediated device of no handle", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.UUID, h.InUse = "other", false }), []Mdev{mdev},
			[]Leak{{KindMdev, "handle", what + "belongs to no attach handle", ""}}},
		{"older mediated device of no handle", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.UUID, h.InUse = "other", false }), []Mdev{older}, nil},
		{"older mediated device of a free handle", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.InUse, h.ARQ = false, "" }), []Mdev{older},
			[]Leak{{KindMdev, "handle", what + "belongs to attach handle handle, which is not in use", ""}}},
		{"mediated device on another host", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.Hostname = "cn1" }), []Mdev{mdev},
			[]Leak{{KindMdev, "handle", what + "belongs to no attach handle", ""}}},
		{"mediated device of a free handle", bound, with(func(h *fakecyborg.StoredAttachHandle) { h.InUse, h.ARQ = false, "" }), []Mdev{mdev},
			[]Leak{{KindMdev, "handle", what + "belongs to attach handle handle, which is not in use", ""}}},
		{"mediated device of a failed bind", failed, handle, []Mdev{mdev},
			[]Leak{{KindMdev, "handle", what + "belongs to ARQ arq (BindFailed, device profile ), which is not Bound", "arq"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := index(State{ARQs: []fakecyborg.ARQ{tt.arq}, Handles: []fakecyborg.StoredAttachHandle{tt.handle}, Mdevs: tt.mdevs})
			s.checkHandles()
			s.checkMdevs()
			if diff := cmp.Diff(tt.want, s.leaks); diff != "" {
				t.Errorf("leaks (-want +got):\n%s", diff)
			}
		})
	}
}

// A definition outlives the device that Cyborg's agent has removed, and even its attach handle.
func TestLeaksOfDefinitionsOfMediatedDevices(t *testing.T) {
	t.Parallel()
	bound := fakecyborg.ARQ{UUID: "arq", State: fakecyborg.StateBound, InstanceUUID: "vm", Hostname: "cn0", AttachHandleUUID: "handle"}
	used := fakecyborg.StoredAttachHandle{UUID: "handle", Hostname: "cn0", ProviderUUID: "rp", Type: driver.HandleMDEV, InUse: true, ARQ: "arq"}
	free, moved := used, used
	free.InUse, free.ARQ, moved.Hostname = false, "", "cn1"
	for name, tt := range map[string]struct {
		handles []fakecyborg.StoredAttachHandle
		want    string // what it belongs to; empty: no leak
	}{
		"of a bound request": {[]fakecyborg.StoredAttachHandle{used}, ""},
		"of a free handle":   {[]fakecyborg.StoredAttachHandle{free}, "attach handle handle, which is not in use"},
		"of another host":    {[]fakecyborg.StoredAttachHandle{moved}, "no attach handle"},
		"of no handle":       {nil, "no attach handle"},
	} {
		defined := []Mdev{{Host: "cn0", Mdev: driver.Mdev{UUID: "handle", Parent: "0000:af:00.0", Type: "nvidia-222"}}}
		s := index(State{ARQs: []fakecyborg.ARQ{bound}, Handles: tt.handles, Defined: defined})
		s.checkMdevs()
		var want []Leak
		if tt.want != "" {
			want = []Leak{{KindMdev, "handle", "the definition of mediated device handle (nvidia-222 on 0000:af:00.0) in libvirt of host cn0 belongs to " + tt.want, ""}}
		}
		if diff := cmp.Diff(want, s.leaks); diff != "" {
			t.Errorf("%s: leaks (-want +got):\n%s", name, diff)
		}
	}
}

// The sentence about a request of no guest ends where it holds no handle.
func TestARequestOfNoGuest(t *testing.T) {
	t.Parallel()
	requests := []fakecyborg.ARQ{
		{UUID: "a", State: fakecyborg.StateInitial}, {UUID: "b", State: fakecyborg.StateBindFailed, InstanceUUID: "vm"},
		{UUID: "c", State: fakecyborg.StateUnbound, Hostname: "cn0", DeviceRPUUID: "rp", AttachHandleUUID: "h", AttachHandleType: driver.HandleMDEV},
	}
	want := []Leak{
		{KindARQ, "a", "ARQ a (Initial, device profile ) belongs to no instance", "a"},
		{KindARQ, "b", "ARQ b (BindFailed, device profile ) belongs to instance vm, which is not a registered guest", "b"},
		{KindARQ, "c", "ARQ c (Unbound, device profile ) belongs to no instance and holds MDEV handle h of provider rp on host cn0", "c"},
	}
	if diff := cmp.Diff(want, Check(State{ARQs: requests})); diff != "" {
		t.Errorf("leaks (-want +got):\n%s", diff)
	}
}

// TestForeignDevicesEqualAWalk compares the devices that the check finds by their
// address with the result of a walk over all attach handles, on hosts where handles share
// addresses.
func TestForeignDevicesEqualAWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"", "cn0", "cn1"})
		kind := rapid.SampledFrom([]string{driver.HandlePCI, driver.HandleMDEV, driver.HandleTestPCI})
		few := rapid.IntRange(0, 4)
		var state State
		mdev := func(n int) string { return fmt.Sprintf("51e314cb-59ee-4896-8b40-54953ee0000%d", n) }
		for i := range few.Draw(t, "guests") {
			g := nova.Guest{Guest: sim.Guest{UUID: mdev(i), Host: host.Draw(t, "guest's host")}}
			for n, pci := range rapid.SliceOfDistinct(rapid.IntRange(0, 9), rapid.ID[int]).Draw(t, "devices") {
				g.Devices = append(g.Devices, nova.Device{Bus: uint8(pci)}, nova.Device{Mdev: mdev(n)})
			}
			state.Guests = append(state.Guests, g)
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "handles") {
			h := fakecyborg.StoredAttachHandle{
				UUID: mdev(i % 5), Hostname: host.Draw(t, "host"), Type: kind.Draw(t, "type"), ARQ: fmt.Sprint("arq", i),
				Info: map[string]string{"domain": "0000", "bus": fmt.Sprintf("%02x", few.Draw(t, "bus")), "device": "00", "function": "0"},
			}
			state.Handles = append(state.Handles, h)
			state.ARQs = append(state.ARQs, fakecyborg.ARQ{UUID: h.ARQ, InstanceUUID: mdev(few.Draw(t, "owner"))})
		}
		s := index(state)
		var want []Leak
		for i := range s.guests {
			g := &s.guests[i]
			for _, d := range g.Devices {
				for n, h := range state.Handles {
					at, is := deviceOf(h.Type, h.UUID, h.Info)
					if g.Host == "" || h.Hostname != g.Host || !is || at != d || state.ARQs[n].InstanceUUID == g.UUID {
						continue
					}
					s.leakOf(s.handles[n].holder, KindGuest, g.UUID, "guest %s has %s %s of provider %s in its domain XML, but no accelerator request for it",
						g.UUID, h.Type, deviceText(h.Type, h.UUID, h.Info), s.providerText(h.ProviderUUID))
				}
			}
			want, s.leaks = append(want, s.leaks...), nil
		}
		for i := range s.guests {
			s.checkForeignDevices(&s.guests[i])
		}
		if diff := cmp.Diff(want, s.leaks); diff != "" {
			t.Fatalf("leaks (-want +got):\n%s", diff)
		}
	})
}

// Cyborg makes two requests for a unit of a card of Xilinx, which has two functions.
func TestBothFunctionsOfACardBelongToItsUnit(t *testing.T) {
	t.Parallel()
	state := State{
		Guests: []nova.Guest{{Guest: sim.Guest{UUID: "vm", Host: "cn0"}}},
		Deployables: []fakecyborg.StoredDeployable{
			{UUID: "card", Hostname: "cn0", ProviderUUID: "rp", NumAccelerators: 1, Attributes: []driver.Attribute{
				{Key: "rc", Value: "FPGA"}, {Key: "trait0", Value: "CUSTOM_FPGA_XILINX"},
			}},
		},
		Allocations: []placementsim.Allocation{{Consumer: "vm", Provider: "rp", Class: "FPGA", Used: 1}},
	}
	for _, function := range []string{"management", "user", "third"} {
		state.Handles = append(state.Handles, fakecyborg.StoredAttachHandle{
			UUID: function, DeployableUUID: "card", ProviderUUID: "rp", Hostname: "cn0", Type: driver.HandleTestPCI, InUse: true, ARQ: "arq of " + function,
		})
		state.ARQs = append(state.ARQs, fakecyborg.ARQ{
			UUID: "arq of " + function, State: fakecyborg.StateBound, InstanceUUID: "vm", Hostname: "cn0", DeviceRPUUID: "rp",
			AttachHandleType: driver.HandleTestPCI, AttachHandleUUID: function,
		})
	}
	all := state
	state.Handles, state.ARQs = state.Handles[:2], state.ARQs[:2]
	if diff := cmp.Diff([]Leak(nil), Check(state)); diff != "" {
		t.Errorf("two functions of one card (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Leak{{KindGuest, "vm", "guest vm has 3 bound accelerator requests on provider rp, but has allocated FPGA:1 there", ""}}, Check(all)); diff != "" {
		t.Errorf("three functions of one card (-want +got):\n%s", diff)
	}
}

// Nova keeps the allocations on the host that a guest was evacuated from until that is back. Memory of
// another region of a host with an accelerator request may belong to that.
func TestMemoryOfACardBelongsToARequestOfItsHost(t *testing.T) {
	t.Parallel()
	bound := []fakecyborg.ARQ{{UUID: "arq", State: fakecyborg.StateInitial, InstanceUUID: "vm", Hostname: "cn0"}}
	lacks := Leak{KindGuest, "vm", "guest vm has allocated CUSTOM_ACCELERATOR_MEMORY_HBM:1 on provider the card, but has no accelerator request on host cn0", ""}
	for name, tt := range map[string]struct {
		left []string
		arqs []fakecyborg.ARQ
		want []Leak
	}{
		"no request":     {nil, nil, []Leak{lacks}},
		"evacuated":      {[]string{"cn0"}, nil, nil},
		"request there":  {nil, bound, nil},
		"from elsewhere": {[]string{"cn2"}, nil, []Leak{lacks}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := index(State{
				Servers: []client.Server{{ID: "vm", Host: "cn1", Left: tt.left}}, ARQs: tt.arqs, Roots: map[string][]string{"root": {"cn0"}},
				Deployables: []fakecyborg.StoredDeployable{{UUID: "region", Hostname: "cn0", ProviderUUID: "rp"}},
				Providers: func() []placementsim.ResourceProvider {
					return []placementsim.ResourceProvider{{UUID: "root"}, {UUID: "card", Name: "the card", Parent: "root"}, {UUID: "rp", Parent: "card"}}
				},
				Allocations: []placementsim.Allocation{{Consumer: "vm", Provider: "card", Class: "CUSTOM_ACCELERATOR_MEMORY_HBM", Used: 1}},
			})
			s.checkMemory(&s.guests[0], s.Allocations[0])
			if diff := cmp.Diff(tt.want, s.leaks); diff != "" {
				t.Errorf("leaks (-want +got):\n%s", diff)
			}
		})
	}
}

// An agent may recreate a mediated device that differs from the bound one. A device that
// is older than the cloud is checked too.
func TestAGuestHasTheMediatedDeviceOfItsHandle(t *testing.T) {
	t.Parallel()
	const id = "51e314cb-59ee-4896-8b40-54953ee00227"
	info := map[string]string{"asked_type": "nvidia-222", "domain": "0000", "bus": "af", "device": "00", "function": "0"}
	for name, tt := range map[string]struct {
		mdev Mdev
		want string
	}{
		"its own":           {Mdev{Mdev: driver.Mdev{Parent: "0000:af:00.0", Type: "nvidia-222"}}, ""},
		"older":             {Mdev{Mdev: driver.Mdev{Parent: "0000:af:00.0", Type: "nvidia-222"}, Older: true}, ""},
		"of another type":   {Mdev{Mdev: driver.Mdev{Parent: "0000:af:00.0", Type: "nvidia-232"}}, "is nvidia-232 on 0000:af:00.0, not nvidia-222 on 0000:af:00.0"},
		"on another parent": {Mdev{Mdev: driver.Mdev{Parent: "0000:b0:00.0", Type: "nvidia-222"}}, "is nvidia-222 on 0000:b0:00.0, not nvidia-222 on 0000:af:00.0"},
	} {
		tt.mdev.Host, tt.mdev.UUID = "cn0", id
		var found []string
		for _, leak := range Check(State{
			Guests: []nova.Guest{{Guest: sim.Guest{UUID: "vm", Host: "cn0"}}},
			ARQs: []fakecyborg.ARQ{{
				UUID: "arq", State: fakecyborg.StateBound, InstanceUUID: "vm", Hostname: "cn0",
				AttachHandleUUID: id, AttachHandleType: driver.HandleMDEV, AttachHandleInfo: info,
			}},
			Handles: []fakecyborg.StoredAttachHandle{{UUID: id, Hostname: "cn0", Type: driver.HandleMDEV, Info: info, InUse: true, ARQ: "arq"}},
			Mdevs:   []Mdev{tt.mdev},
		}) {
			if strings.Contains(leak.Text, "mediated device "+id) {
				found = append(found, leak.Text)
			}
		}
		if text := strings.Join(found, "; "); (tt.want == "") != (text == "") || !strings.Contains(text, tt.want) {
			t.Errorf("%s: leaks %q, want %q", name, text, tt.want)
		}
	}
}

// Cyborg binds a request to a free handle of its provider. By a defect it may be one of another provider, or there may be two
// of one device.
func TestARequestHasADeviceOfItsProviderForItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(*State)
		want  []string
	}{
		{"all well", func(*State) {}, nil},
		{"device of another request of the guest", func(s *State) {
			s.Handles[1].Info, s.ARQs[1].AttachHandleInfo = s.Handles[0].Info, s.Handles[0].Info
		}, []string{"guest vm has ARQ a (Bound, device profile gpu), but its PCI handle 0000:3b:00.0 is the device of ARQ b (Bound, device profile gpu) of guest vm, too"}},
		{"device of another server's request", func(s *State) {
			s.Handles[1].Info, s.ARQs[1].AttachHandleInfo = s.Handles[0].Info, s.Handles[0].Info
			s.ARQs[1].InstanceUUID, s.Allocations[1].Consumer = "server", "server"
			s.Guests, s.Servers = nil, []client.Server{{ID: "vm", Host: "cn0"}, {ID: "server", Host: "cn0"}}
		}, []string{"guest vm has ARQ a (Bound, device profile gpu), but its PCI handle 0000:3b:00.0 is the device of ARQ b (Bound, device profile gpu) of guest server, too"}},
		{"address of a device of another host", func(s *State) {
			s.Handles[1].Info, s.ARQs[1].AttachHandleInfo = s.Handles[0].Info, s.Handles[0].Info
			s.Handles[1].Hostname, s.ARQs[1].Hostname, s.ARQs[1].InstanceUUID = "cn1", "cn1", "server"
			s.Allocations[1].Consumer, s.Deployables[1].Hostname = "server", "cn1"
			s.Servers = []client.Server{{ID: "vm", Host: "cn0"}, {ID: "server", Host: "cn1"}}
		}, nil},
		{"TEST_PCI handles have no device", func(s *State) {
			for i := range s.Handles {
				s.Handles[i].Type, s.Handles[i].Info = driver.HandleTestPCI, s.Handles[0].Info
				s.ARQs[i].AttachHandleType, s.ARQs[i].AttachHandleInfo = driver.HandleTestPCI, s.Handles[0].Info
			}
		}, nil},
		{"handles of each other's provider", func(s *State) {
			s.Handles[0].ProviderUUID, s.Handles[1].ProviderUUID = "B", "A"
		}, []string{
			"guest vm has ARQ a (Bound, device profile gpu) on provider A, but its attach handle is one of provider B",
			"guest vm has ARQ b (Bound, device profile gpu) on provider B, but its attach handle is one of provider A",
		}},
		{"handles of another host's provider", func(s *State) {
			s.Handles[0].ProviderUUID, s.Handles[0].Hostname = "C", "cn1"
		}, []string{"guest vm has ARQ a (Bound, device profile gpu) on host cn0, but its attach handle is one of host cn1"}},
		{"handles of no known provider", func(s *State) { s.Handles[0].ProviderUUID, s.Handles[1].ProviderUUID = "", "" }, nil},
		{"flat host", func(s *State) {
			for i := range s.Handles {
				s.Handles[i].ProviderUUID, s.Deployables[i].ProviderUUID, s.ARQs[i].DeviceRPUUID = "root", "root", "root"
			}
			s.Allocations = []placementsim.Allocation{{Consumer: "vm", Provider: "root", Class: "PGPU", Used: 2}}
			s.Roots = map[string][]string{"root": {"cn0"}}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := twoGPUs()
			tt.spoil(&s)
			var got []string
			for _, leak := range Check(s) {
				got = append(got, leak.Text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("leaks (-want +got):\n%s", diff)
			}
		})
	}
}

// twoGPUs are two that a guest has, each on a provider of its own.
func twoGPUs() State {
	s := State{Guests: []nova.Guest{{Guest: sim.Guest{UUID: "vm", Host: "cn0"}}}}
	for i, arq := range []string{"a", "b"} {
		provider, address := strings.ToUpper(arq), driver.PCIAddress{Bus: []uint8{0x3b, 0x5e}[i]}
		s.Guests[0].Devices = append(s.Guests[0].Devices, DeviceAt(address))
		s.Deployables = append(s.Deployables, fakecyborg.StoredDeployable{
			UUID: "gpu " + arq, Hostname: "cn0", ProviderUUID: provider, Attributes: []driver.Attribute{{Key: "rc", Value: "PGPU"}},
		})
		h := fakecyborg.StoredAttachHandle{
			UUID: "handle " + arq, DeployableUUID: "gpu " + arq, ProviderUUID: provider, Hostname: "cn0",
			Type: driver.HandlePCI, Info: address.Info(), InUse: true, ARQ: arq,
		}
		s.Handles = append(s.Handles, h)
		s.ARQs = append(s.ARQs, fakecyborg.ARQ{
			UUID: arq, State: fakecyborg.StateBound, DeviceProfileName: "gpu", InstanceUUID: "vm", Hostname: "cn0", DeviceRPUUID: provider,
			AttachHandleType: h.Type, AttachHandleUUID: h.UUID, AttachHandleInfo: h.Info,
		})
		s.Allocations = append(s.Allocations, placementsim.Allocation{Consumer: "vm", Provider: provider, Class: "PGPU", Used: 1})
	}
	return s
}
