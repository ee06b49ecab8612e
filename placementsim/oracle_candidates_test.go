//go:build oracle || differential

package placementsim

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// queryPair writes a key and a value of a query, escaped in one of the ways that
// clients do.
func (g *oracleGenerator) queryPair(key, value string) string {
	if g.chance(50) {
		return key + "=" + strings.NewReplacer("%3A", ":", "%2C", ",", "%21", "!").Replace(url.QueryEscape(value))
	}
	return url.QueryEscape(key) + "=" + url.QueryEscape(value)
}

// slip seldom does what the microversion or good sense forbids.
func (g *oracleGenerator) slip() bool {
	if g.chance(99) {
		return false
	}
	g.faults++
	return true
}

// amounts draws the value of a resources key.
func (g *oracleGenerator) amounts(most int) string {
	if g.chance(2) {
		g.faults++
		return pick(g, "", "VCPU", "VCPU:", "VCPU:x", "VCPU:0", "VCPU:-2", "VCPU:1,", ":1", "VCPU:1:2", "VCPU:1.5", "VCPU: 2", "VCPU:99999999999999", "NOPE:1", "vcpu:1", "VCPU:1,VCPU:2")
	}
	var items []string
	classes := oracleClasses()
	if len(g.home) > 0 {
		classes = g.home
	}
	for _, class := range some(g, 1, most, classes...) {
		amount := 1
		if g.chance(25) {
			amount = 1 + g.IntN(4)
		}
		items = append(items, fmt.Sprintf("%s:%d", class, amount))
	}
	return strings.Join(items, ",")
}

// traitValue draws the value of a required key.
func (g *oracleGenerator) traitValue() string {
	if g.chance(2) {
		g.faults++
		return pick(g, "", ",", "CUSTOM_T0,", "!", "in:", "in:CUSTOM_T0,!CUSTOM_T1", "in:,", "!!CUSTOM_T0", " CUSTOM_T0 , CUSTOM_T1 ", "CUSTOM_T0,in:CUSTOM_T1", "CUSTOM_T0,!CUSTOM_T0")
	}
	list := some(g, 1, 1, append(oracleTraits(), sharingTrait)...)
	if g.chance(15) {
		list = append(list, g.trait())
	}
	if g.version >= 39 && g.chance(30) || g.slip() {
		return "in:" + strings.Join(append(list, pick(g, oracleTraits()...)), ",")
	}
	if g.version >= 22 || g.slip() {
		for i := range list {
			if g.chance(40) {
				list[i] = "!" + list[i]
			}
		}
	}
	return strings.Join(list, ",")
}

// memberValue draws the value of a member_of key.
func (g *oracleGenerator) memberValue() string {
	value := g.aggregate()
	if g.chance(35) {
		value = "in:" + value + "," + g.aggregate()
	}
	if g.chance(2) {
		g.faults++
		value = pick(g, "", "in:", "x", value+","+g.aggregate(), "in:"+value)
	}
	if g.version >= 32 && g.chance(30) || g.slip() {
		value = "!" + value
	}
	return value
}

func (g *oracleGenerator) listProviders() oracleRequest {
	var pairs []string
	add := func(key, value string) { pairs = append(pairs, g.queryPair(key, value)) }
	for _, filter := range []struct {
		since   version
		percent int
		add     func()
	}{
		{0, 15, func() { add("name", pick(g, g.name(), "")) }},
		{0, 15, func() { add("uuid", g.provider()) }},
		{3, 30, func() { add("member_of", g.memberValue()) }},
		{3, 5, func() { add("member_of", g.memberValue()) }},
		{4, 30, func() { add("resources", g.amounts(2)) }},
		{14, 25, func() { add("in_tree", g.provider()) }},
		{18, 35, func() { add("required", g.traitValue()) }},
		{18, 8, func() { add("required", g.traitValue()) }},
		{0, 3, func() { add("unknown", "1") }},
	} {
		if g.version >= filter.since && g.chance(filter.percent) || g.slip() {
			filter.add()
		}
	}
	return g.plain("GET", joinQuery("/resource_providers", pairs))
}

// chooseHome chooses a tree that the next query would like to be served by.
func (g *oracleGenerator) chooseHome() {
	g.home = nil
	if len(g.Providers) == 0 || g.chance(15) {
		return
	}
	root := g.Providers[g.IntN(len(g.Providers))].Root
	for _, p := range g.Providers {
		for _, owned := range p.Inventories {
			if p.Root == root && owned.MinUnit == 1 && owned.StepSize == 1 && !slices.Contains(g.home, owned.Class) {
				g.home = append(g.home, owned.Class)
			}
		}
	}
}

// candidates draws a query with up to four groups.
func (g *oracleGenerator) candidates() oracleRequest {
	g.chooseHome()
	var pairs []string
	add := func(key, value string) { pairs = append(pairs, g.queryPair(key, value)) }
	var suffixes, suffixed []string
	if g.chance(75) || g.version < sinceGroups {
		suffixes = append(suffixes, "")
	}
	if g.version >= sinceGroups || g.slip() {
		names := []string{"1", "2", "3"}
		if g.version >= sinceFreeSuffixes {
			names = append(names, "_A", "_B-b")
		}
		if g.chance(60) {
			suffixed = some(g, 1, 3, names...)
		}
		suffixes = append(suffixes, suffixed...)
	}
	resourceless := ""
	for _, suffix := range suffixes {
		if g.version >= sinceSameSubtree && suffix != "" && len(suffixes) > 1 && g.chance(15) || g.slip() {
			add("required"+suffix, g.traitValue())
			resourceless = suffix
			continue
		}
		g.group(suffix, len(suffixes) == 1, add)
	}
	g.wholeRequest(suffixed, resourceless, add)
	g.spoilQuery(&pairs)
	return g.plain("GET", joinQuery("/allocation_candidates", pairs))
}

