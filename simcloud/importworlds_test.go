package simcloud_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestTheDevicesOfEveryDriverAreImported(t *testing.T) {
	t.Parallel()
	t.Run("bound", func(t *testing.T) {
		t.Parallel()
		s := newSpawner(t, oneHost(givenDrivers()...))
		for n, g := range givenDrivers() {
			s.spawn(t, n, g)
		}
		cloud := sameAs(t, s.cloud)
		for _, a := range s.cloud.Cyborg.ARQs() {
			i := slices.IndexFunc(cloud.Cyborg.AttachHandles(), func(h fakecyborg.AttachHandle) bool { return h.ARQ == a.UUID })
			if i < 0 || cmp.Diff(a.AttachHandleInfo, cloud.Cyborg.AttachHandles()[i].Info) != "" {
				t.Errorf("the handle of request %s: %d", a.UUID, i)
			}
		}
		release(t, cloud)
	})
	t.Run("free", func(t *testing.T) {
		t.Parallel()
		list := givenDrivers()
		s := spawnerOn(t, sameAs(t, simcloud.Run(t, oneHost(list...))))
		for n, g := range list {
			result, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance(n), Flavor: requestspec.Flavor{
				Name: "accel." + g.name, VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: g.name},
			}})
			if err != nil {
				t.Fatalf("%s: %v", g.name, err)
			}
			if at := result.Devices[0].PCI; at == nil || !strings.HasPrefix(addressOf(*at), "ffff:") {
				t.Errorf("%s: %+v, want an unknown PCI address", g.name, result.Devices[0])
			}
		}
		for n := range list {
			s.release(t, n)
		}
		s.cloud.CheckNoLeaks(t)
	})
}

// sameAs imports a cloud and compares, before and after a report.
func sameAs(t *testing.T, original *simcloud.Cloud) *simcloud.Cloud {
	t.Helper()
	want := listingOf(t, original)
	cloud := imported(t, want)
	if diff := cmp.Diff(want, listingOf(t, cloud)); diff != "" {
		t.Errorf("listings (-original +imported):\n%s", diff)
	}
	for i, d := range original.Cyborg.Deployables() {
		if got := cloud.Cyborg.Deployables()[i]; got.DeviceUUID != d.DeviceUUID || got.Hostname != d.Hostname {
			t.Errorf("deployable %s is of device %s, want %s", d.Name, got.DeviceUUID, d.DeviceUUID)
		}
	}
	checkReport(t, cloud)
	return cloud
}

// release deletes all requests and allocations, and then nothing is in use.
func release(t *testing.T, cloud *simcloud.Cloud) {
	t.Helper()
	u := login(t, cloud, "admin", "admin")
	for _, a := range cloud.Cyborg.ARQs() {
		u.do("DELETE", "/accelerator/v2/accelerator_requests?arqs="+a.UUID, accelerator, nil, 204, nil)
	}
	consumers := make(map[string]bool)
	for _, a := range cloud.Placement.Allocations() {
		consumers[a.Consumer] = true
	}
	for consumer := range consumers {
		if err := cloud.Placement.Release(consumer); err != nil {
			t.Fatal(err)
		}
	}
	cloud.CheckNoLeaks(t)
}

func TestRegionsAndTheirMemoryAreImported(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{fakecyborg.ModeNested, fakecyborg.ModeFlat} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			second, function := "0f"+regionType[2:], function2
			if mode == fakecyborg.ModeFlat {
				second, function = regionType, function1 // all devices of a flat host are alike
			}
			card := sysfs.PCIDevice{Address: "0000:24:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
				VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "09c5"},
				FPGA: &sysfs.FPGA{Dev: 1, Regions: []sysfs.FPGARegion{{Number: 1, InterfaceID: regionType}, {Number: 2, InterfaceID: second}},
					Ports: []sysfs.FPGAPort{{Number: 1, AFUID: function1, VF: 1}, {Number: 2, AFUID: function, VF: 2}}}}
			m := oneHost(given{name: "x", devices: []sysfs.PCIDevice{card}, load: drivesFPGAs, group: map[string]string{"resources:FPGA": "1"}})
			if mode == fakecyborg.ModeNested {
				m.Hosts[0].Drivers.LocalMemory = boardMemory()
			}
			m.Cyborg.PlacementMode = mode
			original := simcloud.Run(t, m)
			u := login(t, original, "admin", "admin")
			for n, part := range original.Cyborg.Deployables() {
				u.hold(n, part, "x")
			}
			release(t, sameAs(t, original))
		})
	}
}

