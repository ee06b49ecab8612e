package builtin_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// What the drivers report is what fakecyborg.Unflatten removes from a flat host: a class that stayed would
// offer a device twice. VGPU, and the class that the configuration names for mtty, are named by its user.
func TestUnflattenKnowsTheNamesOfTheDrivers(t *testing.T) {
	t.Parallel()
	var classes, traits []string
	inventories := make(map[string]placementsim.Inventory)
	for _, report := range driver.DiscoverAll(t.Context(), load(t, allOn(), generate(t, everything()))) {
		for _, device := range report.Devices {
			for _, p := range device.Deployables {
				inventories[p.Class] = placementsim.Inventory{Total: 1}
				if p.Class != "VGPU" && p.Class != "CUSTOM_MTTY" {
					classes = append(classes, p.Class)
				}
				traits = append(traits, p.Traits...)
			}
		}
	}
	slices.Sort(classes)
	slices.Sort(traits)
	want := fakecyborg.Unflattened{Name: "cn0", Classes: slices.Compact(classes), Traits: slices.Compact(traits)}
	inventories["VCPU"] = placementsim.Inventory{Total: 8}
	placement, err := placementsim.New(placementsim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	root, err := placement.CreateProvider(placementsim.ResourceProvider{Name: "cn0", Inventories: inventories, Traits: append(want.Traits, "HW_CPU_X86_VMX", "CUSTOM_ROOM_7")})
	if err != nil {
		t.Fatal(err)
	}
	want.Provider = root.UUID
	found, err := fakecyborg.Unflatten(t.Context(), sim.Endpoint{
		URL: "http://placement.invalid", Client: &http.Client{Transport: simhttp.NewTransport(placement)},
		Token: func(context.Context) (string, error) { return "admin", nil },
	}, fakecyborg.UnflattenOpts{DryRun: true})
	if diff := cmp.Diff([]fakecyborg.Unflattened{want}, found); diff != "" || err != nil {
		t.Errorf("%v, found (-want +got):\n%s", err, diff)
	}
}
