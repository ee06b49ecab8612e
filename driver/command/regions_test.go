package command_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Each region of a dictionary becomes a provider, below the compute node or below its device.
func TestTheRegionsOfTheDictionaryAreProviders(t *testing.T) {
	t.Parallel()
	const function, first = "FUNCTION_F1AAAAAA_AAAA_4AAA_8AAA_AAAAAAAAAAAA", "REGION_A1AAAAAA_AAAA_4AAA_8AAA_AAAAAAAAAAAA"
	const second = "REGION_A2AAAAAA_AAAA_4AAA_8AAA_AAAAAAAAAAAA"
	for mode, want := range map[fakecyborg.PlacementMode]map[string]string{
		fakecyborg.ModeTree: {
			"cn0_0000:3b:00.0_region0": "below cn0, FPGA 1, " + function + " PAC " + first, "cn0_0000:3b:00.0_region1": "below cn0, FPGA 1, PAC " + second,
		},
		fakecyborg.ModeNested: {
			"cn0_FPGA_0000:3b:00.0":    "below cn0, FPGA 0, PAC",
			"cn0_0000:3b:00.0_region0": "below cn0_FPGA_0000:3b:00.0, FPGA 1, " + function + " PAC " + first,
			"cn0_0000:3b:00.0_region1": "below cn0_FPGA_0000:3b:00.0, FPGA 1, PAC " + second,
		},
	} {
		model := simcloud.Model{Hosts: []simcloud.Host{}}
		model.Cyborg.PlacementMode = mode
		cloud := simcloud.Run(t, model)
		root, err := cloud.Placement.CreateProvider(placementsim.ResourceProvider{Name: "cn0"})
		if err == nil {
			err = cloud.Cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{newDriver(t, "cn0")}})
		}
		if err == nil {
			err = cloud.Cyborg.Report(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		names, got := map[string]string{root.UUID: "cn0"}, map[string]string{}
		for _, p := range cloud.Placement.ResourceProviders() {
			names[p.UUID] = p.Name
		}
		for _, p := range cloud.Placement.ResourceProviders() {
			var traits []string
			for _, trait := range p.Traits {
				if name, ok := strings.CutPrefix(trait, "CUSTOM_FPGA_INTEL_"); ok {
					traits = append(traits, name)
				}
			}
			slices.Sort(traits)
			if p.UUID != root.UUID {
				total := string(rune('0' + p.Inventories["CUSTOM_ACCELERATOR_FPGA"].Total))
				got[p.Name] = "below " + names[p.Parent] + ", FPGA " + total + ", " + strings.Join(traits, " ")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
}
