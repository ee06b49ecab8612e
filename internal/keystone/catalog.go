package keystone

import (
	"cmp"
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

// catalog lists the services with absolute URLs, on the host that the request came to unless they are elsewhere.
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
				URL: cmp.Or(entry.URL, base+entry.Path),
			})
		}
		list = append(list, service)
	}
	return list
}

// authCatalog is GET /v3/auth/catalog, which needs a project.
func (s *Server) authCatalog(c *simhttp.Call, who session) error {
	if who.project == nil {
		return simhttp.Refuse(http.StatusForbidden, "You are not authorized to perform the requested action.")
	}
	return c.JSON(http.StatusOK, map[string]any{"catalog": s.catalog(c), "links": map[string]string{"self": c.BaseURL() + c.URL.EscapedPath()}})
}

func selfLink(c *simhttp.Call) map[string]any {
	self := c.BaseURL() + c.URL.EscapedPath()
	if c.URL.RawQuery != "" {
		self += "?" + c.URL.RawQuery
	}
	return map[string]any{"self": self, "previous": nil, "next": nil}
}

// version describes Identity v3 as served below the mount point that the client used.
func version(c *simhttp.Call) map[string]any {
	return map[string]any{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []map[string]string{{"rel": "self", "href": versionURL(c)}},
		"media-types": []map[string]string{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func versionURL(c *simhttp.Call) string { return c.BaseURL() + c.Mount + "/v3/" }

// listVersions answers 300 as Keystone does; clients accept it, and none follows the
// Location, which is only for people.
func (s *Server) listVersions(c *simhttp.Call) error {
	if prefersJSONHome(c) {
		return s.answerJSONHome(c, "/v3")
	}
	c.W.Header().Set("Location", versionURL(c))
	return c.JSON(http.StatusMultipleChoices, map[string]any{"versions": map[string]any{"values": []any{version(c)}}})
}

func (s *Server) getVersion(c *simhttp.Call) error {
	if prefersJSONHome(c) {
		return s.answerJSONHome(c, "")
	}
	return c.JSON(http.StatusOK, map[string]any{"version": version(c)})
}
