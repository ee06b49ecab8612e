package fakecyborg_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

// cardOf is a card at 5e with one deployable for each list of traits.
func cardOf(regions ...[]string) driver.Device {
	d := gpu("5e", "FPGA", nil)
	d.Type, d.Deployables = driver.TypeFPGA, nil
	for i, traits := range regions {
		function := string(rune('1' + i))
		d.Deployables = append(d.Deployables, driver.Deployable{
			Name: "cn0_region" + function, NumAccelerators: 1, DriverName: "test",
			Class: "FPGA", Traits: traits,
			AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: pciInfo("5e", function)}},
		})
	}
	return d
}

// The traits of the card and of its regions.
var (
	familyTraits = []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_ARRIA10"}
	regionOne    = []string{"CUSTOM_FPGA_COMPUTE", "CUSTOM_FPGA_FUNCTION_INTEL_AA", "CUSTOM_FPGA_REGION_INTEL_11", "CUSTOM_PROGRAMMABLE"}
	regionTwo    = []string{"CUSTOM_FPGA_NETWORK", "CUSTOM_FPGA_REGION_INTEL_22"}
)

func owned(traits ...[]string) []string {
	all := append(slices.Concat(traits...), "OWNER_CYBORG")
	slices.Sort(all)
	return all
}

// tree is all providers: name of the parent, name, traits and inventory.
func (w *reportWorld) tree() map[string]placementsim.ResourceProvider {
	names, tree := map[string]string{}, map[string]placementsim.ResourceProvider{}
	for _, p := range w.placement.ResourceProviders() {
		names[p.UUID] = p.Name
	}
	for _, p := range w.placement.ResourceProviders() {
		slices.Sort(p.Traits)
		tree[strings.TrimPrefix(names[p.Parent]+"/"+p.Name, "/")] = p
	}
	return tree
}

func TestRegionsAreBelowTheirDevice(t *testing.T) {
	t.Parallel()
	w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeNested}, cardOf(slices.Concat(familyTraits, regionOne), slices.Concat(familyTraits, regionTwo)))
	w.report()
	const card = "cn0_FPGA_0000:5e:00.0"
	programmable := []string{"CUSTOM_PROGRAMMABLE"} // not reported, and true of the second region, too
	want := map[string][]string{
		"cn0": nil, "cn0/" + card: owned(familyTraits),
		card + "/cn0_region1": owned(familyTraits, regionOne), card + "/cn0_region2": owned(familyTraits, regionTwo, programmable),
	}
	got := map[string][]string{}
	for name, p := range w.tree() {
		got[name] = p.Traits
		if total := p.Inventories["FPGA"].Total; (total == 1) != strings.Contains(name, "region") {
			t.Errorf("%s has %d FPGA", name, total)
		}
	}
	for name, traits := range got {
		if len(traits) == 0 {
			got[name] = nil
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("traits of the tree (-want +got):\n%s", diff)
	}
	w.wire.take()
	w.report()
	if calls := w.wire.take(); len(calls) != 1 {
		t.Errorf("a report without changes: %v", calls)
	}

	// the function of a region changes, and the family of the card
	family := []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_STRATIX10"}
	w.hardware.set(cardOf(slices.Concat(family, regionOne), slices.Concat(family, regionTwo, []string{"CUSTOM_FPGA_FUNCTION_INTEL_BB"})))
	w.report()
	tree := w.tree()
	if diff := cmp.Diff(owned(family), tree["cn0/"+card].Traits); diff != "" {
		t.Errorf("traits of the card (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(owned(family, regionTwo, programmable, []string{"CUSTOM_FPGA_FUNCTION_INTEL_BB"}), tree[card+"/cn0_region2"].Traits); diff != "" {
		t.Errorf("traits of the region (-want +got):\n%s", diff)
	}

	// a request is bound to the region that it was given
	api := w.api()
	api.profile("p", `[{"resources:FPGA":"1"}]`)
	arq := api.arqs("p")[0]
	api.want(api.patch(binding(instanceA, driver.ProviderUUID("cn0_region2"), arq)), 202, "")
	if got := w.cyborg.ARQs()[0].AttachHandleInfo["function"]; got != "2" {
		t.Errorf("bound to function %s", got)
	}
	w.free(instanceA)

	w.hardware.set()
	w.report()
	if tree := w.tree(); len(tree) != 1 {
		t.Errorf("providers left: %v", tree)
	}
	if left := traitNames(w); len(left) != 0 {
		t.Errorf("traits left: %v", left)
	}
}

func TestADeviceWithoutPartialReconfigurationIsItsOwnRegion(t *testing.T) {
	t.Parallel()
	whole := slices.Concat(familyTraits, []string{"CUSTOM_FPGA_COMPUTE", "CUSTOM_FPGA_FUNCTION_INTEL_AA", "CUSTOM_PROGRAMMABLE"})
	w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeNested}, cardOf(whole), gpu("3b", "PGPU", nil, "0"))
	w.report()
	tree := w.tree()
	if diff := cmp.Diff(owned(whole), tree["cn0/cn0_region1"].Traits); diff != "" || len(tree) != 3 {
		t.Errorf("tree %v, traits of the card (-want +got):\n%s", tree, diff)
	}
	// it is divided into regions, and then whole again
	w.hardware.set(cardOf(slices.Concat(familyTraits, regionOne), slices.Concat(familyTraits, regionTwo)))
	w.report()
	if tree := w.tree(); len(tree) != 4 || tree["cn0_FPGA_0000:5e:00.0/cn0_region1"].Name == "" {
		t.Errorf("after it was divided: %v", tree)
	}
	w.hardware.set(cardOf(whole))
	w.report()
	if tree := w.tree(); len(tree) != 2 || tree["cn0/cn0_region1"].Name == "" {
		t.Errorf("after it was made whole: %v", tree)
	}
}

