package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// listingOf reads a cloud with plain HTTP.
func listingOf(t testing.TB, cloud *simcloud.Cloud) Listing {
	t.Helper()
	u := login(t, cloud)
	cyborg := make(map[string]any)
	for _, path := range []string{"devices", "deployables", "attributes", "device_profiles", "accelerator_requests"} {
		u.get("/accelerator/v2/"+path, accelerator, &cyborg)
	}
	data, err := json.Marshal(map[string]any{
		"schema_version": listingSchema, "read_at": "2026-11-20T12:00:00Z", "placement": readPlacement(u), "accelerator": cyborg,
	})
	must(t, err)
	l, err := ParseListing(data)
	must(t, err)
	return l
}

func readPlacement(u *admin) map[string]any {
	all := make(map[string]any)
	for _, path := range []string{"resource_classes", "traits", "resource_providers"} {
		u.get("/placement/"+path, placement, &all)
	}
	held := make(map[string]any)
	for _, p := range all["resource_providers"].([]any) {
		p := p.(map[string]any)
		for _, part := range []string{"inventories", "traits", "aggregates"} {
			u.get(fmt.Sprint("/placement/resource_providers/", p["uuid"], "/", part), placement, &p)
		}
		var body struct{ Allocations map[string]any }
		u.get(fmt.Sprint("/placement/resource_providers/", p["uuid"], "/allocations"), placement, &body)
		maps.Copy(held, body.Allocations)
	}
	consumers := []any{}
	for _, id := range slices.Sorted(maps.Keys(held)) {
		c := map[string]any{"uuid": id}
		u.get("/placement/allocations/"+id, placement, &c)
		consumers = append(consumers, c)
	}
	all["consumers"] = consumers
	return all
}

// diff compares two listings, but for standard traits that an older Placement does not know.
func diff(before, after Listing) string {
	known := before.answers.Placement.Traits
	after.answers.Placement.Traits = slices.DeleteFunc(slices.Clone(after.answers.Placement.Traits), func(trait string) bool {
		return !strings.HasPrefix(trait, "CUSTOM_") && !slices.Contains(known, trait)
	})
	var texts [2]string
	for i, l := range []Listing{before, after} {
		data, err := json.MarshalIndent(l.answers, "", " ")
		if err != nil {
			return err.Error()
		}
		texts[i] = string(data)
	}
	return cmp.Diff(texts[0], texts[1])
}

// busy is a cloud in which much is going on: instances with accelerators of all types, an
// aggregate, a disabled device, a user's attribute, requests that are not bound.
func busy(t testing.TB, m simcloud.Model) *simcloud.Cloud {
	t.Helper()
	cloud := simcloud.Run(t, m)
	hold(t, cloud, 1, "gpu", "PGPU", "")
	hold(t, cloud, 2, "vgpu", "VGPU", "CUSTOM_GPU_NVIDIA")
	hold(t, cloud, 3, "vgpu", "VGPU", "CUSTOM_GPU_NVIDIA")
	hold(t, cloud, 4, "fake", "FPGA", "CUSTOM_FAKE_DEVICE")
	hold(t, cloud, 5, "fpga", "FPGA", "CUSTOM_FPGA_INTEL")
	if _, err := cloud.Cyborg.CreateARQs("mixed", cloud.ProjectID("admin")); err != nil {
		t.Fatal(err)
	}
	aggregate(t, cloud, "cn0")
	u := login(t, cloud)
	device := cloud.Cyborg.Devices()[len(cloud.Cyborg.Devices())-1]
	u.send("POST", "/accelerator/v2/devices/"+device.UUID+"/disable", accelerator, nil, 204)
	u.send("POST", "/accelerator/v2/attributes", accelerator, map[string]any{"deployable_id": 2, "key": "trait9", "value": "CUSTOM_BY_A_USER"}, 201)
	return cloud
}

// aggregate puts the root provider of a host into an aggregate.
func aggregate(t testing.TB, cloud *simcloud.Cloud, host string) {
	t.Helper()
	u, path := login(t, cloud), "/placement/resource_providers/"+cloud.ProviderUUID(host)
	var p struct{ Generation int }
	u.get(path, placement, &p)
	u.send("PUT", path+"/aggregates", placement, map[string]any{
		"aggregates": []string{"5e08ea53-c4c6-448e-9334-ac4953de3cfa"}, "resource_provider_generation": p.Generation,
	}, 200)
}

