package keystone

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// limitRoutes are the calls that change limits.
func (s *Server) limitRoutes() []simhttp.Route {
	route := func(operation, method, pattern string, handler caller) simhttp.Route {
		return simhttp.Route{Operation: "identity." + operation, Method: method, Pattern: pattern, Handler: s.authenticated(handler)}
	}
	return []simhttp.Route{
		route("registered_limit.create", http.MethodPost, registeredPath, s.createRegistered),
		route("registered_limit.update", http.MethodPatch, registeredPath+"/{id}", s.updateRegistered),
		route("registered_limit.delete", http.MethodDelete, registeredPath+"/{id}", s.deleteRegistered),
		route("limit.create", http.MethodPost, limitsPath, s.createLimits),
		route("limit.update", http.MethodPatch, limitsPath+"/{id}", s.updateLimit),
		route("limit.delete", http.MethodDelete, limitsPath+"/{id}", s.deleteLimit),
	}
}

// refuseWith answers a refusal; false if there is none.
func refuseWith(w http.ResponseWriter, r *http.Request, err *requestError) bool {
	if err == nil {
		return false
	}
	writeError(w, r, err.status, err.message)
	return true
}

// linked is a stored object with the link to itself.
func linked(r *http.Request, path, id string, object any) map[string]any {
	data, err := json.Marshal(object)
	if err != nil { // structs of text and numbers always encode
		return nil
	}
	var body map[string]any
	if json.Unmarshal(data, &body) != nil {
		return nil
	}
	body["links"] = map[string]string{"self": baseURL(r) + "/identity" + path + "/" + id}
	return body
}

// passes applies the filters of a list: a parameter that is given has to be the value.
func passes(r *http.Request, values map[string]string) bool {
	query := r.URL.Query()
	for name, value := range values {
		if query.Has(name) && query.Get(name) != value {
			return false
		}
	}
	return true
}

func (s *Server) listRegistered(w http.ResponseWriter, r *http.Request, _ *token) {
	registered, _ := s.limits.lists()
	list := []map[string]any{}
	for _, l := range registered {
		if passes(r, map[string]string{"service_id": l.ServiceID, "region_id": text(l.RegionID), "resource_name": l.ResourceName}) {
			list = append(list, linked(r, registeredPath, l.ID, l))
		}
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"registered_limits": list, "links": selfLink(r)})
}

func (s *Server) getRegistered(w http.ResponseWriter, r *http.Request, _ *token) {
	registered, _ := s.limits.lists()
	id := r.PathValue("id")
	i := slices.IndexFunc(registered, func(l registeredLimit) bool { return l.ID == id })
	if i < 0 {
		writeError(w, r, http.StatusNotFound, "Could not find registered limit for "+id+".")
		return
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"registered_limit": linked(r, registeredPath, id, registered[i])})
}

func (s *Server) createRegistered(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:create_registered_limits") {
		return
	}
	inputs, err := readLimits(r, "registered_limits", registeredFields, "service_id", "resource_name", "default_limit")
	list := make([]registeredLimit, 0, len(inputs))
	for _, in := range inputs {
		if err = s.exists(in, "registered_limit"); err != nil {
			break
		}
		list = append(list, registeredLimit{
			ServiceID: in.service, RegionID: in.region, ResourceName: in.resource, DefaultLimit: in.amount, Description: in.why,
		})
	}
	if err == nil {
		list, err = s.limits.register(list)
	}
	if refuseWith(w, r, err) {
		return
	}
	bodies := []map[string]any{}
	for _, l := range list {
		l.note(r, sim.Created)
		bodies = append(bodies, linked(r, registeredPath, l.ID, l))
	}
	simhttp.WriteJSON(w, http.StatusCreated, map[string]any{"registered_limits": bodies})
}

func (s *Server) updateRegistered(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:update_registered_limit") {
		return
	}
	in, err := s.readUpdate(r, "registered_limit", registeredFields)
	if refuseWith(w, r, err) {
		return
	}
	var before registeredLimit
	changed, err := s.limits.updateRegistered(r.PathValue("id"), func(l *registeredLimit) {
		before = *l
		if in.given["service_id"] {
			l.ServiceID = in.service
		}
		if in.given["region_id"] {
			l.RegionID = in.region
		}
		if in.given["resource_name"] {
			l.ResourceName = in.resource
		}
		if in.given["default_limit"] {
			l.DefaultLimit = in.amount
		}
		if in.given["description"] {
			l.Description = in.why
		}
	})
	if !refuseWith(w, r, err) {
		noteSteps(r, "registered_limit", changed.ID, before, changed)
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"registered_limit": linked(r, registeredPath, changed.ID, changed)})
	}
}

