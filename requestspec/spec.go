package requestspec

import (
	"cmp"
	"maps"
	"slices"
)

// Group is one request group of the query: what one provider, or for the
// group without requester id one tree of providers, has to offer.
type Group struct {
	// RequesterID names the group, and is the suffix of its query parameters;
	// empty for the unsuffixed group.
	RequesterID string
	// Suffix, if set, is the suffix of the query parameters in place of the
	// requester id: a number, for Placement before 1.33.
	Suffix string
	// UseSameProvider is true for every suffixed group: all its resources come
	// from one provider.
	UseSameProvider bool
	// Resources are amounts by resource class.
	Resources map[string]int
	// Required and Forbidden are traits of the provider.
	Required, Forbidden []string
	// Aggregates: the provider is in at least one aggregate of each inner list.
	Aggregates [][]string
	// ForbiddenAggregates: the provider is in none of them.
	ForbiddenAggregates []string
	// InTree is the UUID of a provider in the tree to search; empty for any.
	InTree string
}

// RequestSpec is a whole request for allocation candidates. It can be made by
// [New] or by hand.
type RequestSpec struct {
	// Groups hold the unsuffixed group first, then those of the flavor, then
	// those given in [Options], then those of the device profile.
	Groups []Group
	// ProfileGroups is how many groups the device profile gave.
	ProfileGroups int
	// GroupPolicy is none, isolate or empty.
	GroupPolicy string
	// RootRequired and RootForbidden are traits of the root provider.
	RootRequired, RootForbidden []string
	// SameSubtree: the providers of the groups of each inner list share an ancestor.
	SameSubtree [][]string
	// Limit is the greatest number of candidates wanted; 0 leaves it out.
	Limit int
	// Numeric is set when the suffixes are numbers, see [Options].
	Numeric bool
	// Warnings are what Nova logs and goes on, and a few mistakes that Nova
	// does not notice.
	Warnings []Warning
}

// Warning is a finding that does not stop the request.
type Warning struct {
	// Key and Value are the extra spec in question, or the query parameter when
	// the whole group is meant.
	Key, Value string
	// Message is Nova's log text where Nova has one.
	Message string
}

// DeviceGroups returns the groups that came from the device profile, in the
// order of the profile, so that the index is Cyborg's device_profile_group_id.
// In a request made by hand they end before the first that is missing.
func (r RequestSpec) DeviceGroups() []Group {
	byID := make(map[string]Group, len(r.Groups))
	for _, g := range r.Groups {
		byID[g.RequesterID] = g
	}
	var groups []Group
	for i := range r.ProfileGroups {
		g, ok := byID[RequesterID(i)]
		if !ok {
			break
		}
		groups = append(groups, g)
	}
	return groups
}

// Amounts is the sum of all groups by resource class: what one instance would
// use, the flavor's sizes, the device profile and the ports together. It is what
// Nova counts against quotas, times the number of instances
// (nova/scheduler/utils.py, resources_for_limits).
func (r RequestSpec) Amounts() map[string]int {
	sum := map[string]int{}
	for _, g := range r.Groups {
		for class, amount := range g.Resources {
			sum[class] += amount
		}
	}
	return sum
}

// suffix is that of the group's query parameters.
func (g Group) suffix() string { return cmp.Or(g.Suffix, g.RequesterID) }

// addTrait takes in a trait, and reports whether value is one of the two known.
func (g *Group) addTrait(name, value string) bool {
	switch value {
	case traitRequired:
		g.Required = append(g.Required, name)
	case traitForbidden:
		g.Forbidden = append(g.Forbidden, name)
	default:
		return false
	}
	return true
}

// empty is Nova's RequestGroup.is_empty: a zero amount counts as content, in_tree does not.
func (g *Group) empty() bool {
	return len(g.Resources) == 0 && len(g.Required) == 0 && len(g.Forbidden) == 0 &&
		len(g.Aggregates) == 0 && len(g.ForbiddenAggregates) == 0
}

// clone shares nothing with the original.
func (g Group) clone() *Group {
	g.Resources = maps.Clone(g.Resources)
	g.Required, g.Forbidden = slices.Clone(g.Required), slices.Clone(g.Forbidden)
	g.Aggregates = cloneLists(g.Aggregates)
	g.ForbiddenAggregates = slices.Clone(g.ForbiddenAggregates)
	return &g
}

func cloneLists(lists [][]string) [][]string {
	cloned := slices.Clone(lists)
	for i, list := range cloned {
		cloned[i] = slices.Clone(list)
	}
	return cloned
}