// group draws the keys of one group with resources. Beside other groups it asks
// for less, or nothing would ever be found.
func (g *oracleGenerator) group(suffix string, alone bool, add func(key, value string)) {
	most, percent := 1, 6
	if alone {
		most, percent = 3, 14
	} else if g.chance(30) {
		most = 2
	}
	add("resources"+suffix, g.amounts(most))
	for range 2 {
		if g.version >= sinceRequired && g.chance(percent) {
			add("required"+suffix, g.traitValue())
		}
		if g.version >= sinceMemberOf && g.chance(percent) {
			add("member_of"+suffix, g.memberValue())
			if g.version < 24 {
				break
			}
		}
	}
	if g.version >= sinceInTree && g.chance(percent) {
		add("in_tree"+suffix, g.provider())
	}
}

// wholeRequest draws the keys that are about all groups.
func (g *oracleGenerator) wholeRequest(suffixed []string, resourceless string, add func(key, value string)) {
	if g.version >= sinceGroups && (len(suffixed) > 1 && g.chance(97) || g.chance(30)) {
		add("group_policy", pick(g, "none", "none", "isolate"))
	}
	if g.version >= sinceSameSubtree && len(suffixed) > 0 && (resourceless != "" && g.chance(97) || g.chance(15)) {
		named := some(g, 1, 2, suffixed...)
		if resourceless != "" && !slices.Contains(named, resourceless) {
			named = append(named, resourceless)
		}
		add("same_subtree", strings.Join(named, ","))
	}
	if g.version >= sinceRootRequired && g.chance(6) {
		add("root_required", g.traitValue())
	}
	if g.version >= sinceLimit && g.chance(20) {
		add("limit", strconv.Itoa(1+g.IntN(4)))
	}
}

// spoilQuery seldom adds, doubles or drops a key.
func (g *oracleGenerator) spoilQuery(pairs *[]string) {
	g.faults += 2 // what is taken away can be at fault as well
	switch g.IntN(60) {
	case 0:
		*pairs = append(*pairs, pick(g, "unknown=1", "limit=0", "limit=x", "limit=", "group_policy=bogus", "same_subtree=", "same_subtree=_NOPE", "resources_!=VCPU:1",
			"resources01=VCPU:1", "required=CUSTOM_T0", "member_of="+oracleAggregates()[0], "in_tree="+g.provider(), "root_required=CUSTOM_T0", "root_required=!CUSTOM_T0",
			"required7=CUSTOM_T0", "member_of7="+oracleAggregates()[0], "limit=2&limit=1", "limit=2&limit=x", "in_tree=x", "resources="))
	case 1:
		if len(*pairs) > 0 {
			*pairs = append(*pairs, (*pairs)[g.IntN(len(*pairs))])
		}
	case 2:
		if len(*pairs) > 0 {
			i := g.IntN(len(*pairs))
			*pairs = slices.Delete(*pairs, i, i+1)
		}
	default:
		g.faults -= 2
	}
}

// groupsOf reads the groups of a query for candidates: values by key without
// suffix.
func groupsOf(req oracleRequest) map[string]map[string][]string {
	groups := make(map[string]map[string][]string)
	if !req.isCandidates() {
		return groups
	}
	q := parseQuery(req.query())
	for _, key := range q.keys {
		name, suffix, ok := groupKey(key, maxVersion)
		if !ok {
			continue
		}
		if groups[suffix] == nil {
			groups[suffix] = make(map[string][]string)
		}
		groups[suffix][name] = q.values[key]
	}
	return groups
}

func classesOf(group map[string][]string) []string {
	values := group["resources"]
	if len(values) == 0 {
		return nil
	}
	var classes []string
	for item := range strings.SplitSeq(values[len(values)-1], ",") {
		class, _, _ := strings.Cut(item, ":")
		classes = append(classes, class)
	}
	return classes
}

// sharesClass is about amounts that the real service adds up wrongly.
func (g *oracleGenerator) sharesClass(req oracleRequest) bool {
	if parseQuery(req.query()).first("group_policy") == "none" {
		return false
	}
	groups := groupsOf(req)
	for suffix, group := range groups {
		for _, class := range classesOf(group) {
			if suffix != "" && slices.Contains(classesOf(groups[""]), class) {
				return true
			}
		}
	}
	return false
}

// losesAnchors is about options that consist of sharing providers alone.
func (g *oracleGenerator) losesAnchors(req oracleRequest) bool {
	groups := groupsOf(req)
	if len(groups) < 2 || groups[""] == nil {
		return false
	}
	for _, class := range classesOf(groups[""]) {
		if !slices.ContainsFunc(g.Providers, func(p engine.Inspection) bool {
			return slices.Contains(p.Traits, sharingTrait) &&
				slices.ContainsFunc(p.Inventories, func(i engine.ClassInventory) bool { return i.Class == class })
		}) {
			return false
		}
	}
	return true
}
