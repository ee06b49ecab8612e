package fpga_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// providers are the resource providers of a world: parent and name, then the amounts of
// accelerators and their traits.
func (w *world) providers() map[string]string {
	names, list := make(map[string]string), make(map[string]string)
	all := w.cloud.Placement.ResourceProviders()
	for _, p := range all {
		names[p.UUID] = p.Name
	}
	for _, p := range all {
		var words []string
		for class, inventory := range p.Inventories {
			if strings.Contains(class, "ACCELERATOR") {
				words = append(words, strings.TrimPrefix(class, "CUSTOM_ACCELERATOR_")+"="+string(rune('0'+inventory.Total)))
			}
		}
		for _, trait := range p.Traits {
			if rest, ok := strings.CutPrefix(trait, "CUSTOM_"); ok {
				words = append(words, withDigits(rest))
			}
		}
		slices.Sort(words)
		list[strings.TrimPrefix(names[p.Parent]+" > "+p.Name, " > ")] = strings.Join(words, " ")
	}
	return list
}

// rocky is the configuration by the Rocky specification of scheduling.
func rocky() fpga.Config {
	no := false
	return fpga.Config{
		Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling, LocalMemory: []driver.LocalMemory{
			{Type: "DDR4", MiB: 4}, {Type: "HBM", MiB: 8, Shared: true},
		}},
		Functionality: map[string]string{id("a"): "compute", id("b"): "network", id("c"): "storage"},
		Devices:       []fpga.DeviceConfig{{Address: pf, Regions: []fpga.RegionConfig{{Region: 1, Programmable: &no}}}},
	}
}

func TestPlacementModesCarryWhatTheSpecificationWants(t *testing.T) {
	t.Parallel()
	const (
		card   = "cn0_FPGA_0000:5e:00.0"
		family = "FPGA_INTEL FPGA_INTEL_ARRIA10 "
	)
	several := func(t *testing.T) *sysfs.Memory {
		m := drivertest.Tree(t, intelCard(pf, 0, "12", "abc", 3))
		setPorts(m, "2", "1")
		return m
	}
	partitioned := rocky() // without a provider for the card, regions cannot share memory
	partitioned.LocalMemory = partitioned.LocalMemory[:1]
	tests := []struct {
		name   string
		mode   fakecyborg.PlacementMode
		tree   func(t *testing.T) *sysfs.Memory
		config fpga.Config
		want   map[string]string
	}{
		{"nested", fakecyborg.ModeNested, several, rocky(), map[string]string{
			"cn0":                                "",
			"cn0 > " + card:                      family + "MEMORY_HBM=8",
			card + " > cn0_0000:5e:00.0_region0": "FPGA=2 FPGA_COMPUTE FPGA_FUNCTION_INTEL_a FPGA_FUNCTION_INTEL_b " + family + "FPGA_NETWORK FPGA_REGION_INTEL_1 MEMORY_DDR4=4 PROGRAMMABLE",
			card + " > cn0_0000:5e:00.0_region1": "FPGA=1 FPGA_FUNCTION_INTEL_c " + family + "FPGA_REGION_INTEL_2 FPGA_STORAGE MEMORY_DDR4=4",
		}},
		{"tree", fakecyborg.ModeTree, several, partitioned, map[string]string{
			"cn0":                            "",
			"cn0 > cn0_0000:5e:00.0_region0": "FPGA=2 FPGA_COMPUTE FPGA_FUNCTION_INTEL_a FPGA_FUNCTION_INTEL_b " + family + "FPGA_NETWORK FPGA_REGION_INTEL_1 MEMORY_DDR4=4 PROGRAMMABLE",
			"cn0 > cn0_0000:5e:00.0_region1": "FPGA=1 FPGA_FUNCTION_INTEL_c " + family + "FPGA_REGION_INTEL_2 FPGA_STORAGE MEMORY_DDR4=4",
		}},
		{"one region nested", fakecyborg.ModeNested, func(t *testing.T) *sysfs.Memory { return drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0)) },
			fpga.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling}}, map[string]string{
				"cn0":                        "",
				"cn0 > " + card:              strings.TrimSpace(family),
				card + " > cn0_0000:5e:00.0": "FPGA=1 FPGA_FUNCTION_INTEL_a " + family + "FPGA_REGION_INTEL_1 PROGRAMMABLE",
			}},
		{"no partial reconfiguration nested", fakecyborg.ModeNested, func(t *testing.T) *sysfs.Memory { return drivertest.Tree(t, intelCard(pf, 0, "", "a", 0)) },
			fpga.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling}}, map[string]string{
				"cn0": "", "cn0 > cn0_0000:5e:00.0": "FPGA=1 FPGA_FUNCTION_INTEL_a " + family + "PROGRAMMABLE",
			}},
		{"flat", fakecyborg.ModeFlat, func(t *testing.T) *sysfs.Memory { return drivertest.Tree(t, intelCard(pf, 0, "11", "aa", 2)) },
			fpga.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling}}, map[string]string{
				"cn0": "FPGA=2 FPGA_FUNCTION_INTEL_a " + family + "FPGA_REGION_INTEL_1 PROGRAMMABLE",
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.mode, nil, nil, newIntel(t, tt.config, tt.tree(t)))
			if diff := cmp.Diff(tt.want, w.providers()); diff != "" {
				t.Errorf("providers (-want +got):\n%s", diff)
			}
		})
	}
}
