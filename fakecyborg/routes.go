package fakecyborg

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// router lists everything that is served, below /accelerator or the root.
func (s *Server) router() *simhttp.Router {
	routes := []simhttp.Route{
		{Operation: "accelerator.root.get", Method: "GET", Pattern: "", Handler: s.getRoot},
		{Operation: "accelerator.version.get", Method: "GET", Pattern: "/v2", Handler: s.getVersion},
	}
	add := func(operation, method, pattern string, h handler, subject func(*http.Request) string) {
		routes = append(routes, simhttp.Route{
			Operation: "accelerator." + operation, Method: method, Pattern: "/v2/" + pattern,
			Handler: s.answering(h), Subject: subject,
		})
	}
	add("device_profile.list", "GET", "device_profiles", s.listProfiles, queryOf("name"))
	add("device_profile.create", "POST", "device_profiles", s.createProfile, nil)
	add("device_profile.delete", "DELETE", "device_profiles", s.deleteProfiles, queryOf("value"))
	add("device_profile.get", "GET", "device_profiles/{id}", s.getProfile, nil)
	add("device_profile.create", "POST", "device_profiles/{id}", s.createProfile, nil)
	add("device_profile.delete", "DELETE", "device_profiles/{id}", s.deleteProfiles, nil)

	add("arq.list", "GET", "accelerator_requests", s.listARQs, queryOf("instance"))
	add("arq.create", "POST", "accelerator_requests", s.createARQs, nil)
	add("arq.bind", "PATCH", "accelerator_requests", s.patchARQs, nil)
	add("arq.delete", "DELETE", "accelerator_requests", s.deleteARQs, queryOf("arqs", "instance"))
	add("arq.get", "GET", "accelerator_requests/{id}", s.getARQ, nil)
	add("arq.bind", "PATCH", "accelerator_requests/{id}", s.patchARQs, nil)
	add("arq.delete", "DELETE", "accelerator_requests/{id}", s.deleteARQs, nil)

	add("device.list", "GET", "devices", s.listDevices, nil)
	add("device.get", "GET", "devices/{id}", s.getDevice, nil)
	add("deployable.list", "GET", "deployables", s.listDeployables, nil)
	add("deployable.get", "GET", "deployables/{id}", s.getDeployable, nil)
	add("deployable.program", "PATCH", "deployables/{id}/program", s.programDeployable, nil)
	if !s.cfg.zed() {
		add("device.enable", "POST", "devices/{id}/enable", s.enableDevice, nil)
		add("device.disable", "POST", "devices/{id}/disable", s.disableDevice, nil)
		add("attribute.list", "GET", "attributes", s.listAttributes, nil)
		add("attribute.create", "POST", "attributes", s.createAttribute, nil)
		add("attribute.delete", "DELETE", "attributes", s.deleteAttribute, nil)
		add("attribute.get", "GET", "attributes/{id}", s.getAttribute, nil)
		add("attribute.delete", "DELETE", "attributes/{id}", s.deleteAttribute, nil)
	}
	return simhttp.NewRouter(simhttp.WithInputs(routes, inputs(s.cfg))...)
}

// Routes lists what the server does in its release.
func (s *Server) Routes() []sim.Route { return s.service.Routes() }

// queryOf takes the subject of a request from the first of the query arguments
// that is there.
func queryOf(names ...string) func(*http.Request) string {
	return func(r *http.Request) string {
		query := r.URL.Query()
		for _, name := range names {
			if value := query.Get(name); value != "" {
				return value
			}
		}
		return ""
	}
}

// allowed is the Allow header of a 405: the methods of the whole collection, on
// the collection as on its members, because upstream asks the one controller.
func allowed(found []string, r *http.Request) []string {
	collection, _, _ := strings.Cut(strings.TrimPrefix(canonicalPath(strings.TrimPrefix(r.URL.Path, "/accelerator")), "/v2/"), "/")
	switch collection {
	case "accelerator_requests":
		return []string{"DELETE", "GET", "PATCH", "POST"}
	case "device_profiles", "attributes":
		return []string{"DELETE", "GET", "POST"}
	}
	return slices.DeleteFunc(found, func(method string) bool { return method == "POST" && collection == "devices" })
}

// inputs tells what each operation reads. Query keys beyond these are refused where the
// handler reads any (queryArgs); members of a body beyond these are ignored, as upstream
// does.
func inputs(cfg Config) map[string]simhttp.Input {
	query := func(keys ...string) simhttp.Input { return simhttp.Input{Query: keys} }
	body := func(paths ...string) simhttp.Input { return simhttp.Input{Body: paths} }
	filters := []string{"filters.field", "filters.value", "filters[*"}
	create := body("device_profile_name")
	if cfg.UseImageUUID {
		create = body("device_profile_name", "image_uuid")
	}
	const one = " /v2/accelerator_requests/{id}"
	return map[string]simhttp.Input{
		"accelerator.device_profile.list":   query("name"),
		"accelerator.device_profile.create": body("[].name", "[].description", "[].uuid", "[].groups[].*"),
		"accelerator.device_profile.delete": query("value"),
		"DELETE /v2/device_profiles/{id}":   {},
		"accelerator.arq.list":              query("bind_state", "instance"),
		"accelerator.arq.create":            create,
		"accelerator.arq.bind":              body("*[].path", "*[].op", "*[].value"),
		"accelerator.arq.delete":            query("arqs", "instance"),
		"DELETE" + one:                      query("instance"), // refused beside an id
		"accelerator.device.list":           {Query: append([]string{"type", "vendor", "hostname"}, filters...)},
		"accelerator.deployable.list":       {Query: filters},
		"accelerator.deployable.program":    body("[].path", "[].op", "[].value[].image_uuid"),
		"accelerator.attribute.list":        query("deployable_id", "key"),
		"accelerator.attribute.create":      body("deployable_id", "key", "value"),
		"accelerator.attribute.delete":      query("uuid"),
		"DELETE /v2/attributes/{id}":        {},
	}
}
