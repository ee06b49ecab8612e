package requestspec_test

import (
	"net/url"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
)

const computeNode = "11111111-1111-4111-8111-111111111111"

var (
	oneFPGA   = []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}}
	twoGroups = []map[string]string{
		{"resources:FPGA": "2", "trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden", "accel:bitstream_id": "x"},
		{"resources:CUSTOM_GPU": "1"},
	}
)

// flavor returns the flavor of the golden strings with extra specs, given as key, value pairs.
func flavor(pairs ...string) requestspec.Flavor {
	f := requestspec.Flavor{Name: "m1", VCPUs: 2, MemoryMB: 2048, RootGB: 20, ExtraSpecs: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		f.ExtraSpecs[pairs[i]] = pairs[i+1]
	}
	return f
}

func profile(groups []map[string]string) *requestspec.Profile {
	return &requestspec.Profile{Name: "dp", Groups: groups}
}

// The strings were written by Nova itself.
func TestQueryEqualsNovasByteForByte(t *testing.T) {
	swapped := requestspec.Flavor{VCPUs: 1, MemoryMB: 512, RootGB: 10, EphemeralGB: 5, SwapMB: 1025}
	tests := []struct {
		name    string
		flavor  requestspec.Flavor
		profile *requestspec.Profile
		opts    requestspec.Options
		want    string
	}{
		{"one group", flavor(requestspec.DeviceProfileKey, "dp"), profile(oneFPGA), requestspec.Options{},
			"limit=1000&requireddevice_profile_0=CUSTOM_FAKE_DEVICE&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048%2CVCPU%3A2&resourcesdevice_profile_0=FPGA%3A1&root_required=COMPUTE_ACCELERATORS%2C%21COMPUTE_STATUS_DISABLED"},
		{"two groups without policy", flavor(requestspec.DeviceProfileKey, "dp"), profile(twoGroups), requestspec.Options{},
			"group_policy=none&limit=1000&requireddevice_profile_0=CUSTOM_A%2C%21CUSTOM_B&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048%2CVCPU%3A2&resourcesdevice_profile_0=FPGA%3A2&resourcesdevice_profile_1=CUSTOM_GPU%3A1&root_required=COMPUTE_ACCELERATORS%2C%21COMPUTE_STATUS_DISABLED"},
		{"two groups isolated", flavor(requestspec.DeviceProfileKey, "dp", "group_policy", "isolate"), profile(twoGroups), requestspec.Options{},
			"group_policy=isolate&limit=1000&requireddevice_profile_0=CUSTOM_A%2C%21CUSTOM_B&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048%2CVCPU%3A2&resourcesdevice_profile_0=FPGA%3A2&resourcesdevice_profile_1=CUSTOM_GPU%3A1&root_required=COMPUTE_ACCELERATORS%2C%21COMPUTE_STATUS_DISABLED"},
		{"group of a port", flavor(), nil, requestspec.Options{Groups: []requestspec.Group{{
			RequesterID: "device_profile_07970ec1f-7ce0-4293-a2a3-92cbce8048b4", UseSameProvider: true,
			Resources: map[string]int{"FPGA": 1}, Required: []string{"CUSTOM_FAKE_DEVICE"}}}},
			"limit=1000&requireddevice_profile_07970ec1f-7ce0-4293-a2a3-92cbce8048b4=CUSTOM_FAKE_DEVICE&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048%2CVCPU%3A2&resourcesdevice_profile_07970ec1f-7ce0-4293-a2a3-92cbce8048b4=FPGA%3A1&root_required=%21COMPUTE_STATUS_DISABLED"},
		{"no unsuffixed group", flavor(requestspec.DeviceProfileKey, "dp", "resources:VCPU", "0", "resources:MEMORY_MB", "0", "resources:DISK_GB", "0"),
			profile([]map[string]string{{"resources:FPGA": "1"}}), requestspec.Options{NoFilters: true},
			"limit=1000&resourcesdevice_profile_0=FPGA%3A1"},
		{"everything of the unsuffixed group",
			flavor(requestspec.DeviceProfileKey, "dp", "trait:HW_CPU_X86_AVX", "required", "resources1:CUSTOM_B", "2", "resources1:CUSTOM_A", "1",
				"trait1:CUSTOM_Z", "forbidden", "trait1:CUSTOM_Y", "required"), profile(oneFPGA),
			requestspec.Options{BootFromVolume: true, OwnerNova: true, InTree: computeNode,
				Aggregates: [][]string{{"bbb", "aaa"}, {"ccc"}}, ForbiddenAggregates: []string{"eee", "ddd"}},
			"group_policy=none&in_tree=11111111-1111-4111-8111-111111111111&limit=1000&member_of=%21in%3Addd%2Ceee&member_of=in%3Aaaa%2Cbbb&member_of=in%3Accc&required=HW_CPU_X86_AVX&required1=CUSTOM_Y%2C%21CUSTOM_Z&requireddevice_profile_0=CUSTOM_FAKE_DEVICE&resources=MEMORY_MB%3A2048%2CVCPU%3A2&resources1=CUSTOM_A%3A1%2CCUSTOM_B%3A2&resourcesdevice_profile_0=FPGA%3A1&root_required=COMPUTE_ACCELERATORS%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"},
		{"image-booted", swapped, nil, requestspec.Options{NoFilters: true},
			"limit=1000&resources=DISK_GB%3A17%2CMEMORY_MB%3A512%2CVCPU%3A1"},
		{"volume-booted", swapped, nil, requestspec.Options{NoFilters: true, BootFromVolume: true},
			"limit=1000&resources=DISK_GB%3A7%2CMEMORY_MB%3A512%2CVCPU%3A1"},
		{"without limit", swapped, nil, requestspec.Options{NoFilters: true, Limit: -1},
			"resources=DISK_GB%3A17%2CMEMORY_MB%3A512%2CVCPU%3A1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec, err := requestspec.New(tt.flavor, tt.profile, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, spec.Query()); diff != "" {
				t.Errorf("query (-want +got):\n%s", diff)
			}
			if len(spec.Warnings) > 0 {
				t.Errorf("warnings: %v", spec.Warnings)
			}
		})
	}
}

