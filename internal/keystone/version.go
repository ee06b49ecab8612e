package keystone

import (
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

type versionBody struct {
	ID         string              `json:"id"`
	Status     string              `json:"status"`
	Updated    string              `json:"updated"`
	Links      []map[string]string `json:"links"`
	MediaTypes []map[string]string `json:"media-types"`
}

// version describes Identity v3 as served below the mount point that the client used.
func version(r *http.Request) versionBody {
	return versionBody{
		ID: "v3.14", Status: "stable", Updated: "2020-04-07T00:00:00Z",
		Links:      []map[string]string{{"rel": "self", "href": versionURL(r)}},
		MediaTypes: []map[string]string{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func versionURL(r *http.Request) string {
	mount := ""
	if path := r.URL.EscapedPath(); path == "/identity" || strings.HasPrefix(path, "/identity/") {
		mount = "/identity"
	}
	return baseURL(r) + mount + "/v3/"
}

// listVersions answers 300 as Keystone does; clients accept it, and none follows the
// Location, which is only for people.
func (s *Server) listVersions(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", versionURL(r))
	simhttp.WriteJSON(w, http.StatusMultipleChoices,
		map[string]any{"versions": map[string]any{"values": []versionBody{version(r)}}})
}

func (s *Server) getVersion(w http.ResponseWriter, r *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"version": version(r)})
}
