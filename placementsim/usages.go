package placementsim

import (
	"maps"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

func getProviderUsages(c *call, p engine.Inspection) error {
	usages := make(map[string]int64, len(p.Inventories))
	for _, i := range p.Inventories {
		usages[i.Class] = i.Used
	}
	c.modified()
	return c.JSON(http.StatusOK, map[string]any{"resource_provider_generation": p.Generation, "usages": usages})
}

func getUsages(c *call) error {
	q := parseQuery(c.URL.RawQuery)
	if err := c.checkUsagesQuery(q); err != nil {
		return err
	}
	groups := c.server.state.Usages(q.last("project_id"), q.last("user_id"))
	c.modified()
	if c.version < sinceConsumerType {
		return c.JSON(http.StatusOK, map[string]any{"usages": merged(groups).Amounts})
	}
	usages := make(map[string]map[string]int64)
	for _, g := range selectUsages(groups, q) {
		entry := map[string]int64{"consumer_count": int64(g.Consumers)}
		maps.Copy(entry, g.Amounts)
		usages[g.Type] = entry
	}
	return c.JSON(http.StatusOK, map[string]any{"usages": usages})
}

// checkUsagesQuery checks the query string of the usages.
func (c *call) checkUsagesQuery(q query) error {
	known := c.version.names(addition{0, "project_id"}, addition{0, "user_id"}, addition{sinceConsumerType, "consumer_type"})
	if !q.has("project_id") {
		return badQuery("'project_id' is a required property\n\nFailed validating 'required' in schema")
	}
	if err := q.onlyKeys(known...); err != nil {
		return err
	}
	for _, key := range known {
		if err := checkLength(q, key); err != nil {
			return err
		}
	}
	if kind := q.last("consumer_type"); q.has("consumer_type") && !consumerType.MatchString(kind) {
		return badQuery(schema.Repr(kind) + " does not match '^[A-Z0-9_]+$|^all|^unknown$'\n\nFailed validating 'pattern' in schema['properties']['consumer_type']")
	}
	return nil
}

func checkLength(q query, key string) error {
	value := q.last(key)
	place := " in schema['properties'][" + schema.Repr(key) + "]"
	switch {
	case !q.has(key):
	case value == "":
		return badQuery("'' is too short\n\nFailed validating 'minLength'" + place)
	case utf8.RuneCountInString(value) > maxName:
		return badQuery(schema.Repr(value) + " is too long\n\nFailed validating 'maxLength'" + place)
	}
	return nil
}

// selectUsages keeps the requested consumer type, and lists consumers without a type
// as "unknown".
func selectUsages(groups []engine.UsageGroup, q query) []engine.UsageGroup {
	wanted := q.last("consumer_type")
	if strings.HasPrefix(wanted, "all") {
		if len(groups) == 0 {
			return nil
		}
		all := merged(groups)
		all.Type = "all"
		return []engine.UsageGroup{all}
	}
	var kept []engine.UsageGroup
	for _, g := range groups {
		g.Type = typeOrUnknown(g.Type)
		if wanted == "" || wanted == g.Type {
			kept = append(kept, g)
		}
	}
	return kept
}

func merged(groups []engine.UsageGroup) engine.UsageGroup {
	all := engine.UsageGroup{Amounts: make(map[string]int64)}
	for _, g := range groups {
		all.Consumers += g.Consumers
		for class, amount := range g.Amounts {
			all.Amounts[class] += amount
		}
	}
	return all
}
