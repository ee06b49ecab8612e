package fpga_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func intel(t testing.TB, config fpga.Config, tree driver.Tree) driver.Report {
	t.Helper()
	config.Host = "cn0"
	return must[*fpga.Intel](t)(fpga.NewIntel(config, tree))
}

func TestAWholeCardIsReportedAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	report := intel(t, fpga.Config{}, drivertest.Tree(t, intelCard(pf, 0, "a", "b", 0)))
	info := driver.Info{"domain": "0000", "bus": "5e", "device": "00", "function": "0"}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "0x8086", Model: "miss_model_info", Type: "FPGA",
		StdBoardInfo: `{"product_id": "0x09c4"}`, VendorBoardInfo: "miss_vb_info",
		ControlPath: driver.ControlPath{Type: "PCI", Info: info},
		Deployables: []driver.Deployable{{
			Name: "cn0_0000:5e:00.0", NumAccelerators: 1, DriverName: "intel",
			Class: "FPGA", Traits: []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_PAC_ARRIA10", "CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("b"), "CUSTOM_FPGA_REGION_INTEL_" + traitID("a"), "CUSTOM_PROGRAMMABLE"},
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: info}},
		}},
	}}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// drawing is the card of the Rocky specification: two functions in region 1, reached by
// PCI functions A and B, and nothing in region 2.
func drawing(t testing.TB) *sysfs.Memory {
	m := drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2))
	setPorts(m, "2", "0")
	return m
}

// setPorts sets the port counts of the management engines of card 0.
func setPorts(m *sysfs.Memory, counts ...string) {
	for i, n := range counts {
		m.SetFile("class/fpga/intel-fpga-dev.0/intel-fpga-fme."+string(rune('0'+i))+"/ports_num", []byte(n+"\n"))
	}
}

