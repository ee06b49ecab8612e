package requestspec

import (
	"cmp"
	"maps"
	"slices"
)

// Group is one request group of the query. One provider serves it, or for the
// unsuffixed group one tree of providers.
type Group struct {
	// RequesterID is the name of the group and the suffix of its query parameters;
	// empty for the unsuffixed group.
	RequesterID string
	// Suffix, if set, replaces the requester id in the query parameters: a number,
	// for Placement before 1.33.
	Suffix string
	// UseSameProvider requires one provider for all resources of the group; it is
	// true for every suffixed group.
	UseSameProvider bool
	// Resources are amounts by resource class.
	Resources map[string]int
	// Required and Forbidden are traits of the provider.
	Required, Forbidden []string
	// Aggregates: the provider is in at least one aggregate of each inner list.
	Aggregates [][]string
	// ForbiddenAggregates: the provider is in none of them.
	ForbiddenAggregates []string
	// InTree is the UUID of a provider of the tree to search; empty for any.
	InTree string
}

// GroupPolicy says whether the request groups of a query may share a provider.
type GroupPolicy string

// The group policies of Placement.
const (
	GroupPolicyNone    GroupPolicy = "none"    // they may
	GroupPolicyIsolate GroupPolicy = "isolate" // each suffixed group has a provider of its own
)

// Known reports whether Placement knows the policy.
func (p GroupPolicy) Known() bool { return p == GroupPolicyNone || p == GroupPolicyIsolate }

// RequestSpec is a request for allocation candidates. [New] builds one.
type RequestSpec struct {
	// Groups are the unsuffixed group and the groups of the flavor, of [Options] and of the
	// device profile, in this order.
	Groups []Group
	// ProfileGroups is the number of groups of the device profile.
	ProfileGroups int
	// GroupPolicy says whether groups may share a provider; empty where there is one group.
	GroupPolicy GroupPolicy
	// RootRequired and RootForbidden are traits of the root provider.
	RootRequired, RootForbidden []string
	// SameSubtree: the providers of the groups of each inner list share an ancestor.
	SameSubtree [][]string
	// Limit is the maximum number of candidates; 0 omits it.
	Limit int
	// Numeric is set when the suffixes are numbers, see [Options].
	Numeric bool
	// Warnings are messages that Nova logs, and some mistakes that Nova does not
	// detect.
	Warnings []Warning
}

// Warning is a mistake that does not prevent the request.
type Warning struct {
	// Key and Value are the extra spec, or the query parameter of a whole group.
	Key, Value string
	// Message is Nova's log text where Nova has one.
	Message string
}

// DeviceGroups returns the groups of the device profile, in its order, so that the
// index is Cyborg's device_profile_group_id. They end before the first that is
// missing.
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

// suffix returns the suffix of the query parameters.
func (g Group) suffix() string { return cmp.Or(g.Suffix, g.RequesterID) }

// addTrait adds a trait, and reports whether value is required or forbidden.
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

// empty is Nova's RequestGroup.is_empty, which counts a zero amount but not in_tree.
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
