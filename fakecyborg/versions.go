package fakecyborg

import (
	"fmt"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// versionDocument is the description of API v2, bare as upstream answers it.
type versionDocument struct {
	ID     string `json:"id"`
	Links  []link `json:"links"`
	Max    string `json:"max_version"`
	Min    string `json:"min_version"`
	Status string `json:"status"`
}

func (s *Server) document(id, href string) versionDocument {
	return versionDocument{
		ID: id, Links: []link{{href, "self"}},
		Max: fmt.Sprintf("2.%d", s.cfg.maxMinor()), Min: "2.0", Status: "CURRENT",
	}
}

// getRoot lists the versions. Its links never use the configured endpoint, and
// name the version v2 where the version's own document says v2.0.
func (s *Server) getRoot(c *simhttp.Call) error {
	v2 := s.document("v2", c.BaseURL()+"/accelerator/v2")
	return c.JSON(http.StatusOK, struct {
		Name        string            `json:"name"`
		Description string            `json:"description"`
		Versions    []versionDocument `json:"versions"`
		Default     versionDocument   `json:"default_version"`
	}{
		Name: "OpenStack Cyborg API",
		Description: "Cyborg is the OpenStack project for lifecycle management of hardware accelerators," +
			" such as GPUs,FPGAs, AI chips, security accelerators, etc.",
		Versions: []versionDocument{v2}, Default: v2,
	})
}

func (s *Server) getVersion(c *simhttp.Call) error {
	return c.JSON(http.StatusOK, s.document("v2.0", s.linksOf(c).base+"/accelerator/v2/"))
}
