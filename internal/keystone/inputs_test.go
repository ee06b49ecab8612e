package keystone_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/simhttp/inputtest"
)

// inputWorld is a new server with a limit, an application credential and the tokens of
// the user admin; they are the same each time.
func inputWorld(t *testing.T) (server *keystone.Server, token string, ids map[string]string) {
	t.Helper()
	server = newServer(keystone.WithClock(newStopped()))
	token, err := server.IssueToken("admin")
	if err != nil {
		t.Fatal(err)
	}
	ids = make(map[string]string)
	read := func(key, method, path, body string, at func(map[string]any) any) {
		got := send(t, server, method, path, body, "X-Auth-Token", token)
		var object map[string]any
		if err := json.Unmarshal([]byte(got.body), &object); err != nil {
			t.Fatalf("%s %s: %s", method, path, got.body)
		}
		ids[key], _ = at(object).(string)
	}
	first := func(list string) func(map[string]any) any {
		return func(o map[string]any) any { return o[list].([]any)[0].(map[string]any)["id"] }
	}
	read("user", "GET", "/v3/users?name=admin", "", first("users"))
	read("project", "GET", "/v3/projects?name=admin", "", first("projects"))
	read("service", "GET", "/v3/services?name=cyborg", "", first("services"))
	read("role", "GET", "/v3/roles?name=reader", "", first("roles"))
	read("registered", "POST", "/v3/registered_limits", fmt.Sprintf(
		`{"registered_limits": [{"service_id": %q, "region_id": "RegionOne", "resource_name": "gpu", "default_limit": 4}]}`, ids["service"]), first("registered_limits"))
	read("spare", "POST", "/v3/registered_limits", fmt.Sprintf(
		`{"registered_limits": [{"service_id": %q, "resource_name": "vgpu", "default_limit": 4}]}`, ids["service"]), first("registered_limits"))
	read("limit", "POST", "/v3/limits", fmt.Sprintf(
		`{"limits": [{"project_id": %q, "service_id": %q, "region_id": "RegionOne", "resource_name": "gpu", "resource_limit": 2}]}`, ids["project"], ids["service"]), first("limits"))
	read("limit", "POST", "/v3/limits", fmt.Sprintf(
		`{"limits": [{"domain_id": "default", "service_id": %q, "region_id": "RegionOne", "resource_name": "gpu", "resource_limit": 3}]}`, ids["service"]), first("limits"))
	read("credential", "POST", "/v3/users/"+ids["user"]+"/application_credentials", `{"application_credential": {"name": "c", "secret": "s3"}}`,
		func(o map[string]any) any { return o["application_credential"].(map[string]any)["id"] })
	return server, token, ids
}

