package keystone

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	typeJSON     = "application/json"
	typeJSONHome = "application/json-home"
)

// otherRelations are the resources of the JSON Home document that Server.resources does not have, by the name of their
// relation (keystone/server/flask/common.py, construct_resource_map).
var otherRelations = map[string]string{
	"auth_catalog":            "/auth/catalog",
	"auth_domains":            "/auth/domains",
	"auth_projects":           "/auth/projects",
	"auth_system":             "/auth/system",
	"auth_tokens":             "/auth/tokens",
	"access_rule":             "/users/{user_id}/access_rules/{access_rule_id}",
	"access_rules":            "/users/{user_id}/access_rules",
	"application_credential":  "/users/{user_id}/application_credentials/{application_credential_id}",
	"application_credentials": "/users/{user_id}/application_credentials",
	"limit_model":             "/limits/model",
	"project_user_role":       "/projects/{project_id}/users/{user_id}/roles/{role_id}",
	"project_user_roles":      "/projects/{project_id}/users/{user_id}/roles",
	"role_assignments":        "/role_assignments",
	"user_groups":             "/users/{user_id}/groups",
	"user_projects":           "/users/{user_id}/projects",
}

// relations are the paths of the resources of the JSON Home document, by the name of their relation.
func (s *Server) relations() map[string]string {
	paths := maps.Clone(otherRelations)
	for _, r := range s.resources() {
		paths[r.names] = "/" + r.names
		paths[r.name] = "/" + r.names + "/{" + r.name + "_id}"
	}
	return paths
}

var templateVariable = regexp.MustCompile(`\{(\w+)\}`)

// jsonHome is the JSON Home document, whose paths begin with a prefix.
func (s *Server) jsonHome(prefix string) map[string]any {
	const docs = "https://docs.openstack.org/api/openstack-identity/3/"
	resources := make(map[string]any)
	for name, path := range s.relations() {
		variables := make(map[string]string)
		for _, found := range templateVariable.FindAllStringSubmatch(path, -1) {
			variables[found[1]] = docs + "param/" + found[1]
		}
		resource := map[string]any{"href": prefix + path}
		if len(variables) > 0 {
			resource = map[string]any{"href-template": prefix + path, "href-vars": variables}
		}
		if strings.Contains(name, "limit") {
			resource["hints"] = map[string]string{"status": "experimental"}
		}
		resources[docs+"rel/"+name] = resource
	}
	return map[string]any{"resources": resources}
}

// prefersJSONHome reports whether Accept asks for the JSON Home document rather than for JSON.
func prefersJSONHome(c *simhttp.Call) bool {
	quality := map[string]float64{}
	for _, part := range strings.Split(strings.Join(c.Header.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		if err != nil {
			q = 1
		}
		quality[kind] = q
	}
	of := func(kind string) float64 {
		for _, pattern := range []string{kind, "application/*", "*/*"} {
			if q, ok := quality[pattern]; ok {
				return q
			}
		}
		return 0
	}
	return of(typeJSONHome) > of(typeJSON)
}

// answerJSONHome answers with the JSON Home document.
func (s *Server) answerJSONHome(c *simhttp.Call, prefix string) error {
	body, err := json.Marshal(s.jsonHome(prefix))
	if err != nil {
		return err
	}
	simhttp.WriteBody(c.W, http.StatusOK, typeJSONHome, body)
	return nil
}
