package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	regionUUID   = "0d4bcd1a-6a0e-4f1f-9d6e-0fd1a9a0b5c4"
	functionUUID = "D8424DC4-A4A3-C413-F89E-433683F9040B"
)

func TestEveryShapeHasTheNamesOfItsSpecification(t *testing.T) {
	t.Parallel()
	region := driver.Subject{
		Type: "FPGA", Vendor: "intel", Product: "arria10", ProductID: "09c4", Region: regionUUID, Functions: []string{functionUUID},
		Programmable: true, Functionality: "network",
		Shipped: []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_PAC_ARRIA10"}, ShippedClass: "FPGA",
	}
	vgpu := driver.Subject{Type: "GPU", Vendor: "nvidia", Product: "T4", ProductID: "1eb8", VGPUType: "T4-1B",
		Shipped: []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B"}, ShippedClass: "VGPU"}
	gpu := driver.Subject{Type: "GPU", Vendor: "AMD", ProductID: "740f", Shipped: []string{"CUSTOM_AMD_740F"}, ShippedClass: "PGPU"}
	card := driver.Subject{Type: "HPTS", Vendor: "zte", Shipped: []string{"CUSTOM_HPTS_ZTE"}, ShippedClass: "CUSTOM_ACCELERATOR_HPTS"}
	regionPart, functionPart := "0D4BCD1A_6A0E_4F1F_9D6E_0FD1A9A0B5C4", "D8424DC4_A4A3_C413_F89E_433683F9040B"
	for _, tt := range []struct {
		name    string
		shape   driver.TraitShape
		subject driver.Subject
		class   string
		want    []string
	}{
		{"region", driver.ShapeShipped, region, "FPGA", []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_PAC_ARRIA10", "CUSTOM_PROGRAMMABLE"}},
		{"region", "", region, "FPGA", []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_PAC_ARRIA10", "CUSTOM_PROGRAMMABLE"}},
		{"region", driver.ShapeRockyScheduling, region, "CUSTOM_ACCELERATOR_FPGA", []string{"OWNER_CYBORG", "CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_ARRIA10",
			"CUSTOM_FPGA_REGION_INTEL_" + regionPart, "CUSTOM_FPGA_FUNCTION_INTEL_" + functionPart, "CUSTOM_FPGA_NETWORK", "CUSTOM_PROGRAMMABLE"}},
		{"region", driver.ShapeRockyAgent, region, "CUSTOM_ACCELERATOR_FPGA", []string{"OWNER_CYBORG", "CUSTOM_FPGA_INTEL_ARRIA10",
			"CUSTOM_FPGA_INTEL_REGION_" + regionPart, "CUSTOM_FPGA_INTEL_FUNCTION_" + functionPart, "CUSTOM_PROGRAMMABLE"}},
		{"region", driver.ShapeWallaby, region, "FPGA", []string{"OWNER_CYBORG", "CUSTOM_INTEL_09C4", "CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_PAC_ARRIA10", "CUSTOM_PROGRAMMABLE"}},
		{"vGPU", driver.ShapeShipped, vgpu, "VGPU", []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B"}},
		{"vGPU", driver.ShapeWallaby, vgpu, "VGPU", []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B"}},
		{"vGPU", driver.ShapeRockyScheduling, vgpu, "CUSTOM_ACCELERATOR_GPU", []string{"OWNER_CYBORG", "CUSTOM_GPU_NVIDIA", "CUSTOM_GPU_NVIDIA_T4", "CUSTOM_GPU_NVIDIA_T4_1B"}},
		{"GPU without a family", driver.ShapeRockyScheduling, gpu, "CUSTOM_ACCELERATOR_GPU", []string{"OWNER_CYBORG", "CUSTOM_GPU_AMD", "CUSTOM_GPU_AMD_740F"}},
		{"time card", driver.ShapeRockyScheduling, card, "CUSTOM_ACCELERATOR_HPTS", []string{"OWNER_CYBORG", "CUSTOM_HPTS_ZTE"}},
	} {
		t.Run(tt.name+" "+string(tt.shape), func(t *testing.T) {
			t.Parallel()
			class, traits, err := driver.Policy{TraitShape: tt.shape}.Names(tt.subject)
			if diff := cmp.Diff(tt.want, traits); class != tt.class || diff != "" || err != nil {
				t.Errorf("class %s, traits: %v (-want +got):\n%s", class, err, diff)
			}
		})
	}
}

func TestABadNameShowsTheCharacter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shape   driver.TraitShape
		subject driver.Subject
		want    string
	}{
		{driver.ShapeRockyScheduling, driver.Subject{Type: "GPU", Vendor: "a.b"}, "'.'"},
		{driver.ShapeRockyScheduling, driver.Subject{Type: "GPU", Vendor: ""}, "empty part"},
		{driver.ShapeRockyAgent, driver.Subject{Type: "GPU", Vendor: "amd", Product: "Radeon/Pro"}, "'/'"},
		{driver.ShapeRockyAgent, driver.Subject{Type: "GPU", Vendor: "amd"}, "empty part"},
		{driver.ShapeWallaby, driver.Subject{Type: "GPU", Vendor: "nvidia", Product: "T4", VGPUType: "T4+1B", ShippedClass: "VGPU"}, "'+'"},
		{driver.ShapeShipped, driver.Subject{Shipped: []string{"CUSTOM_a"}, ShippedClass: "PGPU"}, "'a'"},
		{"train", driver.Subject{}, `"train", want one of [shipped rocky-scheduling rocky-agent wallaby]`},
	} {
		if _, _, err := (driver.Policy{TraitShape: tt.shape}).Names(tt.subject); !errors.Is(err, driver.ErrName) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %+v: %v, want %s", tt.shape, tt.subject, err, tt.want)
		}
	}
}

func TestPolicyCheckNamesTheOption(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]driver.Policy{
		"trait_shape":                         {TraitShape: "Train"},
		`allowed_drivers: "../x"`:             {AllowedDrivers: []string{"../x"}},
		"extra_traits":                        {ExtraTraits: []string{"custom"}},
		`character '.' is not allowed`:        {LocalMemory: []driver.LocalMemory{{Type: "DDR.4", MiB: 1}}},
		"local_memory entry 0: 0 MiB":         {LocalMemory: []driver.LocalMemory{{Type: "DDR4"}}},
		"bad PCI address":                     {LocalMemory: []driver.LocalMemory{{Type: "DDR4", MiB: 1, Address: "x"}}},
		"memory of type HBM appears twice":    {LocalMemory: []driver.LocalMemory{{Type: "HBM", MiB: 1}, {Type: "HBM", MiB: 2}}},
		"memory of type DDR4 appears twice":   {LocalMemory: []driver.LocalMemory{{Type: "ddr4", MiB: 1, Address: "0000:3b:00.0"}, {Type: "DDR4", MiB: 2, Address: "0000:3B:00.0"}}},
		`mounts: "/dev/sda" is neither MAJOR`: {Mounts: []string{"/dev/sda"}},
	} {
		if err := p.Check(); !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
	good := driver.Policy{TraitShape: driver.ShapeWallaby, AllowedDrivers: []string{"xocl"}, Mounts: []string{"259:0", "sda1"},
		LocalMemory: []driver.LocalMemory{{Type: "DDR4", MiB: 8192, Shared: true}, {Type: "DDR4", MiB: 1024}, {Type: "HBM2", MiB: 1}}}
	if err := good.Check(); err != nil {
		t.Errorf("a good policy: %v", err)
	}
}

func TestMemoryGoesToTheDeviceOrToItsRegions(t *testing.T) {
	t.Parallel()
	at := driver.PCIAddress{Bus: 0x5e}
	policy := driver.Policy{LocalMemory: []driver.LocalMemory{
		{Type: "DDR4", MiB: 8192, Shared: true}, {Type: "HBM", MiB: 4096}, {Type: "QDR", MiB: 16, Address: "0000:5e:00.0"},
		{Type: "QDR", MiB: 32, Address: "0000:5f:00.0"},
	}}
	device := driver.Device{Deployables: make([]driver.Deployable, 2)}
	if err := policy.AddMemory(&device, at); err != nil {
		t.Fatal(err)
	}
	part := driver.Deployable{Resources: map[string]int{"CUSTOM_ACCELERATOR_MEMORY_HBM": 4096, "CUSTOM_ACCELERATOR_MEMORY_QDR": 16}}
	want := driver.Device{
		Resources:   map[string]int{"CUSTOM_ACCELERATOR_MEMORY_DDR4": 8192},
		Deployables: []driver.Deployable{part, part},
	}
	if diff := cmp.Diff(want, device); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var none driver.Device
	if err := (driver.Policy{}).AddMemory(&none, at); err != nil || none.Resources != nil {
		t.Errorf("without an option: %+v, %v", none, err)
	}
}

func TestAPolicyTakesWhatItLeavesUnset(t *testing.T) {
	t.Parallel()
	other := driver.Policy{TraitShape: "wallaby", AllowedDrivers: []string{"a"}, ExtraTraits: []string{"CUSTOM_A"},
		LocalMemory: []driver.LocalMemory{{Type: "X", MiB: 1}}, Mounts: []string{"sda"}}
	if diff := cmp.Diff(other, driver.Policy{}.Or(other)); diff != "" {
		t.Errorf("all of it (-want +got):\n%s", diff)
	}
	own := driver.Policy{TraitShape: "shipped", AllowedDrivers: []string{}, ExtraTraits: []string{}, LocalMemory: []driver.LocalMemory{}, Mounts: []string{}}
	if diff := cmp.Diff(own, own.Or(other)); diff != "" {
		t.Errorf("what is set (-want +got):\n%s", diff)
	}
}
