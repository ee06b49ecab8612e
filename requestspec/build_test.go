package requestspec_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func build(t *testing.T, f requestspec.Flavor, p *requestspec.Profile, opts requestspec.Options) requestspec.RequestSpec {
	t.Helper()
	spec, err := requestspec.New(f, p, opts)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestExtraSpecKeysOpenTheGroupsOfNovasGrammar(t *testing.T) {
	long := strings.Repeat("x", 64)
	tests := []struct{ key, value, want string }{
		{"resources:CUSTOM_X", "1", "resources=CUSTOM_X%3A1"},
		{"resources1:CUSTOM_X", "1", "resources1=CUSTOM_X%3A1"},
		{"resources01:CUSTOM_X", "1", "resources01=CUSTOM_X%3A1"},
		{"resources_1:CUSTOM_X", "1", "resources_1=CUSTOM_X%3A1"},
		{"resources-a:CUSTOM_X", "1", "resources-a=CUSTOM_X%3A1"},
		{"resources" + long + ":CUSTOM_X", "1", "resources" + long + "=CUSTOM_X%3A1"},
		{"resources" + long + "x:CUSTOM_X", "1", ""},
		{"resources1:CUSTOM_X:B", "1", "resources1=CUSTOM_X%3AB%3A1"},
		{"traits:CUSTOM_A", "required", "requireds=CUSTOM_A&resourcess="},
		{"trait:", "required", "required=&resources="},
		{"trait1:HW_A", "forbidden", "required1=%21HW_A&resources1="},
		{"resource:CUSTOM_X", "1", ""},
		{"Resources:CUSTOM_X", "1", ""},
		{"resources 1:CUSTOM_X", "1", ""},
		{" resources:CUSTOM_X", "1", ""},
		{"xresources:CUSTOM_X", "1", ""},
		{"member_of1:x", "1", ""},
		{"in_tree1:x", "1", ""},
		{"same_subtree:x", "1", ""},
		{"root_required:x", "1", ""},
		{"accel:bitstream_id", "1", ""},
		{"hw:cpu_policy", "dedicated", ""},
		{"resources:CUSTOM_X", " 5 ", "resources=CUSTOM_X%3A5"},
		{"resources:CUSTOM_X", "+4", "resources=CUSTOM_X%3A4"},
		{"resources:CUSTOM_X", "007", "resources=CUSTOM_X%3A7"},
		{"resources:CUSTOM_X", "2147483647", "resources=CUSTOM_X%3A2147483647"},
		{"resources:CUSTOM_X", "0", ""},
		{"resources:CUSTOM_X", "-0", ""},
		{"resources:CUSTOM_X", "-1", ""},
		{"resources:CUSTOM_X", "-99999999999999999999", ""},
		{"resources:CUSTOM_X", "1.0", ""},
		{"resources:CUSTOM_X", "0x1", ""},
		{"resources:CUSTOM_X", "bogus", ""},
		{"resources:CUSTOM_X", "", ""},
		{"resources:BOGUS", "1", ""},
		{"trait:CUSTOM_A", "preferred", ""},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			f := requestspec.Flavor{ExtraSpecs: map[string]string{tt.key: tt.value}}
			spec := build(t, f, nil, requestspec.Options{NoFilters: true, Limit: -1})
			if diff := cmp.Diff(tt.want, spec.Query()); diff != "" {
				t.Errorf("query (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarningsAreReturnedNotLogged(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{"resources:CUSTOM_X", "-1", "Resource amounts must be nonnegative integers. Received '-1'"},
		{"resources:CUSTOM_X", "1_0", "Resource amounts must be nonnegative integers. Received '1_0'"},
		{"resources:GPU", "1", "Received an invalid ResourceClass 'GPU' in extra_specs."},
		{"resources:GPU", "x", "Received an invalid ResourceClass 'GPU' in extra_specs."},
		{"trait:CUSTOM_A", "preferred", "Only (required, forbidden) traits are supported. Received 'preferred'."},
		{"group_policy", "any", "Invalid group_policy 'any'. Valid values are 'none' and 'isolate'."},
		{"accel:device_profile_name", "dp", "This extra spec is ignored; use accel:device_profile for a device profile."},
		{"accel:device-profile", "dp", "This extra spec is ignored; use accel:device_profile for a device profile."},
		{"others1:x", "y", "This extra spec is ignored; only resources<suffix>:<class> and trait<suffix>:<trait> are read."},
		{"Resources:VGPU", "1", "This extra spec is ignored; only resources<suffix>:<class> and trait<suffix>:<trait> are read."},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			spec := build(t, flavor(tt.key, tt.value), nil, requestspec.Options{})
			want := []requestspec.Warning{{Key: tt.key, Value: tt.value, Message: tt.want}}
			if diff := cmp.Diff(want, spec.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsThatPlacementRefusesHaveWarnings(t *testing.T) {
	tests := []struct {
		name   string
		flavor requestspec.Flavor
		opts   requestspec.Options
		want   []requestspec.Warning
	}{
		{"group of traits alone", flavor("trait1:CUSTOM_A", "required"), requestspec.Options{},
			[]requestspec.Warning{{Key: "resources1", Message: "The group has no resources; Placement refuses the query."}}},
		{"traits for trait", flavor("traits:CUSTOM_A", "required"), requestspec.Options{},
			[]requestspec.Warning{{Key: "resourcess", Message: "The group has no resources; Placement refuses the query. The key of a trait without suffix is trait:<trait>."}}},
		{"trait of image and flavor disagree", flavor("trait:CUSTOM_A", "forbidden"), requestspec.Options{ImageProperties: map[string]string{"trait:CUSTOM_A": "required"}},
			[]requestspec.Warning{{Key: "required", Value: "CUSTOM_A", Message: "The trait CUSTOM_A is required and forbidden; Placement refuses the query."}}},
		{"two own groups without policy", flavor("resources1:VGPU", "1", "resources2:VGPU", "1"), requestspec.Options{},
			[]requestspec.Warning{{Key: "group_policy", Message: "The flavor has 2 groups of its own and no group_policy; Placement refuses the query."}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, build(t, tt.flavor, nil, tt.opts).Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// S suffixed groups in all, F of them the flavor's own, a policy or none.
func TestGroupPolicyFollowsNovasTable(t *testing.T) {
	port := requestspec.Group{RequesterID: "port", UseSameProvider: true, Resources: map[string]int{"FPGA": 1}}
	tests := []struct {
		name    string
		specs   []string
		groups  []map[string]string
		ports   []requestspec.Group
		want    requestspec.GroupPolicy
		warning bool
	}{
		{name: "no suffixed group"},
		{name: "no suffixed group, policy given", specs: []string{"group_policy", "none"}, want: "none"},
		{name: "one flavor group", specs: []string{"resources1:VGPU", "1"}},
		{name: "one profile group", groups: oneFPGA},
		{name: "one port group", ports: []requestspec.Group{port}},
		{name: "two flavor groups", specs: []string{"resources1:VGPU", "1", "resources2:VGPU", "1"}, warning: true},
		{name: "two flavor groups, isolate", specs: []string{"resources1:VGPU", "1", "resources2:VGPU", "1", "group_policy", "isolate"}, want: "isolate"},
		{name: "flavor and port", specs: []string{"resources1:VGPU", "1"}, ports: []requestspec.Group{port}, want: "none"},
		{name: "flavor and profile", specs: []string{"resources1:VGPU", "1"}, groups: oneFPGA, want: "none"},
		{name: "profile and port", groups: oneFPGA, ports: []requestspec.Group{port}, want: "none"},
		{name: "two profile groups", groups: twoGroups, want: "none"},
		{name: "two profile groups, isolate", groups: twoGroups, specs: []string{"group_policy", "isolate"}, want: "isolate"},
		{name: "two profile groups, invalid policy", groups: twoGroups, specs: []string{"group_policy", "Isolate"}, want: "none", warning: true},
		{name: "two flavor groups and one of the profile", specs: []string{"resources1:VGPU", "1", "resources2:VGPU", "1"}, groups: oneFPGA, warning: true},
		{name: "a zero group of the flavor counts as its own", specs: []string{"resources1:VGPU", "0", "resources2:VGPU", "1"}, groups: oneFPGA, warning: true},
		{name: "an invalid group of the flavor counts as its own", specs: []string{"resources1:VGPU", "x", "resources2:VGPU", "1"}, groups: oneFPGA, warning: true},
		{name: "zero groups of the flavor leave one", specs: []string{"resources1:VGPU", "0", "resources2:VGPU", "0"}, groups: oneFPGA},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := flavor(tt.specs...)
			var p *requestspec.Profile
			if tt.groups != nil {
				f.ExtraSpecs[requestspec.DeviceProfileKey], p = "dp", profile(tt.groups)
			}
			spec := build(t, f, p, requestspec.Options{Groups: tt.ports})
			if spec.GroupPolicy != tt.want {
				t.Errorf("policy %q, want %q", spec.GroupPolicy, tt.want)
			}
			warned := false
			for _, w := range spec.Warnings {
				warned = warned || w.Key == "group_policy"
			}
			if warned != tt.warning {
				t.Errorf("warnings %v, want one of group_policy: %t", spec.Warnings, tt.warning)
			}
		})
	}
}

func TestFlavorSizesAreOmittedForClassesOfGroups(t *testing.T) {
	tests := []struct {
		name   string
		specs  []string
		groups []map[string]string
		want   map[string]int
	}{
		{"nothing named", nil, nil, map[string]int{"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}},
		{"own amount", []string{"resources:MEMORY_MB", "64"}, nil, map[string]int{"VCPU": 2, "MEMORY_MB": 64, "DISK_GB": 20}},
		{"PCPU for VCPU", []string{"resources:PCPU", "4"}, nil, map[string]int{"PCPU": 4, "MEMORY_MB": 2048, "DISK_GB": 20}},
		{"moved to a suffixed group", []string{"resources3:VCPU", "2"}, nil, map[string]int{"MEMORY_MB": 2048, "DISK_GB": 20}},
		{"zero removes", []string{"resources:DISK_GB", "0"}, nil, map[string]int{"VCPU": 2, "MEMORY_MB": 2048}},
		{"an invalid amount does not", []string{"resources:DISK_GB", "none"}, nil, map[string]int{"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}},
		{"device profile", nil, []map[string]string{{"resources:VCPU": "1"}}, map[string]int{"MEMORY_MB": 2048, "DISK_GB": 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := flavor(tt.specs...)
			var p *requestspec.Profile
			if tt.groups != nil {
				f.ExtraSpecs[requestspec.DeviceProfileKey], p = "dp", profile(tt.groups)
			}
			spec := build(t, f, p, requestspec.Options{})
			if diff := cmp.Diff(tt.want, spec.Groups[0].Resources); diff != "" {
				t.Errorf("unsuffixed group (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiltersAskForAcceleratorsOnlyWithAProfile(t *testing.T) {
	named := flavor(requestspec.DeviceProfileKey, "dp")
	tests := []struct {
		name                string
		flavor              requestspec.Flavor
		profile             *requestspec.Profile
		opts                requestspec.Options
		required, forbidden []string
	}{
		{"plain", flavor(), nil, requestspec.Options{}, nil, []string{"COMPUTE_STATUS_DISABLED"}},
		{"empty name is no profile", flavor(requestspec.DeviceProfileKey, ""), nil, requestspec.Options{}, nil, []string{"COMPUTE_STATUS_DISABLED"}},
		{"profile", named, profile(oneFPGA), requestspec.Options{}, []string{"COMPUTE_ACCELERATORS"}, []string{"COMPUTE_STATUS_DISABLED"}},
		{"owner", named, profile(oneFPGA), requestspec.Options{OwnerNova: true}, []string{"COMPUTE_ACCELERATORS", "OWNER_NOVA"}, []string{"COMPUTE_STATUS_DISABLED"}},
		{"owner asked for already", flavor(), nil, requestspec.Options{OwnerNova: true, RootRequired: []string{"OWNER_NOVA", "CUSTOM_A"}},
			[]string{"CUSTOM_A", "OWNER_NOVA"}, []string{"COMPUTE_STATUS_DISABLED"}},
		{"off", named, profile(oneFPGA), requestspec.Options{NoFilters: true, OwnerNova: true, RootForbidden: []string{"CUSTOM_Z"}}, nil, []string{"CUSTOM_Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := build(t, tt.flavor, tt.profile, tt.opts)
			if diff := cmp.Diff(tt.required, spec.RootRequired, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("required (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.forbidden, spec.RootForbidden, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("forbidden (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewRefusesWhatCannotBeRequested(t *testing.T) {
	named := flavor(requestspec.DeviceProfileKey, "dp")
	group := func(id string, class string, amount int) requestspec.Options {
		return requestspec.Options{Groups: []requestspec.Group{{RequesterID: id, Resources: map[string]int{class: amount}}}}
	}
	tests := []struct {
		name    string
		flavor  requestspec.Flavor
		profile *requestspec.Profile
		opts    requestspec.Options
		wantErr error
		text    string
	}{
		{"profile not given", named, nil, requestspec.Options{}, requestspec.ErrInvalidFlavor, `names device profile "dp", which is not given`},
		{"another profile given", named, &requestspec.Profile{Name: "b", Groups: oneFPGA}, requestspec.Options{}, requestspec.ErrInvalidFlavor, `but "b" is given`},
		{"profile not named", flavor(), profile(oneFPGA), requestspec.Options{}, requestspec.ErrInvalidFlavor, `no extra spec accel:device_profile`},
		{"bad profile", named, profile([]map[string]string{{"resources:FPGA": "0"}}), requestspec.Options{}, requestspec.ErrInvalidProfile, `group 0 key "resources:FPGA"`},
		{"negative size", requestspec.Flavor{Name: "f", MemoryMB: -1}, nil, requestspec.Options{}, requestspec.ErrInvalidFlavor, `"f": ram: -1`},
		{"size beyond placement", requestspec.Flavor{VCPUs: math.MaxInt32 + 1}, nil, requestspec.Options{}, requestspec.ErrInvalidFlavor, "vcpus"},
		{"size near overflow", requestspec.Flavor{SwapMB: math.MaxInt}, nil, requestspec.Options{}, requestspec.ErrInvalidFlavor, "swap"},
		{"disks together beyond placement", requestspec.Flavor{RootGB: math.MaxInt32, EphemeralGB: 1}, nil, requestspec.Options{}, requestspec.ErrInvalidFlavor, "2147483648 GiB together"},
		{"amount beyond placement", flavor("resources:VGPU", "2147483648"), nil, requestspec.Options{}, requestspec.ErrInvalidFlavor, `extra spec "resources:VGPU"`},
		{"amount beyond 64 bits", flavor("resources:VGPU", "99999999999999999999"), nil, requestspec.Options{}, requestspec.ErrInvalidFlavor, `extra spec "resources:VGPU"`},
		{"suffix of the flavor and the profile", flavor(requestspec.DeviceProfileKey, "dp", "resourcesdevice_profile_0:VGPU", "1"), profile(oneFPGA), requestspec.Options{},
			requestspec.ErrDuplicateSuffix, "duplicate request group suffix device_profile_0"},
		{"suffix of an invalid flavor group and the profile", flavor(requestspec.DeviceProfileKey, "dp", "resourcesdevice_profile_0:VGPU", "x"), profile(oneFPGA), requestspec.Options{},
			requestspec.ErrDuplicateSuffix, "device_profile_0"},
		{"suffix of two owners", flavor("resourcesp:VGPU", "1"), nil, group("p", "FPGA", 1), requestspec.ErrDuplicateSuffix, "suffix p"},
		{"outside group without id", flavor(), nil, group("", "FPGA", 1), requestspec.ErrInvalidGroup, "missing requester_id"},
		{"outside group without content", flavor(), nil, requestspec.Options{Groups: []requestspec.Group{{RequesterID: "p", InTree: computeNode}}},
			requestspec.ErrInvalidGroup, "refusing to add no-op group with requester_id=p"},
		{"outside group with a negative amount", flavor(), nil, group("p", "FPGA", -1), requestspec.ErrInvalidGroup, "requester_id=p: FPGA: -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec, err := requestspec.New(tt.flavor, tt.profile, tt.opts)
			if !errors.Is(err, tt.wantErr) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.wantErr, tt.text)
			}
			if diff := cmp.Diff(requestspec.RequestSpec{}, spec); diff != "" {
				t.Errorf("a request beside the error (-want +got):\n%s", diff)
			}
		})
	}
}

// Suffixes 1, 3, 24 and 42, VCPU moved to group 3, zero and bogus entries: the
// shape of Nova's own granular test.
func TestGranularFlavorKeepsItsGroups(t *testing.T) {
	f := flavor("resources1:VGPU", "1", "resources1:VGPU_DISPLAY_HEAD", "2", "resources3:VCPU", "2", "trait3:CUSTOM_A", "required",
		"resources24:SRIOV_NET_VF", "1", "resources24:NET_BW_EGR_KILOBIT_PER_SEC", "0", "resources42:SRIOV_NET_VF", "0", "resources86:BOGUS", "1",
		"group_policy", "isolate")
	spec := build(t, f, nil, requestspec.Options{NoFilters: true})
	want := []requestspec.Group{
		{Resources: map[string]int{"MEMORY_MB": 2048, "DISK_GB": 20}},
		{RequesterID: "1", UseSameProvider: true, Resources: map[string]int{"VGPU": 1, "VGPU_DISPLAY_HEAD": 2}},
		{RequesterID: "24", UseSameProvider: true, Resources: map[string]int{"SRIOV_NET_VF": 1}},
		{RequesterID: "3", UseSameProvider: true, Resources: map[string]int{"VCPU": 2}, Required: []string{"CUSTOM_A"}},
	}
	if diff := cmp.Diff(want, spec.Groups, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	const query = "group_policy=isolate&limit=1000&required3=CUSTOM_A&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048&resources1=VGPU%3A1%2CVGPU_DISPLAY_HEAD%3A2&resources24=SRIOV_NET_VF%3A1&resources3=VCPU%3A2"
	if diff := cmp.Diff(query, spec.Query()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
}

func TestDeviceGroupsMatchTheProfile(t *testing.T) {
	// The flavor's group looks like a third one of the profile, but is not.
	f := flavor(requestspec.DeviceProfileKey, "dp", "resourcesdevice_profile_2:VGPU", "1", "group_policy", "none")
	spec := build(t, f, profile(twoGroups), requestspec.Options{})
	want := []requestspec.Group{
		{RequesterID: "device_profile_0", UseSameProvider: true, Resources: map[string]int{"FPGA": 2}, Required: []string{"CUSTOM_A"}, Forbidden: []string{"CUSTOM_B"}},
		{RequesterID: "device_profile_1", UseSameProvider: true, Resources: map[string]int{"CUSTOM_GPU": 1}},
	}
	if diff := cmp.Diff(want, spec.DeviceGroups(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("device groups (-want +got):\n%s", diff)
	}
	if got := len(spec.Groups); got != 4 {
		t.Errorf("%d groups, want 4", got)
	}
	for _, n := range []int{-1, 0, math.MaxInt32} {
		if got := (requestspec.RequestSpec{ProfileGroups: n}).DeviceGroups(); len(got) != 0 {
			t.Errorf("device groups of an empty request with ProfileGroups %d: %v", n, got)
		}
	}
}

func TestNewSharesNothingWithItsInput(t *testing.T) {
	opts := requestspec.Options{
		ImageProperties: map[string]string{"trait:CUSTOM_B": "required"}, Aggregates: [][]string{{"b", "a"}}, ForbiddenAggregates: []string{"d"},
		RootRequired: []string{"CUSTOM_Z", "CUSTOM_Y"}, SameSubtree: [][]string{{"p", "q"}},
		Groups: []requestspec.Group{{RequesterID: "p", Resources: map[string]int{"FPGA": 1, "VGPU": 0}, Required: []string{"CUSTOM_D", "CUSTOM_C"}}},
	}
	before := requestspec.Options{
		ImageProperties: map[string]string{"trait:CUSTOM_B": "required"}, Aggregates: [][]string{{"b", "a"}}, ForbiddenAggregates: []string{"d"},
		RootRequired: []string{"CUSTOM_Z", "CUSTOM_Y"}, SameSubtree: [][]string{{"p", "q"}},
		Groups: []requestspec.Group{{RequesterID: "p", Resources: map[string]int{"FPGA": 1, "VGPU": 0}, Required: []string{"CUSTOM_D", "CUSTOM_C"}}},
	}
	spec := build(t, flavor(), nil, opts)
	spec.Groups[0].Aggregates[0][0], spec.SameSubtree[0][0] = "changed", "changed"
	spec.Groups[1].Resources["FPGA"] = 99
	if diff := cmp.Diff(before, opts); diff != "" {
		t.Errorf("options (-before +after):\n%s", diff)
	}
}

// A profile of very many groups is odd but must not take quadratic time.
func TestManyGroupsAreAssembled(t *testing.T) {
	groups := make([]map[string]string, 20000)
	for i := range groups {
		groups[i] = oneFPGA[0]
	}
	spec := build(t, flavor(requestspec.DeviceProfileKey, "dp"), profile(groups), requestspec.Options{})
	if got := len(spec.DeviceGroups()); got != len(groups) {
		t.Errorf("%d device groups, want %d", got, len(groups))
	}
}

func TestGroupsOfOtherOwnersAreServedByOneProvider(t *testing.T) {
	opts := requestspec.Options{Groups: []requestspec.Group{{RequesterID: "port", Resources: map[string]int{"FPGA": 1}}}}
	spec := build(t, flavor(), nil, opts)
	want := requestspec.Group{RequesterID: "port", UseSameProvider: true, Resources: map[string]int{"FPGA": 1}}
	if diff := cmp.Diff(want, spec.Groups[1], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
}
