package requestspec

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Query returns the query string of GET /allocation_candidates, byte for byte as
// Nova writes it: pairs of name and value sorted before escaping. It needs the
// microversion of [RequestSpec.Microversion].
func (r RequestSpec) Query() string { return r.Values().Encode() }

// Values returns the parameters of the query, the values of each name sorted:
//   - limit and group_policy, unless unset;
//   - root_required and required<S>: sorted traits, then the forbidden ones,
//     sorted, each with a leading "!"; omitted when empty;
//   - same_subtree: one value per list;
//   - resources<S>: CLASS:amount, sorted as text; empty for a group of traits;
//   - member_of<S>: in:<uuid,...> per list of aggregates, and one
//     !in:<uuid,...> for the forbidden ones;
//   - in_tree<S>: one UUID.
//
// <S> is the group's requester id, or its number.
func (r RequestSpec) Values() url.Values {
	v := url.Values{}
	if r.Limit > 0 {
		v.Set("limit", strconv.Itoa(r.Limit))
	}
	if r.GroupPolicy != "" {
		v.Set("group_policy", string(r.GroupPolicy))
	}
	if len(r.RootRequired)+len(r.RootForbidden) > 0 {
		v.Set("root_required", traitList(r.RootRequired, r.RootForbidden))
	}
	for _, suffixes := range r.SameSubtree {
		v.Add("same_subtree", sortedList(suffixes))
	}
	for _, g := range r.Groups {
		g.addTo(v)
	}
	for _, values := range v {
		slices.Sort(values)
	}
	return v
}

func (g Group) addTo(v url.Values) {
	suffix := g.suffix()
	amounts := make([]string, 0, len(g.Resources))
	for class, amount := range g.Resources {
		amounts = append(amounts, class+":"+strconv.Itoa(amount))
	}
	v.Add("resources"+suffix, sortedList(amounts))
	if len(g.Required)+len(g.Forbidden) > 0 {
		v.Add("required"+suffix, traitList(g.Required, g.Forbidden))
	}
	for _, anyOf := range g.Aggregates {
		v.Add("member_of"+suffix, "in:"+sortedList(anyOf))
	}
	if len(g.ForbiddenAggregates) > 0 {
		v.Add("member_of"+suffix, "!in:"+sortedList(g.ForbiddenAggregates))
	}
	if g.InTree != "" {
		v.Add("in_tree"+suffix, g.InTree)
	}
}

func sortedList(items []string) string { return strings.Join(slices.Sorted(slices.Values(items)), ",") }

// traitList returns the required traits, then the forbidden ones with a leading "!".
func traitList(required, forbidden []string) string {
	traits := slices.Sorted(slices.Values(required))
	for _, trait := range slices.Sorted(slices.Values(forbidden)) {
		traits = append(traits, "!"+trait)
	}
	return strings.Join(traits, ",")
}
