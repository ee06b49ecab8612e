package transfer

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/simcloud"
)

var longHex = regexp.MustCompile(`(?i)[0-9a-f-]{32,}`)

// named is a cloud whose hosts, profiles and providers have names of their own, which board
// information also contains.
func named(t testing.TB, hosts ...string) *simcloud.Cloud {
	t.Helper()
	m := simcloud.Model{Hosts: []simcloud.Host{}}
	for i, h := range simcloud.DefaultModel().Hosts[:len(hosts)] {
		name := hosts[i]
		text, err := json.Marshal(h)
		must(t, err)
		text = []byte(strings.ReplaceAll(string(text), fmt.Sprint(`"cn`, i), `"`+name))
		must(t, json.Unmarshal(text, &h))
		h.Devices = []driver.Device{{
			Vendor: "10de", Model: "Tesla M60", Type: driver.TypeGPU, VendorBoardInfo: `{"slot": "` + name + `/3"}`,
			ControlPath: driver.PCIAddress{Bus: 0x87}.ControlPath(),
			Deployables: []driver.Deployable{{
				Name: name + "_0000:87:00.0", NumAccelerators: 1, DriverName: "NVIDIA", Class: "PGPU",
				Traits:        []string{driver.TraitOwnerCyborg, "CUSTOM_NVIDIA_13F2"},
				AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: driver.PCIAddress{Bus: 0x87}.Info()}},
			}},
		}}
		m.Hosts = append(m.Hosts, h)
	}
	cloud := simcloud.Run(t, m)
	hold(t, cloud, 1, "gpu", "PGPU", "")
	hold(t, cloud, 2, "vgpu", "VGPU", "CUSTOM_GPU_NVIDIA")
	hold(t, cloud, 3, "fake", "FPGA", "CUSTOM_FAKE_DEVICE")
	if _, err := cloud.Cyborg.CreateARQs("mixed", cloud.ProjectID("admin")); err != nil {
		t.Fatal(err)
	}
	aggregate(t, cloud, hosts[0])
	return cloud
}

// identifiers are all the ids of a listing.
func identifiers(l Listing) map[string]bool {
	ids := make(map[string]bool)
	add := func(list ...string) {
		for _, id := range list {
			if id != "" {
				ids[id] = true
			}
		}
	}
	for _, p := range l.answers.Placement.Providers {
		add(p.Aggregates...)
		add(p.UUID)
	}
	for _, c := range l.answers.Placement.Consumers {
		add(c.UUID, c.ProjectID)
	}
	for _, d := range l.answers.Cyborg.Devices {
		add(d.UUID)
	}
	for _, d := range l.answers.Cyborg.Deployables {
		add(d.UUID)
	}
	for _, a := range l.answers.Cyborg.Attributes {
		add(a.UUID)
	}
	for _, p := range l.answers.Cyborg.Profiles {
		add(p.UUID)
	}
	for _, a := range l.answers.Cyborg.ARQs {
		add(a.UUID, a.InstanceUUID, a.ProjectID, a.HandleUUID)
	}
	return ids
}

// renamed is a listing as it would have been with other names of its hosts.
func renamed(t testing.TB, l Listing, names map[string]string) Listing {
	t.Helper()
	var pairs []string
	for before, after := range names {
		pairs = append(pairs, before, after)
	}
	inNames := strings.NewReplacer(pairs...)
	for _, p := range l.answers.Placement.Providers {
		if p.UUID == driver.ProviderUUID(p.Name) {
			pairs = append(pairs, p.UUID, driver.ProviderUUID(inNames.Replace(p.Name)))
		}
	}
	data, err := l.JSON()
	must(t, err)
	out, err := ParseListing([]byte(strings.NewReplacer(pairs...).Replace(string(data))))
	must(t, err)
	return out
}

