package placementsim

import (
	"maps"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

func getProviderUsages(c *call, p engine.Inspection) error {
	var usages listing[int64]
	for _, i := range p.Inventories {
		usages.add(i.Class, i.Used)
	}
	c.modified()
	return c.JSON(http.StatusOK, map[string]any{"resource_provider_generation": p.Generation, "usages": usages})
}

func getUsages(c *call) error {
	q := parseQuery(c.URL.RawQuery)
	if err := c.checkQuery(q, c.schemaFor("usages", 9, sinceConsumerType)); err != nil {
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
