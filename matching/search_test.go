package matching_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

type resources = map[string]int

func group(i int, amounts resources, required ...string) requestspec.Group {
	return requestspec.Group{RequesterID: fmt.Sprintf("g%d", i), UseSameProvider: true, Resources: amounts, Required: required}
}

func noTraits(allocated []matching.Allocated) map[string][]string {
	traits := map[string][]string{}
	for _, a := range allocated {
		traits[a.Provider] = nil
	}
	return traits
}

// The vectors were taken from Nova's own tests and runs of its code.
func TestSearchFollowsNova(t *testing.T) {
	t.Parallel()
	bandwidth := func(egress, ingress int) resources { return resources{"EGR": egress, "IGR": ingress} }
	tests := []struct {
		name      string
		groups    []requestspec.Group
		allocated []matching.Allocated
		traits    map[string][]string
		want      map[string]string
		wantErr   error
	}{
		{"no groups", nil, []matching.Allocated{{"cn", resources{"VCPU": 1}}}, nil, map[string]string{}, nil},
		{"one group", []requestspec.Group{group(0, resources{"FPGA": 1})},
			[]matching.Allocated{{"cn", resources{"VCPU": 1}}, {"a", resources{"FPGA": 1}}}, nil,
			map[string]string{"g0": "a"}, nil},
		{"order of the allocations", []requestspec.Group{group(0, resources{"FPGA": 1}), group(1, resources{"FPGA": 1})},
			[]matching.Allocated{{"c", resources{"VCPU": 1}}, {"b", resources{"FPGA": 1}}, {"a", resources{"FPGA": 1}}}, nil,
			map[string]string{"g0": "b", "g1": "a"}, nil},
		{"by amount", []requestspec.Group{group(0, bandwidth(1, 1)), group(1, bandwidth(2, 2))},
			[]matching.Allocated{{"cn", resources{"VCPU": 1}}, {"d1", bandwidth(2, 2)}, {"d2", bandwidth(1, 1)}}, nil,
			map[string]string{"g0": "d2", "g1": "d1"}, nil},
		{"both on one", []requestspec.Group{group(0, bandwidth(1, 1)), group(1, bandwidth(2, 2))},
			[]matching.Allocated{{"cn", resources{"VCPU": 1}}, {"d1", bandwidth(3, 3)}}, nil,
			map[string]string{"g0": "d1", "g1": "d1"}, nil},
		{"by trait", []requestspec.Group{group(0, bandwidth(1, 1), "CUSTOM_PHYSNET0"), group(1, bandwidth(1, 1), "CUSTOM_PHYSNET1")},
			[]matching.Allocated{{"d1", bandwidth(1, 1)}, {"d2", bandwidth(1, 1)}},
			map[string][]string{"d1": {"CUSTOM_PHYSNET1"}, "d2": {"CUSTOM_PHYSNET0"}},
			map[string]string{"g0": "d2", "g1": "d1"}, nil},
		{"three groups", []requestspec.Group{group(0, bandwidth(1, 3)), group(1, bandwidth(2, 2)), group(2, bandwidth(3, 3))},
			[]matching.Allocated{{"cn", resources{"VCPU": 1}}, {"d1", bandwidth(3, 3)}, {"d2", bandwidth(2, 2)}, {"d3", bandwidth(1, 3)}}, nil,
			map[string]string{"g0": "d3", "g1": "d2", "g2": "d1"}, nil},
		{"trait that no provider has", []requestspec.Group{group(0, resources{"FPGA": 1}, "CUSTOM_X")},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}}, map[string][]string{"a": {"CUSTOM_Y"}},
			nil, matching.ErrNoMatch},
		{"leftover in the last group's class", []requestspec.Group{group(0, resources{"FPGA": 1}), group(1, resources{"PGPU": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}, {"b", resources{"PGPU": 2}}}, nil,
			nil, matching.ErrNoMatch},
		{"leftover in the first group's class", []requestspec.Group{group(0, resources{"FPGA": 1}), group(1, resources{"PGPU": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 2}}, {"b", resources{"PGPU": 1}}}, nil,
			nil, matching.ErrNoMatch},
		{"left over elsewhere", []requestspec.Group{group(0, resources{"FPGA": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 1, "VCPU": 1}}, {"b", resources{"FPGA": 1}}}, nil,
			nil, matching.ErrNoMatch},
		{"forbidden aggregates are ignored", []requestspec.Group{{RequesterID: "g0", UseSameProvider: true, Resources: resources{"FPGA": 1}, ForbiddenAggregates: []string{"x"}, InTree: "y"}},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}}, nil,
			map[string]string{"g0": "a"}, nil},
		{"traits not given", []requestspec.Group{group(0, resources{"FPGA": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}}, map[string][]string{},
			nil, matching.ErrTraits},
		{"spread group", []requestspec.Group{{RequesterID: "g0", Resources: resources{"FPGA": 1}}}, nil, nil,
			nil, matching.ErrUnsupported},
		{"aggregates", []requestspec.Group{{RequesterID: "g0", UseSameProvider: true, Aggregates: [][]string{{"x"}}}}, nil, nil,
			nil, matching.ErrUnsupported},
		{"forbidden traits", []requestspec.Group{{RequesterID: "g0", UseSameProvider: true, Forbidden: []string{"CUSTOM_X"}}}, nil, nil,
			nil, matching.ErrUnsupported},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.traits == nil {
				tt.traits = noTraits(tt.allocated)
			}
			got, err := matching.Search(tt.groups, tt.allocated, tt.traits)
			if !errors.Is(err, tt.wantErr) || (err == nil) != (tt.wantErr == nil) {
				t.Errorf("got error %v, want %v", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("providers (-want +got):\n%s", diff)
			}
		})
	}
}

