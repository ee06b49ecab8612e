package placementsim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// The microversions that added to the candidates' query string.
const (
	sinceLimit        version = 16
	sinceRequired     version = 17
	sinceMemberOf     version = 21
	sinceForbidden    version = 22
	sinceGroups       version = 25
	sinceInTree       version = 31
	sinceFreeSuffixes version = 33
	sinceRootRequired version = 35
	sinceSameSubtree  version = 36
)

// groupKeys are the keys that may carry a suffix. The microversion is the one that added
// the key.
var groupKeys = []addition{{sinceInTree, "in_tree"}, {sinceMemberOf, "member_of"}, {sinceRequired, "required"}, {10, "resources"}}

// isSuffix reports whether a group may have the suffix at a microversion.
func isSuffix(s string, v version) bool {
	switch {
	case s == "":
		return true
	case v < sinceGroups:
		return false
	case v < sinceFreeSuffixes:
		return digits(s) && s[0] != '0'
	}
	return len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// groupKey splits a key into its name and suffix at a microversion.
func groupKey(key string, v version) (name, suffix string, ok bool) {
	for _, known := range groupKeys {
		if v < known.since {
			continue
		}
		if suffix, found := strings.CutPrefix(key, known.name); found && isSuffix(suffix, v) {
			return known.name, suffix, true
		}
	}
	return "", "", false
}

// rawGroup has the values of the keys with one suffix.
type rawGroup struct {
	suffix                                string
	resources, required, memberOf, inTree []string
}

// set sets the values of a key, which is one of groupKeys.
func (g *rawGroup) set(name string, values []string) {
	switch name {
	case "resources":
		g.resources = values
	case "required":
		g.required = values
	case "member_of":
		g.memberOf = values
	case "in_tree":
		g.inTree = values
	}
}

// wantsTrait reports whether a trait is required, not only excluded.
func (g rawGroup) wantsTrait() bool {
	all := strings.Split(strings.Join(g.required, ","), ",")
	return slices.ContainsFunc(all, func(name string) bool { return !strings.HasPrefix(strings.TrimSpace(name), "!") })
}

// candidateQuery reads the query string of the candidates. Errors come in the
// service's order: keys, what is about the whole request, the groups one by
// one, the groups together.
func (c *call) candidateQuery(q query) (engine.CandidateQuery, error) {
	result := engine.CandidateQuery{OnePerTree: c.version < sinceNestedCandidates}
	if err := c.checkQuery(q, c.schemaFor("candidates", 10, sinceLimit, sinceRequired, sinceMemberOf, sinceGroups, sinceInTree, sinceFreeSuffixes, sinceRootRequired, sinceSameSubtree)); err != nil {
		return result, err
	}
	groups := c.rawGroups(q)
	for _, read := range []func(query, *engine.CandidateQuery) error{c.limitAndPolicy, c.rootRequired, c.sameSubtree} {
		if err := read(q, &result); err != nil {
			return result, err
		}
	}
	result.Groups = make([]engine.Group, 0, len(groups))
	for _, raw := range groups {
		group, err := c.readGroup(raw)
		if err != nil {
			return result, err
		}
		result.Groups = append(result.Groups, group)
	}
	if err := c.checkGroups(groups, result.SameSubtree); err != nil {
		return result, err
	}
	if err := checkConflicts(result.Groups, c.version); err != nil {
		return result, err
	}
	return result, checkPolicy(groups, q)
}

// rawGroups sorts the keys into groups, the one without suffix first.
func (c *call) rawGroups(q query) []rawGroup {
	groups := make([]rawGroup, 0, 4)
	index := make(map[string]int)
	for _, key := range q.keys {
		name, suffix, ok := groupKey(key, c.version)
		if !ok {
			continue
		}
		i, known := index[suffix]
		if !known {
			i = len(groups)
			index[suffix] = i
			groups = append(groups, rawGroup{suffix: suffix})
		}
		groups[i].set(name, q.values[key])
	}
	slices.SortStableFunc(groups, func(a, b rawGroup) int { return strings.Compare(a.suffix, b.suffix) })
	return groups
}

// limitAndPolicy reads limit and group_policy. The first value of each counts; upstream's
// schema checks the last (placement/util.py, validate_query_params), and answers 500 to
// an invalid first one or ignores it. Here all must be valid.
func (c *call) limitAndPolicy(q query, result *engine.CandidateQuery) error {
	for _, key := range []string{"limit", "group_policy"} {
		for i := 0; i < len(q.values[key])-1; i++ {
			earlier := query{keys: []string{key}, values: map[string][]string{key: q.values[key][i : i+1]}}
			if err := c.checkQuery(earlier, "candidates-"+sinceSameSubtree.String()); err != nil {
				return err
			}
		}
	}
	if q.has("limit") {
		n, err := strconv.Atoi(q.first("limit"))
		if err != nil {
			n = 0 // beyond every count: no limit
		}
		result.Limit = n
	}
	result.Isolate = q.first("group_policy") == "isolate"
	return nil
}

// sameSubtree reads the sets of suffixes.
func (c *call) sameSubtree(q query, result *engine.CandidateQuery) error {
	for _, value := range q.values["same_subtree"] {
		suffixes := strings.Split(value, ",")
		for i, suffix := range suffixes {
			if suffixes[i] = strings.TrimSpace(suffix); suffixes[i] == "" {
				return &simhttp.Error{Status: 400, Code: codeBadValue, Text: "Empty string (unsuffixed group) can not be specified in `same_subtree` "}
			}
		}
		result.SameSubtree = append(result.SameSubtree, suffixes)
	}
	return nil
}

// checkOrphans refuses groups without resources at microversions before 1.36.
func checkOrphans(groups []rawGroup) error {
	var traits, aggregates []string
	bare := false
	for _, g := range groups {
		if len(g.resources) > 0 {
			continue
		}
		bare = true
		if len(g.required) > 0 && g.wantsTrait() {
			traits = append(traits, "required"+g.suffix)
		}
		if len(g.memberOf) > 0 {
			aggregates = append(aggregates, "member_of"+g.suffix)
		}
	}
	switch {
	case traits != nil:
		return badRequest("All traits parameters must be associated with resources.  Found the following orphaned traits keys: " + strings.Join(traits, ", "))
	case aggregates != nil:
		return badRequest("All member_of parameters must be associated with resources.  Found the following orphaned member_of keys: " + strings.Join(aggregates, ", "))
	case bare:
		return badRequest("All request groups must specify resources.")
	case len(groups) == 0:
		return badRequest("At least one request group (`resources` or `resources{$S}`) is required.")
	}
	return nil
}

func (c *call) readGroup(raw rawGroup) (engine.Group, error) {
	g := engine.Group{Suffix: raw.suffix}
	var err error
	if len(raw.resources) > 0 {
		if g.Resources, err = parseResources(lastOf(raw.resources)); err != nil {
			return g, err
		}
	}
	if len(raw.required) > 0 {
		if g.Traits, err = parseRequired(raw.required, c.version); err != nil {
			return g, err
		}
	}
	if len(raw.memberOf) > 0 {
		if g.Aggregates, err = parseMemberOf(raw.memberOf, raw.suffix, c.version); err != nil {
			return g, err
		}
	}
	if len(raw.inTree) > 0 {
		if g.InTree = lastOf(raw.inTree); !uuids.Like(g.InTree) {
			return g, badQuery("Expected 'in_tree' parameter to be a format of uuid. Got: " + g.InTree)
		}
	}
	return g, nil
}

func lastOf(values []string) string { return values[len(values)-1] }

// checkGroups checks groups without resources and the suffixes of
// same_subtree.
func (c *call) checkGroups(groups []rawGroup, subtrees [][]string) error {
	if c.version < sinceSameSubtree {
		return checkOrphans(groups)
	}
	known, named := make(map[string]bool), make(map[string]bool)
	withResources := false
	for _, g := range groups {
		known[g.suffix] = true
		withResources = withResources || len(g.resources) > 0
	}
	if !withResources {
		return &simhttp.Error{Status: 400, Code: codeMissingValue, Text: "There must be at least one resources or resources[$S] parameter."}
	}
	var unknown []string
	for _, suffixes := range subtrees {
		for _, suffix := range suffixes {
			named[suffix] = true
			if !known[suffix] {
				unknown = append(unknown, suffix)
			}
		}
	}
	var bad []string
	for _, g := range groups {
		if len(g.resources) == 0 && !named[g.suffix] {
			bad = append(bad, g.suffix)
		}
	}
	switch {
	case bad != nil:
		return &simhttp.Error{Status: 400, Code: codeBadValue, Text: "Resourceless suffixed group request should be specified in `same_subtree` query param: bad group(s) - [" + schema.ReprList(bad) + "]."}
	case unknown != nil:
		return &simhttp.Error{Status: 400, Code: codeBadValue, Text: "Real suffixes should be specified in `same_subtree`: [" + schema.ReprList(unknown) + "] not found in request groups"}
	}
	return nil
}

// checkPolicy requires group_policy with several suffixed groups.
func checkPolicy(groups []rawGroup, q query) error {
	suffixed := 0
	for _, g := range groups {
		if g.suffix != "" {
			suffixed++
		}
	}
	if suffixed > 1 && !q.has("group_policy") {
		return badRequest(`The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.`)
	}
	return nil
}

// checkConflicts refuses groups of which a required set is forbidden as a
// whole.
func checkConflicts(groups []engine.Group, v version) error {
	if v < sinceForbidden {
		return nil
	}
	var conflicts []string
	for _, g := range groups {
		if names := conflicting(g.Traits); names != nil {
			conflicts = append(conflicts, "required"+g.Suffix+": ("+strings.Join(names, ", ")+")")
		}
	}
	if conflicts == nil {
		return nil
	}
	return badRequest("Conflicting required and forbidden traits found in the following traits keys: " + strings.Join(conflicts, ", "))
}

// conflicting lists the traits of required sets that are forbidden as a whole.
func conflicting(t engine.TraitRequirement) []string {
	if t.Forbidden == nil {
		return nil
	}
	forbidden := make(map[string]bool, len(t.Forbidden))
	for _, name := range t.Forbidden {
		forbidden[name] = true
	}
	var names []string
	for _, anyOf := range t.Required {
		if !slices.ContainsFunc(anyOf, func(name string) bool { return !forbidden[name] }) {
			names = append(names, anyOf...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rootRequired reads what the anchors must have.
func (c *call) rootRequired(q query, result *engine.CandidateQuery) error {
	values := q.values["root_required"]
	switch len(values) {
	case 0:
		return nil
	case 1:
	default:
		return &simhttp.Error{Status: 400, Code: codeDuplicateKey, Text: "Query parameter 'root_required' may be specified only once."}
	}
	t, err := parseTraits(values[0], c.version, false)
	if err != nil {
		return err
	}
	if names := conflicting(t); names != nil {
		return &simhttp.Error{Status: 400, Code: codeBadValue, Text: "Conflicting required and forbidden traits found in root_required: " + strings.Join(names, ", ")}
	}
	result.Root = t
	return nil
}
