package keystone

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

type catalogService struct {
	Type      string     `json:"type"`
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Endpoints []endpoint `json:"endpoints"`
}

type endpoint struct {
	ID        string `json:"id"`
	Interface string `json:"interface"`
	RegionID  string `json:"region_id"`
	Region    string `json:"region"`
	URL       string `json:"url"`
}

// catalog lists the services with absolute URLs on the host that the request came to.
// Nova looks for internal endpoints first, others for public ones, so all three
// interfaces are there.
func (s *Server) catalog(c *simhttp.Call) []catalogService {
	base := c.BaseURL()
	list := make([]catalogService, 0, len(s.cfg.Services))
	for _, entry := range s.cfg.Services {
		service := catalogService{Type: entry.Type, Name: entry.Name, ID: s.serviceID(entry)}
		for _, name := range []string{"public", "internal", "admin"} {
			service.Endpoints = append(service.Endpoints, endpoint{
				ID:        stableID(s.cfg.Seed, "endpoint", entry.Type+"/"+name),
				Interface: name, RegionID: s.cfg.Region, Region: s.cfg.Region,
				URL: base + entry.Path,
			})
		}
		list = append(list, service)
	}
	return list
}

// authCatalog is GET /v3/auth/catalog.
func (s *Server) authCatalog(c *simhttp.Call, who session) error {
	if who.roles == nil {
		return simhttp.Refuse(http.StatusForbidden, "A project-scoped token is required to produce a service catalog.")
	}
	return c.JSON(http.StatusOK, map[string]any{"catalog": s.catalog(c), "links": selfLink(c)})
}

func selfLink(c *simhttp.Call) map[string]any {
	return map[string]any{"self": c.BaseURL() + c.URL.EscapedPath(), "previous": nil, "next": nil}
}