func TestAnImportedCloudListsWhatTheOriginalLists(t *testing.T) {
	t.Parallel()
	original := busy(t, simcloud.Model{})
	want := listingOf(t, original)
	cloud := imported(t, want)
	got := listingOf(t, cloud)
	if diff := diff(want, got); diff != "" {
		t.Errorf("listings (-original +imported):\n%s", diff)
	}
	for _, p := range original.Model().DeviceProfiles {
		for i, group := range p.Groups {
			query := groupQuery(group)
			before, _ := login(t, original).send("GET", "/placement/allocation_candidates?"+query, placement, nil, 200)
			after, _ := login(t, cloud).send("GET", "/placement/allocation_candidates?"+query, placement, nil, 200)
			if diff := cmp.Diff(string(before), string(after)); diff != "" {
				t.Errorf("candidates of %s, group %d (-original +imported):\n%s", p.Name, i, diff)
			}
		}
	}
	if diff := cmp.Diff(original.HostNames(), cloud.HostNames()); diff != "" {
		t.Errorf("hosts (-original +imported):\n%s", diff)
	}
	if original.ProviderUUID("cn1") != cloud.ProviderUUID("cn1") {
		t.Errorf("provider of cn1: %s, then %s", original.ProviderUUID("cn1"), cloud.ProviderUUID("cn1"))
	}
}