func TestWhatIsDeclaredIsRead(t *testing.T) {
	t.Parallel()
	system, token, ids := inputWorld(t)
	credentials := "/v3/users/" + ids["user"] + "/application_credentials"
	auth := func(identity, scope string) string {
		return `{"auth": {"identity": ` + identity + `, "scope": ` + scope + `}}`
	}
	byName := `{"methods": ["password"], "password": {"user": {"name": "admin", "password": "secret", "domain": {"name": "Default"}}}}`
	systemToken := func(server *keystone.Server) string { // sees the limits of all
		return send(t, server, "POST", "/v3/auth/tokens", auth(byName, `{"system": {"all": true}}`)).Header.Get("X-Subject-Token")
	}
	scoped := systemToken(system)
	byCredential := func(fields string) string {
		return `{"auth": {"identity": {"methods": ["application_credential"], "application_credential": {"secret": "s3", ` + fields + `}}}}`
	}
	login := func(body string) inputtest.Case {
		return inputtest.Case{Method: "POST", Path: "/v3/auth/tokens?nocatalog=1", Body: body}
	}
	refused := func(c inputtest.Case) inputtest.Case { c.Refused = true; return c }
	get := func(path string) inputtest.Case { return inputtest.Case{Method: "GET", Path: path} }
	limit := fmt.Sprintf(`"service_id": %q, "resource_name": "fpga"`, ids["service"])
	inputtest.Check(t, system.Service().Router.Routes(), []inputtest.Case{
		login(auth(byName, `{"project": {"name": "admin", "domain": {"name": "Default"}}}`)),
		login(auth(`{"methods": ["password"], "password": {"user": {"id": "`+ids["user"]+`", "password": "secret"}}}`, `{"project": {"id": "`+ids["project"]+`"}}`)),
		login(auth(`{"methods": ["password"], "password": {"user": {"name": "admin", "password": "secret", "domain": {"id": "default"}}}}`,
			`{"project": {"name": "admin", "domain": {"id": "default"}}}`)),
		login(auth(`{"methods": ["token"], "token": {"id": "`+token+`"}}`, `{"system": {"all": true}}`)),
		login(auth(byName, `{"unscoped": {}}`)),
		refused(login(auth(byName, `{"domain": {"id": "default"}}`))),
		refused(login(auth(byName, `{"OS-TRUST:trust": {"id": "x"}}`))),
		login(byCredential(`"id": "` + ids["credential"] + `"`)),
		login(byCredential(`"name": "c", "user": {"name": "admin", "domain": {"id": "default"}}`)),
		login(byCredential(`"name": "c", "user": {"name": "admin", "domain": {"name": "Default"}}`)),
		login(byCredential(`"name": "c", "user": {"id": "` + ids["user"] + `"}`)),
		get("/v3/auth/tokens?nocatalog=1"),
		get("/v3/projects?name=admin"), get("/v3/users?name=admin"), get("/v3/domains?name=Default"), get("/v3/roles?name=admin"),
		get("/v3/services?name=cyborg&type=accelerator"), get(credentials + "?name=c"),
		{Method: "POST", Path: credentials, Body: `{"application_credential": {"name": "n", "description": "d", "secret": "x", "expires_at": "2027-01-01T00:00:00", "roles": [{"name": "reader"}], "unrestricted": true}}`},
		{Method: "POST", Path: credentials, Body: `{"application_credential": {"name": "n", "roles": [{"id": "` + ids["role"] + `"}]}}`},
		get("/v3/registered_limits?service_id=" + ids["service"] + "&region_id=RegionOne&resource_name=gpu"),
		{Method: "POST", Path: "/v3/registered_limits", Body: `{"registered_limits": [{` + limit + `, "default_limit": 1}]}`},
		{Method: "PATCH", Path: "/v3/registered_limits/" + ids["spare"], Body: `{"registered_limit": {"default_limit": 7}}`},
		get("/v3/limits?project_id=" + ids["project"] + "&service_id=" + ids["service"] + "&region_id=RegionOne&resource_name=gpu"),
		get("/v3/limits?domain_id=default"),
		{Method: "POST", Path: "/v3/limits", Body: `{"limits": [{` + strings.Replace(limit, "fpga", "vgpu", 1) + `, "project_id": "` + ids["project"] + `", "resource_limit": 1}]}`},
		{Method: "PATCH", Path: "/v3/limits/" + ids["limit"], Body: `{"limit": {"resource_limit": 1}}`},
	}, func(c inputtest.Case) inputtest.Answer {
		server, token, ids := inputWorld(t)
		if c.Method == http.MethodGet && strings.HasPrefix(c.Path, "/v3/limits?") {
			if token = systemToken(server); token != scoped {
				t.Fatal("the system's token differs")
			}
		}
		got := send(t, server, c.Method, c.Path, c.Body, "X-Auth-Token", token, "X-Subject-Token", token)
		seen := got.body
		for _, path := range []string{"/v3/registered_limits", "/v3/limits", "/v3/users/" + ids["user"] + "/application_credentials"} {
			seen += send(t, server, http.MethodGet, path, "", "X-Auth-Token", token).body
		}
		var made struct {
			Credential struct{ ID, Secret string } `json:"application_credential"`
		}
		if json.Unmarshal([]byte(got.body), &made) == nil && made.Credential.ID != "" { // what the credential may do shows in its token
			seen += send(t, server, "POST", "/v3/auth/tokens", fmt.Sprintf(`{"auth": {"identity": {"methods": ["application_credential"],
				"application_credential": {"id": %q, "secret": %q}}}}`, made.Credential.ID, made.Credential.Secret)).body
		}
		return inputtest.Answer{Status: got.StatusCode, Seen: withoutSelf(seen)}
	})
}

// withoutSelf takes out the link of a list to itself, which repeats the query.
func withoutSelf(text string) string {
	before, rest, found := strings.Cut(text, `"self":"http://cloud.example:5000/identity/v3/`)
	if !found {
		return text
	}
	_, after, _ := strings.Cut(rest, `"`)
	return before + withoutSelf(after)
}