func TestIntelCards(t *testing.T) {
	t.Parallel()
	const pac = "FPGA_INTEL FPGA_INTEL_PAC_ARRIA10 "
	unnamed := intelCard(pf, 0, "1", "a", 0)
	unnamed.Product = "abcd"
	drawn := func(m *sysfs.Memory) { setPorts(m, "2", "0") }
	tests := []struct {
		name    string
		devices []sysfs.PCIDevice
		change  func(*sysfs.Memory)
		config  fpga.Config
		want    []string
		left    []string
	}{
		{
			name:    "one region with virtual functions",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "1", "aa", 2)},
			want:    []string{"cn0_" + pf + " 2 of 5e.1,5e.2: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_REGION_INTEL_1 PROGRAMMABLE"},
			left:    []string{pf + " physical function with virtual functions enabled (2)"},
		},
		{
			name:    "two regions",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "12", "ab", 2)},
			want: []string{
				"cn0_" + pf + "_region0 1 of 5e.1: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_REGION_INTEL_1 PROGRAMMABLE",
				"cn0_" + pf + "_region1 1 of 5e.2: " + pac + "FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_2 PROGRAMMABLE",
			},
			left: []string{pf + " physical function with virtual functions enabled (2)"},
		},
		{
			name:    "four regions of two types, one empty, two functions each",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "1122", "aabb  cd", 8)},
			want: []string{
				"cn0_" + pf + "_region0 2 of 5e.1,5e.2: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_REGION_INTEL_1 PROGRAMMABLE",
				"cn0_" + pf + "_region1 2 of 5e.3,5e.4: " + pac + "FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_1 PROGRAMMABLE",
				"cn0_" + pf + "_region2 2 of 5e.5,5e.6: " + pac + "FPGA_REGION_INTEL_2 PROGRAMMABLE",
				"cn0_" + pf + "_region3 2 of 5e.7,5e.0: " + pac + "FPGA_FUNCTION_ID_INTEL_c FPGA_FUNCTION_ID_INTEL_d FPGA_REGION_INTEL_2 PROGRAMMABLE",
			},
			left: []string{pf + " physical function with virtual functions enabled (8)"},
		},
		{
			name:    "the drawing of the Rocky specification",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "12", "ab", 2)}, change: drawn,
			want: []string{"cn0_" + pf + "_region0 2 of 5e.1,5e.2: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_1 PROGRAMMABLE"},
			left: []string{
				pf + " physical function with virtual functions enabled (2)",
				pf + " region 1: no PCI function that a guest could have leads to it",
			},
		},
		{
			name:    "the drawing as configured",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "12", "abcd", 4)},
			config: fpga.Config{Devices: []fpga.DeviceConfig{{Address: pf, Regions: []fpga.RegionConfig{
				{Region: 0, PCIFunctions: []string{"0000:5e:00.1", "0000:5e:00.3"}}, {Region: 1, PCIFunctions: []string{"0000:5e:00.2"}},
			}}}},
			want: []string{
				"cn0_" + pf + "_region0 2 of 5e.1,5e.3: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_FUNCTION_ID_INTEL_c FPGA_REGION_INTEL_1 PROGRAMMABLE",
				"cn0_" + pf + "_region1 1 of 5e.2: " + pac + "FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_2 PROGRAMMABLE",
			},
			left: []string{
				pf + " physical function with virtual functions enabled (4)",
				"0000:5e:00.4 devices.regions.pci_functions of " + pf + " has it in no region",
			},
		},
		{
			name: "each function on its own", config: fpga.Config{SeparateFunctions: true},
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "12", "ab", 2)}, change: drawn,
			want: []string{
				"cn0_0000:5e:00.1 1 of 5e.1 fixed: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_REGION_INTEL_1",
				"cn0_0000:5e:00.2 1 of 5e.2 fixed: " + pac + "FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_1",
			},
			left: []string{
				pf + " physical function with virtual functions enabled (2)",
				pf + " region 1: no PCI function that a guest could have leads to it",
			},
		},
		{
			name:    "several regions given away as a whole",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "12", "ab", 0)},
			want:    []string{"cn0_" + pf + " 1 of 5e.0: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_REGION_INTEL_1 PROGRAMMABLE FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_2"},
		},
		{
			name:    "a port that stays with the physical function belongs to no region",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "1", "ab", 1)},
			want:    []string{"cn0_" + pf + " 1 of 5e.1: " + pac + "FPGA_FUNCTION_ID_INTEL_a FPGA_REGION_INTEL_1 PROGRAMMABLE"},
			left:    []string{pf + " physical function with virtual functions enabled (1)"},
		},
		{
			name:    "virtual functions that show no ports",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "12", "", 4)},
			want: []string{
				"cn0_" + pf + "_region0 2 of 5e.1,5e.2: " + pac + "FPGA_REGION_INTEL_1 PROGRAMMABLE",
				"cn0_" + pf + "_region1 2 of 5e.3,5e.4: " + pac + "FPGA_REGION_INTEL_2 PROGRAMMABLE",
			},
			left: []string{pf + " physical function with virtual functions enabled (4)"},
		},
		{
			name:    "known by its id alone",
			devices: []sysfs.PCIDevice{{Address: pf, Vendor: "8086", Product: "09c4", Class: "1200"}},
			want:    []string{"cn0_" + pf + " 1 of 5e.0: " + pac + "PROGRAMMABLE"},
		},
		{
			name:    "known by its kernel driver alone",
			devices: []sysfs.PCIDevice{unnamed},
			want:    []string{"cn0_" + pf + " 1 of 5e.0: FPGA_INTEL FPGA_FUNCTION_ID_INTEL_a FPGA_REGION_INTEL_1 PROGRAMMABLE"},
		},
		{
			name: "a name for its id", config: fpga.Config{Products: []fpga.Product{{ID: "8086:ABCD", Name: "Grid 9"}}},
			devices: []sysfs.PCIDevice{{Address: pf, Vendor: "8086", Product: "abcd", Class: "0b40"}},
			want:    []string{"cn0_" + pf + " 1 of 5e.0: FPGA_INTEL FPGA_INTEL_GRID_9 PROGRAMMABLE"},
		},
		{
			name:    "virtual functions whose physical one cannot be seen",
			devices: []sysfs.PCIDevice{intelCard(pf, 0, "1", "ab", 2)},
			change: func(m *sysfs.Memory) {
				m.Remove(pciDir + pf)
				m.Remove("class/fpga/intel-fpga-dev.0")
			},
			want: []string{
				"cn0_0000:5e:00.1 1 of 5e.1: " + pac + "FPGA_FUNCTION_ID_INTEL_a PROGRAMMABLE",
				"cn0_0000:5e:00.2 1 of 5e.2: " + pac + "FPGA_FUNCTION_ID_INTEL_b PROGRAMMABLE",
			},
		},
		{
			name: "no FPGAs",
			devices: []sysfs.PCIDevice{{Address: pf, Vendor: "10ee", Product: "5001", Class: "1200"},
				{Address: "0000:01:00.0", Vendor: "8086", Product: "1521", Class: "0200"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, tt.devices...)
			if tt.change != nil {
				tt.change(tree)
			}
			wantReport(t, intel(t, tt.config, tree), tt.want, tt.left)
		})
	}
}

