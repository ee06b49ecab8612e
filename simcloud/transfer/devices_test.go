package transfer

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The listings of testdata are of clouds with a bound request for each device: drivers of
// one host with a device of each driver, nested and flat of an FPGA with two regions and
// local memory.
func TestTheDevicesOfEveryDriverAreImported(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"drivers", "nested", "flat"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := recorded(t, name)
			cloud := imported(t, l)
			if diff := diff(l, listingOf(t, cloud)); diff != "" {
				t.Errorf("listings (-original +imported):\n%s", diff)
			}
			mdevs, err := cloud.Mdevs("cn0")
			must(t, err)
			for _, a := range l.answers.Cyborg.ARQs {
				i := slices.IndexFunc(cloud.Cyborg.AttachHandles(), func(h fakecyborg.StoredAttachHandle) bool { return h.ARQ == a.UUID })
				if i < 0 || !maps.Equal(a.HandleInfo, cloud.Cyborg.AttachHandles()[i].Info) {
					t.Errorf("the handle of request %s: %d", a.UUID, i)
				}
				made := slices.ContainsFunc(mdevs, func(m driver.Mdev) bool { return m.UUID == a.HandleUUID })
				if made != (a.HandleType == driver.HandleMDEV) {
					t.Errorf("%s handle %s: the mediated device is there: %v", a.HandleType, a.HandleUUID, made)
				}
			}
			checkReport(t, cloud)
			release(t, cloud)
		})
	}
}

func TestRequestsAreImportedInEveryState(t *testing.T) {
	t.Parallel()
	l := listingOf(t, busy(t, simcloud.Model{}))
	for i, state := range []fakecyborg.State{fakecyborg.StateBindStarted, fakecyborg.StateBindFailed, fakecyborg.StateUnbound} {
		a := l.answers.Cyborg.ARQs[i]
		a.State, a.HandleType, a.HandleUUID, a.HandleInfo = string(state), "", "", nil
		if state == fakecyborg.StateUnbound {
			a.Hostname, a.ProviderUUID, a.InstanceUUID = "", "", ""
		}
	}
	cloud := imported(t, l)
	got := listingOf(t, cloud)
	for _, list := range [][]*arq{got.answers.Cyborg.ARQs, l.answers.Cyborg.ARQs} {
		for i := range list {
			if len(list[i].HandleInfo) == 0 {
				list[i].HandleInfo = nil
			}
		}
	}
	l.answers.Placement = got.answers.Placement // only requests were changed
	if diff := diff(l, got); diff != "" {
		t.Errorf("requests (-original +imported):\n%s", diff)
	}
	release(t, cloud)
}

// The fake driver writes underscores for dots. Since 2026.1 Cyborg knows a host by its FQDN, and the drivers by [DEFAULT]
// host, which is the short name. Before, both were that, and some drivers had the name of the system.
func TestDeployablesAreMatchedToHostsByEveryForm(t *testing.T) {
	t.Parallel()
	const whole = "cn0.example.org"
	for name, tt := range map[string]struct{ host, fake, others string }{
		"whole names":           {whole, "cn0_example_org", whole},
		"short names":           {whole, "cn0", "cn0"},
		"short name of a host":  {"cn0", "cn0_example_org", whole},
		"host with underscores": {"my_cn_0", "my_cn_0", "my_cn_0"},
	} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, providers kept: %t", name, kept), func(t *testing.T) {
				t.Parallel()
				l := renamed(t, recorded(t, "drivers"), map[string]string{
					`"cn0"`: `"` + tt.host + `"`, "cn0_Fake": tt.fake + "_Fake", "cn0_0": tt.others + "_0", "cn0_mtty": tt.others + "_mtty",
				})
				if !kept { // Cyborg keeps the devices of a deleted compute service
					l.answers.Placement.Providers, l.answers.Placement.Consumers, l.answers.Cyborg.ARQs = l.answers.Placement.Providers[:1], nil, nil
				}
				replaced, err := l.Anonymize(Anonymization{Names: true})
				must(t, err)
				for _, l := range []Listing{l, replaced} {
					var unknown []string
					for _, d := range imported(t, l).Cyborg.Devices() {
						if strings.HasPrefix(d.ControlPath.Address().String(), "ffff:") {
							unknown = append(unknown, d.Model)
						}
					}
					if diff := cmp.Diff([]string{"miss model info", "Dual port serial"}, unknown); diff != "" {
						t.Errorf("devices with an unknown address (-want +got):\n%s", diff)
					}
				}
			})
		}
	}
}

