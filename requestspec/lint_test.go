package requestspec_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"pgregory.net/rapid"
)

func lint(flavor requestspec.Flavor, profile *requestspec.Profile) []requestspec.Finding {
	return requestspec.Lint(&flavor, profile)
}

func hasErrors(list []requestspec.Finding) bool {
	return slices.ContainsFunc(list, func(f requestspec.Finding) bool { return f.Severity == requestspec.SeverityError })
}

// one returns the finding of a key.
func one(t *testing.T, list []requestspec.Finding, key string) requestspec.Finding {
	t.Helper()
	for _, f := range list {
		if f.Key == key {
			return f
		}
	}
	t.Fatalf("nothing is found of key %q: %v", key, list)
	return requestspec.Finding{}
}

// The id of a function as traits contain it.
const gzipDashed, gzipBare = "D8424DC4_A4A3_C413_F89E_433683F9040B", "D8424DC4A4A3C413F89E433683F9040B"

// TestTheFormOfAnIDIsNoFindingWhereItIsReported: the forms that the drivers report, and ids that are no UUIDs.
func TestTheFormOfAnIDIsNoFindingWhereItIsReported(t *testing.T) {
	t.Parallel()
	for trait, class := range map[string]string{
		"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + gzipBare: "FPGA", "CUSTOM_FPGA_REGION_INTEL_" + gzipBare: "FPGA", "CUSTOM_FPGA_FUNCTION_ID_INTEL_GZIP_1": "FPGA",
		"CUSTOM_FPGA_FUNCTION_INTEL_" + gzipDashed: "CUSTOM_ACCELERATOR_FPGA", "CUSTOM_FPGA_REGION_INTEL_" + gzipDashed: "CUSTOM_ACCELERATOR_FPGA",
		"CUSTOM_FPGA_INTEL_FUNCTION_" + gzipDashed: "CUSTOM_ACCELERATOR_FPGA", "CUSTOM_FPGA_INTEL_REGION_" + gzipDashed: "CUSTOM_ACCELERATOR_FPGA",
		"CUSTOM_OTHER_" + gzipDashed: "FPGA",
	} {
		list := requestspec.Lint(nil, &requestspec.Profile{Name: "dp", Groups: []map[string]string{{"resources:" + class: "1", "trait:" + trait: "required"}}})
		if len(list) != 0 {
			t.Errorf("%s of class %s: %v", trait, class, list)
		}
	}
}

