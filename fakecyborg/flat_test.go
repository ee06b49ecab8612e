package fakecyborg_test

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
)

const flatTrait = "CUSTOM_GPU_NVIDIA"

// novaInventories is what Nova has on a compute provider.
func novaInventories() map[string]placementsim.Inventory {
	return map[string]placementsim.Inventory{
		"VCPU":      {Total: 64, Reserved: 2, MinUnit: 1, MaxUnit: 64, StepSize: 1, AllocationRatio: 4},
		"MEMORY_MB": {Total: 1024, Reserved: 512, MinUnit: 1, MaxUnit: 1024, StepSize: 1, AllocationRatio: 1.5},
	}
}

// flatWorld is a Cyborg in flat mode whose host has Nova's own things, too.
func flatWorld(t *testing.T, devices ...driver.Device) *reportWorld {
	t.Helper()
	w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}, devices...)
	settled(t, w.placement.SetInventory(w.root, novaInventories()))
	settled(t, w.placement.SetTraits(w.root, "OWNER_NOVA", "COMPUTE_ACCELERATORS", "CUSTOM_RACK_7"))
	return w
}

// host is the compute provider.
func (w *reportWorld) hostProvider() placementsim.ResourceProvider {
	w.t.Helper()
	p, err := w.placement.ResourceProvider(w.root)
	settled(w.t, err)
	slices.Sort(p.Traits)
	return p
}

func TestFlatDevicesAreOnTheComputeProvider(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, gpu("3b", "PGPU", []string{"OWNER_CYBORG", flatTrait}, "0"), gpu("5e", "PGPU", []string{flatTrait}, "0"))
	before := w.hostProvider()
	w.report()
	if all := w.placement.ResourceProviders(); len(all) != 1 {
		t.Errorf("providers: %v, want the host alone", all)
	}
	got := w.hostProvider()
	want := novaInventories()
	want["PGPU"] = placementsim.Inventory{Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1}
	if diff := cmp.Diff(want, got.Inventories); diff != "" {
		t.Errorf("inventories (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"COMPUTE_ACCELERATORS", flatTrait, "CUSTOM_RACK_7", "OWNER_NOVA"}, got.Traits); diff != "" {
		t.Errorf("traits (-want +got):\n%s", diff)
	}
	w.wire.take()
	w.report()
	if diff := cmp.Diff(w.lookups(fakecyborg.ModeFlat), w.wire.take()); diff != "" {
		t.Errorf("calls of a report without changes (-want +got):\n%s", diff)
	}
	w.hardware.set()
	w.report()
	got = w.hostProvider()
	got.Generation = before.Generation
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("after the devices went, the provider differs from before (-before +after):\n%s", diff)
	}
	if slices.Contains(traitNames(w), flatTrait) {
		t.Errorf("the unused trait %s still exists", flatTrait)
	}
}

func traitNames(w *reportWorld) []string {
	w.t.Helper()
	api := &world{t: w.t, client: inProcess(w.placement)}
	r := api.send(sent{method: "GET", path: "/placement/traits?name=startswith:CUSTOM_", header: map[string]string{"OpenStack-API-Version": "placement 1.6"}})
	var names []string
	for _, each := range r.object(w.t)["traits"].([]any) {
		names = append(names, each.(string))
	}
	return names
}

func TestFlatModeKeepsConcurrentWrites(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, gpu("3b", "CUSTOM_ACCELERATOR_GPU", []string{flatTrait}, "0"))
	changes := 0
	w.wire.hook = func(method, path string) int {
		if method != "GET" && strings.HasPrefix(path, "/resource_providers/"+w.root) && changes < 3 {
			changes++ // Nova is faster by a hair
			inventories := w.hostProvider().Inventories
			vcpu := inventories["VCPU"]
			vcpu.Reserved = 2 + changes
			inventories["VCPU"] = vcpu
			if err := w.placement.SetInventory(w.root, inventories); err != nil {
				t.Error(err)
			}
		}
		return 0
	}
	w.report()
	got := w.hostProvider()
	want := novaInventories()
	vcpu := want["VCPU"]
	vcpu.Reserved = 5
	want["VCPU"] = vcpu
	want["CUSTOM_ACCELERATOR_GPU"] = placementsim.Inventory{Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}
	if diff := cmp.Diff(want, got.Inventories); diff != "" || changes != 3 {
		t.Errorf("after %d changes by Nova, inventories (-want +got):\n%s", changes, diff)
	}
}