func drivesFPGAs(d *simcloud.Drivers) { d.FPGA = &fpga.Config{} }

// hold binds a request to a deployable.
func (u *user) hold(n int, part fakecyborg.Deployable, profile string) {
	u.t.Helper()
	u.do("PUT", "/placement/allocations/"+instance(n), placement, map[string]any{
		"allocations": map[string]any{part.ProviderUUID: map[string]any{"resources": map[string]int{part.ResourceClass(): 1}}},
		"project_id":  "p", "user_id": "u", "consumer_generation": nil,
	}, 204, nil)
	u.bind(u.createARQs(profile)[0], instance(n), part.ProviderUUID, part.Hostname)
}

func TestRequestsAreImportedInEveryState(t *testing.T) {
	t.Parallel()
	l := listingOf(t, busy(t, simcloud.Model{}))
	for i, state := range []fakecyborg.State{fakecyborg.StateBindStarted, fakecyborg.StateBindFailed, fakecyborg.StateUnbound} {
		a := &l.Accelerator.ARQs[i]
		a.State, a.AttachHandleType, a.AttachHandleUUID, a.AttachHandleInfo = string(state), "", "", nil
		if state == fakecyborg.StateUnbound {
			a.Hostname, a.ProviderUUID, a.InstanceUUID = "", "", ""
		}
	}
	cloud := imported(t, l)
	got := listingOf(t, cloud)
	for i := range got.Accelerator.ARQs {
		if len(got.Accelerator.ARQs[i].AttachHandleInfo) == 0 {
			got.Accelerator.ARQs[i].AttachHandleInfo = nil
		}
		if len(l.Accelerator.ARQs[i].AttachHandleInfo) == 0 {
			l.Accelerator.ARQs[i].AttachHandleInfo = nil
		}
	}
	if diff := cmp.Diff(l.Accelerator.ARQs, got.Accelerator.ARQs); diff != "" {
		t.Errorf("requests (-original +imported):\n%s", diff)
	}
	release(t, cloud)
}

// Cyborg does not show the number of a device, so nothing tells which of the devices of a
// host has no deployables.
func TestDeployablesOfUnknownDevicesStandBelowDevicesCalledUnknown(t *testing.T) {
	t.Parallel()
	original := simcloud.Run(t, simcloud.Model{})
	l := listingOf(t, original)
	bare := l.Accelerator.Devices[0]
	bare.UUID = instance(1)
	l.Accelerator.Devices = append(l.Accelerator.Devices, bare)
	cloud := imported(t, l)
	devices := make(map[string]fakecyborg.Device)
	for _, d := range cloud.Cyborg.Devices() {
		devices[d.UUID] = d
	}
	for _, d := range l.Accelerator.Devices {
		if _, ok := devices[d.UUID]; !ok {
			t.Errorf("device %s of host %s is missing", d.UUID, d.Hostname)
		}
	}
	for i, want := range original.Cyborg.Deployables() {
		got := cloud.Cyborg.Deployables()[i]
		if got.DeviceID != want.DeviceID || got.Hostname != want.Hostname {
			t.Errorf("deployable %s is of device %d of host %s, want %d of %s", got.Name, got.DeviceID, got.Hostname, want.DeviceID, want.Hostname)
		}
		known := got.DeviceUUID == want.DeviceUUID
		if uncertain := want.Hostname == bare.Hostname; known == uncertain || uncertain && devices[got.DeviceUUID].Model != "unknown" {
			t.Errorf("deployable %s of host %s is of device %+v", got.Name, want.Hostname, devices[got.DeviceUUID])
		}
	}
	checkReport(t, cloud)
}

