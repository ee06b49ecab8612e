package requestspec

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Query returns the query string of GET /allocation_candidates, byte for byte as
// Nova writes it: pairs of name and value sorted before escaping. It needs the
// microversion of [RequestSpec.Microversion].
func (r RequestSpec) Query() string {
	var b strings.Builder
	for i, p := range r.parameters() {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.name))
		b.WriteByte('=')
		b.WriteString(url.QueryEscape(p.value))
	}
	return b.String()
}

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
	for _, p := range r.parameters() {
		v.Add(p.name, p.value)
	}
	return v
}

// parameter is one name and value of the query.
type parameter struct{ name, value string }

// parameters returns the query, sorted by name, then value.
func (r RequestSpec) parameters() []parameter {
	list := make([]parameter, 0, 4+3*len(r.Groups))
	if r.Limit > 0 {
		list = append(list, parameter{"limit", strconv.Itoa(r.Limit)})
	}
	if r.GroupPolicy != "" {
		list = append(list, parameter{"group_policy", r.GroupPolicy})
	}
	if len(r.RootRequired)+len(r.RootForbidden) > 0 {
		list = append(list, parameter{"root_required", traitList(r.RootRequired, r.RootForbidden)})
	}
	for _, suffixes := range r.SameSubtree {
		list = append(list, parameter{"same_subtree", sortedList(suffixes)})
	}
	for _, g := range r.Groups {
		list = g.appendTo(list)
	}
	slices.SortFunc(list, func(a, b parameter) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	return list
}

func (g Group) appendTo(list []parameter) []parameter {
	suffix := g.suffix()
	amounts := make([]string, 0, len(g.Resources))
	for class, amount := range g.Resources {
		amounts = append(amounts, class+":"+strconv.Itoa(amount))
	}
	slices.Sort(amounts)
	list = append(list, parameter{"resources" + suffix, strings.Join(amounts, ",")})
	if len(g.Required)+len(g.Forbidden) > 0 {
		list = append(list, parameter{"required" + suffix, traitList(g.Required, g.Forbidden)})
	}
	for _, anyOf := range g.Aggregates {
		list = append(list, parameter{"member_of" + suffix, "in:" + sortedList(anyOf)})
	}
	if len(g.ForbiddenAggregates) > 0 {
		list = append(list, parameter{"member_of" + suffix, "!in:" + sortedList(g.ForbiddenAggregates)})
	}
	if g.InTree != "" {
		list = append(list, parameter{"in_tree" + suffix, g.InTree})
	}
	return list
}

func sortedList(items []string) string {
	sorted := slices.Clone(items)
	slices.Sort(sorted)
	return strings.Join(sorted, ",")
}

func traitList(required, forbidden []string) string {
	traits := make([]string, 0, len(required)+len(forbidden))
	traits = append(traits, required...)
	slices.Sort(traits)
	for _, trait := range forbidden {
		traits = append(traits, "!"+trait)
	}
	slices.Sort(traits[len(required):])
	return strings.Join(traits, ",")
}