// TestTraitsOfOthersSurviveAReport: Nova and an operator write the traits of the same provider while Cyborg
// changes its own, after it has read them.
func TestTraitsOfOthersSurviveAReport(t *testing.T) {
	t.Parallel()
	for mode, provider := range map[fakecyborg.PlacementMode]func(*reportWorld) string{
		fakecyborg.ModeFlat: func(w *reportWorld) string { return w.root },
		fakecyborg.ModeTree: func(*reportWorld) string { return driver.ProviderUUID("cn0_0000:3b:00.0") },
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode}, gpu("3b", "PGPU", []string{flatTrait}, "0"))
			w.report()
			others := []string{"COMPUTE_ACCELERATORS", "COMPUTE_NODE", "CUSTOM_RACK_7"}
			uuid, written, read := provider(w), 0, false
			w.wire.hook = func(method, path string) int {
				if read && written < len(others) {
					p, err := w.placement.ResourceProvider(uuid)
					if err == nil {
						err = w.placement.SetTraits(uuid, append(p.Traits, others[written])...)
					}
					if err != nil {
						t.Error(err)
					}
					written++
				}
				read = method == "GET" && path == "/resource_providers/"+uuid+"/traits"
				return 0
			}
			w.hardware.set(gpu("3b", "PGPU", []string{"CUSTOM_NEW"}, "0"))
			w.report()
			p, err := w.placement.ResourceProvider(uuid)
			settled(t, err)
			want := append([]string{"CUSTOM_NEW"}, others...)
			got := slices.DeleteFunc(p.Traits, func(trait string) bool { return trait == driver.TraitOwnerCyborg })
			if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" || written != len(others) {
				t.Errorf("after %d writes of others, traits (-want +got):\n%s", written, diff)
			}
		})
	}
}

// TestAFlatCyborgAdoptsNoTraitOfNova: standard traits that are there are not an earlier Cyborg's.
func TestAFlatCyborgAdoptsNoTraitOfNova(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, gpu("3b", "PGPU", []string{flatTrait, "COMPUTE_ACCELERATORS"}, "0"))
	before := w.hostProvider()
	w.report()
	again := newReportWorldOn(t, w, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat})
	again.report()
	again.hardware.set()
	again.report()
	if diff := cmp.Diff(before.Traits, again.hostProvider().Traits); diff != "" {
		t.Errorf("traits before and after the device (-before +after):\n%s", diff)
	}
}

func TestFlatModeRefusesDevicesWithOtherTraitsByName(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, gpu("3b", "PGPU", []string{flatTrait}, "0"), gpu("5e", "FPGA", []string{"CUSTOM_FPGA_INTEL"}, "0"))
	err := w.cyborg.Report(t.Context())
	var trouble *driver.ReportError
	if !errors.As(err, &trouble) || !strings.Contains(trouble.Device, `"bus":"5e"`) ||
		!strings.Contains(err.Error(), "deployable cn0_0000:5e:00.0 has the traits [CUSTOM_FPGA_INTEL] and cn0_0000:3b:00.0 has [CUSTOM_GPU_NVIDIA]") {
		t.Errorf("error: %v", err)
	}
	if got := w.hostProvider(); got.Inventories["PGPU"].Total != 1 || got.Inventories["FPGA"].Total != 0 || slices.Contains(got.Traits, "CUSTOM_FPGA_INTEL") {
		t.Errorf("provider: %+v", got)
	}
	if got := w.cyborg.Devices(); len(got) != 1 {
		t.Errorf("stored: %v", got)
	}
	// all devices may change together
	w.hardware.set(gpu("3b", "PGPU", []string{"CUSTOM_NEW"}, "0"), gpu("5e", "FPGA", []string{"CUSTOM_NEW"}, "0"))
	w.report()
	if got := w.hostProvider(); !slices.Contains(got.Traits, "CUSTOM_NEW") || slices.Contains(got.Traits, flatTrait) || got.Inventories["FPGA"].Total != 1 {
		t.Errorf("after the change: %+v", got)
	}
}