func TestNothingOfTheOriginalRemainsInAnImportWithReplacedNamesAndIDs(t *testing.T) {
	t.Parallel()
	base := listingOf(t, named(t, "cn0", "cn1"))
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[xyz]{3}[0-9]{1,2}(-[xyz]{3})?(\.[xyz]{4})?`)
		hosts := rapid.SliceOfNDistinct(name, 2, 2, rapid.ID).Draw(rt, "hosts")
		r := Anonymization{Seed: rapid.Uint64().Draw(rt, "seed"), Names: rapid.Bool().Draw(rt, "names")}
		r.IDs = !r.Names || rapid.Bool().Draw(rt, "ids")
		l := renamed(t, base, map[string]string{"cn0": hosts[0], "cn1": hosts[1]})
		replaced, err := l.Anonymize(r)
		if err != nil {
			rt.Fatal(err)
		}
		data, err := replaced.JSON()
		if err != nil {
			rt.Fatal(err)
		}
		if round++; round%20 == 1 { // the cloud made of it says no more, and takes its time
			data = append(data, dumpOf(t, rt, replaced)...)
		}
		if r.Names {
			absent(rt, string(data), hosts...)
		}
		if r.IDs {
			digits := strings.Join(longHex.FindAllString(string(data), -1), " ") // less to search
			for id := range identifiers(l) {
				absent(rt, digits, id, strings.ReplaceAll(id, "-", ""))
			}
		}
		if diff := cmp.Diff(shape(l), shape(replaced)); diff != "" {
			rt.Fatalf("shape without names and ids (-original +replaced):\n%s", diff)
		}
	})
}

func absent(t *rapid.T, text string, parts ...string) {
	for _, part := range parts {
		if i := strings.Index(text, part); i >= 0 {
			t.Fatalf("%s is still there: %s", part, text[max(0, i-60):min(len(text), i+60)])
		}
	}
}

// dumpOf is the state of the cloud of a listing. A report does not change it.
func dumpOf(t *testing.T, rt *rapid.T, l Listing) []byte {
	cloud, err := Import(t.Context(), l)
	if err != nil {
		rt.Fatal(err)
	}
	defer cloud.Close()
	data, err := cloud.Dump()
	if err != nil {
		rt.Fatal(err)
	}
	if err := cloud.Cyborg.Report(t.Context()); err != nil {
		rt.Fatal(err)
	}
	for _, request := range cloud.Requests() {
		if request.Service == "placement" && request.Method != "GET" {
			rt.Fatalf("the report wrote: %s %s", request.Method, request.Path)
		}
	}
	return data
}

// shape is the part of a listing that is never replaced: numbers, classes, traits and the tree of providers.
func shape(l Listing) []string {
	index := make(map[string]int)
	for i, p := range l.answers.Placement.Providers {
		index[p.UUID] = i
	}
	var list []string
	for _, p := range l.answers.Placement.Providers {
		parent := -1
		if p.Parent != "" {
			parent = index[p.Parent]
		}
		list = append(list, fmt.Sprint(parent, p.Generation, p.Inventories, p.Traits, len(p.Aggregates)))
	}
	for _, c := range l.answers.Placement.Consumers {
		for _, i := range slices.Sorted(maps.Keys(c.Allocations)) {
			list = append(list, fmt.Sprint(c.Type, len(i)))
		}
	}
	for _, d := range l.answers.Cyborg.Deployables {
		list = append(list, fmt.Sprint(index[d.ProviderUUID], d.NumAccelerators, d.DeviceID, d.DriverName, d.Attributes))
	}
	for _, a := range l.answers.Cyborg.ARQs {
		list = append(list, fmt.Sprint(a.State, a.Group, index[a.ProviderUUID], a.HandleType, len(a.HandleInfo)))
	}
	return list
}

func TestReplacedNamesAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	l := listingOf(t, named(t, "cn1", "cn10"))
	l.answers.Cyborg.Devices[0].StdBoardInfo = "serial number 7 of cn1"
	before, err := l.JSON()
	must(t, err)
	got, err := l.Anonymize(Anonymization{Names: true, IDs: true, Seed: 7})
	must(t, err)
	if after, err := l.JSON(); err != nil || string(after) != string(before) {
		t.Errorf("the listing itself was changed (%v)", err)
	}
	device := got.answers.Cyborg.Devices[0]
	if device.StdBoardInfo+device.VendorBoardInfo != "" {
		t.Errorf("board information %q, %q", device.StdBoardInfo, device.VendorBoardInfo)
	}
	names := make(map[string]bool)
	for _, p := range got.answers.Placement.Providers {
		names[p.Name] = true
	}
	for _, want := range []string{"host-1", "host-2", "host-1_FakeDevice", "host-2_0000:3b:00.0", "host-1_pci_0000_e1_00_0", "host-1_provider-1"} {
		if !names[want] {
			t.Errorf("no provider is called %s: %v", want, slices.Sorted(maps.Keys(names)))
		}
	}
	for i, d := range got.answers.Cyborg.Deployables {
		if !names[d.Name] || d.ProviderUUID != driver.ProviderUUID(d.Name) {
			t.Errorf("deployable %d: %s has provider %s", i, d.Name, d.ProviderUUID)
		}
	}
	for _, a := range got.answers.Cyborg.ARQs {
		if !strings.HasPrefix(a.ProfileName, "profile-") || a.Hostname != "" && !strings.HasPrefix(a.Hostname, "host-") {
			t.Errorf("request %+v", a)
		}
	}
	other, err := l.Anonymize(Anonymization{IDs: true, Seed: 8})
	must(t, err)
	if other.answers.Cyborg.Devices[0].UUID == device.UUID || other.answers.Cyborg.Devices[0].Hostname != "cn1" {
		t.Errorf("with another seed and the names kept: %+v", other.answers.Cyborg.Devices[0])
	}
	if again, err := l.Anonymize(Anonymization{Names: true, IDs: true, Seed: 7}); err != nil || diff(got, again) != "" {
		t.Errorf("a second time it comes out otherwise (%v)", err)
	}
}

func TestNamesOfImagesAndNetworksAreReplaced(t *testing.T) {
	t.Parallel()
	l := listingOf(t, named(t, "cn1"))
	l.answers.Cyborg.Profiles[0].Groups = []map[string]string{
		{"resources:FPGA": "1", "accel:bitstream_name": "secret bitstream"},
		{"resources:FPGA": "1", "accel:function_name": "secret function"},
		{"resources:FPGA": "1", "accel:bitstream_name": "secret bitstream"},
	}
	arq := slices.IndexFunc(l.answers.Cyborg.ARQs, func(a *arq) bool { return a.HandleInfo["bus"] != "" })
	info := maps.Clone(l.answers.Cyborg.ARQs[arq].HandleInfo)
	info["physical_network"] = "secret network"
	l.answers.Cyborg.ARQs[arq].HandleInfo = info
	got, err := l.Anonymize(Anonymization{Names: true})
	must(t, err)
	want := []map[string]string{
		{"resources:FPGA": "1", "accel:bitstream_name": "image-1"},
		{"resources:FPGA": "1", "accel:function_name": "image-2"},
		{"resources:FPGA": "1", "accel:bitstream_name": "image-1"},
	}
	if diff := cmp.Diff(want, got.answers.Cyborg.Profiles[0].Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if network := got.answers.Cyborg.ARQs[arq].HandleInfo["physical_network"]; network != "network-1" {
		t.Errorf("the network is %q", network)
	}
	if kept, err := l.Anonymize(Anonymization{IDs: true}); err != nil || kept.answers.Cyborg.ARQs[arq].HandleInfo["physical_network"] != "secret network" {
		t.Errorf("with the names kept: %v", err)
	}
}

func TestNewNamesAreNoNamesOfTheListing(t *testing.T) {
	t.Parallel()
	got, err := listingOf(t, named(t, "host-2", "host-1")).Anonymize(Anonymization{Names: true})
	must(t, err)
	if a, b := got.answers.Cyborg.Devices[0].Hostname, got.answers.Placement.Providers[0].Name; a != "host-3" || b != "host-3" {
		t.Errorf("the first host is called %s and %s", a, b)
	}
}
