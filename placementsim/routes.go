package placementsim

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
	"github.com/gocyborg/gocyborg/sim"
)

// operation is one route with what is checked before its handler runs.
type operation struct {
	name, method, pattern string
	// since is the microversion that introduced the route; below it the answer
	// is maskStatus (404 if zero).
	since      version
	maskStatus int
	// maskLast: since is checked after the media types instead of before.
	maskLast bool
	// reads: the body must be JSON, below bodyUntil if that is set, and a closed schema
	// checks it as a whole.
	reads     bool
	bodyUntil version
	// query are the keys of the query that are read. Some operations refuse others; the
	// newer keys are refused below the microversions that introduced them.
	query []string
	// answers: the caller must accept JSON.
	answers bool
	rule    rule
	handle  func(*call) error
}

func operations() []operation {
	const rp = "/resource_providers/{uuid}"
	return []operation{
		{name: "placement.root.get", method: "GET", pattern: "/", rule: anybody, handle: getRoot},
		{name: "placement.root.get", method: "GET", pattern: "", rule: anybody, handle: getRoot},

		{name: "placement.resource_provider.list", method: "GET", pattern: "/resource_providers", answers: true, query: []string{"name", "uuid", "member_of", "resources", "in_tree", "required"}, handle: listProviders},
		{name: "placement.resource_provider.create", method: "POST", pattern: "/resource_providers", reads: true, handle: createProvider},
		{name: "placement.resource_provider.get", method: "GET", pattern: rp, answers: true, handle: ofProvider(getProvider)},
		{name: "placement.resource_provider.update", method: "PUT", pattern: rp, reads: true, handle: updateProvider},
		{name: "placement.resource_provider.delete", method: "DELETE", pattern: rp, handle: deleteProvider},

		{name: "placement.inventories.get", method: "GET", pattern: rp + "/inventories", answers: true, handle: ofProvider((*call).writeInventories)},
		{name: "placement.inventories.post", method: "POST", pattern: rp + "/inventories", reads: true, handle: postInventory},
		{name: "placement.inventories.put", method: "PUT", pattern: rp + "/inventories", reads: true, handle: putInventories},
		{name: "placement.inventories.delete", method: "DELETE", pattern: rp + "/inventories", since: 5, maskStatus: http.StatusMethodNotAllowed, handle: deleteInventories},
		{name: "placement.inventory.get", method: "GET", pattern: rp + "/inventories/{class}", answers: true, handle: ofProvider(getInventory)},
		{name: "placement.inventory.put", method: "PUT", pattern: rp + "/inventories/{class}", reads: true, handle: putInventory},
		{name: "placement.inventory.delete", method: "DELETE", pattern: rp + "/inventories/{class}", handle: deleteInventory},

		{name: "placement.rp_usages.get", method: "GET", pattern: rp + "/usages", answers: true, handle: ofProvider(getProviderUsages)},
		{name: "placement.rp_allocations.get", method: "GET", pattern: rp + "/allocations", answers: true, handle: getProviderAllocations},
		{name: "placement.aggregates.get", method: "GET", pattern: rp + "/aggregates", since: 1, maskLast: true, answers: true, handle: ofProvider((*call).writeAggregates)},
		{name: "placement.aggregates.put", method: "PUT", pattern: rp + "/aggregates", since: 1, maskLast: true, reads: true, handle: putAggregates},
		{name: "placement.rp_traits.get", method: "GET", pattern: rp + "/traits", since: 6, answers: true, handle: ofProvider((*call).writeProviderTraits)},
		{name: "placement.rp_traits.put", method: "PUT", pattern: rp + "/traits", since: 6, reads: true, handle: putProviderTraits},
		{name: "placement.rp_traits.delete", method: "DELETE", pattern: rp + "/traits", since: 6, handle: deleteProviderTraits},

		{name: "placement.trait.list", method: "GET", pattern: "/traits", since: 6, answers: true, query: []string{"name", "associated"}, handle: listTraits},
		{name: "placement.trait.get", method: "GET", pattern: "/traits/{name}", since: 6, handle: getTrait},
		{name: "placement.trait.put", method: "PUT", pattern: "/traits/{name}", since: 6, handle: putTrait},
		{name: "placement.trait.delete", method: "DELETE", pattern: "/traits/{name}", since: 6, handle: deleteTrait},

		{name: "placement.resource_class.list", method: "GET", pattern: "/resource_classes", since: 2, answers: true, handle: listClasses},
		{name: "placement.resource_class.create", method: "POST", pattern: "/resource_classes", since: 2, reads: true, handle: createClass},
		{name: "placement.resource_class.get", method: "GET", pattern: "/resource_classes/{name}", since: 2, answers: true, handle: getClass},
		{name: "placement.resource_class.put", method: "PUT", pattern: "/resource_classes/{name}", since: 2, reads: true, bodyUntil: 7, handle: putClass},
		{name: "placement.resource_class.delete", method: "DELETE", pattern: "/resource_classes/{name}", since: 2, handle: deleteClass},

		{name: "placement.allocations.get", method: "GET", pattern: "/allocations/{consumer}", answers: true, handle: getAllocations},
		{name: "placement.allocations.put", method: "PUT", pattern: "/allocations/{consumer}", reads: true, handle: putAllocations},
		{name: "placement.allocations.delete", method: "DELETE", pattern: "/allocations/{consumer}", handle: deleteAllocations},
		{name: "placement.allocations.post", method: "POST", pattern: "/allocations", since: 13, reads: true, handle: postAllocations},

		{name: "placement.allocation_candidates.list", method: "GET", pattern: "/allocation_candidates", since: 10, answers: true, query: []string{"resources*", "required*", "member_of*", "in_tree*", "limit", "group_policy", "root_required", "same_subtree"}, handle: listCandidates},
		{name: "placement.usages.get", method: "GET", pattern: "/usages", since: 9, answers: true, rule: ownUsages, query: []string{"project_id", "user_id", "consumer_type"}, handle: getUsages},
		{name: "placement.reshaper.post", method: "POST", pattern: "/reshaper", since: 30, reads: true, rule: reshaping, handle: postReshaper},
	}
}

// ofProvider is the handler of a GET for a provider, or for a part of it.
func ofProvider(answer func(*call, engine.Inspection) error) func(*call) error {
	return func(c *call) error {
		p, err := c.server.state.Inspect(c.PathValue("uuid"))
		if err != nil {
			return err
		}
		return answer(c, p)
	}
}

// Routes lists what the server does, in the order in which it looks for a
// request's route.
func (s *Server) Routes() []sim.Route { return s.service.Routes() }

func (s *Server) router() *simhttp.Router {
	var routes []simhttp.Route
	for _, op := range operations() {
		routes = append(routes, simhttp.Route{
			Operation: op.name, Method: op.method, Pattern: op.pattern, Handler: s.handler(op), Input: op.input(),
		})
	}
	return simhttp.NewRouter(routes...)
}

// input is what the operation reads of a request.
func (op operation) input() simhttp.Input {
	input := simhttp.Input{Query: op.query}
	if op.reads {
		input.Body = []string{""}
	}
	if op.bodyUntil > 0 {
		input.BodyOf = func(r *http.Request) bool {
			v, err := parseVersion(r.Header)
			return err == nil && v < op.bodyUntil
		}
	}
	return input
}
