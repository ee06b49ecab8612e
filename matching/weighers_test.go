package matching_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// onDevice is a candidate whose group i is served by the i-th provider.
func onDevice(providers map[string]matching.Provider, devices ...string) matching.Candidate {
	c := matching.Candidate{Host: "host-of-" + devices[0], Providers: providers, Mappings: map[string][]string{"": {"root"}}, Allocations: map[string]map[string]int{"root": {"VCPU": 2}}}
	for i, device := range devices {
		c.Mappings[requestspec.RequesterID(i)] = []string{device}
		if c.Allocations[device] == nil {
			c.Allocations[device] = map[string]int{}
		}
		c.Allocations[device]["FPGA"]++
	}
	return c
}

// TestAFunctionIsFoundUnderEveryNamingPolicy: with hyphens, underscores or neither, in the profile and in
// the trait.
func TestAFunctionIsFoundUnderEveryNamingPolicy(t *testing.T) {
	t.Parallel()
	const dashed, bare = "D8424DC4_A4A3_C413_F89E_433683F9040B", "D8424DC4A4A3C413F89E433683F9040B"
	for _, id := range []string{"d8424dc4-a4a3-c413-f89e-433683f9040b", "d8424dc4a4a3c413f89e433683f9040b"} {
		profile := requestspec.Profile{Groups: []map[string]string{{"resources:FPGA": "1", "accel:function_id": id}}}
		for trait, want := range map[string]float64{
			"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + bare: 1, "CUSTOM_FPGA_FUNCTION_ID_INTEL_" + dashed: 1,
			"CUSTOM_FPGA_FUNCTION_INTEL_" + dashed: 1, "CUSTOM_FPGA_FUNCTION_INTEL_" + bare: 1,
			"CUSTOM_FPGA_INTEL_FUNCTION_" + dashed: 1, "CUSTOM_FPGA_INTEL_FUNCTION_" + bare: 1,
			"CUSTOM_FPGA_FUNCTION_" + bare:     1, // without a vendor
			"CUSTOM_FPGA_REGION_INTEL_" + bare: 0, "CUSTOM_FPGA_INTEL_" + bare: 0,
			"CUSTOM_FPGA_FUNCTION_ID_INTEL_0" + bare[1:]: 0,
		} {
			c := onDevice(map[string]matching.Provider{"region": {Traits: []string{trait}}}, "region")
			if score, reason := matching.FunctionLoaded(profile, nil)(c); score != want {
				t.Errorf("function %s, trait %s: score %v (%s), want %v", id, trait, score, reason, want)
			}
		}
	}
}

func hosts(weighed []matching.Weighed) []string {
	var list []string
	for _, w := range weighed {
		list = append(list, w.Host)
	}
	return list
}