func TestLintOfFlavorKeys(t *testing.T) {
	long := strings.Repeat("x", 65)
	tests := []struct {
		key, value string
		severity   requestspec.Severity
		problem    string // part
		suggestion string
	}{
		{"accel:device_profile_name", "dp", "warning", "ignored", "use accel:device_profile"},
		{"accel:device-profile", "dp", "warning", "ignored", "use accel:device_profile"},
		{"accel:device_profiles", "dp", "warning", "ignored", "use accel:device_profile"},
		{"Accel:Device_Profile", "dp", "warning", "ignored", "use accel:device_profile"},
		{"accel:devise_profile", "dp", "warning", "ignored", "use accel:device_profile"},
		{"accel:devicce_proffile", "dp", "warning", "ignored", "use accel:device_profile"},
		{"accel:deviccce_proffile", "dp", "warning", "Cyborg does not read flavors", "put it into a group"}, // too different
		{"accel - device - profile", "dp", "warning", "ignored", "use accel:device_profile"},
		{"accel:device_profile_000", "dp", "warning", "Cyborg does not read flavors", "put it into a group"},
		{"accel:device_profile_999", "dp", "warning", "Cyborg does not read flavors", "put it into a group"},
		{"accel:device_profile_zzz", "dp", "warning", "Cyborg does not read flavors", "put it into a group"},
		{"accel_device_profile", "dp", "warning", "ignored", "use accel:device_profile"},
		{" accel:device_profile", "dp", "warning", "ignored", "use accel:device_profile"},
		{"device_profile", "dp", "warning", "ignored", "use accel:device_profile"},
		{"accel:bitstream_id", "x", "warning", "Cyborg does not read flavors", "put it into a group of the device profile"},
		{"function:CUSTOM_FPGA_FUNCTION_X", "required", "warning", "Rocky", "accel:function_id"},
		{"function_name:gzip", "required", "warning", "Rocky", "accel:function_id"},
		{"others1:function:x", "required", "warning", "Rocky", "accel:function_id"},
		{"group-policy", "none", "warning", "ignored", "use group_policy"},
		{"group_policy", "Isolate", "error", "invalid policy", "use none or isolate"},
		{"traits:CUSTOM_A", "required", "error", `named "s"`, "use trait:CUSTOM_A"},
		{"traits12:CUSTOM_A", "required", "error", `named "s12"`, "use trait12:CUSTOM_A"},
		{"resources_:VGPU", "1", "warning", `named "_"`, "use resources:VGPU"},
		{"resource:VGPU", "1", "warning", "ignored", "use resources:VGPU"},
		{"Resources:VGPU", "1", "warning", "ignored", "use resources:VGPU"},
		{"resources 1:VGPU", "1", "warning", "ignored", "use resources1:VGPU"},
		{"resorces2:VGPU", "1", "warning", "ignored", "use resources2:VGPU"},
		{" trait:CUSTOM_A", "required", "warning", "ignored", "use trait:CUSTOM_A"},
		{"resources" + long + ":VGPU", "1", "warning", "so long a suffix", "at most 64"},
		{"resources " + long[2:] + ":VGPU", "1", "warning", "ignored", "with a suffix of letters"}, // not too long
		{"resources1", "VGPU=1", "warning", "without a colon", "resources<suffix>:<class>"},
		{"member_of1:x", "y", "warning", "cannot set", "remove it"},
		{"in_tree:x", "y", "warning", "cannot set", "remove it"},
		{"same_subtree:x", "y", "warning", "cannot set", "remove it"},
		{"root_required:x", "y", "warning", "cannot set", "remove it"},
		{"resourcesdevice_profile_0:VGPU", "1", "error", "a group of the device profile has the same name", "another suffix"},
		{"resources:GPU", "1", "error", `unknown resource class "GPU"`, "use resources:PGPU"},
		{"resources:vgpu", "1", "error", "unknown", "use resources:VGPU"},
		{"resources:MEMORYMB", "1", "error", "unknown", "use resources:MEMORY_MB"},
		{"resources:XCPU", "1", "error", "unknown", "use resources:PCPU"},                                            // the first of two
		{"resources:DIXXGB", "1", "error", "unknown", "use resources:DISK_GB"},                                       // a third may differ
		{"resources:XPGX", "1", "error", "unknown", "use a standard class, or one that starts with CUSTOM_"},         // but no half
		{"resources:SRIOV_NEXXXX", "1", "error", "unknown", "use a standard class, or one that starts with CUSTOM_"}, // and no three letters
		{"resources:FOO", "1", "error", "unknown", "use a standard class, or one that starts with CUSTOM_"},
		{"resources:CUSTOM_a-b", "1", "error", "not a valid resource class", "use resources:CUSTOM_A_B"},
		{"resources:VGPU", "one", "error", "not a nonnegative integer", "use a whole number"},
		{"resources:VGPU", "-1", "error", "not a nonnegative integer", "use a whole number"},
		{"resources:VGPU", "2147483648", "error", "larger than", "use a whole number"},
		{"resources:FPGA", "1", "warning", "does not attach it", "device profile"},
		{"resources7:PGPU", "1", "warning", "does not attach it", "device profile"},
		{"resources:CUSTOM_PCI", "1", "warning", "does not attach it", "device profile"},
		{"resources:VGPU", "1", "warning", "may claim a vGPU of Cyborg's", "add trait:OWNER_CYBORG=forbidden"},
		{"resources_x:VGPU", "1", "warning", "may claim a vGPU of Cyborg's", "add trait_x:OWNER_CYBORG=forbidden"},
		{"resources:CUSTOM_ACCELERATOR_FPGA", "1", "warning", "requests none from Cyborg", "cysim lint --rocky"},
		{"trait:CUSTOM_HPTS-ZTE", "required", "error", "not a valid trait name", "use trait:CUSTOM_HPTS_ZTE"},
		{"trait:ü", "required", "error", "not a valid trait name", "use capitals"},
		{"trait:CUSTOM_A", "preferred", "error", "skips a trait", "use required or forbidden"},
		{"trait:CUSTOM_A", "require", "error", "skips a trait", "use required"},
		{"accel:device_profile", "", "warning", "no accelerators", "remove the key"},
		{"accel:device_profile", " dp", "error", "spaces", "use dp"},
		{"accel:device_profile", "a,b", "error", "exactly one", "one profile"},
		{"accel:device_profile", "a.b", "error", "a device profile cannot have", "letters"},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			f := one(t, lint(flavor(tt.key, tt.value), nil), tt.key)
			if f.Severity != tt.severity || f.Value != tt.value || f.Subject != `flavor "m1"` ||
				!strings.Contains(f.Problem, tt.problem) || !strings.Contains(f.Suggestion, tt.suggestion) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

// A finding is one line, even if a key or value that it quotes has line breaks.
func TestFindingIsOneLine(t *testing.T) {
	t.Parallel()
	const foreign = "X\ntouch pwned #\r\x1b[2J\u2028"
	for _, key := range []string{
		"resource:", "Resources :", "resources_:", "resources:", "resources:CUSTOM_", "traits:", "traits:CUSTOM_", "trait1:CUSTOM_F", "trait_:CUSTOM_", "trait:",
		"trait:CUSTOM_FPGA_FUNCTION_INTEL_", "accel:", "accel:device_profile", "others1:", "function:", "resources", "", "member_of",
	} {
		for value, entry := range map[string]string{"required": key + foreign, "x" + foreign: key, " " + foreign + " ": requestspec.DeviceProfileKey} {
			list := lint(flavor(entry, value), nil)
			list = append(list, requestspec.Lint(nil, &requestspec.Profile{Name: "p" + foreign, Groups: []map[string]string{{entry: value}}})...)
			for _, f := range list {
				if text := f.String(); strings.ContainsAny(text, "\n\r\x1b\u2028") {
					t.Errorf("%q=%q: %q", entry, value, text)
				}
			}
		}
	}
}

func TestLintAcceptsGoodFlavors(t *testing.T) {
	for _, f := range []requestspec.Flavor{
		flavor(), flavor("hw:cpu_policy", "dedicated", "os:secure_boot", "required", "quota:cpu_shares", "1", "hide_hypervisor_id", "true"),
		flavor("resources:VGPU", "1", "trait:HW_CPU_X86_AVX", "required", "trait:OWNER_CYBORG", "forbidden", "resources:VCPU", "0"),
		flavor("resources1:VGPU", "1", "trait1:OWNER_NOVA", "required", "trait1:CUSTOM_A", "forbidden", "resources2:CUSTOM_A", "1", "group_policy", "isolate"),
		flavor("resources1:VGPU", "0", "resources2:VGPU", "1", "trait2:OWNER_NOVA", "required", "group_policy", "none"),
		flavor("resources_q:CUSTOM_QAT", "1", "trait_q:OWNER_NOVA", "required"),
		flavor("resources_net:SRIOV_NET_VF", "1", requestspec.DeviceProfileKey, "dp", "pci_passthrough:alias", "a:1"),
	} {
		if list := lint(f, nil); len(list) > 0 {
			t.Errorf("%v: %v", f.ExtraSpecs, list)
		}
	}
}

// A trait does not exclude the devices of Cyborg's where the compute node or only few drivers have it.
func TestLintOfTraitsThatDoNotExcludeCyborg(t *testing.T) {
	t.Parallel()
	for _, f := range []requestspec.Flavor{
		flavor("resources:VGPU", "1", "trait:OWNER_NOVA", "required"),
		flavor("resources:CUSTOM_QAT", "1", "trait:OWNER_CYBORG", "forbidden"),
		flavor("resources1:VGPU", "1", "trait:OWNER_CYBORG", "forbidden"),
		flavor("resources1:FPGA", "1", requestspec.DeviceProfileKey, "dp"),
		flavor("resources1:CUSTOM_ACCELERATOR_FPGA", "1", requestspec.DeviceProfileKey, "dp"),
	} {
		list := lint(f, nil)
		if len(list) != 1 || list[0].Severity != requestspec.SeverityWarning || !strings.Contains(list[0].Problem, "of Cyborg's") {
			t.Errorf("%v: %v", f.ExtraSpecs, list)
		}
	}
}

func TestLintOfGroupsThatPlacementRefuses(t *testing.T) {
	list := lint(flavor("trait1:CUSTOM_A", "required"), nil)
	if f := one(t, list, "trait1"); f.Severity != requestspec.SeverityError || f.Suggestion != "add resources1:<class>, or remove the suffix" {
		t.Errorf("group of traits: %+v", f)
	}
	list = lint(flavor("resources:CUSTOM_A", "1", "trait1:CUSTOM_A", "required", "trait1:CUSTOM_B", "forbidden"), nil)
	if f := one(t, list, "trait1"); f.Severity != requestspec.SeverityError || len(list) != 1 {
		t.Errorf("group of traits beside the unsuffixed group: %v", list)
	}
	list = lint(flavor("resources1:VGPU", "1", "resources2:VGPU", "1"), nil)
	if f := one(t, list, "group_policy"); f.Severity != requestspec.SeverityError || !strings.Contains(f.Problem, "2 groups") {
		t.Errorf("no policy: %+v", f)
	}
	list = lint(requestspec.Flavor{Name: "f", MemoryMB: -1}, nil)
	if f := one(t, list, ""); !strings.Contains(f.Problem, "ram: -1") {
		t.Errorf("size: %+v", f)
	}
}

func TestLintOfProfileGroups(t *testing.T) {
	tests := []struct {
		name       string
		group      map[string]string
		key        string
		severity   requestspec.Severity
		problem    string
		suggestion string
	}{
		{"empty", map[string]string{}, "", "error", "empty", "remove it"},
		{"traits alone", map[string]string{"trait:CUSTOM_A": "required"}, "", "error", "no resources", "add resources:"},
		{"accel alone", map[string]string{"accel:x": "y"}, "", "error", "no resources", "add resources:"},
		{"zero", map[string]string{"resources:PGPU": "0"}, "resources:PGPU", "error", "at least 1", "use 1"},
		{"negative", map[string]string{"resources:PGPU": "-1"}, "resources:PGPU", "error", "at least 1", "use 1"},
		{"class of the host", map[string]string{"resources:VCPU": "1"}, "resources:VCPU", "error", "refuses the resource class", "in the flavor"},
		{"GPU", map[string]string{"resources:GPU": "1"}, "resources:GPU", "error", "Placement has no resource class", "use resources:PGPU"},
		{"no similar class", map[string]string{"resources:FOO": "1"}, "resources:FOO", "error", "refuses the resource class", "use FPGA, VGPU, PGPU or a class that starts with CUSTOM_"},
		{"similar to GPU", map[string]string{"resources:GPX": "1"}, "resources:GPX", "error", "refuses the resource class", "use FPGA, VGPU, PGPU or a class that starts with CUSTOM_"},
		{"lower case", map[string]string{"resources:fpga": "1"}, "resources:fpga", "error", "refuses the resource class", "use resources:FPGA"},
		{"hyphen", map[string]string{"resources:CUSTOM_A-B": "1"}, "resources:CUSTOM_A-B", "error", "no resource class", "use resources:CUSTOM_A_B"},
		{"standard trait", map[string]string{"resources:PGPU": "1", "trait:HW_A": "required"}, "trait:HW_A", "error", "start with CUSTOM_", "custom trait"},
		{"owner", map[string]string{"resources:PGPU": "1", "trait:OWNER_CYBORG": "required"}, "trait:OWNER_CYBORG", "warning", "standard traits", "remove it"},
		{"trait value", map[string]string{"resources:PGPU": "1", "trait:CUSTOM_A": "forbiden"}, "trait:CUSTOM_A", "error", "refuses values", "use forbidden"},
		{"trait name", map[string]string{"resources:PGPU": "1", "trait:CUSTOM_a": "required"}, "trait:CUSTOM_a", "error", "not a valid trait name", "use trait:CUSTOM_A"},
		{"suffix", map[string]string{"resources1:PGPU": "1"}, "resources1:PGPU", "error", "no suffix", "use resources:PGPU"},
		{"traits", map[string]string{"resources:PGPU": "1", "traits:CUSTOM_A": "required"}, "traits:CUSTOM_A", "error", `refuses "traits:"`, "use trait:CUSTOM_A"},
		{"misspelt", map[string]string{"resources:PGPU": "1", "resource:FPGA": "1"}, "resource:FPGA", "error", "refuses keys", "use resources:FPGA"},
		{"foreign", map[string]string{"resources:PGPU": "1", "hw:x": "1"}, "hw:x", "error", "refuses keys", "remove it"},
		{"policy", map[string]string{"resources:PGPU": "1", "group_policy": "none"}, "group_policy", "error", "refuses keys", "use group_policy"},
		{"twice", map[string]string{"resources: PGPU": "1", "resources:PGPU": "2"}, "resources:PGPU", "error", `same meaning as "resources: PGPU"`, "remove one"},
		{"blanks", map[string]string{"resources: PGPU": "1"}, "resources: PGPU", "hint", "trims", "use resources:PGPU"},
		{"two classes", map[string]string{"resources:PGPU": "1", "resources:FPGA": "1"}, "resources:PGPU", "warning", "one class per provider", "a group for each"},
		{"two programs", map[string]string{"resources:FPGA": "1", "accel:function_id": "a", "accel:bitstream_id": "b"}, "accel:function_id", "error", "one bitstream or function per group", "keep one"},
		{"empty program", map[string]string{"resources:FPGA": "1", "accel:function_id": " "}, "accel:function_id", "error", "the value is empty", "remove"},
		{"program of another class", map[string]string{"resources:PGPU": "1", "accel:function_id": "a"}, "accel:function_id", "warning", "only devices of the class FPGA", "resources:FPGA"},
		{"program by name", map[string]string{"resources:FPGA": "1", "accel:function_name": "a", "trait:CUSTOM_PROGRAMMABLE": "required"}, "accel:function_name", "hint", "does not read names", "accel:function_id"},
		{"not kept off", map[string]string{"resources:FPGA": "1", "accel:function_id": "a"}, "accel:function_id", "hint", "must not be programmed", "CUSTOM_PROGRAMMABLE"},
		{"accel slip", map[string]string{"resources:FPGA": "1", "accel:bitstream-id": "a"}, "accel:bitstream-id", "warning", "ignored", "use accel:bitstream_id"},
		{"accel foreign", map[string]string{"resources:FPGA": "1", "accel:note": "a"}, "accel:note", "hint", "does not read it", "do not rely on it"},
		{"accel unread", map[string]string{"resources:FPGA": "1", "accel:video_ram": "1"}, "accel:video_ram", "hint", "does not read it", "do not rely on it"},
		{"xilinx", map[string]string{"resources:PGPU": "1", "trait:CUSTOM_FPGA_XILINX": "required"}, "trait:CUSTOM_FPGA_XILINX", "error", "resources:FPGA", "add resources:FPGA"},
		{"no key", map[string]string{"": "x", "resources:PGPU": "1"}, "", "error", `""="x" has no key`, "remove it"},
		{"function with underscores", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + gzipDashed: "required"},
			"trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + gzipDashed, "warning", "without separators", "use trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + gzipBare},
		{"Rocky function without", map[string]string{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_INTEL_" + gzipBare: "required"},
			"trait:CUSTOM_FPGA_FUNCTION_INTEL_" + gzipBare, "warning", "underscores", "use trait:CUSTOM_FPGA_FUNCTION_INTEL_" + gzipDashed},
		{"Rocky function of an agent", map[string]string{"resources:CUSTOM_ACCELERATOR_FPGA": "1", "trait:CUSTOM_FPGA_INTEL_FUNCTION_" + gzipBare: "forbidden"},
			"trait:CUSTOM_FPGA_INTEL_FUNCTION_" + gzipBare, "warning", "underscores", "use trait:CUSTOM_FPGA_INTEL_FUNCTION_" + gzipDashed},
		{"Rocky region of the class FPGA", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_REGION_INTEL_" + gzipDashed: "required"},
			"trait:CUSTOM_FPGA_REGION_INTEL_" + gzipDashed, "warning", "without separators", "use trait:CUSTOM_FPGA_REGION_INTEL_" + gzipBare},
		{"Rocky function of the class FPGA", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_INTEL_" + gzipDashed: "required"},
			"trait:CUSTOM_FPGA_FUNCTION_INTEL_" + gzipDashed, "warning", "class FPGA", "use trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + gzipBare},
		{"memory alone", map[string]string{"resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "1"}, "", "error", "but no device", "add resources:FPGA"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list := requestspec.Lint(nil, &requestspec.Profile{Name: "dp", Groups: []map[string]string{tt.group}})
			for _, f := range list {
				if f.Key == tt.key && f.Severity == tt.severity && strings.Contains(f.Problem, tt.problem) && strings.Contains(f.Suggestion, tt.suggestion) &&
					strings.HasPrefix(f.Subject, `device profile "dp"`) && (tt.key == "" || f.Value == tt.group[tt.key]) {
					return
				}
			}
			t.Errorf("not among %v", list)
		})
	}
}

func TestLintAcceptsGoodProfiles(t *testing.T) {
	for _, groups := range [][]map[string]string{
		{{"resources:PGPU": "1"}}, {{"resources:FPGA": "2", "trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden"}, {"resources:CUSTOM_GPU": "1"}},
		{{"resources:FPGA": "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}},
		{{"resources:FPGA": "1"}, {"resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}},
		{{"resources:FPGA": "1", "trait:CUSTOM_PROGRAMMABLE": "required", "accel:bitstream_id": "a"}},
	} {
		if list := requestspec.Lint(nil, &requestspec.Profile{Name: "dp", Groups: groups}); len(list) > 0 {
			t.Errorf("%v: %v", groups, list)
		}
	}
	// A group without a device is not said to be of the wrong class.
	noDevice := []map[string]string{{"accel:bitstream_id": "a", "trait:CUSTOM_PROGRAMMABLE": "required"}}
	if list := requestspec.Lint(nil, &requestspec.Profile{Name: "dp", Groups: noDevice}); len(list) != 1 || list[0].Suggestion != "add resources:<class>" {
		t.Errorf("no device: %v", list)
	}
	list := requestspec.Lint(nil, &requestspec.Profile{Name: "d p"})
	if len(list) != 2 || !hasErrors(list) || one(t, list, "name").Value != "d p" || one(t, list, "groups").Problem == "" {
		t.Errorf("bad name and no groups: %v", list)
	}
}

func TestLintOfFlavorAndProfileTogether(t *testing.T) {
	named := flavor(requestspec.DeviceProfileKey, "dp")
	if list := lint(named, profile(oneFPGA)); len(list) > 0 {
		t.Errorf("both good: %v", list)
	}
	if f := one(t, lint(flavor(), profile(oneFPGA)), requestspec.DeviceProfileKey); f.Suggestion != "set accel:device_profile=dp" {
		t.Errorf("not named: %+v", f)
	}
	other := flavor(requestspec.DeviceProfileKey, "other")
	if f := one(t, lint(other, profile(oneFPGA)), requestspec.DeviceProfileKey); f.Severity != requestspec.SeverityError || f.Value != "other" {
		t.Errorf("another one named: %+v", f)
	}
	// The zero group counts for the policy, and nothing else finds it.
	zero := flavor(requestspec.DeviceProfileKey, "dp", "resources1:VGPU", "0", "resources2:VGPU", "1")
	if f := one(t, lint(zero, profile(oneFPGA)), "group_policy"); f.Severity != requestspec.SeverityError {
		t.Errorf("policy: %+v", f)
	}
	// A warning of New that the linter has found already is not repeated.
	misspelt := flavor(requestspec.DeviceProfileKey, "dp", "resource:VGPU", "1")
	if list := lint(misspelt, profile(oneFPGA)); len(list) != 1 || list[0].Suggestion != "use resources:VGPU" {
		t.Errorf("misspelt: %v", list)
	}
	// The combination is checked after warnings, and not after errors.
	warned := flavor("resource:VGPU", "1")
	if list := lint(warned, profile(oneFPGA)); len(list) != 2 || list[1].Key != requestspec.DeviceProfileKey {
		t.Errorf("warned: %v", list)
	}
	wrong := flavor("group_policy", "x")
	if list := lint(wrong, profile(oneFPGA)); len(list) != 1 || list[0].Key != "group_policy" {
		t.Errorf("wrong: %v", list)
	}
	if list := lint(named, nil); len(list) > 0 {
		t.Errorf("profile not at hand: %v", list)
	}
}

// What the linter passes without an error, New takes, and Placement can be asked.
func TestLintedInputsCanBeRequested(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"resources:VGPU", "resources1:CUSTOM_A", "trait1:CUSTOM_A", "traits:CUSTOM_A", "group_policy", "resources_:FPGA",
			"trait:ü", "resources:CUSTOM_x", "accel:device-profile", "resourcesdevice_profile_0:VGPU", "resources2:VGPU"})
		value := rapid.SampledFrom([]string{"1", "0", "x", "required", "forbidden", "none"})
		f := flavor(requestspec.DeviceProfileKey, "dp")
		for range rapid.IntRange(0, 4).Draw(t, "specs") {
			f.ExtraSpecs[key.Draw(t, "key")] = value.Draw(t, "value")
		}
		groupKey := rapid.SampledFrom([]string{"resources:PGPU", "resources:FPGA", "trait:CUSTOM_A", "trait:CUSTOM_FPGA_XILINX", "accel:function_id", "resources1:FPGA",
			"resources:CUSTOM_ACCELERATOR_MEMORY_DDR"})
		groups := rapid.SliceOfN(rapid.MapOfN(groupKey, value, 0, 3), 0, 3).Draw(t, "groups")
		p := requestspec.Profile{Name: "dp", Groups: groups}
		if hasErrors(lint(f, &p)) {
			return
		}
		spec, err := requestspec.New(f, &p, requestspec.Options{})
		if err != nil {
			t.Fatalf("no error is found in %v and %v, and New says %v", f.ExtraSpecs, groups, err)
		}
		for _, g := range spec.Groups {
			if len(g.Resources) == 0 {
				t.Fatalf("no error is found in %v, and group %q asks for nothing", f.ExtraSpecs, g.RequesterID)
			}
		}
	})
}

// FuzzLint: nothing makes the linter panic, and every finding is whole.
func FuzzLint(f *testing.F) {
	f.Add("resources:VGPU", "1", []byte(`[{"resources:PGPU": "1"}]`))
	f.Add("traits:", "", []byte(`[{"traits:": "", "resources_:": "x"}]`))
	f.Add("s:\x00", "ü", []byte(`[{}, {"accel:": ""}, {"others1:function:": ""}]`))
	f.Add("resources99999999999999999999:X", "99999999999999999999", []byte(`[]`))
	f.Fuzz(func(t *testing.T, key, value string, data []byte) {
		var groups []map[string]string
		if json.Unmarshal(data, &groups) != nil {
			return
		}
		fl := flavor(key, value, requestspec.DeviceProfileKey, "dp")
		for _, finding := range lint(fl, profile(groups)) {
			if finding.Subject == "" || finding.Problem == "" || finding.Suggestion == "" || finding.Severity == "" || finding.Key == "" && finding.Value != "" {
				t.Fatalf("finding that says too little: %+v", finding)
			}
		}
	})
}
