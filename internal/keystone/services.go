package keystone

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func (s *Server) serviceID(e CatalogEntry) string { return stableID(s.cfg.Seed, "service", e.Type) }

func (s *Server) serviceBody(r *http.Request, e CatalogEntry) map[string]any {
	id := s.serviceID(e)
	return map[string]any{
		"id": id, "name": e.Name, "type": e.Type, "enabled": true, "description": "",
		"links": map[string]string{"self": baseURL(r) + "/identity/v3/services/" + id},
	}
}

// listServices is GET /v3/services.
func (s *Server) listServices(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:list_services") {
		return
	}
	list := []map[string]any{}
	for _, e := range s.cfg.Services {
		if matchesFilter(r, "name", e.Name) && matchesFilter(r, "type", e.Type) {
			list = append(list, s.serviceBody(r, e))
		}
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"services": list, "links": selfLink(r)})
}

func (s *Server) getService(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:get_service") {
		return
	}
	for _, e := range s.cfg.Services {
		if s.serviceID(e) == r.PathValue("id") {
			simhttp.WriteJSON(w, http.StatusOK, map[string]any{"service": s.serviceBody(r, e)})
			return
		}
	}
	writeError(w, r, http.StatusNotFound, "Could not find service: "+r.PathValue("id")+".")
}

func (s *Server) regionBody(r *http.Request) map[string]any {
	return map[string]any{
		"id": s.cfg.Region, "description": "", "parent_region_id": nil,
		"links": map[string]string{"self": baseURL(r) + "/identity/v3/regions/" + s.cfg.Region},
	}
}

// listRegions is GET /v3/regions: there is one.
func (s *Server) listRegions(w http.ResponseWriter, r *http.Request, _ *token) {
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"regions": []any{s.regionBody(r)}, "links": selfLink(r)})
}

func (s *Server) getRegion(w http.ResponseWriter, r *http.Request, _ *token) {
	if r.PathValue("id") != s.cfg.Region {
		writeError(w, r, http.StatusNotFound, "Could not find region: "+r.PathValue("id")+".")
		return
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"region": s.regionBody(r)})
}