func TestTheQueryOfALiteralRequestEqualsNovas(t *testing.T) {
	const want = "group_policy=isolate&in_treea=11111111-1111-4111-8111-111111111111&limit=1000&member_ofa=%21in%3Ap%2Cq&member_ofa=in%3Ax&member_ofa=in%3Ay%2Cz&resourcesa=X%3A1&same_subtree=a%2Cb&same_subtree=a%2Cc"
	spec := requestspec.RequestSpec{
		Groups: []requestspec.Group{{
			RequesterID: "a", UseSameProvider: true, Resources: map[string]int{"X": 1}, InTree: computeNode,
			Aggregates: [][]string{{"z", "y"}, {"x"}}, ForbiddenAggregates: []string{"q", "p"},
		}},
		GroupPolicy: "isolate", SameSubtree: [][]string{{"b", "a"}, {"c", "a"}}, Limit: 1000,
	}
	if diff := cmp.Diff(want, spec.Query()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
	wantSubtree := []string{"a,b", "a,c"}
	if diff := cmp.Diff(wantSubtree, spec.Values()["same_subtree"]); diff != "" {
		t.Errorf("Values same_subtree (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{"b", "a"}, {"c", "a"}}, spec.SameSubtree); diff != "" {
		t.Errorf("Query changed its receiver (-want +got):\n%s", diff)
	}
}

func TestQueryLeavesOutWhatIsUnset(t *testing.T) {
	if got := (requestspec.RequestSpec{}).Query(); got != "" {
		t.Errorf("query of nothing: %q", got)
	}
	spec := requestspec.RequestSpec{Groups: []requestspec.Group{{RequesterID: "1", Required: []string{"CUSTOM_A"}}}}
	want := url.Values{"resources1": {""}, "required1": {"CUSTOM_A"}}
	if diff := cmp.Diff(want, spec.Values()); diff != "" {
		t.Errorf("values of a group of traits (-want +got):\n%s", diff)
	}
}
