package fakecyborg

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// route is a route with the policy that is checked before its handler runs. The methods that an answer 405 allows
// and the tables of docs/dev/cyborg-api.md follow from the routes.
type route struct {
	operation       sim.OperationName
	method, pattern string
	policy          policy
	// query and body are what is read of a request. Other query keys are refused where the handler reads any
	// ([Server.arguments]); other members of a body are ignored, as upstream does.
	query, body []string
	// subject lists the query keys that name the subject of a request without one in its path.
	subject []string
	handle  simhttp.Handler
}

// policy is a policy rule (cyborg/policies) with the role that it requires in each release. The column of 2027.1 is
// the new defaults, the one before what EnforceNewDefaults false chooses.
type policy struct {
	rule  string
	roles row[role]
}

// routes lists everything that is served, below /accelerator or the root.
func (s *Server) routes() []route {
	return slices.Concat([]route{
		{operation: fault.AcceleratorRootGet, method: "GET", pattern: "", handle: s.getRoot},
		{operation: fault.AcceleratorVersionGet, method: "GET", pattern: "/v2", handle: s.getVersion},
	}, s.profileRoutes(), s.requestRoutes(), s.hardwareRoutes(), s.attributeRoutes())
}

func (s *Server) profileRoutes() []route {
	const all, one = "/v2/device_profiles", "/v2/device_profiles/{id}"
	list := policy{"cyborg:device_profile:get_all", row[role]{colA: anyRole, colF: readerOrAdmin, colH: anyRole, colI: readerOrAdmin}}
	read := policy{"cyborg:device_profile:get_one", row[role]{colA: adminOrSystemReader, colF: admin, colH: anyRole, colI: readerOrAdmin}}
	create := policy{"cyborg:device_profile:create", row[role]{colA: admin}}
	remove := policy{"cyborg:device_profile:delete", row[role]{colA: admin}}
	profile := []string{"[].name", "[].description", "[].uuid", "[].groups[].*", "[].id", "[].created_at", "[].updated_at"}
	return []route{
		{operation: fault.DeviceProfileList, method: "GET", pattern: all, policy: list, query: []string{"name"}, subject: []string{"name"}, handle: s.listProfiles},
		{operation: fault.DeviceProfileCreate, method: "POST", pattern: all, policy: create, body: profile, handle: s.createProfile},
		{operation: fault.DeviceProfileDelete, method: "DELETE", pattern: all, policy: remove, query: []string{"value"}, subject: []string{"value"}, handle: s.deleteProfiles},
		{operation: fault.DeviceProfileGet, method: "GET", pattern: one, policy: read, handle: s.getProfile},
		{operation: fault.DeviceProfileCreate, method: "POST", pattern: one, policy: create, body: profile, handle: s.createProfile},
		{operation: fault.DeviceProfileDelete, method: "DELETE", pattern: one, policy: remove, handle: s.deleteProfiles},
	}
}

func (s *Server) requestRoutes() []route {
	const all, one = "/v2/accelerator_requests", "/v2/accelerator_requests/{id}"
	list := policy{"cyborg:arq:get_all", row[role]{colA: anyRole, colI: readerOrAdmin}}
	read := policy{"cyborg:arq:get_one", row[role]{colA: admin, colG: anyRole, colI: readerOrAdmin}}
	create := policy{"cyborg:arq:create", row[role]{colA: anyRole, colG: memberOrAdmin, colH: anyRole, colI: memberOrService}}
	update := policy{"cyborg:arq:update", row[role]{colA: anyRole, colI: memberOrService}}
	remove := policy{"cyborg:arq:delete", row[role]{colA: anyRole, colI: memberOrService}}
	request := []string{"device_profile_name"}
	if s.cfg.UseImageUUID {
		request = append(request, "image_uuid")
	}
	patch := []string{"*[].path", "*[].op", "*[].value"}
	return []route{
		{operation: fault.ARQList, method: "GET", pattern: all, policy: list, query: []string{"instance", "bind_state"}, subject: []string{"instance"}, handle: s.listARQs},
		{operation: fault.ARQCreate, method: "POST", pattern: all, policy: create, body: request, handle: s.createARQs},
		{operation: fault.ARQBind, method: "PATCH", pattern: all, policy: update, body: patch, handle: s.patchARQs},
		{operation: fault.ARQDelete, method: "DELETE", pattern: all, policy: remove, query: []string{"arqs", "instance"}, subject: []string{"arqs", "instance"}, handle: s.deleteARQs},
		{operation: fault.ARQGet, method: "GET", pattern: one, policy: read, handle: s.getARQ},
		{operation: fault.ARQBind, method: "PATCH", pattern: one, policy: update, body: patch, handle: s.patchARQs},
		{operation: fault.ARQDelete, method: "DELETE", pattern: one, policy: remove, query: []string{"instance"}, handle: s.deleteARQs}, // instance is refused together with an id
	}
}

// The roles for devices, deployables and attributes.
var (
	readsHardware  = row[role]{colA: anyRole, colG: admin, colH: anyRole, colI: managerOrAdmin}
	writesHardware = row[role]{colA: anyRole, colG: admin}
)