func TestFlatModeRefusesAClassThatIsThere(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, vgpu("af", 2))
	inventories := novaInventories()
	inventories["VGPU"] = placementsim.Inventory{Total: 7}
	settled(t, w.placement.SetInventory(w.root, inventories))
	before := w.hostProvider()
	if err := w.cyborg.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "has an inventory of VGPU that this Cyborg did not create") {
		t.Errorf("error: %v", err)
	}
	if diff := cmp.Diff(before, w.hostProvider()); diff != "" {
		t.Errorf("the provider changed (-before +after):\n%s", diff)
	}
}

func TestFlatBindTakesAFreeHandleOfAnyDeviceOfTheHost(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, gpu("3b", "PGPU", nil, "0"), gpu("5e", "PGPU", nil, "0"), gpu("af", "CUSTOM_X", nil, "0"))
	w.report()
	api := w.api()
	disable := "/v2/devices/" + w.cyborg.Devices()[1].UUID + "/disable"
	api.profile("three", `[{"resources:PGPU":"3"}]`)
	arqs := api.arqs("three")
	api.want(api.patch(binding(instanceA, w.root, arqs[:2]...)), 202, "")
	api.want(api.patch(binding(instanceB, w.root, arqs[2])), 404, "AttachHandle not found Matching deployable_id 1")
	var buses []string
	for _, a := range w.cyborg.ARQs()[:2] {
		buses = append(buses, a.AttachHandleInfo["bus"])
	}
	if diff := cmp.Diff([]string{"3b", "5e"}, buses); diff != "" {
		t.Errorf("devices bound (-want +got):\n%s", diff)
	}
	api.profile("behind-others", `[{"resources:CUSTOM_X":"1"}]`)
	api.want(api.patch(binding(unknownID, w.root, api.arqs("behind-others")...)), 202, "")
	w.free(instanceA)
	api.want(api.send(sent{method: "POST", path: disable}), 204, "")
	if got := w.hostProvider().Inventories["PGPU"]; got.Total != 2 || got.Reserved != 1 {
		t.Errorf("with one device disabled: %+v", got)
	}
	if got := w.cyborg.Deployables()[0].ProviderUUID; got != w.root {
		t.Errorf("rp_uuid of a deployable: %s, want the UUID of the host's provider", got)
	}
}

func (w *reportWorld) unflatten(opts fakecyborg.UnflattenOpts) ([]fakecyborg.Unflattened, error) {
	w.t.Helper()
	return fakecyborg.Unflatten(w.t.Context(), placementOf(w.placement), opts)
}

func TestUnflattenPreparesTheTree(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, gpu("3b", "PGPU", []string{flatTrait}, "0"), gpu("5e", "CUSTOM_ACCELERATOR_GPU", []string{flatTrait}, "0"))
	before := w.hostProvider()
	w.report()
	flat := w.hostProvider()

	w.claim(instanceA, placementsim.Allocation{Provider: w.root, Class: "PGPU", Used: 1})
	_, err := w.unflatten(fakecyborg.UnflattenOpts{})
	if !errors.Is(err, fakecyborg.ErrAllocated) || !strings.Contains(err.Error(), instanceA) || !strings.Contains(err.Error(), "cn0") {
		t.Errorf("error while an accelerator is allocated: %v", err)
	}
	if diff := cmp.Diff(flat.Inventories, w.hostProvider().Inventories); diff != "" {
		t.Errorf("what was refused changed inventories (-before +after):\n%s", diff)
	}
	settled(t, w.placement.Release(instanceA))
	w.claim(instanceB, placementsim.Allocation{Provider: w.root, Class: "VCPU", Used: 1}) // others may run on

	want := []fakecyborg.Unflattened{{
		Provider: w.root, Name: "cn0", Classes: []string{"CUSTOM_ACCELERATOR_GPU", "PGPU"}, Traits: []string{flatTrait},
	}}
	for _, dry := range []bool{true, false} {
		got, err := w.unflatten(fakecyborg.UnflattenOpts{DryRun: dry})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("dry run %t: %v, found (-want +got):\n%s", dry, err, diff)
		}
		if there := w.hostProvider().Inventories["PGPU"].Total; (there == 1) != dry {
			t.Errorf("dry run %t: PGPU total %d", dry, there)
		}
	}
	after := w.hostProvider()
	after.Generation = before.Generation
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the provider differs from before Cyborg (-before +after):\n%s", diff)
	}
	if got, err := w.unflatten(fakecyborg.UnflattenOpts{}); err != nil || len(got) != 0 {
		t.Errorf("once more: %v, %v", got, err)
	}

	upgraded := newReportWorldOn(t, w, fakecyborg.Config{})
	upgraded.report()
	if p, there := upgraded.provider("3b"); !there || p.Parent != w.root || p.Inventories["PGPU"].Total != 1 {
		t.Errorf("after the upgrade: %+v", p)
	}
}

