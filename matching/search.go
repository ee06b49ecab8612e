package matching

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Allocated is the allocation of a consumer or candidate from one provider.
type Allocated struct {
	Provider  string
	Resources map[string]int
}

// Search finds the provider of each group in the allocations, for Placement before
// 1.34, whose candidates have no mappings. It follows
// map_requested_resources_to_providers (nova/objects/request_spec.py):
//   - each group has one provider with all of its required traits;
//   - the amounts of the groups on a provider do not exceed its allocation, and in the
//     classes of all groups they equal it. Nova, by a mistake with a loop variable,
//     compares only the classes of the last group;
//   - the first solution is returned, with the providers in the order of the
//     allocations and the last group varying fastest.
//
// The compute node is a provider like any other, so there is no solution if both the
// flavor itself and a group request a class.
//
// Errors are of type [*Error]: [ErrUnsupported] for a group without UseSameProvider or
// with aggregates or forbidden traits, [ErrTraits] for a provider without an entry in
// traits, [ErrNoMatch] otherwise. As upstream, it ignores ForbiddenAggregates and
// InTree. The search backtracks and abandons a branch when a provider is overdrawn, a
// group has no possible provider, or a remainder has no possible group.
func Search(groups []requestspec.Group, allocated []Allocated, traits map[string][]string) (map[string]string, error) {
	if len(groups) == 0 {
		return map[string]string{}, nil
	}
	if err := searchable(groups, allocated, traits); err != nil {
		return nil, err
	}
	s := newSearch(groups, allocated, traits)
	if !s.balanced() || !s.place(0) {
		return nil, &Error{Group: -1, Err: ErrNoMatch, Want: "all of it in the groups", Got: fmt.Sprint(allocated)}
	}
	found := make(map[string]string, len(groups))
	for i, group := range groups {
		found[group.RequesterID] = allocated[s.chosen[i]].Provider
	}
	return found, nil
}

func searchable(groups []requestspec.Group, allocated []Allocated, traits map[string][]string) error {
	for i, group := range groups {
		got := ""
		switch {
		case !group.UseSameProvider:
			got = "a group that may have several providers"
		case len(group.Aggregates) > 0:
			got = "aggregates"
		case len(group.Forbidden) > 0:
			got = "forbidden traits"
		default:
			continue
		}
		return &Error{RequesterID: group.RequesterID, Group: i, Err: ErrUnsupported, Want: "amounts and required traits", Got: got}
	}
	for _, a := range allocated {
		if _, ok := traits[a.Provider]; !ok {
			return &Error{Group: -1, Err: ErrTraits, Want: "traits of every provider", Got: "none of " + a.Provider}
		}
	}
	return nil
}

// search is a depth-first search of the assignments.
type search struct {
	groups  []requestspec.Group
	fits    [][]int          // per group: positions of the providers with its traits
	left    []map[string]int // per provider: the remaining allocation
	chosen  []int            // per group: position of its provider
	classes []string         // of all groups; nothing of these may remain
}

func newSearch(groups []requestspec.Group, allocated []Allocated, traits map[string][]string) *search {
	s := &search{groups: groups, chosen: make([]int, len(groups))}
	for _, a := range allocated {
		s.left = append(s.left, maps.Clone(a.Resources))
	}
	for _, group := range groups {
		s.classes = slices.AppendSeq(s.classes, maps.Keys(group.Resources))
	}
	slices.Sort(s.classes)
	s.classes = slices.Compact(s.classes)
	for _, group := range groups {
		var fits []int
		for i, a := range allocated {
			lacks := func(trait string) bool { return !slices.Contains(traits[a.Provider], trait) }
			if !slices.ContainsFunc(group.Required, lacks) {
				fits = append(fits, i)
			}
		}
		s.fits = append(s.fits, fits)
	}
	return s
}

// balanced reports whether the sum of the groups equals the allocations in each class.
// Otherwise no assignment is possible; with it, an assignment of all groups leaves
// nothing.
func (s *search) balanced() bool {
	sum := map[string]int{}
	for _, group := range s.groups {
		for class, amount := range group.Resources {
			sum[class] -= amount
		}
	}
	for _, left := range s.left {
		for class, amount := range left {
			sum[class] += amount
		}
	}
	return !slices.ContainsFunc(s.classes, func(class string) bool { return sum[class] != 0 })
}

// place assigns the groups from i on.
func (s *search) place(i int) bool {
	if i == len(s.groups) {
		return true
	}
	if !s.possible(i) || !s.finishable(i) {
		return false
	}
	for _, provider := range s.fits[i] {
		if !s.take(provider, s.groups[i].Resources) {
			continue
		}
		s.chosen[i] = provider
		if s.place(i + 1) {
			return true
		}
		s.giveBack(provider, s.groups[i].Resources)
	}
	return false
}

// possible reports whether each of the groups from i on has a possible provider of its
// own.
func (s *search) possible(i int) bool {
	for j := i; j < len(s.groups); j++ {
		if !slices.ContainsFunc(s.fits[j], func(provider int) bool { return s.holds(provider, s.groups[j].Resources) }) {
			return false
		}
	}
	return true
}

// finishable reports whether each provider with a remainder has a possible group from i
// on.
func (s *search) finishable(i int) bool {
	for provider := range s.left {
		if s.spent(provider) {
			continue
		}
		some := false
		for j := i; j < len(s.groups) && !some; j++ {
			some = slices.Contains(s.fits[j], provider) && s.holds(provider, s.groups[j].Resources)
		}
		if !some {
			return false
		}
	}
	return true
}

// spent reports whether a provider has no remainder.
func (s *search) spent(provider int) bool {
	return !slices.ContainsFunc(s.classes, func(class string) bool { return s.left[provider][class] != 0 })
}

// holds reports whether the remainder of a provider includes the amounts.
func (s *search) holds(provider int, amounts map[string]int) bool {
	left := s.left[provider]
	for class, amount := range amounts {
		if have, ok := left[class]; !ok || have < amount {
			return false
		}
	}
	return true
}

// take subtracts the amounts from a provider if it holds them.
func (s *search) take(provider int, amounts map[string]int) bool {
	if !s.holds(provider, amounts) {
		return false
	}
	for class, amount := range amounts {
		s.left[provider][class] -= amount
	}
	return true
}

func (s *search) giveBack(provider int, amounts map[string]int) {
	for class, amount := range amounts {
		s.left[provider][class] += amount
	}
}