// searchSlowly tries every assignment in order, last group fastest.
func searchSlowly(groups []requestspec.Group, allocated []matching.Allocated, traits map[string][]string) map[string]string {
	total := 1
	for range groups {
		total *= len(allocated)
	}
	for n := range total {
		found, left := map[string]string{}, map[string]resources{}
		for _, a := range allocated {
			left[a.Provider] = maps.Clone(a.Resources)
		}
		ok, rest := true, n
		for i := len(groups) - 1; i >= 0; i-- {
			provider := allocated[rest%len(allocated)].Provider
			rest /= len(allocated)
			found[groups[i].RequesterID] = provider
			for _, trait := range groups[i].Required {
				ok = ok && fmt.Sprint(traits[provider]) == fmt.Sprint([]string{trait})
			}
			for class, amount := range groups[i].Resources {
				_, has := left[provider][class]
				left[provider][class] -= amount
				ok = ok && has
			}
		}
		for _, amounts := range left {
			for _, group := range groups {
				for class := range group.Resources {
					ok = ok && amounts[class] == 0
				}
			}
		}
		if ok {
			return found
		}
	}
	return nil
}

func TestSearchAgreesWithTryingEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amounts := rapid.MapOfN(rapid.SampledFrom([]string{"A", "B"}), rapid.IntRange(1, 2), 1, 2)
		var allocated []matching.Allocated
		traits := map[string][]string{}
		for i := range rapid.IntRange(1, 3).Draw(t, "providers") {
			provider := fmt.Sprintf("p%d", i)
			allocated = append(allocated, matching.Allocated{Provider: provider, Resources: amounts.Draw(t, "allocated")})
			if rapid.Bool().Draw(t, "trait") {
				traits[provider] = []string{"CUSTOM_X"}
			} else {
				traits[provider] = nil
			}
		}
		var groups []requestspec.Group
		for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
			g := group(i, amounts.Draw(t, "group"))
			if rapid.IntRange(0, 3).Draw(t, "required") == 0 {
				g.Required = []string{"CUSTOM_X"}
			}
			groups = append(groups, g)
		}
		want := searchSlowly(groups, allocated, traits)
		got, err := matching.Search(groups, allocated, traits)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Fatalf("groups %v, allocated %v, traits %v: error %v (-slow +search):\n%s", groups, allocated, traits, err, diff)
		}
	})
}

func ExampleSearch() {
	groups := []requestspec.Group{{RequesterID: "device_profile_0", UseSameProvider: true, Resources: map[string]int{"FPGA": 1}}}
	allocated := []matching.Allocated{
		{Provider: "compute-node", Resources: map[string]int{"VCPU": 2}},
		{Provider: "fpga", Resources: map[string]int{"FPGA": 1}},
	}
	traits := map[string][]string{"compute-node": {"COMPUTE_NODE"}, "fpga": {"CUSTOM_FPGA_INTEL"}}
	providers, err := matching.Search(groups, allocated, traits)
	fmt.Println(providers, err)
	// Output: map[device_profile_0:fpga] <nil>
}
