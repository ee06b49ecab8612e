package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
)

func TestCustomNameNormalisesAndRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		parts []string
		want  string // or a part of the error, after "!"
	}{
		{[]string{"nvidia", "1eb8", "T4-1B"}, "CUSTOM_NVIDIA_1EB8_T4_1B"},
		{[]string{"fpga region", "intel", "ab-cd"}, "CUSTOM_FPGA_REGION_INTEL_AB_CD"},
		{[]string{"a.b"}, "!'.'"},
		{[]string{"grün"}, "!'Ü'"},
		{[]string{"x", ""}, "!empty part"},
		{[]string{strings.Repeat("x", 249)}, "!256 characters"},
	} {
		got, err := driver.CustomName(tt.parts...)
		if text, bad := strings.CutPrefix(tt.want, "!"); bad {
			if !errors.Is(err, driver.ErrName) || !strings.Contains(err.Error(), text) {
				t.Errorf("CustomName(%q) = %q, %v, want an error with %q", tt.parts, got, err, text)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("CustomName(%q) = %q, %v, want %q", tt.parts, got, err, tt.want)
		}
	}
}

func TestCheckResourceClassKnowsTheStandardOnes(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"PGPU": true, "VGPU": true, "FPGA": true, "CUSTOM_PCI": true, "CUSTOM_ACCELERATOR_FPGA": true,
		"": false, "GPU": false, "pgpu": false, "CUSTOM_": false, "CUSTOM_a": false, "CUSTOM_A-B": false,
		"CUSTOM_" + strings.Repeat("A", 249): false,
	} {
		if err := driver.CheckResourceClass(name); (err == nil) != good || err != nil && !errors.Is(err, driver.ErrName) {
			t.Errorf("CheckResourceClass(%q) = %v", name, err)
		}
	}
	if err := driver.CheckTrait("HW_GPU_API_VULKAN"); err != nil {
		t.Errorf("a standard trait: %v", err)
	}
	if err := driver.CheckTrait("custom_x"); !errors.Is(err, driver.ErrName) {
		t.Errorf("a trait in lower case: %v", err)
	}
}

func TestProviderUUIDIsUpstreams(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"compute1_FakeDevice":   "f9d7848a-7688-361f-8e4b-3e58185de5fe",
		"compute1_0000:af:00.0": "5b0dd8ca-0827-3ef3-804e-232d0228a582",
		"compute1_0000:3b:00.0": "6cd2aca9-08d5-3e7e-b324-6c788dcceac8",
	} {
		if got := driver.ProviderUUID(name); got != want {
			t.Errorf("ProviderUUID(%q) = %s, want %s", name, got, want)
		}
	}
}