// TestASingleRegionIsBelowItsDevice: the type of region says that the device can be partly reconfigured.
func TestASingleRegionIsBelowItsDevice(t *testing.T) {
	t.Parallel()
	w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeNested}, cardOf(slices.Concat(familyTraits, regionOne)))
	w.report()
	tree := w.tree()
	if diff := cmp.Diff(owned(familyTraits, regionOne), tree["cn0_FPGA_0000:5e:00.0/cn0_region1"].Traits); diff != "" || len(tree) != 3 {
		t.Errorf("tree %v, traits of the region (-want +got):\n%s", tree, diff)
	}
	if diff := cmp.Diff(owned(familyTraits), tree["cn0/cn0_FPGA_0000:5e:00.0"].Traits); diff != "" {
		t.Errorf("traits of the device (-want +got):\n%s", diff)
	}
	w.hardware.set()
	w.report()
	if tree := w.tree(); len(tree) != 1 {
		t.Errorf("providers left: %v", tree)
	}
}

func TestAFailedRegionLeavesNothingOfItsDevice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step string
		nth  int
	}{
		{"POST /resource_providers", 1}, {"POST /resource_providers", 2}, {"POST /resource_providers", 3},
		{"PUT /inventories", 1}, {"PUT /inventories", 2}, {"PUT /traits", 1}, {"PUT /traits", 2}, {"PUT /traits", 3},
		{"PUT /traits/CUSTOM_PROGRAMMABLE", 1},
	} {
		step := tt.step
		t.Run(strings.ReplaceAll(step, "/", "")+fmt.Sprint(tt.nth), func(t *testing.T) {
			t.Parallel()
			w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeNested}, cardOf(slices.Concat(familyTraits, regionOne), regionTwo))
			method, suffix, _ := strings.Cut(step, " ")
			failed := 0
			w.wire.hook = func(m, path string) int {
				if m == method && strings.HasSuffix(path, suffix) {
					if failed++; failed == tt.nth {
						return 500
					}
				}
				return 0
			}
			if err := w.cyborg.Report(t.Context()); err == nil || failed < tt.nth {
				t.Errorf("error %v after %d calls", err, failed)
			}
			if tree := w.tree(); len(tree) != 1 || len(w.cyborg.Devices()) != 0 {
				t.Errorf("left: %v, %v", tree, w.cyborg.Devices())
			}
			w.wire.hook = nil
			w.report()
			if tree := w.tree(); len(tree) != 4 {
				t.Errorf("the next report made %v", tree)
			}
		})
	}
}

