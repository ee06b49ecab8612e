package requestspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// nextNumber returns the suffix of an inserted group: the highest number in use
// plus one, as in nova/scheduler/utils.py of Stein and Train.
func (a *assembly) nextNumber() string {
	highest := 0
	for _, g := range a.groups {
		if n, err := strconv.Atoi(g.suffix()); err == nil {
			highest = max(highest, n)
		}
	}
	return strconv.Itoa(highest + 1)
}

// goNumeric removes what Placement before 1.33 does not support. As in Train's
// filters, traits of the root become traits of the unsuffixed group, whose
// resources are the root's.
func (a *assembly) goNumeric(spec *RequestSpec) {
	spec.Numeric = true
	if len(spec.SameSubtree) > 0 {
		a.warn("same_subtree", fmt.Sprint(spec.SameSubtree), "Placement before 1.36 has no same_subtree; it is omitted.")
		spec.SameSubtree = nil
	}
	if len(spec.RootRequired)+len(spec.RootForbidden) == 0 {
		return
	}
	own := a.byID[""]
	if own == nil || !slices.Contains(a.groups, own) {
		a.warn("root_required", strings.Join(spec.RootRequired, ","),
			"Placement before 1.35 has no root_required, and there is no unsuffixed group for the traits; they are omitted.")
	} else {
		own.Required = append(own.Required, spec.RootRequired...)
		own.Forbidden = append(own.Forbidden, spec.RootForbidden...)
	}
	spec.RootRequired, spec.RootForbidden = nil, nil
}

// Microversion returns the version of Placement's API that the query needs: 1.36,
// as in Nova since Zed, or for a numeric request the lowest that supports its
// parameters. Answers before 1.34 have no mappings; matching.Search finds the
// provider of each group in the allocations.
func (r RequestSpec) Microversion() string {
	if !r.Numeric {
		return "1.36"
	}
	minor := 29 // nested providers
	for _, g := range r.Groups {
		if g.InTree != "" {
			minor = max(minor, 31)
		}
		if len(g.ForbiddenAggregates) > 0 {
			minor = max(minor, 32)
		}
	}
	return "1." + strconv.Itoa(minor)
}