func TestHandlesThatLeadToDifferentFunctionsAreAWarning(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		tree     driver.Tree
		separate bool
		want     int
	}{
		{"the same function twice", drivertest.Tree(t, intelCard(pf, 0, "1", "aa", 2)), false, 0},
		{"none at all", drivertest.Tree(t, intelCard(pf, 0, "1", "  ", 2)), false, 0},
		{"two functions", drawing(t), false, 1},
		{"one and none", drivertest.Tree(t, intelCard(pf, 0, "1", "a ", 2)), false, 1},
		{"kept apart", drawing(t), true, 0},
		{"two functions of one handle", drivertest.Tree(t, intelCard(pf, 0, "1", "ab", 0)), false, 0},
	}
	for _, tt := range tests {
		report := intel(t, fpga.Config{SeparateFunctions: tt.separate}, tt.tree)
		if len(report.Warnings) != tt.want || len(report.Devices) != 1 {
			t.Errorf("%s: warnings %v, want %d", tt.name, report.Warnings, tt.want)
		}
		for _, w := range report.Warnings {
			if w.Address != pf || w.Driver != "intel_fpga" || !strings.Contains(w.Reason, "separate_functions") {
				t.Errorf("%s: warning %+v", tt.name, w)
			}
		}
	}
}

func TestARegionTypeBelongsToOneProduct(t *testing.T) {
	t.Parallel()
	const other = "0000:af:00.0"
	second := intelCard(other, 1, "13", "cc", 2)
	second.Product, second.VFs.Product = "0b2b", "0b2c"
	tests := []struct {
		name  string
		tree  *sysfs.Memory
		named []fpga.Product
		want  []string
	}{
		{"one product, one id, several types", drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0), intelCard(other, 1, "2", "a", 0)), nil, []string{pf, other}},
		{"one product, several ids, one type", drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2), second), []fpga.Product{{ID: "8086:0b2b", Name: "PAC_ARRIA10"}}, []string{pf, other}},
		{"two products, one type", drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2), second), nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := intel(t, fpga.Config{Products: tt.named}, tt.tree)
			var got []string
			for _, d := range report.Devices {
				got = append(got, d.ControlPath.Address().String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if tt.want == nil {
				if len(report.Problems) != 2 {
					t.Fatalf("problems: %v", report.Problems)
				}
				for _, p := range report.Problems {
					if !errors.Is(p, fpga.ErrRegionType) {
						t.Errorf("problem %v", p)
					}
				}
			}
		})
	}
}
