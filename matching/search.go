package matching

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Sentinels of the search.
var (
	// ErrUnsupported: a group has something that the search without mappings
	// does not understand.
	ErrUnsupported = errors.New("not supported without mappings")
	// ErrTraits: the traits of a provider are not given.
	ErrTraits = errors.New("traits of a provider are missing")
	// ErrNoMatch: no assignment of the groups to the providers explains the
	// allocations.
	ErrNoMatch = errors.New("the groups do not explain the allocations")
)

// Allocated is what a consumer, or a candidate, has from one provider.
type Allocated struct {
	Provider  string
	Resources map[string]int
}

// SearchOpts shapes a search; the zero value is right for new code.
type SearchOpts struct {
	// LastGroupOnly looks for leftovers in the resource classes of the last
	// group only, as Nova does by a slip of a loop variable.
	LastGroupOnly bool
}

// Search finds out which provider serves which group from the allocations
// alone, for Placement before 1.34, whose candidates carry no mappings. It
// follows ResourceRequest's map_requested_resources_to_providers
// (nova/objects/request_spec.py):
//   - each group goes to one provider that has all of its required traits;
//   - the amounts of the groups on a provider do not exceed what was allocated
//     there, and of the classes of all groups nothing may be left over on any
//     provider;
//   - of several solutions the first is taken, where the providers are tried in
//     the order of the allocations and the last group varies fastest.
//
// A provider of the compute node takes part like any other, so a class that
// the flavor itself and a group both ask for has no solution.
//
// Errors are of type [*Error]: [ErrUnsupported] for a group that may be spread
// over providers or has aggregates or forbidden traits, [ErrTraits] for a
// provider without an entry in traits, [ErrNoMatch] otherwise. ForbiddenAggregates
// and InTree are ignored, as upstream does. The number of groups is bounded by
// nothing but the caller; a branch is cut as soon as a provider is overdrawn, some
// group finds no provider any more, or nobody can take what is left of one.
func Search(groups []requestspec.Group, allocated []Allocated, traits map[string][]string, opts SearchOpts) (map[string]string, error) {
	if len(groups) == 0 {
		return map[string]string{}, nil
	}
	if err := searchable(groups, allocated, traits); err != nil {
		return nil, err
	}
	s := newSearch(groups, allocated, traits, opts)
	if !s.balanced() || !s.place(0) {
		return nil, &Error{Group: -1, Err: ErrNoMatch, Want: "all of it used up by the groups", Got: fmt.Sprint(allocated)}
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
			got = "a group that may be spread over providers"
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

// search is a depth-first walk over the assignments.
type search struct {
	groups  []requestspec.Group
	fits    [][]int          // per group: positions of the providers with its traits
	left    []map[string]int // per provider: what no group has taken yet
	chosen  []int            // per group: position of its provider
	classes []string         // nothing of these may be left over
}

func newSearch(groups []requestspec.Group, allocated []Allocated, traits map[string][]string, opts SearchOpts) *search {
	s := &search{groups: groups, chosen: make([]int, len(groups))}
	for _, a := range allocated {
		s.left = append(s.left, maps.Clone(a.Resources))
	}
	judged := groups
	if opts.LastGroupOnly {
		judged = groups[len(groups)-1:]
	}
	for _, group := range judged {
		s.classes = slices.AppendSeq(s.classes, maps.Keys(group.Resources))
	}
	slices.Sort(s.classes)
	s.classes = slices.Compact(s.classes)
	for _, group := range groups {
		var fits []int
		for i, a := range allocated {
			if containsAll(traits[a.Provider], group.Required) {
				fits = append(fits, i)
			}
		}
		s.fits = append(s.fits, fits)
	}
	return s
}

// balanced reports whether the groups together ask for as much of each class in
// question as was allocated. Without that there is no need to walk: whatever the
// assignment, something is left over or overdrawn.
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
	for _, class := range s.classes {
		if sum[class] != 0 {
			return false
		}
	}
	return true
}

func containsAll(have, want []string) bool {
	for _, trait := range want {
		if !slices.Contains(have, trait) {
			return false
		}
	}
	return true
}

// place assigns the groups from i on.
func (s *search) place(i int) bool {
	if i == len(s.groups) {
		return s.usedUp()
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

// possible reports whether each of the groups from i on, taken alone, still finds
// a provider. It cuts the walk where a late group was doomed from the start.
func (s *search) possible(i int) bool {
	for j := i; j < len(s.groups); j++ {
		if !slices.ContainsFunc(s.fits[j], func(provider int) bool { return s.holds(provider, s.groups[j].Resources) }) {
			return false
		}
	}
	return true
}

// finishable reports whether of each provider that has something left some group
// from i on can take some.
func (s *search) finishable(i int) bool {
	for provider := range s.left {
		if s.spent(provider) {
			continue
		}
		taker := func(j int) bool {
			return slices.Contains(s.fits[j], provider) && s.holds(provider, s.groups[j].Resources)
		}
		j := i
		for j < len(s.groups) && !taker(j) {
			j++
		}
		if j == len(s.groups) {
			return false
		}
	}
	return true
}

// spent reports whether nothing is left over of a provider.
func (s *search) spent(provider int) bool {
	for _, class := range s.classes {
		if s.left[provider][class] != 0 {
			return false
		}
	}
	return true
}

// holds reports whether a provider has the amounts left.
func (s *search) holds(provider int, amounts map[string]int) bool {
	left := s.left[provider]
	for class, amount := range amounts {
		if have, ok := left[class]; !ok || have < amount {
			return false
		}
	}
	return true
}

// take draws the amounts from a provider, or nothing if it has too little.
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

func (s *search) usedUp() bool {
	for provider := range s.left {
		if !s.spent(provider) {
			return false
		}
	}
	return true
}