func TestAnAmbiguousShortNameIsIgnored(t *testing.T) {
	t.Parallel()
	known := prefixesOf([]string{"cn0.a.org", "cn0.b.org", "cn1.a.org", "cn1", "cn2.a.org"})
	for name, want := range map[string][2]string{
		"cn0_x":         {"", "cn0_x"},
		"cn0.b.org_x":   {"cn0.b.org", "x"},
		"cn0_b_org_x_y": {"cn0.b.org", "x_y"},
		"cn1_x":         {"cn1", "x"},
		"cn2_x":         {"cn2.a.org", "x"},
		"nameless":      {"", "nameless"},
	} {
		if host, rest := known.cut(name); [2]string{host, rest} != want {
			t.Errorf("%s: host %q and %q, want %q", name, host, rest, want)
		}
	}
}

// Cyborg does not show the number of a device, so it is unknown which of the devices of a host
// has no deployables.
func TestDeployablesOfUnknownDevicesGetDevicesCalledUnknown(t *testing.T) {
	t.Parallel()
	original := simcloud.Run(t, simcloud.Model{})
	l := listingOf(t, original)
	bare := *l.answers.Cyborg.Devices[0]
	bare.UUID = instance(1)
	l.answers.Cyborg.Devices = append(l.answers.Cyborg.Devices, &bare)
	cloud := imported(t, l)
	devices := make(map[string]fakecyborg.StoredDevice)
	for _, d := range cloud.Cyborg.Devices() {
		devices[d.UUID] = d
	}
	for _, d := range l.answers.Cyborg.Devices {
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

func TestContradictoryAttributesAreReadFromTheDeployables(t *testing.T) {
	t.Parallel()
	original := simcloud.Run(t, simcloud.Model{})
	for name, change := range map[string]func(*answers){
		"none":    func(a *answers) { a.Cyborg.Attributes = []*attribute{} },
		"one off": func(a *answers) { a.Cyborg.Attributes[3].Value = "CUSTOM_ELSE" },
	} {
		l := listingOf(t, original)
		change(&l.answers)
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
	for i := range l.answers.Cyborg.Deployables {
		l.answers.Cyborg.Deployables[i].DeviceID = 3*l.answers.Cyborg.Deployables[i].DeviceID + 4
	}
	for i := range l.answers.Cyborg.Attributes {
		l.answers.Cyborg.Attributes[i].DeployableID = 5*l.answers.Cyborg.Attributes[i].DeployableID + 1
	}
	cloud := imported(t, l)
	if diff := diff(l, listingOf(t, cloud)); diff != "" {
		t.Errorf("listings (-original +imported):\n%s", diff)
	}
}

func TestAnImportCanBeKeptInAStateFile(t *testing.T) {
	t.Parallel()
	l := listingOf(t, busy(t, simcloud.Model{}))
	file := filepath.Join(t.TempDir(), "state")
	cloud, err := Import(t.Context(), l, simcloud.WithStateFile(file))
	must(t, err)
	must(t, cloud.Close())
	data, err := simcloud.ReadStateFile(file)
	must(t, err)
	again, err := simcloud.FromState(t.Context(), data)
	must(t, err)
	defer again.Close()
	if diff := diff(l, listingOf(t, again)); diff != "" {
		t.Errorf("listings (-imported +kept):\n%s", diff)
	}
	if _, err := Import(t.Context(), l, simcloud.WithStateFile(file)); !errors.Is(err, simcloud.ErrState) {
		t.Errorf("into a file that holds a state: %v, want ErrState", err)
	}
	_, err = Import(t.Context(), l, simcloud.WithExternalPlacement("http://127.0.0.1:1", ""))
	if !errors.Is(err, simcloud.ErrNoState) {
		t.Errorf("with an external Placement: %v, want ErrNoState", err)
	}
}

func TestListingsSurviveJSON(t *testing.T) {
	t.Parallel()
	l := listingOf(t, busy(t, simcloud.Model{}))
	data, err := l.JSON()
	must(t, err)
	got, err := ParseListing(data)
	must(t, err)
	if again, err := got.JSON(); err != nil || string(again) != string(data) {
		t.Errorf("written again (%v):\n%s", err, cmp.Diff(string(data), string(again)))
	}
}

func FuzzListing(f *testing.F) {
	data, err := os.ReadFile("testdata/small.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, true)
	f.Add([]byte(`{"schema_version":2,"read_at":"2026-11-20T00:00:00Z","placement":{"resource_providers":[]}}`), false)
	f.Add([]byte(`{"schema_version":2,"read_at":"2026-11-20T00:00:00Z","placement":{"resource_providers":[null],"consumers":[null]},"accelerator":{"devices":[null],"deployables":[null],"arqs":[null]}}`), true)
	f.Fuzz(func(t *testing.T, data []byte, replace bool) {
		l, err := ParseListing(data)
		if err == nil && replace {
			l, err = l.Anonymize(Anonymization{Names: true, IDs: true})
		}
		var cloud *simcloud.Cloud
		if err == nil {
			cloud, err = Import(t.Context(), l)
		}
		if err != nil {
			if !errors.Is(err, ErrListing) {
				t.Errorf("%q: error %v is not ErrListing", data, err)
			}
			return
		}
		defer cloud.Close()
		state, err := cloud.Dump()
		must(t, err)
		again, err := simcloud.FromState(t.Context(), state)
		if err != nil {
			t.Fatalf("%q: its state is refused: %v", data, err)
		}
		_ = again.Close()
	})
}

func TestWhatIsNotListedIsMarkedAsUnknown(t *testing.T) {
	t.Parallel()
	const provider1 = "75c9d2f9-d15e-3a2c-b3b0-8d3b0b8a7f0c"
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
			l := Listing{answers{SchemaVersion: listingSchema, ReadAt: time.Unix(1e9, 0)}}
			l.answers.Cyborg.Devices = []*device{{UUID: instance(1), Hostname: "cn0", Type: "GPU", Vendor: "v"}}
			l.answers.Cyborg.Deployables = []*deployable{{UUID: instance(2), Name: tt.deployable, NumAccelerators: 2, DeviceID: 1,
				ProviderUUID: provider1, DriverName: "nvidia", Attributes: pairs{{"rc": "VGPU"}}}}
			l.answers.Cyborg.Profiles = []*deviceProfile{{UUID: instance(4), Name: "p", Groups: []map[string]string{{"resources:VGPU": "1"}}}}
			l.answers.Cyborg.Attributes = []*attribute{}
			l.answers.Placement.Providers = []*provider{{UUID: instance(3), Name: "cn0"}, {UUID: provider1, Name: tt.deployable, Parent: instance(3)}}
			if tt.bound != nil {
				l.answers.Cyborg.ARQs = []*arq{{UUID: instance(5), State: "Bound", ProfileName: "p", Hostname: "cn0", ProviderUUID: provider1,
					InstanceUUID: instance(6), HandleType: tt.bound.Type, HandleInfo: tt.bound.Info}}
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

// TestUnknownHandlesDifferFromAnEarlierImport copies a cloud, uses the copy, and copies that: requests are bound to
// handles that the first copy had made up.
func TestUnknownHandlesDifferFromAnEarlierImport(t *testing.T) {
	t.Parallel()
	l := nameless(1, 2, 2)
	l.answers.Cyborg.Attributes = []*attribute{}
	for _, p := range l.answers.Placement.Providers[1:] {
		p.Inventories = map[string]inventory{"PGPU": {Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1}}
	}
	first := imported(t, l)
	if _, err := first.Cyborg.CreateDeviceProfile("p", []map[string]string{{"resources:PGPU": "1"}}); err != nil {
		t.Fatal(err)
	}
	provider := first.Cyborg.Deployables()[0].ProviderUUID
	for n := range 2 {
		arqs, err := first.Cyborg.CreateARQs("p", first.ProjectID("admin"))
		must(t, err)
		must(t, first.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: instance(77 + n)}))
	}
	checkHandlesDiffer(t, imported(t, listingOf(t, first)), 4)
}

// checkHandlesDiffer checks that a cloud has so many attach handles, and none of them twice.
func checkHandlesDiffer(t *testing.T, cloud *simcloud.Cloud, want int) {
	t.Helper()
	seen := make(map[string]string)
	for _, h := range cloud.Cyborg.AttachHandles() {
		key := driver.Info(h.Info).Key()
		if other, twice := seen[key]; twice {
			t.Fatalf("handles %s and %s are both %s", other, h.UUID, key)
		}
		seen[key] = h.UUID
	}
	if len(seen) != want {
		t.Errorf("%d handles, want %d", len(seen), want)
	}
}

// TestUnknownAddressesDifferFromAddressesInNames has a device without an address in its name after one
// whose name has the address that would be made up for it.
func TestUnknownAddressesDifferFromAddressesInNames(t *testing.T) {
	t.Parallel()
	l := nameless(1, 2, 1)
	l.answers.Cyborg.Attributes = []*attribute{}
	l.answers.Cyborg.Deployables[0].Name = "cn0_ffff:00:00.1"
	seen := make(map[string]bool)
	for _, d := range imported(t, l).Cyborg.Devices() {
		if key := d.ControlPath.Key(); seen[key] {
			t.Errorf("two devices at %s", key)
		} else {
			seen[key] = true
		}
	}
}

// nameless is a listing of devices whose addresses are unknown, with so many accelerators each.
func nameless(hosts, devices, accelerators int) Listing {
	l := Listing{answers{SchemaVersion: listingSchema, ReadAt: time.Unix(1e9, 0)}}
	for h := range hosts {
		host, root := fmt.Sprint("cn", h), instance(1e6+h)
		l.answers.Placement.Providers = append(l.answers.Placement.Providers, &provider{UUID: root, Name: host})
		for range devices {
			n := len(l.answers.Cyborg.Devices)
			name := fmt.Sprint("nameless", n)
			l.answers.Cyborg.Devices = append(l.answers.Cyborg.Devices, &device{UUID: instance(n), Hostname: host, Type: "GPU", Vendor: "v"})
			l.answers.Cyborg.Deployables = append(l.answers.Cyborg.Deployables, &deployable{UUID: instance(1e3 + n), Name: name, NumAccelerators: accelerators,
				DeviceID: n + 1, ProviderUUID: driver.ProviderUUID(name), DriverName: []string{"nvidia", "fake", "x"}[n%3], Attributes: pairs{{"rc": "PGPU"}}})
			l.answers.Placement.Providers = append(l.answers.Placement.Providers, &provider{UUID: driver.ProviderUUID(name), Name: name, Parent: root})
		}
	}
	return l
}

func TestUnknownHandlesOfAHostAllDiffer(t *testing.T) {
	t.Parallel()
	checkHandlesDiffer(t, imported(t, nameless(1, 3, 400)), 1200)
}

// A cloud of 10,000 hosts has more unknown devices and handles than there are addresses in PCI domain ffff.
func TestUnknownAddressesAreUniquePerHost(t *testing.T) {
	t.Parallel()
	cloud := imported(t, nameless(2, 2, 3))
	handles, devices := make(map[string][]string), make(map[string][]string)
	for _, h := range cloud.Cyborg.AttachHandles() {
		handles[h.Hostname] = append(handles[h.Hostname], driver.Info(h.Info).Key())
	}
	for _, d := range cloud.Cyborg.Devices() {
		devices[d.Hostname] = append(devices[d.Hostname], d.ControlPath.Address().String())
	}
	if diff := cmp.Diff(handles["cn0"], handles["cn1"]) + cmp.Diff(devices["cn0"], devices["cn1"]); diff != "" || len(handles) != 2 {
		t.Errorf("addresses of two hosts (-first +second):\n%s", diff)
	}
}

// A card of Xilinx has two functions and one accelerator. A group that requires its trait makes two requests.
func TestAnImportedCardOfXilinxCanBeBound(t *testing.T) {
	t.Parallel()
	l := recorded(t, "drivers")
	l.answers.Placement.Consumers, l.answers.Cyborg.ARQs = nil, nil // nothing is in use
	cloud := imported(t, l)
	const trait = "CUSTOM_FPGA_XILINX"
	if _, err := cloud.Cyborg.CreateDeviceProfile("x", []map[string]string{{"resources:FPGA": "1", "trait:" + trait: "required"}}); err != nil {
		t.Fatal(err)
	}
	all := cloud.Cyborg.Deployables()
	card := all[slices.IndexFunc(all, func(d fakecyborg.StoredDeployable) bool { return slices.Contains(d.Traits(), trait) })]
	claim := placementsim.Claim{Consumer: instance(77), Project: cloud.ProjectID("admin"), User: "u", Allocations: []placementsim.Allocation{
		{Provider: card.ProviderUUID, Class: "FPGA", Used: 1},
	}}
	must(t, cloud.Placement.Claim(claim))
	arqs, err := cloud.Cyborg.CreateARQs("x", cloud.ProjectID("admin"))
	must(t, err)
	var bindings []fakecyborg.Binding
	for _, a := range arqs {
		bindings = append(bindings, fakecyborg.Binding{ARQ: a.UUID, Host: card.Hostname, Provider: card.ProviderUUID, Instance: instance(77)})
	}
	if err := cloud.Cyborg.Bind(t.Context(), bindings...); err != nil || len(arqs) != 2 {
		t.Fatalf("%d requests of a free card: %v", len(arqs), err)
	}
	again := listingOf(t, cloud)
	if diff := diff(again, listingOf(t, imported(t, again))); diff != "" {
		t.Errorf("listings of the card in use (-original +imported):\n%s", diff)
	}
}

// On a flat host all cards are on one provider.
func TestBothFunctionsOfACardOfXilinxAreItsOwn(t *testing.T) {
	t.Parallel()
	root := &provider{UUID: instance(1), Name: "cn0", Traits: []string{"CUSTOM_FPGA_XILINX"}, Inventories: map[string]inventory{
		"FPGA": {Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1},
	}}
	l := Listing{answers{SchemaVersion: listingSchema, ReadAt: time.Unix(1e9, 0)}}
	l.answers.Placement.Providers = []*provider{root}
	l.answers.Cyborg.Attributes = []*attribute{}
	l.answers.Cyborg.Profiles = []*deviceProfile{{UUID: instance(2), Name: "p", Groups: []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "required"}}}}
	for n, bus := range []string{"3b", "3c"} {
		l.answers.Cyborg.Devices = append(l.answers.Cyborg.Devices, &device{UUID: instance(10 + n), Hostname: "cn0", Type: "FPGA", Vendor: "10ee"})
		l.answers.Cyborg.Deployables = append(l.answers.Cyborg.Deployables, &deployable{UUID: instance(20 + n), Name: "cn0_0000:" + bus + ":00.0", NumAccelerators: 1,
			DeviceID: n + 1, ProviderUUID: root.UUID, DriverName: "XILINX", Attributes: pairs{{"rc": "FPGA"}, {"trait0": "CUSTOM_FPGA_XILINX"}}})
	}
	for n, function := range []string{"0", "1"} {
		l.answers.Cyborg.ARQs = append(l.answers.Cyborg.ARQs, &arq{UUID: instance(30 + n), State: "Bound", ProfileName: "p", Hostname: "cn0", ProviderUUID: root.UUID,
			InstanceUUID: instance(6), HandleType: "PCI", HandleUUID: instance(40 + n), HandleInfo: driver.Info{"domain": "0000", "bus": "3c", "device": "00", "function": function}})
	}
	handles := make(map[string][]string) // requests, by deployable
	for _, h := range imported(t, l).Cyborg.AttachHandles() {
		handles[h.DeployableUUID] = append(handles[h.DeployableUUID], h.ARQ)
	}
	want := map[string][]string{instance(20): {"", ""}, instance(21): {instance(30), instance(31)}}
	if diff := cmp.Diff(want, handles); diff != "" {
		t.Errorf("requests that hold the handles of a card (-want +got):\n%s", diff)
	}
}

// An agent's next report brings the attribute back, and so does the import.
func TestADeployableWithoutAClassUsesTheClassOfItsProvider(t *testing.T) {
	t.Parallel()
	original := simcloud.Run(t, simcloud.Model{})
	l := listingOf(t, original)
	d, isClass := l.answers.Cyborg.Deployables[1], func(a *attribute) bool { return a.DeployableID == 2 && a.Key == "rc" }
	i := slices.IndexFunc(l.answers.Cyborg.Attributes, isClass)
	d.Attributes = slices.DeleteFunc(d.Attributes, func(p map[string]string) bool { return p["rc"] != "" })
	l.answers.Cyborg.Attributes = slices.Delete(l.answers.Cyborg.Attributes, i, i+1)
	cloud := imported(t, l)
	if got, want := cloud.Cyborg.Deployables()[1].ResourceClass(), original.Cyborg.Deployables()[1].ResourceClass(); got != want {
		t.Errorf("class %q, want %q", got, want)
	}
	checkReport(t, cloud)
}
