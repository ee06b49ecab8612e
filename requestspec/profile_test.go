package requestspec_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestProfileGroupsBecomeRequestGroupsInOrder(t *testing.T) {
	groups, err := requestspec.ParseProfile("dp", []map[string]string{
		{"resources:FPGA": "2", "trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden", "accel:bitstream_id": "x"},
		{"resources7:VGPU": " 1 ", "resources: CUSTOM_NIC ": "+3", "trait9:OWNER_CYBORG": "required"},
		{"resources:PGPU": "1", "group_policy": "isolate", "member_of": "x", "resource:FPGA": "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []requestspec.Group{
		{RequesterID: "device_profile_0", UseSameProvider: true, Resources: map[string]int{"FPGA": 2}, Required: []string{"CUSTOM_A"}, Forbidden: []string{"CUSTOM_B"}},
		{RequesterID: "device_profile_1", UseSameProvider: true, Resources: map[string]int{"VGPU": 1, "CUSTOM_NIC": 3}, Required: []string{"OWNER_CYBORG"}},
		{RequesterID: "device_profile_2", UseSameProvider: true, Resources: map[string]int{"PGPU": 1}},
	}
	if diff := cmp.Diff(want, groups, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// badGroups are groups that Nova would take and fail with later, or refuse
// with less to go by.
var badGroups = []struct {
	name    string
	group   map[string]string
	key     string
	problem string
}{
	{"empty", map[string]string{}, "", "is empty"},
	{"nil", nil, "", "is empty"},
	{"only accel keys", map[string]string{"accel:bitstream_id": "x"}, "", "is empty"},
	{"misspelt prefix", map[string]string{"resource:FPGA": "1"}, "", "is empty"},
	{"traits alone", map[string]string{"trait:CUSTOM_A": "required"}, "", "has traits but no resources"},
	{"zero", map[string]string{"resources:FPGA": "0"}, "resources:FPGA", `amount "0" is not a positive integer`},
	{"zero beside another", map[string]string{"resources:FPGA": "0", "resources:VGPU": "1"}, "resources:FPGA", `amount "0"`},
	{"negative", map[string]string{"resources:FPGA": "-1"}, "resources:FPGA", `amount "-1" is not a positive integer`},
	{"fraction", map[string]string{"resources:FPGA": "1.0"}, "resources:FPGA", `amount "1.0"`},
	{"hexadecimal", map[string]string{"resources:FPGA": "0x1"}, "resources:FPGA", `amount "0x1"`},
	{"underscore", map[string]string{"resources:FPGA": "1_0"}, "resources:FPGA", `amount "1_0"`},
	{"word", map[string]string{"resources:FPGA": "many"}, "resources:FPGA", `amount "many"`},
	{"no amount", map[string]string{"resources:FPGA": ""}, "resources:FPGA", `amount ""`},
	{"beyond placement", map[string]string{"resources:FPGA": "2147483648"}, "resources:FPGA", "larger than 2147483647"},
	{"beyond 64 bits", map[string]string{"resources:FPGA": "9223372036854775808"}, "resources:FPGA", "larger than 2147483647"},
	{"sum beyond placement", map[string]string{"resources:FPGA": "2147483647", "resources:VGPU": "1"}, "", "requests 2147483648 accelerators"},
	{"unknown class", map[string]string{"resources:GPU": "1"}, "resources:GPU", `unknown resource class "GPU"`},
	{"class without name", map[string]string{"resources:": "1"}, "resources:", `unknown resource class ""`},
	{"bare custom prefix", map[string]string{"resources:CUSTOM_": "1"}, "resources:CUSTOM_", "unknown resource class"},
	{"small letters in a class", map[string]string{"resources:CUSTOM_gpu": "1"}, "resources:CUSTOM_gpu", "unknown resource class"},
	{"colon in a class", map[string]string{"resources:CUSTOM_A:B": "1"}, "resources:CUSTOM_A:B", "unknown resource class"},
	{"long class", map[string]string{"resources:CUSTOM_" + strings.Repeat("X", 249): "1"}, "resources:CUSTOM_" + strings.Repeat("X", 249), "unknown resource class"},
	{"trait value", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_A": "preferred"}, "trait:CUSTOM_A", `trait value "preferred"`},
	{"capital trait value", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_A": "Required"}, "trait:CUSTOM_A", `trait value "Required"`},
	{"trait without name", map[string]string{"resources:FPGA": "1", "trait:": "required"}, "trait:", "is not a trait name"},
	{"hyphen in a trait", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_A-B": "required"}, "trait:CUSTOM_A-B", "is not a trait name"},
	{"comma in a trait", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_A,CUSTOM_B": "required"}, "trait:CUSTOM_A,CUSTOM_B", "is not a trait name"},
	{"class twice", map[string]string{"resources:FPGA": "1", "resources1:FPGA": "2"}, "resources:FPGA", `has the same meaning as key "resources1:FPGA"`},
	{"class twice by blanks", map[string]string{"resources:FPGA": "1", "resources: FPGA": "2"}, "resources:FPGA", `has the same meaning as key "resources: FPGA"`},
	{"trait twice", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_A": "required", "traits:CUSTOM_A": "forbidden"}, "traits:CUSTOM_A", `has the same meaning as key "trait:CUSTOM_A"`},
	{"xilinx without FPGA", map[string]string{"resources:CUSTOM_NIC": "1", "trait:CUSTOM_FPGA_XILINX": "required"}, "", "has no resources:FPGA"},
}

func TestBadProfileGroupsAreRefusedByName(t *testing.T) {
	good := map[string]string{"resources:FPGA": "1"}
	for _, tt := range badGroups {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			groups, err := requestspec.ParseProfile("dp", []map[string]string{good, tt.group})
			if !errors.Is(err, requestspec.ErrInvalidProfile) {
				t.Fatalf("groups %v, error %v; want ErrInvalidProfile", groups, err)
			}
			part := `requestspec: invalid device profile "dp" group 1`
			if tt.key != "" {
				part += " key " + strconv.Quote(tt.key)
			}
			if problem, ok := strings.CutPrefix(err.Error(), part+": "); !ok || !strings.Contains(problem, tt.problem) {
				t.Errorf("error %v, want %s and a problem with %q", err, part, tt.problem)
			}
			if n, err := requestspec.ARQCount(tt.group); !errors.Is(err, requestspec.ErrInvalidProfile) {
				t.Errorf("ARQCount = %d, %v; want the same refusal", n, err)
			}
		})
	}
}

func TestProfileWithoutGroupsIsRefused(t *testing.T) {
	_, err := requestspec.ParseProfile("dp", nil)
	const want = `requestspec: invalid device profile "dp": no groups`
	if !errors.Is(err, requestspec.ErrInvalidProfile) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestMemoryNeedsADeviceInTheProfile(t *testing.T) {
	memory := map[string]string{"resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}
	_, err := requestspec.ParseProfile("dp", []map[string]string{memory, memory})
	if !errors.Is(err, requestspec.ErrInvalidProfile) || !strings.Contains(err.Error(), "no device") {
		t.Errorf("memory alone: error %v", err)
	}
	groups, err := requestspec.ParseProfile("dp", []map[string]string{memory, {"resources:FPGA": "1"}})
	if err != nil || len(groups) != 2 { // the memory may belong to the whole card
		t.Errorf("memory beside a device: %v, %v", groups, err)
	}
}

func TestARQCountIsWhatCyborgMakes(t *testing.T) {
	tests := []struct {
		name  string
		group map[string]string
		want  int
	}{
		{"one", map[string]string{"resources:PGPU": "1"}, 1},
		{"several of a class", map[string]string{"resources:FPGA": "3"}, 3},
		{"several classes", map[string]string{"resources:FPGA": "2", "resources:VGPU": "1", "accel:x": "9"}, 3},
		{"memory is no device", map[string]string{"resources:FPGA": "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}, 1},
		{"nothing but memory", map[string]string{"resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096"}, 0},
		{"xilinx", map[string]string{"resources:FPGA": "2", "trait:CUSTOM_FPGA_XILINX": "required"}, 4},
		{"xilinx of the specifications' class", map[string]string{"resources:CUSTOM_ACCELERATOR_FPGA": "2", "trait:CUSTOM_FPGA_XILINX": "required"}, 4},
		{"xilinx counts FPGA only", map[string]string{"resources:FPGA": "1", "resources:CUSTOM_NIC": "5", "trait:CUSTOM_FPGA_XILINX": "required"}, 2},
		{"xilinx forbidden", map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "forbidden"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := requestspec.ARQCount(tt.group)
			if err != nil || got != tt.want {
				t.Errorf("ARQCount = %d, %v; want %d", got, err, tt.want)
			}
		})
	}
}
