package fpga_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func TestEveryTraitShape(t *testing.T) {
	t.Parallel()
	intelTree := func(t *testing.T) driver.Tree { return drawing(t) }
	tests := []struct {
		vendor string
		shape  driver.TraitShape
		want   string
	}{
		{"intel", "", "FPGA: FPGA_INTEL FPGA_INTEL_PAC_ARRIA10 FPGA_FUNCTION_ID_INTEL_a FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_1 PROGRAMMABLE"},
		{"intel", driver.ShapeRockyScheduling, "CUSTOM_ACCELERATOR_FPGA: OWNER_CYBORG FPGA_INTEL FPGA_INTEL_ARRIA10 FPGA_REGION_INTEL_1 FPGA_FUNCTION_INTEL_a FPGA_FUNCTION_INTEL_b FPGA_COMPUTE PROGRAMMABLE FPGA_STORAGE"},
		{"intel", driver.ShapeRockyAgent, "CUSTOM_ACCELERATOR_FPGA: OWNER_CYBORG FPGA_INTEL_PAC_ARRIA10 FPGA_INTEL_REGION_1 FPGA_INTEL_FUNCTION_a FPGA_INTEL_FUNCTION_b PROGRAMMABLE"},
		{"intel", driver.ShapeWallaby, "FPGA: OWNER_CYBORG INTEL_09C4 FPGA_INTEL FPGA_INTEL_PAC_ARRIA10 FPGA_FUNCTION_ID_INTEL_a FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_1 PROGRAMMABLE"},
		{"xilinx", "", "FPGA: FPGA_XILINX FPGA_PRODUCT_ID_5000 FPGA_PRODUCT_ID_5001 PROGRAMMABLE"},
		{"xilinx", driver.ShapeRockyScheduling, "CUSTOM_ACCELERATOR_FPGA: OWNER_CYBORG FPGA_XILINX FPGA_XILINX_ALVEO FPGA_NETWORK PROGRAMMABLE"},
		{"xilinx", driver.ShapeRockyAgent, "CUSTOM_ACCELERATOR_FPGA: OWNER_CYBORG FPGA_XILINX_U200 PROGRAMMABLE"},
		{"xilinx", driver.ShapeWallaby, "FPGA: OWNER_CYBORG XILINX_5001 FPGA_XILINX FPGA_PRODUCT_ID_5000 FPGA_PRODUCT_ID_5001 PROGRAMMABLE"},
		{"inspur", "", "FPGA: FPGA_INSPUR FPGA_PRODUCT_ID_A115"},
		{"inspur", driver.ShapeRockyScheduling, "CUSTOM_ACCELERATOR_FPGA: OWNER_CYBORG FPGA_INSPUR FPGA_INSPUR_A115"},
		{"inspur", driver.ShapeRockyAgent, "CUSTOM_ACCELERATOR_FPGA: OWNER_CYBORG FPGA_INSPUR_A115"},
		{"inspur", driver.ShapeWallaby, "FPGA: OWNER_CYBORG INSPUR_A115 FPGA_INSPUR FPGA_PRODUCT_ID_A115"},
	}
	for _, tt := range tests {
		t.Run(tt.vendor+" "+string(tt.shape), func(t *testing.T) {
			t.Parallel()
			config := fpga.Config{
				Policy:        driver.Policy{TraitShape: tt.shape},
				Products:      []fpga.Product{{ID: "10ee:5001", Name: "U200", Family: "Alveo"}},
				Functionality: map[string]string{strings.ToUpper(id("a")): "compute", id("b"): "storage"},
				Devices:       []fpga.DeviceConfig{{Address: "0000:3b:00.0", Functionality: "network"}},
			}
			var report driver.Report
			switch tt.vendor {
			case "intel":
				config.Devices = nil
				report = intel(t, config, intelTree(t))
			case "xilinx":
				report = xilinx(t, config, drivertest.Tree(t, alveo("0000:3b:00")...))
			case "inspur":
				config.Devices = nil
				report = inspur(t, config, drivertest.Tree(t, inspurCard("0000:3c:00.0")))
			}
			if len(report.Devices) != 1 {
				t.Fatalf("report: %+v", report)
			}
			_, traits, _ := strings.Cut(lines(report)[0], ": ")
			if got := report.Devices[0].Deployables[0].Class + ": " + traits; got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// fixed sums up which deployables say that they cannot be programmed.
func fixed(report driver.Report) map[string]bool {
	list := make(map[string]bool)
	for _, d := range report.Devices {
		for _, p := range d.Deployables {
			list[strings.TrimPrefix(p.Name, "cn0_")] = p.Preprogrammed()
		}
	}
	return list
}

func TestPreprogrammedByConfiguration(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := []struct {
		name   string
		config fpga.Config
		want   []bool // of the two regions
	}{
		{"by default none is", fpga.Config{}, []bool{false, false}},
		{"all are", fpga.Config{Programmable: &no}, []bool{true, true}},
		{"one card is", fpga.Config{Devices: []fpga.DeviceConfig{{Address: pf, Programmable: &no}}}, []bool{true, true}},
		{"all but one card", fpga.Config{Programmable: &no, Devices: []fpga.DeviceConfig{{Address: pf, Programmable: &yes}}}, []bool{false, false}},
		{"one region is", fpga.Config{Devices: []fpga.DeviceConfig{{Address: pf, Regions: []fpga.RegionConfig{{Region: 1, Programmable: &no}}}}}, []bool{false, true}},
		{"all but one region", fpga.Config{Devices: []fpga.DeviceConfig{{Address: pf, Programmable: &no, Regions: []fpga.RegionConfig{{Region: 0, Programmable: &yes}}}}}, []bool{false, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := intel(t, tt.config, drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2)))
			want := map[string]bool{pf + "_region0": tt.want[0], pf + "_region1": tt.want[1]}
			if diff := cmp.Diff(want, fixed(report)); diff != "" {
				t.Errorf("pre-programmed (-want +got):\n%s", diff)
			}
			if d := report.Devices[0]; (d.Programmable != nil) != (tt.want[0] && tt.want[1]) {
				t.Errorf("the device says programmable %v", d.Programmable)
			}
			for i, line := range lines(report) {
				if strings.Contains(line, "PROGRAMMABLE") == tt.want[i] || !strings.Contains(line, "FUNCTION_ID_INTEL") {
					t.Errorf("region %d: %s", i, line)
				}
			}
		})
	}
	whole := intel(t, fpga.Config{Devices: []fpga.DeviceConfig{{Address: pf, Regions: []fpga.RegionConfig{{Region: 1, Programmable: &no}}}}},
		drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 0)))
	if len(whole.Devices) != 1 || whole.Devices[0].Deployables[0].Preprogrammed() {
		t.Errorf("a whole card with one programmable region: %v", lines(whole))
	}
	for name, report := range map[string]driver.Report{
		"xilinx": xilinx(t, fpga.Config{Programmable: &no}, drivertest.Tree(t, alveo("0000:3b:00")...)),
		"inspur": inspur(t, fpga.Config{Programmable: &yes}, drivertest.Tree(t, inspurCard("0000:3c:00.0"))),
	} {
		if line := lines(report)[0]; !strings.Contains(line, "fixed") || strings.Contains(line, "PROGRAMMABLE") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

func TestLocalMemoryIsOnItsProvider(t *testing.T) {
	t.Parallel()
	config := fpga.Config{Policy: driver.Policy{LocalMemory: []driver.LocalMemory{
		{Type: "DDR4", MiB: 4096}, {Type: "HBM", MiB: 8192, Shared: true, Address: pf}, {Type: "QDR", MiB: 16, Address: "0000:01:00.0"},
	}}}
	d := intel(t, config, drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2))).Devices[0]
	if diff := cmp.Diff(map[string]int{"CUSTOM_ACCELERATOR_MEMORY_HBM": 8192}, d.Resources); diff != "" {
		t.Errorf("shared (-want +got):\n%s", diff)
	}
	for _, p := range d.Deployables {
		if diff := cmp.Diff(map[string]int{"CUSTOM_ACCELERATOR_MEMORY_DDR4": 4096}, p.Resources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.Name, diff)
		}
	}
	if got := xilinx(t, config, drivertest.Tree(t, alveo("0000:3b:00")...)).Devices[0].Deployables[0].Resources; len(got) != 1 {
		t.Errorf("memory of the other card: %v", got)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	device := func(d fpga.DeviceConfig) fpga.Config {
		return fpga.Config{Host: "cn0", Devices: []fpga.DeviceConfig{d}}
	}
	regions := func(list ...fpga.RegionConfig) fpga.Config {
		return device(fpga.DeviceConfig{Address: pf, Regions: list})
	}
	for name, tt := range map[string]struct {
		config fpga.Config
		text   string
	}{
		"no host":             {fpga.Config{}, "no host name"},
		"shape":               {fpga.Config{Host: "cn0", Policy: driver.Policy{TraitShape: "queens"}}, `"queens"`},
		"id":                  {fpga.Config{Host: "cn0", Products: []fpga.Product{{ID: "8086", Name: "x"}}}, "products entry 0"},
		"id twice":            {fpga.Config{Host: "cn0", Products: []fpga.Product{{ID: "8086:0001", Name: "x"}, {ID: "0x8086:0x0001", Name: "y"}}}, "8086:0001 twice"},
		"name":                {fpga.Config{Host: "cn0", Products: []fpga.Product{{ID: "8086:0001", Name: "ä"}}}, `'Ä'`},
		"no name":             {fpga.Config{Host: "cn0", Products: []fpga.Product{{ID: "8086:0001"}}}, "empty part"},
		"address":             {device(fpga.DeviceConfig{Address: "5e:00.0"}), `devices entry 0 "5e:00.0"`},
		"address twice":       {fpga.Config{Host: "cn0", Devices: []fpga.DeviceConfig{{Address: pf}, {Address: pf}}}, "appears twice"},
		"functionality":       {device(fpga.DeviceConfig{Address: pf, Functionality: "fun"}), `"fun"`},
		"functionality of":    {fpga.Config{Host: "cn0", Functionality: map[string]string{id("a"): ""}}, "not compute, network or storage"},
		"function id":         {fpga.Config{Host: "cn0", Functionality: map[string]string{"aa": "compute"}}, `"aa" is not a function id`},
		"function id twice":   {fpga.Config{Host: "cn0", Functionality: map[string]string{id("a"): "compute", id("A"): "compute"}}, "twice"},
		"region twice":        {regions(fpga.RegionConfig{}, fpga.RegionConfig{}), "region 0: it appears twice"},
		"negative region":     {regions(fpga.RegionConfig{Region: -1}), "negative"},
		"region's address":    {regions(fpga.RegionConfig{PCIFunctions: []string{"x"}}), `"x"`},
		"function in two":     {regions(fpga.RegionConfig{PCIFunctions: []string{"0000:5e:00.1"}}, fpga.RegionConfig{Region: 1, PCIFunctions: []string{"0000:5e:00.1"}}), "in region 0 already"},
		"region's usefulness": {regions(fpga.RegionConfig{Functionality: "no"}), `"no"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := sysfs.NewMemory()
			_, err1 := fpga.NewIntel(tt.config, tree)
			_, err2 := fpga.NewXilinx(tt.config, tree)
			_, err3 := fpga.NewInspur(tt.config, tree)
			for _, err := range []error{err1, err2, err3} {
				if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("error %v, want one about %s", err, tt.text)
				}
			}
		})
	}
}

func TestSettingsOfWhatIsNotThereAreProblems(t *testing.T) {
	t.Parallel()
	unnamed := intelCard("0000:b0:00.0", 1, "3", "c", 0)
	unnamed.Product, unnamed.Class = "abcd", "0b40"
	tree := drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2), inspurCard("0000:3c:00.0"), unnamed,
		sysfs.PCIDevice{Address: "0000:01:00.0", Vendor: "8086", Product: "1521", Class: "0200"})
	report := intel(t, fpga.Config{Devices: []fpga.DeviceConfig{
		{Address: "0000:99:00.0"}, {Address: pf, Regions: []fpga.RegionConfig{{Region: 2}}},
		{Address: "0000:01:00.0"}, {Address: "0000:3c:00.0"}, {Address: "0000:b0:00.0"},
	}}, tree)
	if len(report.Problems) != 3 || len(report.Devices) != 1 {
		t.Fatalf("report: %+v", report)
	}
	for i, want := range []string{pf, "0000:01:00.0", "0000:99:00.0"} {
		if p := report.Problems[i]; p.Address != want || !errors.Is(p, driver.ErrConfig) {
			t.Errorf("problem %v, want one of %s", p, want)
		}
	}
}

func TestConfigurationIsReadFromJSON(t *testing.T) {
	t.Parallel()
	var got fpga.Config
	decoder := json.NewDecoder(strings.NewReader(`{"host": "cn0", "trait_shape": "rocky-agent", "allowed_drivers": ["uio"],
		"products": [{"id": "8086:09c4", "name": "PAC"}], "programmable": true, "separate_functions": true, "doubled_handles": true,
		"functionality": {"` + id("a") + `": "compute"}, "devices": [{"address": "` + pf + `", "programmable": false, "functionality": "network",
		"regions": [{"region": 1, "programmable": false, "functionality": "storage", "pci_functions": ["0000:5e:00.1"]}]}]}`))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	want := fpga.Config{
		Host: "cn0", Policy: driver.Policy{TraitShape: driver.ShapeRockyAgent, AllowedDrivers: []string{"uio"}},
		Products: []fpga.Product{{ID: "8086:09c4", Name: "PAC"}}, Programmable: &yes, SeparateFunctions: true, DoubledHandles: true,
		Functionality: map[string]string{id("a"): "compute"},
		Devices: []fpga.DeviceConfig{{Address: pf, Programmable: &no, Functionality: "network", Regions: []fpga.RegionConfig{
			{Region: 1, Programmable: &no, Functionality: "storage", PCIFunctions: []string{"0000:5e:00.1"}},
		}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}