// A provider without a class of Cyborg was never a flat host, even if its traits look like it.
func TestUnflattenLeavesOtherNodesAlone(t *testing.T) {
	t.Parallel()
	w := flatWorld(t, gpu("3b", "PGPU", []string{flatTrait}, "0"))
	w.report()
	node := w.create(placementsim.ResourceProvider{
		Name: "ironic-1", Traits: []string{"CUSTOM_GPU_A100", "CUSTOM_SSD_RAID"}, Inventories: map[string]placementsim.Inventory{"CUSTOM_BAREMETAL_GPU": {Total: 1}},
	})
	found, err := w.unflatten(fakecyborg.UnflattenOpts{})
	if err != nil || len(found) != 1 || found[0].Provider != w.root {
		t.Errorf("found %v, %v", found, err)
	}
	after, err := w.placement.ResourceProvider(node.UUID)
	if diff := cmp.Diff(node, after); diff != "" || err != nil {
		t.Errorf("%v, the node (-before +after):\n%s", err, diff)
	}
}

// The vGPUs of a provider that Cyborg owns for nothing else are Cyborg's.
func TestUnflattenFindsAHostOfVGPUs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		others map[string]placementsim.Inventory
		want   []string
	}{
		"alone":       {nil, []string{"VGPU"}},
		"with others": {map[string]placementsim.Inventory{"PGPU": {Total: 1}}, []string{"PGPU"}},
	} {
		w := flatWorld(t)
		inventories := map[string]placementsim.Inventory{"VCPU": {Total: 8}, "VGPU": {Total: 4}}
		maps.Copy(inventories, tt.others)
		w.create(placementsim.ResourceProvider{Name: "cn7", Traits: []string{"OWNER_CYBORG"}, Inventories: inventories})
		found, err := w.unflatten(fakecyborg.UnflattenOpts{DryRun: true})
		if err != nil || len(found) != 1 || !slices.Equal(found[0].Classes, tt.want) || !slices.Equal(found[0].Traits, []string{"OWNER_CYBORG"}) {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
	}
}

// What an interrupted run has left is found by the next one.
func TestAnInterruptedUnflattenIsContinued(t *testing.T) {
	t.Parallel()
	for n := range 12 {
		w := flatWorld(t)
		w.create(placementsim.ResourceProvider{
			Name: "cn7", Traits: []string{"CUSTOM_GPU_NVIDIA", "OWNER_CYBORG"}, Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}, "VGPU": {Total: 4}},
		})
		requests := 0
		upTo := func(limit int) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if requests++; requests > limit {
					simhttp.WriteEmpty(rw, http.StatusServiceUnavailable)
					return
				}
				w.placement.ServeHTTP(rw, r)
			})
		}
		run := func(limit int) error {
			requests = 0
			_, err := fakecyborg.Unflatten(t.Context(), placementOf(upTo(limit)), fakecyborg.UnflattenOpts{})
			return err
		}
		_ = run(n)
		if err := run(1000); err != nil {
			t.Errorf("after %d requests: %v", n, err)
		}
		for _, p := range w.placement.ResourceProviders() {
			if p.Name == "cn7" && (len(p.Traits) > 0 || len(p.Inventories) != 1) {
				t.Errorf("after %d requests: traits %v, inventories %v remain", n, p.Traits, p.Inventories)
			}
		}
	}
}

