package matching_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// searchRow is one search.
type searchRow struct {
	name      string
	groups    []requestspec.Group
	allocated []matching.Allocated
	traits    map[string][]string // nil: none of any provider
	want      map[string]string
	err       error
}

func (tt searchRow) run(t *testing.T) {
	t.Helper()
	if tt.traits == nil {
		tt.traits = noTraits(tt.allocated)
	}
	got, err := matching.Search(t.Context(), tt.groups, tt.allocated, tt.traits)
	if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
		t.Errorf("got error %v, want %v", err, tt.err)
	}
	if diff := cmp.Diff(tt.want, got); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
}

// The vectors were taken from Nova's own tests and runs of its code. TestNovaScheduling has further ones.
func TestSearchFollowsNova(t *testing.T) {
	t.Parallel()
	bandwidth := func(egress, ingress int) resources { return resources{"EGR": egress, "IGR": ingress} }
	for _, tt := range []searchRow{
		{"by trait", []requestspec.Group{group(0, bandwidth(1, 1), "CUSTOM_PHYSNET0"), group(1, bandwidth(1, 1), "CUSTOM_PHYSNET1")},
			[]matching.Allocated{{"d1", bandwidth(1, 1)}, {"d2", bandwidth(1, 1)}},
			map[string][]string{"d1": {"CUSTOM_PHYSNET1"}, "d2": {"CUSTOM_PHYSNET0"}},
			map[string]string{"g0": "d2", "g1": "d1"}, nil},
		{"three groups", []requestspec.Group{group(0, bandwidth(1, 3)), group(1, bandwidth(2, 2)), group(2, bandwidth(3, 3))},
			[]matching.Allocated{{"cn", resources{"VCPU": 1}}, {"d1", bandwidth(3, 3)}, {"d2", bandwidth(2, 2)}, {"d3", bandwidth(1, 3)}}, nil,
			map[string]string{"g0": "d3", "g1": "d2", "g2": "d1"}, nil},
		{"leftover in the last group's class", []requestspec.Group{group(0, resources{"FPGA": 1}), group(1, resources{"PGPU": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}, {"b", resources{"PGPU": 2}}}, nil,
			nil, matching.ErrNoMatch},
		{"leftover in the first group's class", []requestspec.Group{group(0, resources{"FPGA": 1}), group(1, resources{"PGPU": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 2}}, {"b", resources{"PGPU": 1}}}, nil,
			nil, matching.ErrNoMatch},
		{"left over elsewhere", []requestspec.Group{group(0, resources{"FPGA": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 1, "VCPU": 1}}, {"b", resources{"FPGA": 1}}}, nil,
			nil, matching.ErrNoMatch},
		{"an identical group goes back after a dead end", []requestspec.Group{group(0, resources{"A": 1}), group(1, resources{"A": 1}), group(2, resources{"A": 1}),
			group(3, resources{"A": 2}), group(4, resources{"A": 2}), group(5, resources{"A": 1, "B": 1})},
			[]matching.Allocated{{"a", resources{"A": 6}}, {"b", resources{"A": 2, "B": 1}}}, nil,
			map[string]string{"g0": "a", "g1": "a", "g2": "b", "g3": "a", "g4": "a", "g5": "b"}, nil},
		{"an amount of zero needs the class", []requestspec.Group{group(0, resources{"FPGA": 1, "PGPU": 0}), group(1, resources{"FPGA": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}, {"b", resources{"FPGA": 1, "PGPU": 0}}}, nil,
			map[string]string{"g0": "b", "g1": "a"}, nil},
		{"forbidden aggregates are ignored", []requestspec.Group{{RequesterID: "g0", UseSameProvider: true, Resources: resources{"FPGA": 1}, ForbiddenAggregates: []string{"x"}, InTree: "y"}},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}}, nil,
			map[string]string{"g0": "a"}, nil},
		{"traits not given", []requestspec.Group{group(0, resources{"FPGA": 1})},
			[]matching.Allocated{{"a", resources{"FPGA": 1}}}, map[string][]string{},
			nil, matching.ErrTraits},
		{"spread group", []requestspec.Group{{RequesterID: "g0", Resources: resources{"FPGA": 1}}}, nil, nil,
			nil, matching.ErrUnsupported},
		{"forbidden traits", []requestspec.Group{{RequesterID: "g0", UseSameProvider: true, Forbidden: []string{"CUSTOM_X"}}}, nil, nil,
			nil, matching.ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t)
		})
	}
}