func (s *Server) hardwareRoutes() []route {
	const device, deployable = "/v2/devices/{id}", "/v2/deployables/{id}"
	filters := []string{"filters.field", "filters.value", "filters[*"}
	routes := []route{
		{operation: fault.DeviceList, method: "GET", pattern: "/v2/devices", policy: policy{"cyborg:device:get_all", readsHardware}, query: slices.Concat(filters, []string{"type", "vendor", "hostname"}), handle: s.listDevices},
		{operation: fault.DeviceGet, method: "GET", pattern: device, policy: policy{"cyborg:device:get_one", readsHardware}, handle: s.getDevice},
		{operation: fault.DeployableList, method: "GET", pattern: "/v2/deployables", policy: policy{"cyborg:deployable:get_all", readsHardware}, query: filters, handle: s.listDeployables},
		{operation: fault.DeployableGet, method: "GET", pattern: deployable, policy: policy{"cyborg:deployable:get_one", readsHardware}, handle: s.getDeployable},
		{operation: fault.DeployableProgram, method: "PATCH", pattern: deployable + "/program", policy: policy{"cyborg:deployable:program", writesHardware}, body: []string{"[].path", "[].op", "[].value[].image_uuid"}, handle: s.programDeployable},
	}
	if s.release.DeviceStatus == no {
		return routes
	}
	return append(routes,
		route{operation: fault.DeviceEnable, method: "POST", pattern: device + "/enable", policy: policy{"cyborg:device:enable", row[role]{colA: admin}}, handle: s.enableDevice},
		route{operation: fault.DeviceDisable, method: "POST", pattern: device + "/disable", policy: policy{"cyborg:device:disable", row[role]{colA: admin}}, handle: s.disableDevice})
}

func (s *Server) attributeRoutes() []route {
	if s.release.Attributes == no {
		return nil
	}
	const all, one = "/v2/attributes", "/v2/attributes/{id}"
	remove := policy{"cyborg:attribute:delete", writesHardware}
	attribute := []string{"deployable_id", "key", "value", "uuid", "id", "created_at", "updated_at"}
	return []route{
		{operation: fault.AttributeList, method: "GET", pattern: all, policy: policy{"cyborg:attribute:get_all", readsHardware}, query: []string{"deployable_id", "key"}, handle: s.listAttributes},
		{operation: fault.AttributeCreate, method: "POST", pattern: all, policy: policy{"cyborg:attribute:create", writesHardware}, body: attribute, handle: s.createAttribute},
		{operation: fault.AttributeDelete, method: "DELETE", pattern: all, policy: remove, query: []string{"uuid"}, handle: s.deleteAttribute},
		{operation: fault.AttributeGet, method: "GET", pattern: one, policy: policy{"cyborg:attribute:get_one", readsHardware}, handle: s.getAttribute},
		{operation: fault.AttributeDelete, method: "DELETE", pattern: one, policy: remove, handle: s.deleteAttribute},
	}
}

func (s *Server) router() *simhttp.Router {
	var routes []simhttp.Route
	for _, r := range s.routes() {
		routes = append(routes, simhttp.Route{
			Operation: r.operation, Method: r.method, Pattern: r.pattern, Handler: r.handle, Subject: subjectIn(r.subject),
			Input: simhttp.Input{Query: r.query, Body: r.body},
		})
	}
	return simhttp.NewRouter(routes...)
}

// subjectIn returns a function for the first of the query keys that a request has, nil without keys.
func subjectIn(keys []string) func(*http.Request) string {
	if len(keys) == 0 {
		return nil
	}
	return func(r *http.Request) string {
		args, values := arguments(r.URL.Query()), make([]string, len(keys))
		for i, key := range keys {
			values[i] = args.last(key)
		}
		return cmp.Or(values...)
	}
}

// Routes lists what the server does in its release.
func (s *Server) Routes() []sim.Route { return s.service.Routes() }

// unrouted answers a request without a route. Upstream asks the controller of the collection, or
// the controller of the version for an unknown collection. It refuses an unsupported method for
// any path, and answers 404 for other paths. It also answers 404 to a PATCH of a whole collection
// that does not support it.
func (s *Server) unrouted(c *simhttp.Call) error {
	clearVersion(c.W.Header())
	collection, member, _ := strings.Cut(strings.TrimPrefix(canonicalPath(strings.TrimPrefix(c.URL.Path, "/accelerator")), "/v2/"), "/")
	methods := s.methods(collection)
	isKnown := len(methods) > 0
	if !isKnown {
		methods = []string{http.MethodGet}
	}
	switch {
	case slices.Contains(methods, c.Method):
		return cmp.Or(acceptsJSON(c), error(&simhttp.Error{Status: http.StatusNotFound}))
	case isKnown && c.Method == http.MethodPatch && member == "":
		return &simhttp.Error{Status: http.StatusNotFound}
	}
	c.W.Header().Set("Allow", strings.Join(methods, ", "))
	return &simhttp.Error{Status: http.StatusMethodNotAllowed}
}

// methods lists the methods that the routes of a collection and its members have, nil for an unknown collection.
func (s *Server) methods(collection string) (methods []string) {
	for _, r := range s.service.Router.Routes() {
		if r.Pattern == "/v2/"+collection || r.Pattern == "/v2/"+collection+"/{id}" {
			methods = append(methods, r.Method)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}