func TestTheErrorsOfUnflattenHaveNoToken(t *testing.T) {
	t.Parallel()
	w := flatWorld(t)
	refusing := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { simhttp.WriteEmpty(rw, 503) })
	_, err := fakecyborg.Unflatten(t.Context(), placementOf(refusing), fakecyborg.UnflattenOpts{})
	if err == nil || !strings.Contains(err.Error(), "list resource providers: placement answered 503") || strings.Contains(err.Error(), "admin") {
		t.Errorf("error: %v", err)
	}
	if got, err := w.unflatten(fakecyborg.UnflattenOpts{Classes: []string{"VGPU"}, Traits: []string{}}); err != nil || len(got) != 0 {
		t.Errorf("with nothing to find: %v, %v", got, err)
	}
}

func TestAFlatCyborgThatStartedAgainTakesOverWhatItMade(t *testing.T) {
	t.Parallel()
	cards := []driver.Device{
		gpu("3b", "PGPU", []string{flatTrait}, "0"), gpu("5e", "PGPU", []string{flatTrait}, "0"), gpu("af", "FPGA", []string{flatTrait}, "0"),
	}
	w := flatWorld(t, cards...)
	before := w.hostProvider()
	w.report()
	made := w.hostProvider()
	w.claim(instanceA, placementsim.Allocation{Provider: w.root, Class: "PGPU", Used: 1}) // an instance survives the restart: it is unknown which card it has

	again := newReportWorldOn(t, w, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat})
	if err := again.cyborg.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "1 PGPU of resource provider "+w.root+" are allocated") {
		t.Errorf("while an instance has a card: %v", err)
	}
	if got := again.cyborg.Devices(); len(got) != 1 || got[0].Type != "GPU" || len(again.cyborg.Deployables()) != 1 || again.cyborg.Deployables()[0].ResourceClass() != "FPGA" {
		t.Errorf("while an instance has a card: devices %+v", got)
	}
	settled(t, w.placement.Release(instanceA))
	again.report()
	for _, call := range again.wire.take() {
		if method, _, _ := strings.Cut(call, " "); method != "GET" {
			t.Errorf("taking over what is right wrote: %s", call)
		}
	}
	if diff := cmp.Diff(made.Inventories, again.hostProvider().Inventories); diff != "" || len(again.cyborg.Devices()) != 3 {
		t.Errorf("%d devices, inventories (-before +after the restart):\n%s", len(again.cyborg.Devices()), diff)
	}
	again.hardware.set(cards[0])
	again.report()
	if got := again.hostProvider().Inventories; got["PGPU"].Total != 1 || got["FPGA"].Total != 0 {
		t.Errorf("with one card: %v", got)
	}
	again.hardware.set()
	again.report()
	after := again.hostProvider()
	after.Generation = before.Generation
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after the cards went (-before +after):\n%s", diff)
	}
}

func TestFlatModeTakesDevicesWithoutDeployables(t *testing.T) {
	t.Parallel()
	bare := gpu("3b", "PGPU", nil, "0")
	bare.Deployables = nil
	w := flatWorld(t, bare, gpu("5e", "PGPU", []string{flatTrait}, "0"))
	_ = w.cyborg.Report(t.Context()) // the bare one may be refused
	if got := w.hostProvider(); got.Inventories["PGPU"].Total != 1 {
		t.Errorf("provider: %+v, devices %v", got, w.cyborg.Devices())
	}
}

func TestNoQuirkTouchesAFlatHost(t *testing.T) {
	t.Parallel()
	w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat, UpstreamQuirks: true}, gpu("3b", "PGPU", []string{flatTrait}, "0"))
	settled(t, w.placement.SetInventory(w.root, novaInventories()))
	w.report()
	w.api().want(w.api().send(sent{method: "POST", path: "/v2/devices/" + w.cyborg.Devices()[0].UUID + "/disable"}), 204, "")
	got := w.hostProvider().Inventories
	if got["PGPU"].Reserved != 1 || got["VCPU"] != novaInventories()["VCPU"] {
		t.Errorf("inventories: %+v", got)
	}
}