// readUpdate reads one object under a key.
func (s *Server) readUpdate(r *http.Request, key string, fields limitFields) (limitInput, *requestError) {
	raw, err := readMember(r, key)
	if err != nil {
		return limitInput{}, err
	}
	in, err := fields.read(raw)
	if err != nil {
		return in, err
	}
	return in, s.exists(in, key)
}

func (s *Server) deleteRegistered(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:delete_registered_limit") || refuseWith(w, r, s.limits.unregister(r.PathValue("id"))) {
		return
	}
	noteDeleted(r, "registered_limit")
	simhttp.WriteEmpty(w, http.StatusNoContent)
}

// sees tells whether a limit is shown: a system-scoped token sees all, a
// project-scoped one those of its project, whatever its roles
// (keystone/api/limits.py).
func (who *token) sees(l projectLimit) bool {
	return who.system || who.project != nil && text(l.ProjectID) == who.project.id
}

func (s *Server) listLimits(w http.ResponseWriter, r *http.Request, who *token) {
	_, limits := s.limits.lists()
	list := []map[string]any{}
	for _, l := range limits {
		if who.sees(l) && passes(r, map[string]string{
			"service_id": l.ServiceID, "region_id": text(l.RegionID), "resource_name": l.ResourceName,
			"project_id": text(l.ProjectID), "domain_id": text(l.DomainID),
		}) {
			list = append(list, linked(r, limitsPath, l.ID, l))
		}
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"limits": list, "links": selfLink(r)})
}

func (s *Server) getLimit(w http.ResponseWriter, r *http.Request, who *token) {
	_, limits := s.limits.lists()
	id := r.PathValue("id")
	i := slices.IndexFunc(limits, func(l projectLimit) bool { return l.ID == id })
	switch {
	case i < 0:
		writeError(w, r, http.StatusNotFound, "Could not find limit for "+id+".")
	case who.sees(limits[i]) || requireAdmin(w, r, who, "identity:get_limit"):
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"limit": linked(r, limitsPath, id, limits[i])})
	}
}

func (s *Server) createLimits(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:create_limits") {
		return
	}
	inputs, err := readLimits(r, "limits", limitOfProject, "service_id", "resource_name", "resource_limit")
	list := make([]projectLimit, 0, len(inputs))
	for _, in := range inputs {
		if err = s.exists(in, "limit"); err != nil {
			break
		}
		if (in.project == nil) == (in.domain == nil) {
			err = malformed("exactly one of project_id and domain_id", "limit")
			break
		}
		list = append(list, projectLimit{
			ProjectID: in.project, DomainID: in.domain, ServiceID: in.service, RegionID: in.region,
			ResourceName: in.resource, ResourceLimit: in.amount, Description: in.why,
		})
	}
	if err == nil {
		list, err = s.limits.limit(list)
	}
	if refuseWith(w, r, err) {
		return
	}
	bodies := []map[string]any{}
	for _, l := range list {
		l.note(r, sim.Created)
		bodies = append(bodies, linked(r, limitsPath, l.ID, l))
	}
	simhttp.WriteJSON(w, http.StatusCreated, map[string]any{"limits": bodies})
}

func (s *Server) updateLimit(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:update_limit") {
		return
	}
	in, err := s.readUpdate(r, "limit", limitUpdateFields)
	if refuseWith(w, r, err) {
		return
	}
	var before projectLimit
	changed, err := s.limits.updateLimit(r.PathValue("id"), func(l *projectLimit) {
		before = *l
		if in.given["resource_limit"] {
			l.ResourceLimit = in.amount
		}
		if in.given["description"] {
			l.Description = in.why
		}
	})
	if !refuseWith(w, r, err) {
		noteSteps(r, "limit", changed.ID, before, changed)
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"limit": linked(r, limitsPath, changed.ID, changed)})
	}
}

func (s *Server) deleteLimit(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:delete_limit") || refuseWith(w, r, s.limits.unlimit(r.PathValue("id"))) {
		return
	}
	noteDeleted(r, "limit")
	simhttp.WriteEmpty(w, http.StatusNoContent)
}