func TestAttributesThatDoNotFitAreMadeOfTheDeployables(t *testing.T) {
	t.Parallel()
	original := simcloud.Run(t, simcloud.Model{})
	for name, spoil := range map[string]func(*simcloud.AcceleratorListing){
		"none":    func(a *simcloud.AcceleratorListing) { a.Attributes = nil },
		"one off": func(a *simcloud.AcceleratorListing) { a.Attributes[3].Value = "CUSTOM_ELSE" },
	} {
		l := listingOf(t, original)
		spoil(l.Accelerator)
		cloud := imported(t, l)
		for i, d := range original.Cyborg.Deployables() {
			if diff := cmp.Diff(d, cloud.Cyborg.Deployables()[i]); diff != "" {
				t.Errorf("%s: deployable (-original +imported):\n%s", name, diff)
			}
		}
		checkReport(t, cloud)
	}
}

func TestNumbersWithGapsAreKept(t *testing.T) {
	t.Parallel()
	l := listingOf(t, simcloud.Run(t, simcloud.Model{}))
	for i := range l.Accelerator.Deployables {
		l.Accelerator.Deployables[i].DeviceID = 3*l.Accelerator.Deployables[i].DeviceID + 4
	}
	for i := range l.Accelerator.Attributes {
		l.Accelerator.Attributes[i].DeployableID = 5*l.Accelerator.Attributes[i].DeployableID + 1
	}
	cloud := imported(t, l)
	if diff := cmp.Diff(l, listingOf(t, cloud)); diff != "" {
		t.Errorf("listings (-original +imported):\n%s", diff)
	}
}

