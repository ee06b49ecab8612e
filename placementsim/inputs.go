package placementsim

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// judged is a body that a closed schema judges as a whole: a member that it does not know
// is refused.
func judged() simhttp.Input { return simhttp.Input{Body: []string{""}} }

// queried is a query of these keys; some operations refuse others.
func queried(keys ...string) simhttp.Input { return simhttp.Input{Query: keys} }

// inputs tells what each operation reads. The newer query keys are refused below the
// microversions that introduced them.
func inputs() map[string]simhttp.Input {
	renamed := judged()
	renamed.BodyOf = readsClassBody
	return map[string]simhttp.Input{
		"placement.resource_provider.list":   queried("name", "uuid", "member_of", "resources", "in_tree", "required"),
		"placement.resource_provider.create": judged(),
		"placement.resource_provider.update": judged(),
		"placement.inventories.post":         judged(),
		"placement.inventories.put":          judged(),
		"placement.inventory.put":            judged(),
		"placement.aggregates.put":           judged(),
		"placement.rp_traits.put":            judged(),
		"placement.trait.list":               queried("name", "associated"),
		"placement.resource_class.create":    judged(),
		"placement.resource_class.put":       renamed,
		"placement.allocations.put":          judged(),
		"placement.allocations.post":         judged(),
		"placement.allocation_candidates.list": queried("resources*", "required*", "member_of*", "in_tree*",
			"limit", "group_policy", "root_required", "same_subtree"),
		"placement.usages.get":    queried("project_id", "user_id", "consumer_type"),
		"placement.reshaper.post": judged(),
	}
}

// readsClassBody tells whether the PUT of a resource class renames it: later
// microversions do not look at the body.
func readsClassBody(r *http.Request) bool {
	v, refused := parseVersion(r.Header)
	return refused == nil && v < sinceEnsureClass
}