// TestAFlatDeviceKeepsAClassThatIsInUse has cards that are reported with another class, or other memory, while instances have
// some of them. As on providers of their own, those in use stay what they are until they are free.
func TestAFlatDeviceKeepsAClassThatIsInUse(t *testing.T) {
	t.Parallel()
	const old, anew, memory = "PGPU", "CUSTOM_GPU", "CUSTOM_ACCELERATOR_MEMORY_HBM"
	cards := func(class string, mib int) []driver.Device {
		list := []driver.Device{gpu("3b", class, []string{flatTrait}, "0"), gpu("5e", class, []string{flatTrait}, "0")}
		for i := range list {
			if mib > 0 {
				list[i].Deployables[0].Resources = map[string]int{memory: mib}
			}
		}
		return list
	}
	for name, tt := range map[string]struct {
		claims, binds int // by the first instances
		memory        int // of each claim
		after         []driver.Device
		want          map[string]int // totals while they are in use
	}{
		"none in use":                     {after: cards(anew, 8), want: map[string]int{anew: 2, memory: 16}},
		"both in use":                     {claims: 2, binds: 2, after: cards(anew, 8), want: map[string]int{old: 2, memory: 16}},
		"the first in use":                {claims: 1, binds: 1, after: cards(anew, 8), want: map[string]int{old: 1, anew: 1, memory: 16}},
		"one claimed":                     {claims: 1, after: cards(anew, 8), want: map[string]int{old: 1, anew: 1, memory: 16}},
		"both claimed":                    {claims: 2, after: cards(anew, 8), want: map[string]int{old: 2, memory: 16}},
		"one in use, one claimed":         {claims: 2, binds: 1, after: cards(anew, 8), want: map[string]int{old: 2, memory: 16}},
		"no memory, none is claimed":      {claims: 2, binds: 2, after: cards(old, 0), want: map[string]int{old: 2}},
		"no memory, the first has it all": {claims: 1, binds: 1, memory: 8, after: cards(old, 0), want: map[string]int{old: 2, memory: 8}},
		"less memory":                     {claims: 2, binds: 2, memory: 8, after: cards(old, 4), want: map[string]int{old: 2, memory: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}, cards(old, 8)...)
			w.report()
			host := w.cyborg.Deployables()[0].ProviderUUID
			for i, instance := range []string{instanceA, instanceB}[:tt.claims] {
				claimed := []placementsim.Allocation{{Provider: host, Class: old, Used: 1}}
				if tt.memory > 0 {
					claimed = append(claimed, placementsim.Allocation{Provider: host, Class: memory, Used: tt.memory})
				}
				w.claim(instance, claimed...)
				if i < tt.binds {
					settled(t, w.bindTo(old, host, instance))
				}
			}
			w.hardware.set(tt.after...)
			totals := func() map[string]int {
				t.Helper()
				sum := make(map[string]int)
				for class, amount := range w.hostProvider().Inventories {
					if class == old || class == anew || class == memory {
						sum[class] = amount.Total
					}
				}
				return sum
			}
			for range 2 {
				err := w.cyborg.Report(t.Context())
				if kept := tt.want[old] > 0 && tt.after[0].Deployables[0].Class != old || tt.want[memory] == 8 && len(tt.after[0].Deployables[0].Resources) == 0; kept != (err != nil) {
					t.Errorf("report: %v", err)
				}
				if first := w.cyborg.Deployables()[0]; tt.binds > 0 && first.ResourceClass() != old {
					t.Errorf("the card in use is %s", first.ResourceClass())
				}
				if diff := cmp.Diff(tt.want, totals()); diff != "" {
					t.Errorf("in use (-want +got):\n%s", diff)
				}
			}
			for _, instance := range []string{instanceA, instanceB} {
				w.free(instance)
				_ = w.placement.Release(instance)
			}
			w.report()
			fresh := make(map[string]int)
			for _, d := range tt.after {
				fresh[d.Deployables[0].Class]++
				for class, mib := range d.Deployables[0].Resources {
					fresh[class] += mib
				}
			}
			if diff := cmp.Diff(fresh, totals()); diff != "" {
				t.Errorf("free again (-want +got):\n%s", diff)
			}
		})
	}
}