func TestALoadedFunctionRanksFirst(t *testing.T) {
	const id = "d8424dc4-a4a3-c413-f89e-433683f9040b"
	profile := requestspec.Profile{Groups: []map[string]string{
		{"resources:FPGA": "1", "accel:function_id": id}, {"resources:PGPU": "1"}, {"resources:FPGA": "1", "accel:function_name": "ipsec"},
	}}
	providers := map[string]matching.Provider{
		"blank": {}, "gpu": {},
		"gzip":  {Traits: []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B"}},
		"other": {Traits: []string{"CUSTOM_FPGA_FUNCTION_INTEL_00000000_A4A3_C413_F89E_433683F9040B"}},
		"look":  {Traits: []string{"CUSTOM_OTHER_D8424DC4_A4A3_C413_F89E_433683F9040B"}},
	}
	known := func(provider, key, value string) bool {
		return provider == "blank" && key == "accel:function_name" && value == "ipsec"
	}
	tests := []struct {
		name    string
		devices []string
		known   func(provider, key, value string) bool
		score   float64
		reason  string
	}{
		{"none", []string{"blank", "gpu", "other"}, nil, 0, "blank has to be programmed with " + id},
		{"by trait", []string{"gzip", "gpu", "other"}, nil, 1, "gzip has " + id},
		{"another function", []string{"other", "gpu", "other"}, nil, 0, "other has to be programmed"},
		{"another kind of trait", []string{"look", "gpu", "other"}, nil, 0, "look has to be programmed"},
		{"a name does not show", []string{"gzip", "gpu", "blank"}, nil, 1, "blank has to be programmed with ipsec"},
		{"but may be known", []string{"gzip", "gpu", "blank"}, known, 2, "blank has ipsec"},
		{"a group is not mapped", []string{"gzip"}, nil, 1, "an unknown provider has to be programmed with ipsec"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			score, reason := matching.FunctionLoaded(profile, tt.known)(onDevice(providers, tt.devices...))
			if score != tt.score || !strings.Contains(reason, tt.reason) {
				t.Errorf("got %v, %q, want %v, %q", score, reason, tt.score, tt.reason)
			}
		})
	}
	list := []matching.Candidate{onDevice(providers, "blank", "gpu", "other"), onDevice(providers, "other", "gpu", "other"), onDevice(providers, "gzip", "gpu", "other")}
	want := []string{"host-of-gzip", "host-of-blank", "host-of-other"}
	if diff := cmp.Diff(want, hosts(matching.Weigh(list, matching.FunctionLoaded(profile, nil)))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if score, reason := matching.FunctionLoaded(requestspec.Profile{}, nil)(list[0]); score != 0 || reason != "no programming is needed" {
		t.Errorf("without a function: %v, %q", score, reason)
	}
}

func TestFewestDevicesAreFragmented(t *testing.T) {
	of := func(used, capacity int) matching.Provider {
		return matching.Provider{Capacity: resources{"FPGA": capacity}, Used: resources{"FPGA": used}}
	}
	providers := map[string]matching.Provider{"whole": of(0, 4), "begun": of(1, 4), "last": of(3, 4), "single": of(0, 1), "full": of(4, 4), "pair": of(0, 2), "root": {Capacity: resources{"VCPU": 64}}}
	tests := []struct {
		devices []string
		score   float64
		reason  string
	}{
		{[]string{"whole"}, -1, "partly used devices filled: 0, unused devices fragmented: 1"},
		{[]string{"begun"}, 0, "partly used devices filled: 0, unused devices fragmented: 0"},
		{[]string{"last"}, 1, "partly used devices filled: 1, unused devices fragmented: 0"},
		{[]string{"full"}, 0, "partly used devices filled: 0, unused devices fragmented: 0"}, // an allocation ratio above 1
		{[]string{"single"}, 0, "partly used devices filled: 0, unused devices fragmented: 0"},
		{[]string{"pair", "pair"}, 0, "partly used devices filled: 0, unused devices fragmented: 0"},
		{[]string{"whole", "whole"}, -1, "partly used devices filled: 0, unused devices fragmented: 1"},
		{[]string{"whole", "pair"}, -2, "partly used devices filled: 0, unused devices fragmented: 2"},
		{[]string{"unknown"}, 0, "partly used devices filled: 0, unused devices fragmented: 0"},
	}
	for _, tt := range tests {
		score, reason := matching.FewestFragments()(onDevice(providers, tt.devices...))
		if score != tt.score || reason != tt.reason {
			t.Errorf("%v: got %v, %q, want %v, %q", tt.devices, score, reason, tt.score, tt.reason)
		}
	}
}

func TestDevicesOfOneNUMANodeRankFirst(t *testing.T) {
	providers := map[string]matching.Provider{
		"root": {}, "node0": {Parent: "root", Traits: []string{"HW_NUMA_ROOT"}}, "node1": {Parent: "root", Traits: []string{"HW_NUMA_ROOT"}},
		"a0": {Parent: "node0"}, "b0": {Parent: "node0"}, "a1": {Parent: "node1"}, "card": {Parent: "a1"}, "loose": {Parent: "root"},
		"t0": {Parent: "root", Traits: []string{"CUSTOM_GPU_NUMA_NODE_0"}}, "t1": {Parent: "root", Traits: []string{"CUSTOM_NUMA_1"}}, "u1": {Parent: "root", Traits: []string{"CUSTOM_NUMA1"}},
		"ring": {Parent: "gnir"}, "gnir": {Parent: "ring"},
	}
	tests := []struct {
		devices []string
		score   float64
		reason  string
	}{
		{[]string{"a0", "b0"}, 2, "devices: 2, NUMA nodes: 1"},
		{[]string{"a0", "a1"}, 0, "devices: 2, NUMA nodes: 2"},
		{[]string{"a0", "b0", "card"}, 1, "devices: 3, NUMA nodes: 2"},
		{[]string{"a0", "loose"}, 1, "devices: 1, NUMA nodes: 1"},
		{[]string{"loose"}, 0, "no NUMA node is known"},
		{[]string{"ring"}, 0, "no NUMA node is known"},
		{[]string{"t1", "u1"}, 2, "devices: 2, NUMA nodes: 1"},
		{[]string{"t0", "t1"}, 0, "devices: 2, NUMA nodes: 2"},
		{[]string{"absent"}, 0, "no NUMA node is known"},
	}
	for _, tt := range tests {
		score, reason := matching.NUMAAffinity()(onDevice(providers, tt.devices...))
		if score != tt.score || reason != tt.reason {
			t.Errorf("%v: got %v, %q, want %v, %q", tt.devices, score, reason, tt.score, tt.reason)
		}
	}
}

func TestWeighersDecideInTurn(t *testing.T) {
	by := func(name string, scores map[string]float64) matching.Weigher {
		return func(c matching.Candidate) (float64, string) { return scores[c.Host], name + " of " + c.Host }
	}
	first := by("first", map[string]float64{"a": 1, "b": 2, "c": 2, "d": 2})
	second := by("second", map[string]float64{"a": 9, "c": 1, "d": math.NaN()})
	list := []matching.Candidate{{Host: "a"}, {Host: "d"}, {Host: "b"}, {Host: "c"}}
	got := matching.Weigh(list, first, nil, second)
	if diff := cmp.Diff([]string{"c", "b", "d", "a"}, hosts(got)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if w := got[0]; w.Index != 3 || w.Reason != "first of c; second of c" || !slices.Equal(w.Scores, []float64{2, 0, 1}) {
		t.Errorf("got %+v", w)
	}
}

// Few candidates would keep their order by chance.
func TestEqualCandidatesKeepTheOrderOfPlacement(t *testing.T) {
	t.Parallel()
	var list []matching.Candidate
	var want []string
	for i := range 60 {
		list = append(list, matching.Candidate{Host: strconv.Itoa(i)})
	}
	for _, group := range []int{2, 1, 0} { // the highest score first
		for i := group; i < len(list); i += 3 {
			want = append(want, list[i].Host)
		}
	}
	got := matching.Weigh(list, func(c matching.Candidate) (float64, string) {
		i, err := strconv.Atoi(c.Host)
		if err != nil {
			t.Error(err)
		}
		return float64(i % 3), ""
	})
	if diff := cmp.Diff(want, hosts(got)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestAProfileThatWasReplacedIsNoticed(t *testing.T) {
	before := requestspec.Profile{Name: "dp", Description: "x", Groups: []map[string]string{{"resources:FPGA": "1"}, {"resources:PGPU": "1", "trait:CUSTOM_A": "required"}}}
	group := func(entries map[string]string) requestspec.Profile {
		return requestspec.Profile{Name: "dp", Groups: []map[string]string{before.Groups[0], entries}}
	}
	tests := []struct {
		name  string
		after requestspec.Profile
		want  *matching.Error
	}{
		{"the same", requestspec.Profile{Name: "dp", Groups: before.Groups}, nil},
		{"another name", requestspec.Profile{Name: "dq", Groups: before.Groups}, &matching.Error{Group: -1, Want: `"dp"`, Got: `"dq"`}},
		{"a group less", requestspec.Profile{Name: "dp", Groups: before.Groups[:1]}, &matching.Error{Group: -1, Want: "2 groups", Got: "1"}},
		{"another class of the same count", group(map[string]string{"resources:VGPU": "1", "trait:CUSTOM_A": "required"}),
			&matching.Error{RequesterID: "device_profile_1", Group: 1, Want: `resources:PGPU "1"`, Got: "absent"}},
		{"the first group", requestspec.Profile{Name: "dp", Groups: []map[string]string{{"resources:FPGA": "2"}, before.Groups[1]}},
			&matching.Error{RequesterID: "device_profile_0", Group: 0, Want: `resources:FPGA "1"`, Got: `"2"`}},
		{"a key more", group(map[string]string{"resources:PGPU": "1", "trait:CUSTOM_A": "required", "accel:x": ""}),
			&matching.Error{RequesterID: "device_profile_1", Group: 1, Want: "accel:x absent", Got: `""`}},
		{"several keys, the first is named", group(map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": ""}),
			&matching.Error{RequesterID: "device_profile_1", Group: 1, Want: "a absent", Got: `""`}},
		{"another value", group(map[string]string{"resources:PGPU": "1", "trait:CUSTOM_A": "forbidden"}),
			&matching.Error{RequesterID: "device_profile_1", Group: 1, Want: `trait:CUSTOM_A "required"`, Got: `"forbidden"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := matching.Unchanged(before, tt.after)
			if tt.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var got *matching.Error
			if !errors.As(err, &got) || !errors.Is(err, matching.ErrProfileChanged) {
				t.Fatalf("got %v", err)
			}
			tt.want.Err = got.Err
			if diff := cmp.Diff(*tt.want, *got, cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// The scenarios of Nova's own tests about providers, by their names:
// nova/tests/unit/scheduler/test_utils.py (fill_provider_mapping) and
// nova/tests/unit/objects/test_request_spec.py (TestMappingRequestGroupsToProviders).
func TestNovaScheduling(t *testing.T) {
	g0 := group(0, resources{"FPGA": 1})
	node := matching.Allocated{Provider: "cn", Resources: resources{"VCPU": 1}}
	device := func(uuid string, amount int) matching.Allocated {
		return matching.Allocated{Provider: uuid, Resources: resources{"FPGA": amount}}
	}
	both := func(uuid string, igr, egr int) matching.Allocated {
		return matching.Allocated{Provider: uuid, Resources: resources{"IGR": igr, "EGR": egr}}
	}
	pair := func(i, igr, egr int, required ...string) requestspec.Group {
		return group(i, resources{"IGR": igr, "EGR": egr}, required...)
	}
	t.Run("fill_provider_mapping", func(t *testing.T) {
		got, err := matching.Providers([]requestspec.Group{g0, {RequesterID: "g1", UseSameProvider: true}}, map[string][]string{"g0": {"a"}, "g1": {"b"}, "": {"cn"}})
		if diff := cmp.Diff(map[string]string{"g0": "a", "g1": "b"}, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("fill_provider_mapping_no_op", func(t *testing.T) {
		if got, err := matching.Providers(nil, map[string][]string{"g0": {"a"}}); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v", got, err)
		}
	})
	for _, tt := range []searchRow{
		{name: "no_requested_resources", allocated: []matching.Allocated{node}, want: map[string]string{}},
		{name: "unnumbered_group_not_supported", groups: []requestspec.Group{{RequesterID: "g0"}}, err: matching.ErrUnsupported},
		{name: "forbidden_traits_not_supported", groups: []requestspec.Group{{RequesterID: "g0", UseSameProvider: true, Forbidden: []string{"X"}}}, err: matching.ErrUnsupported},
		{name: "aggregates_not_supported", groups: []requestspec.Group{{RequesterID: "g0", UseSameProvider: true, Aggregates: [][]string{{"x"}}}}, err: matching.ErrUnsupported},
		{name: "one_group", groups: []requestspec.Group{g0}, allocated: []matching.Allocated{node, device("a", 1)}, want: map[string]string{"g0": "a"}},
		{name: "two_groups_alike", groups: []requestspec.Group{g0, group(1, resources{"FPGA": 1})}, allocated: []matching.Allocated{{Provider: "c", Resources: resources{"VCPU": 1}}, device("b", 1), device("a", 1)},
			want: map[string]string{"g0": "b", "g1": "a"}},
		{name: "by_amounts", groups: []requestspec.Group{pair(0, 1, 1), pair(1, 2, 2)}, allocated: []matching.Allocated{node, both("d1", 2, 2), both("d2", 1, 1)}, want: map[string]string{"g0": "d2", "g1": "d1"}},
		{name: "on_the_same_provider", groups: []requestspec.Group{pair(0, 1, 1), pair(1, 2, 2)}, allocated: []matching.Allocated{node, both("d1", 3, 3)}, want: map[string]string{"g0": "d1", "g1": "d1"}},
		{name: "by_traits", groups: []requestspec.Group{pair(0, 1, 1, "PHYSNET0"), pair(1, 1, 1, "PHYSNET1")}, allocated: []matching.Allocated{node, both("d1", 1, 1), both("d2", 1, 1)},
			traits: map[string][]string{"cn": nil, "d1": {"PHYSNET1"}, "d2": {"PHYSNET0"}}, want: map[string]string{"g0": "d2", "g1": "d1"}},
		{name: "three_groups", groups: []requestspec.Group{pair(0, 1, 3), pair(1, 2, 2), pair(2, 3, 3)}, allocated: []matching.Allocated{node, both("d1", 3, 3), both("d2", 2, 2), both("d3", 1, 3)},
			want: map[string]string{"g0": "d3", "g1": "d2", "g2": "d1"}},
		{name: "no_such_trait", groups: []requestspec.Group{group(0, resources{"FPGA": 1}, "CUSTOM_X")}, allocated: []matching.Allocated{device("a", 1)}, traits: map[string][]string{"a": {"CUSTOM_Y"}}, err: matching.ErrNoMatch},
		{name: "no_matching_allocation", groups: []requestspec.Group{g0}, allocated: []matching.Allocated{node}, err: matching.ErrNoMatch},
		{name: "leftover", groups: []requestspec.Group{g0}, allocated: []matching.Allocated{node, device("a", 2)}, err: matching.ErrNoMatch},
	} {
		t.Run("map_requested_resources_to_providers/"+tt.name, tt.run)
	}
}

func ExampleFunctionLoaded() {
	profile := requestspec.Profile{Groups: []map[string]string{{"resources:FPGA": "1", "accel:function_id": "gzip"}}}
	providers := map[string]matching.Provider{"fpga-1": {}, "fpga-2": {Traits: []string{"CUSTOM_FPGA_FUNCTION_INTEL_GZIP"}}}
	candidates := []matching.Candidate{
		{Host: "cn0", Providers: providers, Mappings: map[string][]string{"device_profile_0": {"fpga-1"}}},
		{Host: "cn1", Providers: providers, Mappings: map[string][]string{"device_profile_0": {"fpga-2"}}},
	}
	for _, w := range matching.Weigh(candidates, matching.FunctionLoaded(profile, nil)) {
		fmt.Printf("%s %v: %s\n", w.Host, w.Scores[0], w.Reason)
	}
	// Output:
	// cn1 1: fpga-2 has gzip
	// cn0 0: fpga-1 has to be programmed with gzip
}
