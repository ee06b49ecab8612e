package placementsim

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
	"github.com/gocyborg/gocyborg/sim"
)

// operation is one route with what is checked before its handler runs.
type operation struct {
	name            sim.OperationName
	method, pattern string
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
	// policy is the name of the rule, below "placement:", as operators know it.
	policy string
	rule   rule
	handle func(*call) error
}

func operations() []operation {
	const rp = "/resource_providers/{uuid}"
	return []operation{
		{name: fault.PlacementRootGet, method: "GET", pattern: "/", rule: anybody, handle: getRoot},
		{name: fault.PlacementRootGet, method: "GET", pattern: "", rule: anybody, handle: getRoot},

		{name: fault.ResourceProviderList, method: "GET", pattern: "/resource_providers", policy: "resource_providers:list", answers: true, query: []string{"name", "uuid", "member_of", "resources", "in_tree", "required"}, handle: listProviders},
		{name: fault.ResourceProviderCreate, method: "POST", pattern: "/resource_providers", policy: "resource_providers:create", reads: true, handle: createProvider},
		{name: fault.ResourceProviderGet, method: "GET", pattern: rp, policy: "resource_providers:show", answers: true, handle: ofProvider(getProvider, "")},
		{name: fault.ResourceProviderUpdate, method: "PUT", pattern: rp, policy: "resource_providers:update", reads: true, handle: updateProvider},
		{name: fault.ResourceProviderDelete, method: "DELETE", pattern: rp, policy: "resource_providers:delete", handle: deleteProvider},

		{name: fault.InventoriesGet, method: "GET", pattern: rp + "/inventories", policy: "resource_providers:inventories:list", answers: true, handle: ofProvider((*call).writeInventories, "No resource provider with uuid %s found : ")},
		{name: fault.InventoriesPost, method: "POST", pattern: rp + "/inventories", policy: "resource_providers:inventories:create", reads: true, handle: postInventory},
		{name: fault.InventoriesPut, method: "PUT", pattern: rp + "/inventories", policy: "resource_providers:inventories:update", reads: true, handle: putInventories},
		{name: fault.InventoriesDelete, method: "DELETE", pattern: rp + "/inventories", policy: "resource_providers:inventories:delete", since: 5, maskStatus: http.StatusMethodNotAllowed, handle: deleteInventories},
		{name: fault.InventoryGet, method: "GET", pattern: rp + "/inventories/{class}", policy: "resource_providers:inventories:show", answers: true, handle: ofProvider(getInventory, "No resource provider with uuid %s found : ")},
		{name: fault.InventoryPut, method: "PUT", pattern: rp + "/inventories/{class}", policy: "resource_providers:inventories:update", reads: true, handle: putInventory},
		{name: fault.InventoryDelete, method: "DELETE", pattern: rp + "/inventories/{class}", policy: "resource_providers:inventories:delete", handle: deleteInventory},

		{name: fault.RPUsagesGet, method: "GET", pattern: rp + "/usages", policy: "resource_providers:usages", answers: true, handle: ofProvider(getProviderUsages, "No resource provider with uuid %s found: ")},
		{name: fault.RPAllocationsGet, method: "GET", pattern: rp + "/allocations", policy: "resource_providers:allocations:list", answers: true, handle: ofProvider(getProviderAllocations, "Resource provider '%s' not found: ")},
		{name: fault.AggregatesGet, method: "GET", pattern: rp + "/aggregates", policy: "resource_providers:aggregates:list", since: 1, maskLast: true, answers: true, handle: ofProvider((*call).writeAggregates, "")},
		{name: fault.AggregatesPut, method: "PUT", pattern: rp + "/aggregates", policy: "resource_providers:aggregates:update", since: 1, maskLast: true, reads: true, handle: putAggregates},
		{name: fault.RPTraitsGet, method: "GET", pattern: rp + "/traits", policy: "resource_providers:traits:list", since: 6, answers: true, handle: ofProvider((*call).writeProviderTraits, "No resource provider with uuid %s found: ")},
		{name: fault.RPTraitsPut, method: "PUT", pattern: rp + "/traits", policy: "resource_providers:traits:update", since: 6, reads: true, handle: putProviderTraits},
		{name: fault.RPTraitsDelete, method: "DELETE", pattern: rp + "/traits", policy: "resource_providers:traits:delete", since: 6, handle: deleteProviderTraits},

		{name: fault.TraitList, method: "GET", pattern: "/traits", policy: "traits:list", since: 6, answers: true, query: []string{"name", "associated"}, handle: listTraits},
		{name: fault.TraitGet, method: "GET", pattern: "/traits/{name}", policy: "traits:show", since: 6, handle: getTrait},
		{name: fault.TraitPut, method: "PUT", pattern: "/traits/{name}", policy: "traits:update", since: 6, handle: putTrait},
		{name: fault.TraitDelete, method: "DELETE", pattern: "/traits/{name}", policy: "traits:delete", since: 6, handle: deleteTrait},

		{name: fault.ResourceClassList, method: "GET", pattern: "/resource_classes", policy: "resource_classes:list", since: 2, answers: true, handle: listClasses},
		{name: fault.ResourceClassCreate, method: "POST", pattern: "/resource_classes", policy: "resource_classes:create", since: 2, reads: true, handle: createClass},
		{name: fault.ResourceClassGet, method: "GET", pattern: "/resource_classes/{name}", policy: "resource_classes:show", since: 2, answers: true, handle: getClass},
		{name: fault.ResourceClassPut, method: "PUT", pattern: "/resource_classes/{name}", policy: "resource_classes:update", since: 2, reads: true, bodyUntil: 7, handle: putClass},
		{name: fault.ResourceClassDelete, method: "DELETE", pattern: "/resource_classes/{name}", policy: "resource_classes:delete", since: 2, handle: deleteClass},

		{name: fault.AllocationsGet, method: "GET", pattern: "/allocations/{consumer}", policy: "allocations:list", answers: true, handle: getAllocations},
		{name: fault.AllocationsPut, method: "PUT", pattern: "/allocations/{consumer}", policy: "allocations:update", reads: true, handle: putAllocations},
		{name: fault.AllocationsDelete, method: "DELETE", pattern: "/allocations/{consumer}", policy: "allocations:delete", handle: deleteAllocations},
		{name: fault.AllocationsPost, method: "POST", pattern: "/allocations", policy: "allocations:manage", since: 13, reads: true, handle: postAllocations},

		{name: fault.AllocationCandidatesList, method: "GET", pattern: "/allocation_candidates", policy: "allocation_candidates:list", since: 10, answers: true, query: []string{"resources*", "required*", "member_of*", "in_tree*", "limit", "group_policy", "root_required", "same_subtree"}, handle: listCandidates},
		{name: fault.UsagesGet, method: "GET", pattern: "/usages", policy: "usages", since: 9, answers: true, rule: ownUsages, query: []string{"project_id", "user_id", "consumer_type"}, handle: getUsages},
		{name: fault.ReshaperPost, method: "POST", pattern: "/reshaper", policy: "reshaper:reshape", since: 30, reads: true, rule: reshaping, handle: postReshaper},
	}
}

// ofProvider is the handler of a GET for a provider, or for a part of it. The words are
// those that some operations put before the error about a provider that does not exist.
func ofProvider(answer func(*call, engine.Inspection) error, absent string) func(*call) error {
	return func(c *call) error {
		uuid := c.PathValue("uuid")
		p, err := c.server.state.Inspect(uuid)
		if err != nil {
			if absent == "" {
				return err
			}
			return answered(prefixed(err, engine.ErrNotFound, strings.ReplaceAll(absent, "%s", uuid)))
		}
		return answer(c, p)
	}
}

// decodedPath is an escaped path as a WSGI server reads it: letters and slashes are no longer escaped,
// and the service's routes do not see a line break at the end.
func decodedPath(escaped string) string {
	path, err := url.PathUnescape(escaped)
	if err != nil || path == escaped {
		return escaped
	}
	segments := strings.Split(strings.TrimSuffix(path, "\n"), "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return strings.Join(segments, "/")
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