func TestAPreprogrammedRegionIsNotCalledProgrammable(t *testing.T) {
	t.Parallel()
	no := false
	card := cardOf(slices.Concat(familyTraits, []string{"CUSTOM_FPGA_REGION_INTEL_11"}), slices.Concat(familyTraits, regionTwo))
	card.Deployables[0].Programmable = &no
	w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeNested}, card)
	w.report()
	for region, want := range map[string]bool{"cn0_region1": false, "cn0_region2": true} {
		if got := slices.Contains(w.tree()["cn0_FPGA_0000:5e:00.0/"+region].Traits, "CUSTOM_PROGRAMMABLE"); got != want {
			t.Errorf("%s is called programmable: %t, want %t", region, got, want)
		}
	}
}

func TestUnusedClassesAndTraitsAreDeleted(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeFlat, fakecyborg.ModeNested} {
		w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode},
			gpu("3b", "CUSTOM_OLD", []string{"CUSTOM_A"}, "0"), gpu("5e", "CUSTOM_SHARED", []string{"CUSTOM_A"}, "0"))
		other := w.create(placementsim.ResourceProvider{
			Name: "other", Traits: []string{"CUSTOM_A"}, Inventories: map[string]placementsim.Inventory{"CUSTOM_SHARED": {Total: 1}},
		})
		w.report()
		w.hardware.set()
		w.report()
		if diff := cmp.Diff([]string{"CUSTOM_A"}, traitNames(w)); diff != "" {
			t.Errorf("%s: traits (-want +got):\n%s", mode, diff)
		}
		api := &world{t: t, client: inProcess(w.placement)}
		classes := api.send(sent{method: "GET", path: "/placement/resource_classes", header: version("placement 1.7")}).text
		if strings.Contains(classes, "CUSTOM_OLD") || !strings.Contains(classes, "CUSTOM_SHARED") {
			t.Errorf("%s: classes %s", mode, classes)
		}
		if got, err := w.placement.ResourceProvider(other.UUID); err != nil || got.Generation != other.Generation {
			t.Errorf("%s: another's provider: %+v, %v", mode, got, err)
		}
	}
}

// The regions of a card that is in use stay below its provider while the driver calls it something else, and leave nothing there
// when they move.
func TestTheProviderOfACardThatChangesItsTypeIsRemoved(t *testing.T) {
	t.Parallel()
	board := boardOf(1024, "AA")
	other := board.Clone()
	other.Type, other.Resources = driver.TypeGPU, nil
	other.Deployables[0].Class, other.Deployables[0].Traits = "PGPU", []string{"CUSTOM_A"}
	w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeNested}, board)
	w.report()
	settled(t, w.bindTo("FPGA", w.cyborg.Deployables()[0].ProviderUUID, instanceA))
	w.hardware.set(other)
	if err := w.cyborg.Report(t.Context()); err == nil {
		t.Error("the provider of a region that is in use has moved")
	}
	settled(t, setsStatus(fakecyborg.StatusMaintaining, fakecyborg.StatusEnabled)(w))
	w.free(instanceA)
	w.report()
	for name := range w.tree() {
		if strings.Contains(name, driver.TypeFPGA) {
			t.Errorf("provider %s still exists", name)
		}
	}
}
