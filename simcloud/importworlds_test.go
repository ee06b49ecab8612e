package simcloud_test

import (
	"encoding/json"
	"errors"
	"fmt"
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
		list := slices.DeleteFunc(givenDrivers(), func(g given) bool { return g.name == "mdev" }) // whose handles nothing tells
		s := spawnerOn(t, sameAs(t, simcloud.Run(t, oneHost(list...))))
		for n, g := range list {
			result, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance(n), Flavor: requestspec.Flavor{
				Name: "accel." + g.name, VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: g.name},
			}})
			if err != nil {
				t.Fatalf("%s: %v", g.name, err)
			}
			if g.mediated() && result.ARQs[0].AttachHandleType != "MDEV" || g.fake() && result.ARQs[0].AttachHandleType != "TEST_PCI" {
				t.Errorf("%s: %+v", g.name, result.ARQs[0])
			}
			if fpga := strings.HasPrefix(g.name, "fpga-"); g.pci != nil && !fpga && !slices.Contains(g.pci, addressOf(*result.Devices[0].PCI)) {
				t.Errorf("%s: the address of its name is %v, want one of %v", g.name, result.Devices[0].PCI, g.pci)
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

// Cyborg does not show the number of a device, so a device without deployables must not
// push those behind it aside.
func TestDevicesWithoutDeployablesDoNotDisplaceOthers(t *testing.T) {
	t.Parallel()
	list := slices.DeleteFunc(givenDrivers(), func(g given) bool { return g.name == "mdev" }) // whose class is of no type
	original := simcloud.Run(t, oneHost(list...))
	for at := range original.Cyborg.Devices() {
		l := listingOf(t, original)
		bare := l.Accelerator.Devices[at]
		bare.UUID, bare.Type = instance(1), "AICHIP"
		if l.Accelerator.Devices[at].Type == bare.Type {
			bare.Type = "SSD"
		}
		l.Accelerator.Devices = slices.Insert(l.Accelerator.Devices, at, bare)
		for i, d := range l.Accelerator.Deployables { // the numbers that a cloud would have given
			if d.DeviceID > at {
				l.Accelerator.Deployables[i].DeviceID++
			}
		}
		cloud := imported(t, l)
		for i, d := range original.Cyborg.Deployables() {
			if got := cloud.Cyborg.Deployables()[i]; got.DeviceUUID != d.DeviceUUID {
				t.Errorf("with a device at %d, deployable %s is of device %s, want %s", at, d.Name, got.DeviceUUID, d.DeviceUUID)
			}
		}
		if diff := cmp.Diff(l.Accelerator.Devices, listingOf(t, cloud).Accelerator.Devices); diff != "" {
			t.Errorf("devices with one at %d (-want +got):\n%s", at, diff)
		}
	}
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

func TestWhatNothingTellsIsMadeUp(t *testing.T) {
	t.Parallel()
	pci := func(at string) string {
		return fmt.Sprintf("PCI %s", driver.Info{"domain": at[:4], "bus": at[5:7], "device": at[8:10], "function": at[11:]}.Key())
	}
	mdev := func(kind string, n int) string {
		return "MDEV " + driver.Info{"domain": "0000", "bus": "af", "device": "00", "function": "0", "asked_type": kind, "vgpu_mark": fmt.Sprint(kind, "_", n)}.Key()
	}
	for _, tt := range []struct {
		name, driver, class, kind string
		total                     int
		path                      string
		want                      []string
	}{
		{"cn0_0000:3b:00.0", "nvidia", "PGPU", "GPU", 1, "0000:3b:00.0", []string{pci("0000:3b:00.0")}},
		{"cn0_0000:5e:00.0", "intel", "FPGA", "FPGA", 3, "0000:5e:00.0", []string{pci("0000:5e:00.0"), pci("ffff:00:00.0"), pci("ffff:00:00.1")}},
		{"cn0_0000:af:00.0", "nvidia", "VGPU", "GPU", 2, "0000:af:00.0", []string{mdev("made-up", 0), mdev("made-up", 1)}},
		{"cn0_0000:af:00.0_nvidia-35", "nvidia", "VGPU", "GPU", 2, "0000:af:00.0", []string{mdev("nvidia-35", 0), mdev("nvidia-35", 1)}},
		{"cn0_0000:5e:00.0_region1", "intel", "FPGA", "FPGA", 1, "0000:5e:00.0", []string{pci("0000:5e:00.0")}},
		{"Ascend 310", "huawei", "CUSTOM_AICHIP", "AICHIP", 1, "ffff:00:00.0", []string{pci("ffff:00:00.0")}},
		{"cn0_FakeDevice", "fake", "FPGA", "FPGA", 2, "0000:0c:00.0", []string{
			"TEST_PCI " + driver.Info{"domain": "0000", "bus": "0c", "device": "0", "function": "1"}.Key(),
			"TEST_PCI " + driver.Info{"domain": "0000", "bus": "0c", "device": "0", "function": "2"}.Key(),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cloud := imported(t, simcloud.Listing{SchemaVersion: 1, Accelerator: &simcloud.AcceleratorListing{
				Devices: []simcloud.ListedDevice{{UUID: instance(1), Hostname: "cn0", Type: tt.kind, Vendor: "v"}},
				Deployables: []simcloud.ListedDeployable{{UUID: instance(2), Name: tt.name, NumAccelerators: tt.total, DeviceID: 1,
					ProviderUUID: driver.ProviderUUID(tt.name), DriverName: tt.driver, Attributes: []simcloud.ListedPair{{Key: "rc", Value: tt.class}}}},
			}})
			var got []string
			for _, h := range cloud.Cyborg.AttachHandles() {
				got = append(got, h.Type+" "+driver.Info(h.Info).Key())
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

func TestManyHundredsOfAcceleratorsAreMadeUp(t *testing.T) {
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
