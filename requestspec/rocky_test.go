package requestspec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
)

const (
	gzipUUID  = "d8424dc4-a4a3-c413-f89e-433683f9040b"
	gzipTrait = "CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B"
)

func convert(t *testing.T, shippedClasses bool, pairs ...string) requestspec.Rocky {
	t.Helper()
	r, ok, err := requestspec.FromRocky(flavor(pairs...), shippedClasses)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return r
}

func TestRockyFlavorsBecomeDeviceProfiles(t *testing.T) {
	tests := []struct {
		name   string
		specs  []string
		groups []map[string]string
		left   map[string]string // the flavor's, beside the profile
	}{
		{"a device", []string{"resources:CUSTOM_ACCELERATOR_HPTS", "1", "trait:CUSTOM_HPTS_ZTE", "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_HPTS": "1", "trait:CUSTOM_HPTS_ZTE": "required"}}, nil},
		{"what is the host's stays", []string{"resources:CUSTOM_ACCELERATOR_GPU", "2", "resources:VGPU", "1", "trait:HW_CPU_X86_AVX", "required", "trait:CUSTOM_RACK_7", "required", "hw:cpu_policy", "dedicated", "trait:CUSTOM_GPU_AMD", "forbidden"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_GPU": "2", "trait:CUSTOM_GPU_AMD": "forbidden"}},
			map[string]string{"resources:VGPU": "1", "trait:HW_CPU_X86_AVX": "required", "trait:CUSTOM_RACK_7": "required", "hw:cpu_policy": "dedicated"}},
		{"programmable", []string{"resources:CUSTOM_ACCELERATOR_QAT", "1", "trait:CUSTOM_PROGRAMMABLE", "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_QAT": "1", "trait:CUSTOM_PROGRAMMABLE": "required"}}, nil},
		{"programmable, unknown device", []string{"resources:CUSTOM_ACCELERATOR_QAT", "1", "resources:CUSTOM_ACCELERATOR_GPU", "1", "trait:CUSTOM_PROGRAMMABLE", "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_GPU": "1"}, {"resources:CUSTOM_ACCELERATOR_QAT": "1"}}, map[string]string{"trait:CUSTOM_PROGRAMMABLE": "required"}},
		{"two devices", []string{"resources:CUSTOM_ACCELERATOR_GPU", "1", "resources:CUSTOM_ACCELERATOR_QAT", "1"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_GPU": "1"}, {"resources:CUSTOM_ACCELERATOR_QAT": "1"}}, nil},
		{"function by trait", []string{"resources:CUSTOM_ACCELERATOR_FPGA", "1", "trait:CUSTOM_PROGRAMMABLE", "required", "function:" + gzipTrait, "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_PROGRAMMABLE": "required", "accel:function_id": gzipUUID}}, nil},
		{"function by name", []string{"resources:CUSTOM_ACCELERATOR_FPGA", "1", "function_name:gzip v1", "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "accel:function_name": "gzip v1"}}, nil},
		{"bitstream", []string{"resources:CUSTOM_ACCELERATOR_FPGA", "1", "bitstream:" + computeNode, "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "accel:bitstream_id": computeNode}}, nil},
		{"bitstream by name", []string{"resources:CUSTOM_ACCELERATOR_FPGA", "1", "bitstream_name:x", "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "accel:bitstream_name": "x"}}, nil},
		{"memory of the only device", []string{"resources:CUSTOM_ACCELERATOR_FPGA", "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR", "4096"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}}, nil},
		{"two types of device", []string{"resources:CUSTOM_ACCELERATOR_GPU", "1", "resources:CUSTOM_ACCELERATOR_FPGA", "1", "trait:CUSTOM_FPGA_INTEL", "required", "trait:CUSTOM_GPU_AMD", "required", "function_name:gzip", "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required", "accel:function_name": "gzip"},
				{"resources:CUSTOM_ACCELERATOR_GPU": "1", "trait:CUSTOM_GPU_AMD": "required"}}, nil},
		{"numbered groups in order", []string{"resources10:CUSTOM_ACCELERATOR_GPU", "1", "resources2:CUSTOM_ACCELERATOR_FPGA", "1", "traits2:CUSTOM_FPGA_INTEL", "required", "trait2:CUSTOM_X", "forbidden",
			"others2:function:" + gzipTrait, "required", "resources3:CUSTOM_MINE", "1", "trait3:CUSTOM_Y", "required", "group_policy", "none"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required", "trait:CUSTOM_X": "forbidden", "accel:function_id": gzipUUID},
				{"resources:CUSTOM_ACCELERATOR_GPU": "1"}},
			map[string]string{"resources3:CUSTOM_MINE": "1", "trait3:CUSTOM_Y": "required", "group_policy": "none"}},
		{"as the specification prints it", []string{"resources1: CUSTOM_ACCELERATOR_FPGA", "1", "traits1: CUSTOM_FPGA_INTEL_ARRIA10", "required", "others1: function: " + gzipTrait, "required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_FPGA_INTEL_ARRIA10": "required", "accel:function_id": gzipUUID}}, nil},
		{"with the names in the values", []string{"resources1", "CUSTOM_ACCELERATOR_FPGA=1", "traits1", "CUSTOM_FPGA_INTEL=required", "others1", "function_name:gzip=required"},
			[]map[string]string{{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required", "accel:function_name": "gzip"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := convert(t, false, tt.specs...)
			if diff := cmp.Diff(tt.groups, got.Profile.Groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			left := map[string]string{requestspec.DeviceProfileKey: got.Profile.Name}
			for key, value := range tt.left {
				left[key] = value
			}
			if diff := cmp.Diff(left, got.Flavor.ExtraSpecs); diff != "" {
				t.Errorf("extra specs (-want +got):\n%s", diff)
			}
			if len(got.Moved)+len(tt.left) != len(tt.specs)/2 {
				t.Errorf("moved %v", got.Moved)
			}
			build(t, got.Flavor, &got.Profile, requestspec.Options{})
		})
	}
}

func TestRockyShippedClasses(t *testing.T) {
	got := convert(t, true, "resources1:CUSTOM_ACCELERATOR_FPGA", "1", "resources1:CUSTOM_ACCELERATOR_MEMORY_DDR", "1",
		"resources2:CUSTOM_ACCELERATOR_GPU", "1", "resources3:CUSTOM_ACCELERATOR_QAT", "1", "resources4:CUSTOM_ACCELERATOR_HPTS", "1")
	want := []map[string]string{{"resources:FPGA": "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "1"}, {"resources:PGPU": "1"}, {"resources:CUSTOM_QAT": "1"}, {"resources:CUSTOM_ACCELERATOR_HPTS": "1"}}
	if diff := cmp.Diff(want, got.Profile.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestOtherFlavorsAreNotConverted(t *testing.T) {
	for _, f := range []requestspec.Flavor{flavor(), flavor("resources:VGPU", "1"), flavor("trait:CUSTOM_FPGA_INTEL", "required"),
		flavor("resources1:", "CUSTOM_ACCELERATOR_FPGA=1"), // behind a colon, the name is in the key
		flavor(requestspec.DeviceProfileKey, "dp", "resources:CUSTOM_ACCELERATOR_FPGA", "1", "function:x", "bad")} {
		if r, ok, err := requestspec.FromRocky(f, false); ok || err != nil || r.Profile.Name != "" {
			t.Errorf("%v: %+v, %t, %v", f.ExtraSpecs, r, ok, err)
		}
	}
}

func TestTheNameOfARockyProfileDependsOnItsContent(t *testing.T) {
	a := convert(t, false, "resources:CUSTOM_ACCELERATOR_FPGA", "1")
	again := convert(t, false, "resources:CUSTOM_ACCELERATOR_FPGA", "1", "hw:x", "y")
	other := convert(t, false, "resources:CUSTOM_ACCELERATOR_FPGA", "2")
	if a.Profile.Name != again.Profile.Name || a.Profile.Name == other.Profile.Name || !strings.HasPrefix(a.Profile.Name, "rocky-m1-") {
		t.Errorf("names %q, %q, %q", a.Profile.Name, again.Profile.Name, other.Profile.Name)
	}
	odd := flavor("resources:CUSTOM_ACCELERATOR_FPGA", "1")
	odd.Name = strings.Repeat("m.ü 1", 100)
	r, _, err := requestspec.FromRocky(odd, false)
	if err != nil || len(r.Profile.Name) > 255 {
		t.Errorf("name %q, %v", r.Profile.Name, err)
	}
}

func TestBadRockyFlavorsAreRefused(t *testing.T) {
	fpga := []string{"resources:CUSTOM_ACCELERATOR_FPGA", "1"}
	tests := []struct {
		name  string
		specs []string
		text  string
	}{
		{"function without a device", []string{"function:" + gzipTrait, "required"}, `"function:` + gzipTrait + `"="required"`},
		{"others of a group without a device", append([]string{"resources2:CUSTOM_X", "1", "others2:function_name:x", "required"}, fpga...), `"others2:function_name:x"="required": there is no resources2`},
		{"function without UUID", append([]string{"function:CUSTOM_FPGA_FUNCTION_INTEL_GZIP", "required"}, fpga...), "ends in the UUID"},
		{"function of another value", append([]string{"function_name:x", "preferred"}, fpga...), `"function_name:x"="preferred": want the value "required"`},
		{"two of them", append([]string{"function_name:x", "required", "bitstream:y", "required"}, fpga...), "only one function or bitstream per group"},
		{"amount zero", []string{"resources:CUSTOM_ACCELERATOR_FPGA", "0"}, "not a positive integer"},
		{"amount zero of a GPU", []string{"resources:CUSTOM_ACCELERATOR_GPU", "0"}, "the amount is not a positive integer"},
		{"amount that is no number", []string{"resources:CUSTOM_ACCELERATOR_GPU", "x"}, "the amount is not a positive integer"},
		{"negative amount", []string{"resources:CUSTOM_ACCELERATOR_GPU", "-1"}, "the amount is not a positive integer"},
		{"amount too large", []string{"resources:CUSTOM_ACCELERATOR_FPGA", "2147483648"}, "larger than"},
		{"class of the host in the group", []string{"resources1:CUSTOM_ACCELERATOR_FPGA", "1", "resources1:VCPU", "1"}, `"resources1:VCPU"="1": a group of a device profile cannot request VCPU`},
		{"trait of the host in the group", []string{"resources1:CUSTOM_ACCELERATOR_FPGA", "1", "trait1:HW_A", "required"}, `"trait1:HW_A"="required": a device profile only takes`},
		{"trait of another value", []string{"resources1:CUSTOM_ACCELERATOR_FPGA", "1", "trait1:CUSTOM_A", "x"}, `want the value "required" or "forbidden"`},
		{"the same twice", []string{"resources1:CUSTOM_ACCELERATOR_FPGA", "1", "resources1: CUSTOM_ACCELERATOR_FPGA", "2"}, "has the same meaning"},
		{"which device the memory belongs", []string{"resources:CUSTOM_ACCELERATOR_GPU", "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR", "1", "resources:CUSTOM_ACCELERATOR_FPGA", "1"}, "which device the memory belongs"},
		{"function, unknown device", []string{"resources:CUSTOM_ACCELERATOR_GPU", "1", "resources:CUSTOM_ACCELERATOR_HPTS", "1", "function_name:x", "required"}, "not clear to which of GPU, HPTS"},
		{"class without a name", []string{"resources1:CUSTOM_ACCELERATOR_FPGA", "1", "resources1", "=1"}, `"resources1"="=1": `},
		{"illegal class", []string{"resources:CUSTOM_ACCELERATOR_f", "1"}, "unknown resource class"},
		{"memory alone", []string{"resources1:CUSTOM_ACCELERATOR_MEMORY_DDR", "1"}, "but no device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, ok, err := requestspec.FromRocky(flavor(tt.specs...), false)
			if ok || !errors.Is(err, requestspec.ErrInvalidFlavor) && !errors.Is(err, requestspec.ErrInvalidProfile) ||
				!strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), `"m1"`) {
				t.Errorf("got %t, %v, want an error with %q", ok, err, tt.text)
			}
		})
	}
}

func TestRockyWarnings(t *testing.T) {
	got := convert(t, false, "resources:CUSTOM_ACCELERATOR_HPTS", "1", "trait:CUSTOM_HPTS-ZTE", "required", "trait:CUSTOM_RACK", "required", "others1:colour:red", "x")
	want := []requestspec.Warning{
		{Key: "others1:colour:red", Value: "x", Message: "This extra spec is ignored; othersN takes function:, function_name:, bitstream: or bitstream_name:."},
		{Key: "trait:CUSTOM_HPTS-ZTE", Value: "required", Message: "This is not a valid trait name; CUSTOM_HPTS_ZTE is used."},
		{Key: "trait:CUSTOM_RACK", Value: "required", Message: "The trait remains with the flavor, as one of the host. For a trait of the device, number the group: trait1:CUSTOM_RACK."},
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// FuzzRocky checks that each converted flavor can be requested and that its profile is a valid file.
func FuzzRocky(f *testing.F) {
	f.Add("resources:CUSTOM_ACCELERATOR_FPGA=1\nfunction:" + gzipTrait + "=required")
	f.Add("resources1:CUSTOM_ACCELERATOR_FPGA=1\ntraits1:CUSTOM_A=required\nothers1:function_name:x=required")
	f.Add("resources1=CUSTOM_ACCELERATOR_FPGA=1\nresources: =\nothers1:=")
	f.Fuzz(func(t *testing.T, text string) {
		fl := flavor()
		for line := range strings.Lines(text) {
			at := strings.LastIndexByte(strings.TrimSuffix(line, "\n"), '=')
			if at < 0 {
				continue
			}
			fl.ExtraSpecs[line[:at]] = strings.TrimSuffix(line[at+1:], "\n")
		}
		before := fmt.Sprint(fl)
		r, ok, err := requestspec.FromRocky(fl, false)
		if fmt.Sprint(fl) != before {
			t.Fatalf("the flavor changed: %v, was %s", fl, before)
		}
		if err != nil {
			if ok || !errors.Is(err, requestspec.ErrInvalidFlavor) && !errors.Is(err, requestspec.ErrInvalidProfile) {
				t.Fatalf("error of no known kind: %v", err)
			}
			return
		}
		if !ok {
			return
		}
		if _, err := requestspec.New(r.Flavor, &r.Profile, requestspec.Options{}); errors.Is(err, requestspec.ErrInvalidProfile) {
			t.Fatalf("converted to a bad profile: %v", err)
		}
		if _, err := r.Commands(); err != nil {
			t.Fatal(err)
		}
	})
}

func ExampleFromRocky() {
	flavor := requestspec.Flavor{Name: "gzip", VCPUs: 2, MemoryMB: 2048, ExtraSpecs: map[string]string{
		"resources:CUSTOM_ACCELERATOR_FPGA":                                        "1",
		"trait:CUSTOM_PROGRAMMABLE":                                                "required",
		"function:CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B": "required",
	}}
	rocky, ok, err := requestspec.FromRocky(flavor, false)
	if err != nil || !ok {
		fmt.Println(ok, err)
		return
	}
	commands, _ := rocky.Commands()
	fmt.Println(commands[0])
	fmt.Println(commands[1])
	// Output:
	// openstack accelerator device profile create rocky-gzip-93ec490c '[{"accel:function_id":"d8424dc4-a4a3-c413-f89e-433683f9040b","resources:CUSTOM_ACCELERATOR_FPGA":"1","trait:CUSTOM_PROGRAMMABLE":"required"}]'
	// openstack flavor set gzip --property accel:device_profile=rocky-gzip-93ec490c
}

func ExampleLint() {
	flavor := requestspec.Flavor{Name: "odd", VCPUs: 1, ExtraSpecs: map[string]string{
		"accel:device_profile_name": "gpu",
		"traits:CUSTOM_A":           "required",
	}}
	for _, finding := range requestspec.Lint(&flavor, nil) {
		fmt.Println(finding)
	}
	// Output:
	// warning: flavor "odd" "accel:device_profile_name"="gpu": this key is ignored; use accel:device_profile
	// error: flavor "odd" "traits:CUSTOM_A"="required": the key is a trait of a group named "s", which has no resources; Placement refuses the query; use trait:CUSTOM_A
}

func TestTheDescriptionOfAConvertedProfileFits(t *testing.T) {
	for length, described := range map[int]bool{255: true, 256: false} {
		f := flavor("resources:CUSTOM_ACCELERATOR_GPU", "1")
		f.Name = strings.Repeat("n", length)
		r, ok, err := requestspec.FromRocky(f, false)
		if err != nil || !ok || (r.Profile.Description != "") != described {
			t.Errorf("a flavor's name of %d characters: description %q, %v", length, r.Profile.Description, err)
		}
	}
}

// TestARequiredFunctionIsNotRewritten: the trait stays in the flavor, with a warning where
// providers of the class have another trait.
func TestARequiredFunctionIsNotRewritten(t *testing.T) {
	t.Parallel()
	for shipped, want := range map[bool]string{true: "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B", false: ""} {
		r := convert(t, shipped, "resources:CUSTOM_ACCELERATOR_FPGA", "1", "trait:CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B", "required")
		if got := r.Profile.Groups[0]["trait:CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B"]; got != "required" {
			t.Errorf("shipped %t: groups %v", shipped, r.Profile.Groups)
		}
		warned := len(r.Warnings) == 1 && strings.Contains(r.Warnings[0].Message, want)
		if warned != shipped {
			t.Errorf("shipped %t: warnings %v", shipped, r.Warnings)
		}
	}
}
