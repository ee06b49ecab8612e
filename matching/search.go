package matching

import (
	"context"
	"errors"
	"fmt"
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
// The search backtracks. It abandons a branch when a provider is overdrawn, a group has
// no possible provider, or a remainder has no possible group, and tries identical
// groups and identical providers once. The problem is NP-hard, so the search stops
// after 1,000,000 steps, and when ctx is done.
//
// Errors are of type [*Error]: [ErrUnsupported] for a group without UseSameProvider or
// with aggregates or forbidden traits, [ErrAmbiguous] for a requester id that occurs twice,
// [ErrTraits] for a provider without an entry in traits, [ErrSearchLimit] for a search that
// was stopped after its steps, [ErrNoMatch] when there is no solution. The error of ctx is
// wrapped. As upstream, Search ignores ForbiddenAggregates and InTree.
func Search(ctx context.Context, groups []requestspec.Group, allocated []Allocated, traits map[string][]string) (map[string]string, error) {
	if len(groups) == 0 {
		return map[string]string{}, nil
	}
	if err := searchable(groups, allocated, traits); err != nil {
		return nil, err
	}
	s := newSearch(groups, allocated, traits)
	if !s.balanced() || !s.place(ctx, 0) {
		return nil, s.failure(allocated)
	}
	found := make(map[string]string, len(groups))
	for i, group := range groups {
		found[group.RequesterID] = allocated[s.chosen[i]].Provider
	}
	return found, nil
}

func searchable(groups []requestspec.Group, allocated []Allocated, traits map[string][]string) error {
	seen := make(map[string]bool, len(groups))
	for i, group := range groups {
		if seen[group.RequesterID] {
			return secondGroup(i, group.RequesterID)
		}
		seen[group.RequesterID] = true
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

// searchSteps is how many assignments of a group to a provider a search tries.
const searchSteps = 1_000_000

// search is a depth-first search of the assignments. Amounts are listed in one order of
// the classes of all groups.
type search struct {
	wanted    [][]int  // per group: its amounts
	fits      [][]bool // per group and provider: it has the traits and the classes
	left      [][]int  // per provider: the remaining allocation
	chosen    []int    // per group: position of its provider
	groupTwin []int    // per group: the previous identical one, or -1
	kind      []int    // per provider: the first one that fits the same groups
	steps     int
	stopped   error // the reason to give up
}

func newSearch(groups []requestspec.Group, allocated []Allocated, traits map[string][]string) *search {
	position := map[string]int{} // of each class
	for _, group := range groups {
		for class := range group.Resources {
			if _, ok := position[class]; !ok {
				position[class] = len(position)
			}
		}
	}
	amounts := func(resources map[string]int) []int {
		list := make([]int, len(position))
		for class, i := range position {
			list[i] = resources[class]
		}
		return list
	}
	s := &search{chosen: make([]int, len(groups))}
	for _, a := range allocated {
		s.left = append(s.left, amounts(a.Resources))
	}
	for _, group := range groups {
		s.wanted = append(s.wanted, amounts(group.Resources))
		fits := make([]bool, len(allocated))
		for i, a := range allocated {
			fits[i] = canProvide(a.Resources, traits[a.Provider], group)
		}
		s.fits = append(s.fits, fits)
	}
	s.findTwins()
	return s
}

// canProvide reports whether a provider has the traits and the classes of a group.
func canProvide(resources map[string]int, traits []string, group requestspec.Group) bool {
	for class := range group.Resources {
		if _, ok := resources[class]; !ok {
			return false
		}
	}
	return !slices.ContainsFunc(group.Required, func(trait string) bool { return !slices.Contains(traits, trait) })
}

// findTwins finds the groups and the providers that can be exchanged.
func (s *search) findTwins() {
	for i := range s.wanted {
		twin := i - 1
		for twin >= 0 && !(slices.Equal(s.wanted[twin], s.wanted[i]) && slices.Equal(s.fits[twin], s.fits[i])) {
			twin--
		}
		s.groupTwin = append(s.groupTwin, twin)
	}
	for provider := range s.left {
		sameFits := func(other int) bool {
			return !slices.ContainsFunc(s.fits, func(fits []bool) bool { return fits[other] != fits[provider] })
		}
		first := 0
		for !sameFits(first) {
			first++
		}
		s.kind = append(s.kind, first)
	}
}

// balanced reports whether the sum of the groups equals the allocations in each class.
// Otherwise no assignment is possible; with it, an assignment of all groups leaves
// nothing.
func (s *search) balanced() bool {
	for class := range s.wanted[0] {
		sum := 0
		for _, wanted := range s.wanted {
			sum -= wanted[class]
		}
		for _, left := range s.left {
			sum += left[class]
		}
		if sum != 0 {
			return false
		}
	}
	return true
}

// place assigns the groups from i on.
func (s *search) place(ctx context.Context, i int) bool {
	if i == len(s.wanted) {
		return true
	}
	if !s.possible(i) || !s.finishable(i) {
		return false
	}
	for provider := range s.left {
		if !s.holds(provider, i, i) || s.tried(provider) {
			continue
		}
		if s.steps++; s.steps > searchSteps {
			s.stopped = ErrSearchLimit
		} else if err := ctx.Err(); err != nil {
			s.stopped = err
		}
		if s.stopped != nil {
			return false
		}
		s.chosen[i] = provider
		s.take(provider, i, 1)
		if s.place(ctx, i+1) {
			return true
		}
		s.take(provider, i, -1)
	}
	return false
}

// tried reports whether an earlier provider is identical to this one and has the same free
// resources. An assignment to it covers both.
func (s *search) tried(provider int) bool {
	for earlier := s.kind[provider]; earlier < provider; earlier++ {
		if s.kind[earlier] == s.kind[provider] && slices.Equal(s.left[earlier], s.left[provider]) {
			return true
		}
	}
	return false
}

// possible reports whether each of the groups from i on has a possible provider of its
// own.
func (s *search) possible(i int) bool {
	for j := i; j < len(s.wanted); j++ {
		if !s.anyProvider(j, i) {
			return false
		}
	}
	return true
}

// finishable reports whether each provider with a remainder has a possible group from i
// on.
func (s *search) finishable(i int) bool {
	for provider, left := range s.left {
		spent := !slices.ContainsFunc(left, func(amount int) bool { return amount != 0 })
		if !spent && !s.anyGroup(provider, i) {
			return false
		}
	}
	return true
}

func (s *search) anyProvider(group, i int) bool {
	for provider := range s.left {
		if s.holds(provider, group, i) {
			return true
		}
	}
	return false
}

func (s *search) anyGroup(provider, i int) bool {
	for group := i; group < len(s.wanted); group++ {
		if s.holds(provider, group, i) {
			return true
		}
	}
	return false
}

// holds reports whether a provider is possible for a group when those before i are
// assigned. Identical groups have providers in ascending order, as any other order is
// found later.
func (s *search) holds(provider, group, i int) bool {
	if !s.fits[group][provider] {
		return false
	}
	for class, amount := range s.wanted[group] {
		if s.left[provider][class] < amount {
			return false
		}
	}
	twin := s.groupTwin[group]
	for twin >= i {
		twin = s.groupTwin[twin]
	}
	return twin < 0 || s.chosen[twin] <= provider
}

// take subtracts the amounts of a group, times sign, from a provider.
func (s *search) take(provider, group, sign int) {
	for class, amount := range s.wanted[group] {
		s.left[provider][class] -= sign * amount
	}
}

// failure is the error of a search without a result.
func (s *search) failure(allocated []Allocated) error {
	switch {
	case s.stopped == nil:
		return &Error{Group: -1, Err: ErrNoMatch, Want: "all of it in the groups", Got: fmt.Sprint(allocated)}
	case errors.Is(s.stopped, ErrSearchLimit):
		return &Error{Group: -1, Err: ErrSearchLimit, Want: fmt.Sprintf("a result in %d steps", searchSteps), Got: "none"}
	}
	return fmt.Errorf("matching: search after %d steps: %w", s.steps, s.stopped)
}
