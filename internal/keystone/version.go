package keystone

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

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
	c.W.Header().Set("Location", versionURL(c))
	return c.JSON(http.StatusMultipleChoices, map[string]any{"versions": map[string]any{"values": []any{version(c)}}})
}

func (s *Server) getVersion(c *simhttp.Call) error {
	return c.JSON(http.StatusOK, map[string]any{"version": version(c)})
}
