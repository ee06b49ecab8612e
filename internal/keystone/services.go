package keystone

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func (s *Server) serviceID(e CatalogEntry) string { return stableID(s.cfg.Seed, "service", e.Type) }

func (s *Server) serviceBody(c *simhttp.Call, e CatalogEntry) map[string]any {
	id := s.serviceID(e)
	return map[string]any{
		"id": id, "name": e.Name, "type": e.Type, "enabled": true, "description": "",
		"links": map[string]string{"self": c.BaseURL() + "/identity/v3/services/" + id},
	}
}

// listServices is GET /v3/services.
func (s *Server) listServices(c *simhttp.Call, _ session) error {
	list := []map[string]any{}
	for _, e := range s.cfg.Services {
		if matchesFilter(c, "name", e.Name) && matchesFilter(c, "type", e.Type) {
			list = append(list, s.serviceBody(c, e))
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"services": list, "links": selfLink(c)})
}

func (s *Server) getService(c *simhttp.Call, _ session) error {
	for _, e := range s.cfg.Services {
		if s.serviceID(e) == c.PathValue("id") {
			return c.JSON(http.StatusOK, map[string]any{"service": s.serviceBody(c, e)})
		}
	}
	return notFound("service", c.PathValue("id"))
}

func (s *Server) regionBody(c *simhttp.Call) map[string]any {
	return map[string]any{
		"id": s.cfg.Region, "description": "", "parent_region_id": nil,
		"links": map[string]string{"self": c.BaseURL() + "/identity/v3/regions/" + s.cfg.Region},
	}
}

// listRegions is GET /v3/regions: there is one.
func (s *Server) listRegions(c *simhttp.Call, _ session) error {
	return c.JSON(http.StatusOK, map[string]any{"regions": []any{s.regionBody(c)}, "links": selfLink(c)})
}

func (s *Server) getRegion(c *simhttp.Call, _ session) error {
	if c.PathValue("id") != s.cfg.Region {
		return notFound("region", c.PathValue("id"))
	}
	return c.JSON(http.StatusOK, map[string]any{"region": s.regionBody(c)})
}