func TestADescriptionThatIsAbsentStaysAbsent(t *testing.T) {
	t.Parallel()
	original := simcloud.Run(t, simcloud.Model{DeviceProfiles: []simcloud.DeviceProfile{
		{Name: "without", Groups: []map[string]string{{"resources:PGPU": "1"}}},
		{Name: "with", Description: "some text", Groups: []map[string]string{{"resources:PGPU": "1"}}},
	}})
	cloud := imported(t, listingOf(t, original))
	got, _ := login(t, cloud).send("GET", "/accelerator/v2/device_profiles", accelerator, nil, 200)
	for _, want := range []string{`"name":"without","description":null`, `"name":"with","description":"some text"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the imported profiles lack %s: %s", want, got)
		}
	}
}

// groupQuery asks for candidates of a group.
func groupQuery(group map[string]string) string {
	var resources, required []string
	for _, key := range slices.Sorted(maps.Keys(group)) {
		switch kind, name, _ := strings.Cut(key, ":"); kind {
		case "resources":
			resources = append(resources, name+":"+group[key])
		case "trait":
			required = append(required, name)
		}
	}
	query := url.Values{"resources": {strings.Join(resources, ",")}}
	if len(required) > 0 {
		query.Set("required", strings.Join(required, ","))
	}
	return query.Encode()
}

func TestAReportOfAnImportedCloudChangesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeNested} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			checkReport(t, imported(t, listingOf(t, busy(t, simcloud.Model{Cyborg: fakecyborg.Config{PlacementMode: mode}}))))
		})
	}
	t.Run(string(fakecyborg.ModeFlat), func(t *testing.T) {
		t.Parallel()
		original := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}})
		hold(t, original, 1, "gpu", "PGPU", "")
		cloud := imported(t, listingOf(t, original))
		if got := cloud.Model().Cyborg.PlacementMode; got != fakecyborg.ModeFlat {
			t.Errorf("mode %q", got)
		}
		checkReport(t, cloud)
	})
}

func checkReport(t *testing.T, cloud *simcloud.Cloud) {
	t.Helper()
	before := listingOf(t, cloud)
	cloud.ForgetRequests()
	must(t, cloud.Cyborg.Report(t.Context()))
	for _, r := range cloud.Requests() {
		if r.Method != http.MethodGet && r.Service == "placement" {
			t.Errorf("the report wrote: %s %s", r.Method, r.Path)
		}
	}
	if diff := diff(before, listingOf(t, cloud)); diff != "" {
		t.Errorf("listings (-before +after the report):\n%s", diff)
	}
	for _, d := range cloud.Cyborg.DriverReports() {
		if d.Err != nil || len(d.Problems)+len(d.LeftOut) > 0 {
			t.Errorf("finding: %+v", d)
		}
	}
}

func TestImportedRequestsCanBeDeletedAndTheirHandlesAreFreeAgain(t *testing.T) {
	t.Parallel()
	cloud := imported(t, listingOf(t, busy(t, simcloud.Model{})))
	if taken := held(cloud); len(taken) != 5 {
		t.Errorf("the handles %v are taken, want 5", taken)
	}
	mdevs := 0
	for _, host := range cloud.HostNames() {
		list, err := cloud.Mdevs(host)
		must(t, err)
		mdevs += len(list)
	}
	if mdevs != 2 {
		t.Errorf("%d mediated devices, want 2", mdevs)
	}
	ids := make(map[string]bool)
	for _, a := range cloud.Cyborg.ARQs() {
		ids[a.UUID] = true
	}
	release(t, cloud)
	if left := held(cloud); len(left) > 0 {
		t.Errorf("still in use: %v", left)
	}
	for _, host := range cloud.HostNames() {
		if list, err := cloud.Mdevs(host); err != nil || len(list) > 0 {
			t.Errorf("mediated devices of %s: %v %v", host, list, err)
		}
	}
	for n := range 8 { // the same seeds name other things than in the original
		hold(t, cloud, 20+n, "fake", "FPGA", "CUSTOM_FAKE_DEVICE")
	}
	for _, a := range cloud.Cyborg.ARQs() {
		if ids[a.UUID] {
			t.Errorf("the uuid %s is given a second time", a.UUID)
		}
	}
}

func TestAnImportedStateSurvivesItsDump(t *testing.T) {
	t.Parallel()
	cloud := imported(t, listingOf(t, busy(t, simcloud.Model{})))
	data, err := cloud.Dump()
	must(t, err)
	again, err := simcloud.FromState(t.Context(), data)
	must(t, err)
	t.Cleanup(func() { _ = again.Close() })
	if diff := diff(listingOf(t, cloud), listingOf(t, again)); diff != "" {
		t.Errorf("listings (-imported +of its dump):\n%s", diff)
	}
	other := imported(t, listingOf(t, again))
	if diff := cmp.Diff(cloud.Model(), other.Model()); diff != "" {
		t.Errorf("models of two imports (-first +second):\n%s", diff)
	}
}

func TestInstancesOfAnImportedCloudAreLeaks(t *testing.T) {
	t.Parallel()
	cloud := imported(t, listingOf(t, busy(t, simcloud.Model{})))
	kinds := make(map[string]int)
	for _, leak := range cloud.Leaks() {
		kinds[leak.Kind]++
	}
	// Five bound requests and four that are not, and what the five have allocated.
	if diff := cmp.Diff(map[string]int{simcloud.LeakARQ: 9, simcloud.LeakAllocation: 5}, kinds); diff != "" {
		t.Errorf("leaks by kind (-want +got):\n%s", diff)
	}
}

func TestACloudWithoutCyborgIsImported(t *testing.T) {
	t.Parallel()
	l := listingOf(t, simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{{Name: "a", Providers: []simcloud.Provider{{Name: "a_nic", Inventory: map[string]int{"SRIOV_NET_VF": 2}}}}, {Name: "b"}}}))
	l.answers.Cyborg = answers{}.Cyborg
	cloud := imported(t, l)
	if diff := cmp.Diff([]string{"a", "b"}, cloud.HostNames()); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if n := len(cloud.Cyborg.DeviceProfiles()) + len(cloud.Cyborg.Devices()); n != 0 {
		t.Errorf("Cyborg has %d profiles and devices", n)
	}
	got := listingOf(t, cloud)
	got.answers.Cyborg = answers{}.Cyborg
	if diff := diff(l, got); diff != "" {
		t.Errorf("Placement (-original +imported):\n%s", diff)
	}
	checkReport(t, cloud)
}

func TestBadListingsAreRefused(t *testing.T) {
	t.Parallel()
	good, err := listingOf(t, busy(t, simcloud.Model{})).JSON()
	must(t, err)
	for name, tt := range map[string]struct {
		change func(*Listing)
		want   string
	}{
		"read_at": {func(l *Listing) { l.answers.ReadAt = time.Time{} }, "read_at: missing"},
		"a provider twice": {func(l *Listing) {
			l.answers.Placement.Providers[1].UUID = l.answers.Placement.Providers[0].UUID
		}, "is listed twice"},
		"a name twice":                {func(l *Listing) { l.answers.Placement.Providers[1].Name = "cn0" }, `"cn0"`},
		"no uuid":                     {func(l *Listing) { l.answers.Placement.Providers[1].UUID = "x" }, `"x" is not a UUID`},
		"a parent that is not listed": {func(l *Listing) { l.answers.Placement.Providers[1].Parent = instance(99) }, instance(99) + " does not exist"},
		"a provider below itself":     {func(l *Listing) { p := l.answers.Placement.Providers[0]; p.Parent = p.UUID }, "is below the provider"},
		"a bad inventory": {func(l *Listing) {
			l.answers.Placement.Providers[0].Inventories["VCPU"] = inventory{}
		}, "inventory of VCPU"},
		"an allocation of nothing":      {func(l *Listing) { allocate(l, "FPGA", 1) }, "FPGA:1"},
		"more allocated than the total": {func(l *Listing) { allocate(l, "VCPU", 1e6) }, ""},
		"a device without host":         {func(l *Listing) { l.answers.Cyborg.Devices[0].Hostname = "" }, `host "cn0"`},
		"an unknown type":               {func(l *Listing) { l.answers.Cyborg.Devices[0].Type = "TPU" }, "TPU"},
		"a deployable of no host": {func(l *Listing) {
			d := l.answers.Cyborg.Deployables[0]
			d.Name, d.ProviderUUID = "Ascend 310", instance(97)
		}, "deployable Ascend 310: its resource provider " + instance(97)},
		"a deployable too many":               {func(l *Listing) { l.answers.Cyborg.Devices = l.answers.Cyborg.Devices[1:] }, `host "cn0"`},
		"no accelerators":                     {func(l *Listing) { l.answers.Cyborg.Deployables[0].NumAccelerators = 0 }, "num_accelerators 0"},
		"too many accelerators":               {func(l *Listing) { l.answers.Cyborg.Deployables[0].NumAccelerators = 1 << 30 }, "num_accelerators"},
		"a device profile that is not listed": {func(l *Listing) { l.answers.Cyborg.Profiles = l.answers.Cyborg.Profiles[1:] }, "device_profile"},
		"an unknown group":                    {func(l *Listing) { l.answers.Cyborg.ARQs[0].Group = 7 }, "no group 7"},
		"an unknown state":                    {func(l *Listing) { l.answers.Cyborg.ARQs[0].State = "Sleeping" }, "Sleeping"},
		"a deployable that is not listed":     {func(l *Listing) { l.answers.Cyborg.ARQs[0].ProviderUUID = instance(98) }, instance(98)},
		"no handle":                           {func(l *Listing) { l.answers.Cyborg.ARQs[0].HandleInfo = nil }, "bad attach handle"},
		"a mediated device without information": {func(l *Listing) {
			l.answers.Cyborg.ARQs[1].HandleInfo = nil
		}, "bad attach handle"},
		"a handle twice": {func(l *Listing) {
			l.answers.Cyborg.ARQs[2].HandleInfo = l.answers.Cyborg.ARQs[1].HandleInfo
			l.answers.Cyborg.ARQs[2].ProviderUUID = l.answers.Cyborg.ARQs[1].ProviderUUID
		}, "twice"},
		"a handle of no type": {func(l *Listing) { l.answers.Cyborg.ARQs[0].HandleType = "USB" }, "USB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := ParseListing(good)
			must(t, err)
			tt.change(&l)
			cloud, err := Import(t.Context(), l)
			if tt.want == "" {
				must(t, err)
				_ = cloud.Close()
				return
			}
			if !errors.Is(err, ErrListing) || !strings.Contains(err.Error(), tt.want) || cloud != nil {
				t.Errorf("got error %v, want ErrListing with %q", err, tt.want)
			}
		})
	}
	for text, want := range map[string]string{
		"": "JSON", "{}": "schema_version: 0", "{} {}": "after top-level value", `{"schema_version":"1"}`: "schema_version", "[]": "array",
		`{"schema_version":1,"placement":{"resource_classes":["VCPU"]}}`:                      "the form of an earlier release",
		`{"schema_version":2,"read_at":"2026-11-20T00:00:00Z","accelerator":{"arqs":[null]}}`: "a list has null",
		`{"schema_version":3}`: "schema_version: 3, want 2", `{"schema_version":2}`: "read_at: missing",
	} {
		if _, err := ParseListing([]byte(text)); !errors.Is(err, ErrListing) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want ErrListing with %q", text, err, want)
		}
	}
}

// allocate changes what the first consumer has of the first provider.
func allocate(l *Listing, class string, amount int64) {
	held := l.answers.Placement.Consumers[0].Allocations
	id := l.answers.Placement.Providers[0].UUID
	allocation := held[id]
	allocation.Resources = map[string]int64{class: amount}
	held[id] = allocation
}
