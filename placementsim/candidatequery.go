package placementsim

import (
	"maps"
	"slices"
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

// groupKeys are the keys that may carry a suffix. The microversion is the first that has the key.
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

// candidateQuery reads the query string of the candidates. Errors come in the
// service's order: keys, what is about the whole request, the keys of groups in
// the order of the query string, the groups together.
func (c *call) candidateQuery(q query) (engine.CandidateQuery, error) {
	result := engine.CandidateQuery{OnePerTree: c.version < sinceNestedCandidates}
	if err := c.checkQuery(q, c.schemaFor("candidates", 10, sinceLimit, sinceRequired, sinceMemberOf, sinceGroups, sinceInTree, sinceFreeSuffixes, sinceRootRequired, sinceSameSubtree)); err != nil {
		return result, err
	}
	for _, read := range []func(query, *engine.CandidateQuery) error{c.limitAndPolicy, c.rootRequired, c.sameSubtree} {
		if err := read(q, &result); err != nil {
			return result, err
		}
	}
	groups, err := c.readGroups(q)
	if err != nil {
		return result, err
	}
	for _, check := range []error{c.checkGroups(groups, result.SameSubtree), checkConflicts(groups, c.version), checkPolicy(groups, q)} {
		if check != nil {
			return result, check
		}
	}
	slices.SortStableFunc(groups, func(a, b engine.Group) int { return strings.Compare(a.Suffix, b.Suffix) })
	result.Groups = groups
	return result, nil
}

// readGroups reads the groups in the order in which they begin.
func (c *call) readGroups(q query) ([]engine.Group, error) {
	groups := make([]engine.Group, 0, 4)
	index, read := make(map[string]int), make(map[string]bool)
	for _, pair := range q.pairs {
		name, suffix, ok := groupKey(pair.key, c.version)
		if !ok {
			continue
		}
		i, known := index[suffix]
		if !known {
			i = len(groups)
			index[suffix] = i
			groups = append(groups, engine.Group{Suffix: suffix, Place: i})
		}
		all := q.values[pair.key]
		if read[pair.key] {
			all = nil
		}
		read[pair.key] = true
		if err := c.readKey(&groups[i], name, pair.value, all); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// readKey reads a value of one of groupKeys: the last one counts. All values of required and member_of count; they are given where
// the key comes first.
func (c *call) readKey(g *engine.Group, name, value string, all []string) (err error) {
	switch {
	case name == "resources":
		g.Resources, err = parseResources(value)
	case name == "required" && all != nil:
		g.Traits, err = parseRequired(all, c.version)
	case name == "member_of" && all != nil:
		g.Aggregates, err = parseMemberOf(all, g.Suffix, c.version)
	case name == "in_tree":
		if g.InTree = strings.TrimSpace(value); !uuids.Like(g.InTree) {
			return badQuery("Expected 'in_tree' parameter to be a format of uuid. Got: " + value)
		}
	}
	return err
}

// limitAndPolicy reads limit and group_policy. The first value of each counts; upstream's
// schema checks the last (placement/util.py, validate_query_params), and answers 500 to
// an invalid first one or ignores it. Without UpstreamQuirks all must be valid.
func (c *call) limitAndPolicy(q query, result *engine.CandidateQuery) error {
	for _, key := range []string{"limit", "group_policy"} {
		for i := 0; i < len(q.values[key])-1 && !c.server.config.UpstreamQuirks; i++ {
			earlier := query{keys: []string{key}, values: map[string][]string{key: q.values[key][i : i+1]}}
			if err := c.checkQuery(earlier, "candidates-"+sinceSameSubtree.String()); err != nil {
				return err
			}
		}
	}
	if q.has("limit") {
		limit, err := firstLimit(q.first("limit"))
		if err != nil {
			return err
		}
		result.Limit = limit
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
func checkOrphans(groups []engine.Group) error {
	var traits, aggregates []string
	bare := false
	for _, g := range groups {
		if len(g.Resources) > 0 {
			continue
		}
		bare = true
		if len(g.Traits.Required) > 0 {
			traits = append(traits, "required"+g.Suffix)
		}
		if len(g.Aggregates.MemberOf)+len(g.Aggregates.Forbidden) > 0 {
			aggregates = append(aggregates, "member_of"+g.Suffix)
		}
	}
	switch {
	case traits != nil:
		return badRequest("All traits parameters must be associated with resources.  Found the following orphaned traits keys: " + strings.Join(traits, ", "))
	case aggregates != nil:
		return badRequest("All member_of parameters must be associated with resources. Found the following orphaned member_of keys: " + strings.Join(aggregates, ", "))
	case bare:
		return badRequest("All request groups must specify resources.")
	case len(groups) == 0:
		return badRequest("At least one request group (`resources` or `resources{$S}`) is required.")
	}
	return nil
}

// checkGroups checks groups without resources and the suffixes of
// same_subtree.
func (c *call) checkGroups(groups []engine.Group, subtrees [][]string) error {
	if c.version < sinceSameSubtree {
		return checkOrphans(groups)
	}
	named, known := make(map[string]bool), make(map[string]bool)
	for _, suffix := range slices.Concat(subtrees...) {
		named[suffix] = true
	}
	var suffixes, bad, unknown []string
	withResources := false
	for _, g := range groups {
		known[g.Suffix] = true
		suffixes = append(suffixes, g.Suffix)
		withResources = withResources || len(g.Resources) > 0
		if len(g.Resources) == 0 && !named[g.Suffix] {
			bad = append(bad, g.Suffix)
		}
	}
	for _, suffix := range slices.Sorted(maps.Keys(named)) {
		if !known[suffix] {
			unknown = append(unknown, suffix)
		}
	}
	switch {
	case !withResources:
		return &simhttp.Error{Status: 400, Code: codeMissingValue, Text: "There must be at least one resources or resources[$S] parameter."}
	case bad != nil:
		return &simhttp.Error{Status: 400, Code: codeBadValue, Text: "Resourceless suffixed group request should be specified in `same_subtree` query param: bad group(s) - [" + schema.ReprList(bad) + "]."}
	case unknown != nil:
		return &simhttp.Error{Status: 400, Code: codeBadValue, Text: "Real suffixes should be specified in `same_subtree`: [" + schema.ReprList(unknown) + "] not found in [" + schema.ReprList(suffixes) + "]."}
	}
	return nil
}

// checkPolicy requires group_policy with several suffixed groups.
func checkPolicy(groups []engine.Group, q query) error {
	suffixed := 0
	for _, g := range groups {
		if g.Suffix != "" {
			suffixed++
		}
	}
	if suffixed > 1 && !q.has("group_policy") {
		return badRequest(`The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.`)
	}
	return nil
}

// checkConflicts refuses groups that forbid all traits of a required set.
func checkConflicts(groups []engine.Group, v version) error {
	if v < sinceForbidden {
		return nil
	}
	var conflicts []string
	for _, g := range groups {
		for _, names := range conflicting(g.Traits) {
			conflicts = append(conflicts, "required"+g.Suffix+": ("+strings.Join(names, ", ")+")")
		}
	}
	if conflicts == nil {
		return nil
	}
	slices.Sort(conflicts)
	return badRequest("Conflicting required and forbidden traits found in the following traits keys: " + strings.Join(conflicts, ", "))
}

// conflicting lists the required sets that are forbidden as a whole, each sorted.
func conflicting(t engine.TraitRequirement) (sets [][]string) {
	if t.Forbidden == nil {
		return nil
	}
	forbidden := make(map[string]bool, len(t.Forbidden))
	for _, name := range t.Forbidden {
		forbidden[name] = true
	}
	for _, anyOf := range t.Required {
		if !slices.ContainsFunc(anyOf, func(name string) bool { return !forbidden[name] }) {
			sets = append(sets, slices.Compact(slices.Sorted(slices.Values(anyOf))))
		}
	}
	return sets
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
	if sets := conflicting(t); sets != nil {
		names := slices.Sorted(slices.Values(slices.Concat(sets...)))
		return &simhttp.Error{Status: 400, Code: codeBadValue, Text: "Conflicting required and forbidden traits found in root_required: " + strings.Join(slices.Compact(names), ", ")}
	}
	result.Root = t
	return nil
}
