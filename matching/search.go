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
// nothing but the caller; a branch that cannot be completed is cut as soon as a
// provider is overdrawn.
func Search(groups []requestspec.Group, allocated []Allocated, traits map[string][]string, opts SearchOpts) (map[string]string, error) {
	if len(groups) == 0 {
		return map[string]string{}, nil
	}
	if err := searchable(groups, allocated, traits); err != nil {
		return nil, err
	}
	s := newSearch(groups, allocated, traits, opts)
	if !s.place(0) {
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

// take draws the amounts from a provider, or nothing if it has too little.
func (s *search) take(provider int, amounts map[string]int) bool {
	left := s.left[provider]
	for class, amount := range amounts {
		if have, ok := left[class]; !ok || have < amount {
			return false
		}
	}
	for class, amount := range amounts {
		left[class] -= amount
	}
	return true
}

func (s *search) giveBack(provider int, amounts map[string]int) {
	for class, amount := range amounts {
		s.left[provider][class] += amount
	}
}

func (s *search) usedUp() bool {
	for _, left := range s.left {
		for _, class := range s.classes {
			if left[class] != 0 {
				return false
			}
		}
	}
	return true
}