func TestSearchErrorsNameTheGroupOrProvider(t *testing.T) {
	t.Parallel()
	fpga, device := group(1, resources{"FPGA": 1}), []matching.Allocated{{"dev", resources{"FPGA": 2}}}
	spread, aggregates, forbidden := fpga, fpga, fpga
	spread.UseSameProvider = false
	aggregates.Aggregates = [][]string{{"x"}}
	forbidden.Forbidden = []string{"CUSTOM_X"}
	unsupported := func(got string) *matching.Error {
		return &matching.Error{RequesterID: "g1", Group: 1, Err: matching.ErrUnsupported, Want: "amounts and required traits", Got: got}
	}
	tests := []struct {
		name   string
		second requestspec.Group
		traits map[string][]string
		want   *matching.Error
	}{
		{"spread", spread, nil, unsupported("a group that may have several providers")},
		{"aggregates", aggregates, nil, unsupported("aggregates")},
		{"forbidden", forbidden, nil, unsupported("forbidden traits")},
		{"twice", group(0, resources{"FPGA": 1}), nil,
			&matching.Error{RequesterID: "g0", Group: 1, Err: matching.ErrAmbiguous, Want: "one group of this requester id", Got: "a second"}},
		{"traits", fpga, nil, &matching.Error{Group: -1, Err: matching.ErrTraits, Want: "traits of every provider", Got: "none of dev"}},
		{"no match", group(1, resources{"FPGA": 2}), noTraits(device),
			&matching.Error{Group: -1, Err: matching.ErrNoMatch, Want: "all of it in the groups", Got: "[{dev map[FPGA:2]}]"}},
	}
	for _, tt := range tests {
		_, err := matching.Search(t.Context(), []requestspec.Group{group(0, resources{"FPGA": 1}), tt.second}, device, tt.traits)
		if got := (*matching.Error)(nil); !errors.As(err, &got) || *got != *tt.want {
			t.Errorf("%s: got %#v, want %#v", tt.name, err, tt.want)
		}
	}
}

// searchObviously backtracks without any shortcut, last group fastest.
func searchObviously(groups []requestspec.Group, allocated []matching.Allocated, traits map[string][]string) map[string]string {
	found, left := map[string]string{}, map[string]resources{}
	for _, a := range allocated {
		left[a.Provider] = maps.Clone(a.Resources)
	}
	var place func(i int) bool
	place = func(i int) bool {
		if i == len(groups) {
			for _, group := range groups {
				for class := range group.Resources {
					for _, amounts := range left {
						if amounts[class] != 0 {
							return false
						}
					}
				}
			}
			return true
		}
		for _, a := range allocated {
			fits := true
			for _, trait := range groups[i].Required {
				fits = fits && slices.Contains(traits[a.Provider], trait)
			}
			for class, amount := range groups[i].Resources {
				have, ok := left[a.Provider][class]
				fits = fits && ok && have >= amount
			}
			if !fits {
				continue
			}
			for class, amount := range groups[i].Resources {
				left[a.Provider][class] -= amount
			}
			if place(i + 1) {
				found[groups[i].RequesterID] = a.Provider
				return true
			}
			for class, amount := range groups[i].Resources {
				left[a.Provider][class] += amount
			}
		}
		return false
	}
	if !place(0) {
		return nil
	}
	return found
}

