package driver_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/driver"
)

// TestTheTraitOfAFunctionHasOneForm: each shape has one name for all forms of an id.
func TestTheTraitOfAFunctionHasOneForm(t *testing.T) {
	t.Parallel()
	const bare, dashed = "D8424DC4A4A3C413F89E433683F9040B", "D8424DC4_A4A3_C413_F89E_433683F9040B"
	for shape, want := range map[driver.TraitShape][2]string{
		"":                          {"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + bare, "CUSTOM_FPGA_REGION_INTEL_" + bare},
		driver.ShapeShipped:         {"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + bare, "CUSTOM_FPGA_REGION_INTEL_" + bare},
		driver.ShapeWallaby:         {"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + bare, "CUSTOM_FPGA_REGION_INTEL_" + bare},
		driver.ShapeRockyScheduling: {"CUSTOM_FPGA_FUNCTION_INTEL_" + dashed, "CUSTOM_FPGA_REGION_INTEL_" + dashed},
		driver.ShapeRockyAgent:      {"CUSTOM_FPGA_INTEL_FUNCTION_" + dashed, "CUSTOM_FPGA_INTEL_REGION_" + dashed},
	} {
		for _, id := range []string{
			"d8424dc4-a4a3-c413-f89e-433683f9040b", "D8424DC4-A4A3-C413-F89E-433683F9040B",
			"d8424dc4a4a3c413f89e433683f9040b", "D8424DC4A4A3C413F89E433683F9040B",
		} {
			function, err := shape.FunctionTrait("intel", id)
			region, regionErr := shape.RegionTrait("intel", id)
			if got := [2]string{function, region}; got != want || err != nil || regionErr != nil {
				t.Errorf("shape %q, id %s: %v, %v, %v; want %v", shape, id, got, err, regionErr, want)
			}
			if !driver.NamesFunction(function, id) || !driver.NamesRegion(region, id) {
				t.Errorf("shape %q: %s and %s are not recognized as those of %s", shape, function, region, id)
			}
			if driver.NamesFunction(region, id) || driver.NamesRegion(function, id) {
				t.Errorf("shape %q: %s and %s are confused", shape, function, region)
			}
		}
		if name, err := shape.FunctionTrait("intel", "gzip-1"); err != nil || !driver.NamesFunction(name, "gzip-1") || driver.NamesFunction(name, "1") {
			t.Errorf("shape %q: %s, %v: an id that is no UUID", shape, name, err)
		}
	}
}

func TestATraitNamesWholeIDs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		trait, id string
		want      bool
	}{
		{"CUSTOM_FPGA_FUNCTION_ID_TEST_STONE", "one", false},
		{"CUSTOM_FPGA_FUNCTION_ID_TEST_TWO_ONE", "one", false},
		{"CUSTOM_FPGA_FUNCTION_ID_TEST_TWO_ONE", "two-one", true},
		{"CUSTOM_FPGA_FUNCTION_ID_BIG_CORP_D8424DC4A4A3C413F89E433683F9040B", "d8424dc4-a4a3-c413-f89e-433683f9040b", true},
		{"CUSTOM_OTHER_FUNCTION_D8424DC4A4A3C413F89E433683F9040B", "d8424dc4-a4a3-c413-f89e-433683f9040b", false},
		{"CUSTOM_FPGA_FUNCTION_ID_TEST_ONE", "", false},
		{"CUSTOM_FPGA_FUNCTION_GZIP", "gzip", true}, // without a vendor
		{"CUSTOM_FPGA_FUNCTION_GZIP", "zip", false},
	} {
		if got := driver.NamesFunction(tt.trait, tt.id); got != tt.want {
			t.Errorf("%s names %q: %t", tt.trait, tt.id, got)
		}
	}
}
