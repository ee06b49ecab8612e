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
func (s *Server) catalog(r *http.Request) []catalogService {
	base := baseURL(r)
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
func (s *Server) authCatalog(w http.ResponseWriter, r *http.Request, who *token) {
	if who.roles == nil {
		writeError(w, r, http.StatusForbidden, "A project-scoped token is required to produce a service catalog.")
		return
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"catalog": s.catalog(r), "links": selfLink(r)})
}

// baseURL is the scheme and host that the client used. A proxy in front that ended
// TLS says so in X-Forwarded-Proto.
func baseURL(r *http.Request) string {
	scheme := "http"
	if forwarded := r.Header.Get("X-Forwarded-Proto"); forwarded == "https" || forwarded == "" && r.TLS != nil {
		scheme = "https"
	}
	host := r.Host
	if host == "" {
		host = "localhost" // HTTP/1.0 has no Host
	}
	return scheme + "://" + host
}

func selfLink(r *http.Request) map[string]any {
	return map[string]any{"self": baseURL(r) + r.URL.EscapedPath(), "previous": nil, "next": nil}
}
