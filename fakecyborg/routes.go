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

// router lists everything that is served, below /accelerator or the root, with what it reads of
// a request. Other query keys are refused where the handler reads any ([Server.arguments]); other members
// of a body are ignored, as upstream does.
func (s *Server) router() *simhttp.Router {
	routes := slices.Concat([]simhttp.Route{
		{Operation: fault.AcceleratorRootGet, Method: "GET", Pattern: "", Handler: s.getRoot},
		{Operation: fault.AcceleratorVersionGet, Method: "GET", Pattern: "/v2", Handler: s.getVersion},
	}, s.requestRoutes(), s.hardwareRoutes())
	return simhttp.NewRouter(routes...)
}

func (s *Server) requestRoutes() []simhttp.Route {
	profile := simhttp.Input{Body: []string{"[].name", "[].description", "[].uuid", "[].groups[].*", "[].id", "[].created_at", "[].updated_at"}}
	create := simhttp.Input{Body: []string{"device_profile_name"}}
	if s.cfg.UseImageUUID {
		create.Body = append(create.Body, "image_uuid")
	}
	patch := simhttp.Input{Body: []string{"*[].path", "*[].op", "*[].value"}}
	return []simhttp.Route{
		route(fault.DeviceProfileList, "GET", "device_profiles", s.guard(ruleProfileList, s.listProfiles), reads("name"), "name"),
		route(fault.DeviceProfileCreate, "POST", "device_profiles", s.guard(ruleProfileCreate, s.createProfile), profile),
		route(fault.DeviceProfileDelete, "DELETE", "device_profiles", s.guard(ruleProfileDelete, s.deleteProfiles), reads("value"), "value"),
		route(fault.DeviceProfileGet, "GET", "device_profiles/{id}", s.guard(ruleProfileRead, s.getProfile), reads()),
		route(fault.DeviceProfileCreate, "POST", "device_profiles/{id}", s.guard(ruleProfileCreate, s.createProfile), profile),
		route(fault.DeviceProfileDelete, "DELETE", "device_profiles/{id}", s.guard(ruleProfileDelete, s.deleteProfiles), reads()),

		route(fault.ARQList, "GET", "accelerator_requests", s.guard(ruleARQList, s.listARQs), reads("instance", "bind_state"), "instance"),
		route(fault.ARQCreate, "POST", "accelerator_requests", s.guard(ruleARQCreate, s.createARQs), create),
		route(fault.ARQBind, "PATCH", "accelerator_requests", s.guard(ruleARQUpdate, s.patchARQs), patch),
		route(fault.ARQDelete, "DELETE", "accelerator_requests", s.guard(ruleARQDelete, s.deleteARQs), reads("arqs", "instance"), "arqs", "instance"),
		route(fault.ARQGet, "GET", "accelerator_requests/{id}", s.guard(ruleARQRead, s.getARQ), reads()),
		route(fault.ARQBind, "PATCH", "accelerator_requests/{id}", s.guard(ruleARQUpdate, s.patchARQs), patch),
		route(fault.ARQDelete, "DELETE", "accelerator_requests/{id}", s.guard(ruleARQDelete, s.deleteARQs), reads("instance")), // refused together with an id
	}
}

func (s *Server) hardwareRoutes() []simhttp.Route {
	filters := []string{"filters.field", "filters.value", "filters[*"}
	program := simhttp.Input{Body: []string{"[].path", "[].op", "[].value[].image_uuid"}}
	routes := []simhttp.Route{
		route(fault.DeviceList, "GET", "devices", s.guard(ruleDeviceList, s.listDevices), reads(slices.Concat(filters, []string{"type", "vendor", "hostname"})...)),
		route(fault.DeviceGet, "GET", "devices/{id}", s.guard(ruleDeviceRead, s.getDevice), reads()),
		route(fault.DeployableList, "GET", "deployables", s.guard(ruleDeployableList, s.listDeployables), reads(filters...)),
		route(fault.DeployableGet, "GET", "deployables/{id}", s.guard(ruleDeployableRead, s.getDeployable), reads()),
		route(fault.DeployableProgram, "PATCH", "deployables/{id}/program", s.programDeployable, program),
	}
	if s.release.DeviceStatus == yes {
		routes = append(routes,
			route(fault.DeviceEnable, "POST", "devices/{id}/enable", s.guard(ruleDeviceEnable, s.enableDevice), reads()),
			route(fault.DeviceDisable, "POST", "devices/{id}/disable", s.guard(ruleDeviceDisable, s.disableDevice), reads()))
	}
	if s.release.Attributes == no {
		return routes
	}
	attribute := simhttp.Input{Body: []string{"deployable_id", "key", "value", "uuid", "id", "created_at", "updated_at"}}
	return append(routes,
		route(fault.AttributeList, "GET", "attributes", s.guard(ruleAttributeList, s.listAttributes), reads("deployable_id", "key")),
		route(fault.AttributeCreate, "POST", "attributes", s.guard(ruleAttributeCreate, s.createAttribute), attribute),
		route(fault.AttributeDelete, "DELETE", "attributes", s.guard(ruleAttributeDelete, s.deleteAttribute), reads("uuid")),
		route(fault.AttributeGet, "GET", "attributes/{id}", s.guard(ruleAttributeRead, s.getAttribute), reads()),
		route(fault.AttributeDelete, "DELETE", "attributes/{id}", s.guard(ruleAttributeDelete, s.deleteAttribute), reads()),
	)
}

// route is a route of API v2. The subject of a request is in the path, or in the first of the
// subject arguments that it has.
func route(operation sim.OperationName, method, path string, h simhttp.Handler, in simhttp.Input, subject ...string) simhttp.Route {
	r := simhttp.Route{Operation: operation, Method: method, Pattern: "/v2/" + path, Handler: h, Input: in}
	if len(subject) > 0 {
		r.Subject = func(r *http.Request) string {
			args, values := arguments(r.URL.Query()), make([]string, len(subject))
			for i, name := range subject {
				values[i] = args.last(name)
			}
			return cmp.Or(values...)
		}
	}
	return r
}

func reads(keys ...string) simhttp.Input { return simhttp.Input{Query: keys} }

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