func TestAnImportCanBeKeptInAStateFile(t *testing.T) {
	t.Parallel()
	l := listingOf(t, busy(t, simcloud.Model{}))
	file := filepath.Join(t.TempDir(), "state")
	cloud, err := simcloud.Import(t.Context(), l, simcloud.WithStateFile(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := simcloud.ReadStateFile(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := simcloud.FromState(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if diff := cmp.Diff(l, listingOf(t, again)); diff != "" {
		t.Errorf("listings (-imported +kept):\n%s", diff)
	}
	if _, err := simcloud.Import(t.Context(), l, simcloud.WithStateFile(file)); !errors.Is(err, simcloud.ErrState) {
		t.Errorf("into a file that holds a state: %v, want ErrState", err)
	}
	_, err = simcloud.Import(t.Context(), l, simcloud.WithExternalPlacement(simcloud.ExternalPlacement{URL: "http://127.0.0.1:1"}))
	if !errors.Is(err, simcloud.ErrNoState) {
		t.Errorf("with an external Placement: %v, want ErrNoState", err)
	}
}

func TestListingsSurviveJSON(t *testing.T) {
	t.Parallel()
	l := listingOf(t, busy(t, simcloud.Model{}))
	data, err := l.JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := simcloud.ParseListing(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := got.JSON(); err != nil || string(again) != string(data) {
		t.Errorf("written again (%v):\n%s", err, cmp.Diff(string(data), string(again)))
	}
}

func FuzzListing(f *testing.F) {
	small := simcloud.Listing{SchemaVersion: 1, ReadAt: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), Placement: simcloud.PlacementListing{
		ResourceProviders: []simcloud.ListedProvider{{UUID: instance(1), Name: "a"}, {UUID: instance(2), Name: "a_0000:3b:00.0", Parent: instance(1),
			Inventories: map[string]simcloud.ListedInventory{"PGPU": {Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}}}},
		Consumers: []simcloud.ListedConsumer{{UUID: instance(3), Allocations: map[string]map[string]int64{instance(2): {"PGPU": 1}}}},
	}, Accelerator: &simcloud.AcceleratorListing{
		Devices:        []simcloud.ListedDevice{{UUID: instance(4), Hostname: "a", Type: "GPU", Vendor: "10de"}},
		Deployables:    []simcloud.ListedDeployable{{UUID: instance(5), Name: "a_0000:3b:00.0", NumAccelerators: 1, DeviceID: 1, ProviderUUID: instance(2), Attributes: []simcloud.ListedPair{{Key: "rc", Value: "PGPU"}}}},
		DeviceProfiles: []simcloud.ListedProfile{{UUID: instance(6), Name: "p", Groups: []map[string]string{{"resources:PGPU": "1"}}}},
		ARQs: []simcloud.ListedARQ{{UUID: instance(7), State: "Bound", ProfileName: "p", Hostname: "a", ProviderUUID: instance(2), InstanceUUID: instance(3),
			AttachHandleType: "PCI", AttachHandleInfo: map[string]string{"domain": "0000", "bus": "3b", "device": "00", "function": "0"}}},
	}}
	data, err := json.Marshal(small)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, true)
	f.Add([]byte(`{"schema_version":1,"read_at":"2026-11-20T00:00:00Z","placement":{"resource_providers":[]}}`), false)
	f.Fuzz(func(t *testing.T, data []byte, replace bool) {
		l, err := simcloud.ParseListing(data)
		if err == nil && replace {
			l, err = l.Replace(simcloud.Replacement{Names: true, IDs: true})
		}
		var cloud *simcloud.Cloud
		if err == nil {
			cloud, err = simcloud.Import(t.Context(), l)
		}
		if err != nil {
			if !errors.Is(err, simcloud.ErrListing) {
				t.Errorf("%q: error %v is not ErrListing", data, err)
			}
			return
		}
		defer cloud.Close()
		state, err := cloud.Dump()
		if err != nil {
			t.Fatal(err)
		}
		again, err := simcloud.FromState(t.Context(), state)
		if err != nil {
			t.Fatalf("%q: its state is refused: %v", data, err)
		}
		_ = again.Close()
	})
}

func TestWhatNothingTellsIsMarkedAsUnknown(t *testing.T) {
	t.Parallel()
	const provider = "75c9d2f9-d15e-3a2c-b3b0-8d3b0b8a7f0c"
	pci := func(bus, function string) driver.Info {
		return driver.Info{"domain": "ffff", "bus": bus, "device": "00", "function": function}
	}
	mdev := driver.Info{"domain": "0000", "bus": "af", "device": "00", "function": "0", "asked_type": "nvidia-35", "vgpu_mark": "nvidia-35_0"}
	unknownMdev := maps.Clone(mdev)
	unknownMdev["vgpu_mark"] = "unknown_0"
	for _, tt := range []struct {
		name, deployable, path string
		bound                  *driver.AttachHandle
		want                   []driver.AttachHandle
	}{
		{"address in the name", "cn0_0000:3b:00.0", "0000:3b:00.0", nil, []driver.AttachHandle{{Type: "PCI", Info: pci("00", "0")}, {Type: "PCI", Info: pci("00", "1")}}},
		{"address and more in the name", "cn0_0000:3b:00.0_region1", "0000:3b:00.0", nil, []driver.AttachHandle{{Type: "PCI", Info: pci("00", "0")}, {Type: "PCI", Info: pci("00", "1")}}},
		{"no address", "Ascend 310", "ffff:00:00.0", nil, []driver.AttachHandle{{Type: "PCI", Info: pci("00", "0")}, {Type: "PCI", Info: pci("00", "1")}}},
		{"bound mediated device", "cn0_0000:af:00.0", "0000:af:00.0", &driver.AttachHandle{Type: "MDEV", Info: mdev},
			[]driver.AttachHandle{{Type: "MDEV", Info: mdev}, {Type: "MDEV", Info: unknownMdev}}},
		{"bound handle of a fake device", "cn0_FakeDevice", "ffff:00:00.0", &driver.AttachHandle{Type: "TEST_PCI", Info: pci("0c", "1")},
			[]driver.AttachHandle{{Type: "TEST_PCI", Info: pci("0c", "1")}, {Type: "TEST_PCI", Info: pci("00", "0")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := simcloud.Listing{SchemaVersion: 1, Placement: simcloud.PlacementListing{ResourceProviders: []simcloud.ListedProvider{
				{UUID: instance(3), Name: "cn0"}, {UUID: provider, Name: tt.deployable, Parent: instance(3)},
			}}, Accelerator: &simcloud.AcceleratorListing{
				Devices: []simcloud.ListedDevice{{UUID: instance(1), Hostname: "cn0", Type: "GPU", Vendor: "v"}},
				Deployables: []simcloud.ListedDeployable{{UUID: instance(2), Name: tt.deployable, NumAccelerators: 2, DeviceID: 1,
					ProviderUUID: provider, DriverName: "nvidia", Attributes: []simcloud.ListedPair{{Key: "rc", Value: "VGPU"}}}},
				DeviceProfiles: []simcloud.ListedProfile{{UUID: instance(4), Name: "p", Groups: []map[string]string{{"resources:VGPU": "1"}}}},
			}}
			if tt.bound != nil {
				l.Accelerator.ARQs = []simcloud.ListedARQ{{UUID: instance(5), State: "Bound", ProfileName: "p", Hostname: "cn0", ProviderUUID: provider,
					InstanceUUID: instance(6), AttachHandleType: tt.bound.Type, AttachHandleInfo: tt.bound.Info}}
			}
			cloud := imported(t, l)
			var got []driver.AttachHandle
			for _, h := range cloud.Cyborg.AttachHandles() {
				got = append(got, driver.AttachHandle{Type: h.Type, Info: h.Info})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("attach handles (-want +got):\n%s", diff)
			}
			if at := cloud.Cyborg.Devices()[0].ControlPath.Address().String(); at != tt.path {
				t.Errorf("control path %s, want %s", at, tt.path)
			}
		})
	}
}

func TestUnknownHandlesOfAHostAllDiffer(t *testing.T) {
	t.Parallel()
	l := simcloud.Listing{SchemaVersion: 1, Accelerator: &simcloud.AcceleratorListing{}}
	for n := range 3 {
		name := fmt.Sprint("nameless", n)
		l.Accelerator.Devices = append(l.Accelerator.Devices, simcloud.ListedDevice{UUID: instance(n), Hostname: "cn0", Type: "GPU", Vendor: "v"})
		l.Accelerator.Deployables = append(l.Accelerator.Deployables, simcloud.ListedDeployable{UUID: instance(100 + n), Name: name, NumAccelerators: 400,
			DeviceID: n + 1, ProviderUUID: driver.ProviderUUID(name), DriverName: []string{"nvidia", "fake", "x"}[n], Attributes: []simcloud.ListedPair{{Key: "rc", Value: "PGPU"}}})
	}
	l.Placement.ResourceProviders = []simcloud.ListedProvider{{UUID: instance(50), Name: "cn0"}}
	for _, p := range l.Accelerator.Deployables {
		l.Placement.ResourceProviders = append(l.Placement.ResourceProviders, simcloud.ListedProvider{UUID: p.ProviderUUID, Name: p.Name, Parent: instance(50)})
	}
	seen := make(map[string]bool)
	for _, h := range imported(t, l).Cyborg.AttachHandles() {
		key := driver.Info(h.Info).Key()
		if seen[key] {
			t.Fatalf("two handles have %s", key)
		}
		seen[key] = true
	}
	if len(seen) != 1200 {
		t.Errorf("%d handles", len(seen))
	}
}