// drawSearch draws groups, many of them identical, and the allocations of one
// assignment of them, perhaps changed.
func drawSearch(t *rapid.T) ([]requestspec.Group, []matching.Allocated, map[string][]string) {
	amounts := rapid.SampledFrom([]resources{{"A": 1}, {"A": 2}, {"B": 1}, {"A": 1, "B": 1}, {"A": 0, "B": 2}})
	var groups []requestspec.Group
	for i := range rapid.IntRange(1, 6).Draw(t, "groups") {
		g := group(i, amounts.Draw(t, "group"))
		g.Required = rapid.SampledFrom([][]string{nil, nil, {"CUSTOM_X"}, {"CUSTOM_Y"}}).Draw(t, "required")
		groups = append(groups, g)
	}
	var allocated []matching.Allocated
	traits := map[string][]string{}
	for i := range rapid.IntRange(1, 5).Draw(t, "providers") {
		provider := fmt.Sprintf("p%d", i)
		allocated = append(allocated, matching.Allocated{Provider: provider, Resources: rapid.SampledFrom([]resources{{}, {"A": 0}}).Draw(t, "rest")})
		traits[provider] = rapid.SampledFrom([][]string{nil, {"CUSTOM_X"}, {"CUSTOM_Y"}, {"CUSTOM_Y", "CUSTOM_X"}}).Draw(t, "traits")
	}
	for _, group := range groups {
		provider := rapid.IntRange(0, len(allocated)-1).Draw(t, "provider")
		for class, amount := range group.Resources {
			allocated[provider].Resources = maps.Clone(allocated[provider].Resources)
			allocated[provider].Resources[class] += amount
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "changed") == 0 {
		provider := rapid.IntRange(0, len(allocated)-1).Draw(t, "provider")
		allocated[provider].Resources = amounts.Draw(t, "other")
	}
	return groups, allocated, traits
}

func TestSearchFindsTheFirstAssignment(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			groups, allocated, traits := drawSearch(t)
			want := searchObviously(groups, allocated, traits)
			got, err := matching.Search(t.Context(), groups, allocated, traits)
			if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
				t.Fatalf("groups %v, allocated %v, traits %v: error %v (-want +got):\n%s", groups, allocated, traits, err, diff)
			}
		}
	})
}

// partition is a search for a subset of distinct amounts. There is no solution: the amounts are
// even and the allocations odd.
func partition() ([]requestspec.Group, []matching.Allocated, map[string][]string) {
	var groups []requestspec.Group
	sum := 0
	for i := range 30 {
		amount := 1000 + 2*i*i
		groups = append(groups, group(i, resources{"FPGA": amount}))
		sum += amount
	}
	half := sum/2 | 1
	allocated := []matching.Allocated{{"a", resources{"FPGA": half}}, {"b", resources{"FPGA": sum - half}}}
	return groups, allocated, noTraits(allocated)
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	groups, allocated, traits := partition()
	got, err := matching.Search(t.Context(), groups, allocated, traits)
	var e *matching.Error
	if got != nil || !errors.As(err, &e) || e.Err != matching.ErrSearchLimit || e.Group != -1 || e.Want != "a result in 1000000 steps" {
		t.Errorf("got %v, %v; want %v", got, err, matching.ErrSearchLimit)
	}
}

func TestSearchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	groups, allocated, traits := partition()
	got, err := matching.Search(ctx, groups, allocated, traits)
	if got != nil || !errors.Is(err, context.Canceled) || errors.Is(err, matching.ErrNoMatch) {
		t.Errorf("got %v, %v; want %v", got, err, context.Canceled)
	}
}

func ExampleSearch() {
	groups := []requestspec.Group{{RequesterID: "device_profile_0", UseSameProvider: true, Resources: map[string]int{"FPGA": 1}}}
	allocated := []matching.Allocated{
		{Provider: "compute-node", Resources: map[string]int{"VCPU": 2}},
		{Provider: "fpga", Resources: map[string]int{"FPGA": 1}},
	}
	traits := map[string][]string{"compute-node": {"COMPUTE_NODE"}, "fpga": {"CUSTOM_FPGA_INTEL"}}
	providers, err := matching.Search(context.Background(), groups, allocated, traits)
	fmt.Println(providers, err)
	// Output: map[device_profile_0:fpga] <nil>
}
