package matching_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// hardSearches are worlds for which brute force tries 12^6 assignments or more.
func hardSearches() map[string]func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
	return map[string]func() ([]requestspec.Group, []matching.Allocated, map[string][]string){
		"last": hardWorld,
		"traits": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			groups, allocated, traits := hardWorld()
			for i := range groups { // every group fits everywhere, but for the last
				groups[i].Resources = resources{"FPGA": 1, "CUSTOM_X": 1}
			}
			for i := range allocated[6:] {
				allocated[6+i].Resources = resources{"FPGA": 1, "CUSTOM_X": 1}
			}
			groups[5].Required = []string{"CUSTOM_A"}
			traits[allocated[6].Provider] = []string{"CUSTOM_A"}
			return groups, allocated, traits
		},
		"none": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			groups, allocated, traits := hardWorld()
			for i := range groups {
				groups[i].Resources = resources{"FPGA": 2}
			}
			for i := range allocated { // as much as is asked for, in pieces that no group takes
				allocated[i].Resources = resources{"FPGA": 1}
			}
			return groups, allocated, traits
		},
		"subsets": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			groups, allocated, traits := hardWorld()
			for i, amount := range []int{5, 5, 4, 4, 3, 3} {
				groups[i].Resources = resources{"FPGA": amount}
			}
			for i := range allocated {
				allocated[i].Resources = resources{"FPGA": 0}
			}
			allocated[0].Resources, allocated[1].Resources, allocated[2].Resources = resources{"FPGA": 11}, resources{"FPGA": 11}, resources{"FPGA": 2}
			return groups, allocated, traits
		},
		"late_group": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			groups, allocated, traits := partition() // the last group has no provider
			groups[29].Required = []string{"CUSTOM_A"}
			return groups, allocated, traits
		},
		"lost_unit": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			groups, allocated, _ := partition() // no group is as small as the last allocation
			allocated[0].Resources["FPGA"]--
			allocated = append(allocated, matching.Allocated{Provider: "c", Resources: resources{"FPGA": 1}})
			return groups, allocated, noTraits(allocated)
		},
		"equal_groups": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			return equalWorld(20, 2, 8, 5) // each provider can have two groups, and one unit remains
		},
		"equal_groups_one_left": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			groups, allocated, traits := equalWorld(20, 1, 20, 1)
			groups[19].Required = []string{"CUSTOM_A"}
			traits["dev00"] = []string{"CUSTOM_A"}
			return groups, allocated, traits
		},
		"equal_providers": func() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
			groups, allocated, traits := equalWorld(12, 0, 4, 39)
			for i := range groups { // even amounts, the sum of the odd allocations
				groups[i].Resources = resources{"FPGA": 2 + 2*i}
			}
			return groups, allocated, traits
		},
	}
}

// equalWorld has as many groups of the amount and providers of the allocation.
func equalWorld(n, amount, m, allocation int) (groups []requestspec.Group, allocated []matching.Allocated, traits map[string][]string) {
	for i := range n {
		groups = append(groups, group(i, resources{"FPGA": amount}))
	}
	for i := range m {
		allocated = append(allocated, matching.Allocated{Provider: fmt.Sprintf("dev%02d", i), Resources: resources{"FPGA": allocation}})
	}
	return groups, allocated, noTraits(allocated)
}

// hardWorld has six providers of the compute node and six devices, in the order
// that is worst: the first group belongs to the last provider.
func hardWorld() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
	var groups []requestspec.Group
	var allocated []matching.Allocated
	for i := range 6 {
		groups = append(groups, group(i, resources{"FPGA": 6 - i}))
		allocated = append(allocated, matching.Allocated{Provider: fmt.Sprintf("numa%d", i), Resources: resources{"VCPU": 1, "FPGA": 0}})
	}
	for i := range 6 {
		allocated = append(allocated, matching.Allocated{Provider: fmt.Sprintf("dev%d", i), Resources: resources{"FPGA": i + 1}})
	}
	return groups, allocated, noTraits(allocated)
}

func BenchmarkSearch(b *testing.B) {
	for name, world := range hardSearches() {
		groups, allocated, traits := world()
		b.Run(fmt.Sprintf("groups=%d/providers=%d/case=%s", len(groups), len(allocated), name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = matching.Search(b.Context(), groups, allocated, traits)
			}
		})
	}
}

func TestHardSearchesHaveTheirAnswer(t *testing.T) {
	for name, world := range hardSearches() {
		groups, allocated, traits := world()
		got, err := matching.Search(t.Context(), groups, allocated, traits)
		solvable := name == "last" || name == "traits" || name == "equal_groups_one_left"
		if solvable != (err == nil) || solvable != (len(got) == len(groups)) || !solvable && !errors.Is(err, matching.ErrNoMatch) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func BenchmarkWeigh(b *testing.B) {
	profile := requestspec.Profile{Groups: []map[string]string{{"resources:FPGA": "1", "accel:function_id": "a"}}}
	var candidates []matching.Candidate
	providers := map[string]matching.Provider{}
	for i := range 1000 {
		uuid := fmt.Sprintf("dev%d", i)
		providers[uuid] = matching.Provider{Traits: []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_FUNCTION_INTEL_B"}, Capacity: resources{"FPGA": 2}, Used: resources{"FPGA": i % 3}}
		candidates = append(candidates, matching.Candidate{
			Host: fmt.Sprint("host", i%10), Providers: providers,
			Allocations: map[string]map[string]int{uuid: {"FPGA": 1}}, Mappings: map[string][]string{"device_profile_0": {uuid}},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		matching.Weigh(candidates, matching.FunctionLoaded(profile, nil), matching.FewestFragments(), matching.NUMAAffinity())
	}
}
