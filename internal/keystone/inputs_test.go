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

// inputWorld is a new server with an application credential and the tokens of
// the user admin; they are the same each time.
func inputWorld(t *testing.T) (server *keystone.Server, token string, ids map[string]string) {
	t.Helper()
	config := serverConfig()
	config.Clock = newStopped()
	server = keystone.New(config)
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
	read("role", "GET", "/v3/roles?name=reader", "", first("roles"))
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
	byCredential := func(fields string) string {
		return `{"auth": {"identity": {"methods": ["application_credential"], "application_credential": {"secret": "s3", ` + fields + `}}}}`
	}
	login := func(body string) inputtest.Case {
		return inputtest.Case{Method: "POST", Path: "/v3/auth/tokens?nocatalog=1", Body: body}
	}
	refused := func(c inputtest.Case) inputtest.Case { c.Refused = true; return c }
	get := func(path string) inputtest.Case { return inputtest.Case{Method: "GET", Path: path} }
	inputtest.Check(t, system.Service.Router.Routes(), []inputtest.Case{
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
	}, func(c inputtest.Case) inputtest.Answer {
		server, token, ids := inputWorld(t)
		got := send(t, server, c.Method, c.Path, c.Body, "X-Auth-Token", token, "X-Subject-Token", token)
		seen := got.body + send(t, server, http.MethodGet, "/v3/users/"+ids["user"]+"/application_credentials", "", "X-Auth-Token", token).body
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
