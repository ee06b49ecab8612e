package requestspec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// numericForm is keyForm before Ussuri: suffixes are whole numbers from 1 on.
var numericForm = regexp.MustCompile(`^(resources|trait)([1-9][0-9]{0,8})?:(.*)$`)

// parseKey reads the key of an extra spec by the grammar of the request.
func (a *assembly) parseKey(key string) (specKey, bool) {
	if !a.numeric {
		return parseKey(key)
	}
	m := numericForm.FindStringSubmatch(key)
	if m == nil {
		return specKey{}, false
	}
	return specKey{prefix: m[1], suffix: m[2], name: m[3]}, true
}

// nextNumber is the suffix of a group from elsewhere: one more than the highest
// number in use, as nova/scheduler/utils.py of Stein and Train has it.
func (a *assembly) nextNumber() string {
	highest := 0
	for _, g := range a.groups {
		if n, err := strconv.Atoi(g.suffix()); err == nil {
			highest = max(highest, n)
		}
	}
	return strconv.Itoa(highest + 1)
}

// goNumeric does without what Placement before 1.33 has no words for. Traits of
// the root become traits of the unsuffixed group, as Train's filters had them:
// its resources are the root's. Subtrees cannot be asked for.
func (a *assembly) goNumeric(spec *RequestSpec) {
	spec.Numeric = true
	if len(spec.SameSubtree) > 0 {
		a.warn("same_subtree", fmt.Sprint(spec.SameSubtree), "Placement before 1.36 has no same_subtree; it is left out.")
		spec.SameSubtree = nil
	}
	if len(spec.RootRequired)+len(spec.RootForbidden) == 0 {
		return
	}
	own := a.byID[""]
	if own == nil || !slices.Contains(a.groups, own) {
		a.warn("root_required", strings.Join(spec.RootRequired, ","),
			"Placement before 1.35 has no root_required, and there is no unsuffixed group to carry the traits; they are left out.")
	} else {
		own.Required = append(own.Required, spec.RootRequired...)
		own.Forbidden = append(own.Forbidden, spec.RootForbidden...)
	}
	spec.RootRequired, spec.RootForbidden = nil, nil
}

// Microversion is the version of Placement's API that the query is written for:
// 1.36, as Nova sends it since Zed, or for a numeric request the lowest that
// knows what is in it. Answers before 1.34 carry no mappings; who served which
// group is then to be searched for in the allocations, see package matching.
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
