package servicetest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/sim"
)

// newKeystone is a new server with an application credential and the tokens of
// the user admin; they are the same each time.
func newKeystone(t *testing.T) (server *keystone.Server, token string, ids map[string]string) {
	t.Helper()
	server = keystone.New(keystone.Config{Seed: 7, Clock: stopped(), Services: []keystone.CatalogEntry{
		{Type: "placement", Name: "placement", Path: "/placement"},
		{Type: "accelerator", Name: "cyborg", Path: "/accelerator/v2"},
	}})
	token, err := server.IssueToken("admin")
	must(t, err)
	ids = make(map[string]string)
	read := func(key string, r request, at func(map[string]any) any) {
		got := send(t, server, r, "X-Auth-Token", token)
		var object map[string]any
		if err := json.Unmarshal([]byte(got.seen), &object); err != nil {
			t.Fatalf("%s %s: %s", r.method, r.path, got.seen)
		}
		ids[key], _ = at(object).(string)
	}
	first := func(list string) func(map[string]any) any {
		return func(o map[string]any) any { return o[list].([]any)[0].(map[string]any)["id"] }
	}
	read("user", get("/v3/users?name=admin"), first("users"))
	read("project", get("/v3/projects?name=admin"), first("projects"))
	read("role", get("/v3/roles?name=reader"), first("roles"))
	read("credential", request{method: "POST", path: "/v3/users/" + ids["user"] + "/application_credentials", body: `{"application_credential": {"name": "c", "secret": "s3", "access_rules": [{"service": "image", "method": "GET", "path": "/image/**"}]}}`},
		func(o map[string]any) any { return o["application_credential"].(map[string]any)["id"] })
	return server, token, ids
}

func TestKeystoneInputs(t *testing.T) {
	t.Parallel()
	system, token, ids := newKeystone(t)
	credentials := "/v3/users/" + ids["user"] + "/application_credentials"
	auth := func(identity, scope string) string {
		return `{"auth": {"identity": ` + identity + `, "scope": ` + scope + `}}`
	}
	byName := `{"methods": ["password"], "password": {"user": {"name": "admin", "password": "secret", "domain": {"name": "Default"}}}}`
	byCredential := func(fields string) string {
		return `{"auth": {"identity": {"methods": ["application_credential"], "application_credential": {"secret": "s3", ` + fields + `}}}}`
	}
	login := func(body string) request {
		return request{method: "POST", path: "/v3/auth/tokens?nocatalog=1", body: body}
	}
	refused := func(r request) request { r.refused = true; return r }
	// Nothing can show that a list is filtered that is always empty.
	empty := []sim.OperationName{fault.GroupList, fault.RegisteredLimitList, fault.LimitList, fault.CredentialList, fault.PolicyList}
	routes := slices.DeleteFunc(system.Routes(), func(r sim.Route) bool { return slices.Contains(empty, r.Operation) })
	var filtered []request
	for _, r := range routes {
		for _, key := range r.Query {
			if r.Method == http.MethodGet && !strings.Contains(r.Pattern, "tokens") {
				filtered = append(filtered, get(strings.Replace(r.Pattern, "{id}", ids["user"], 1)+"?"+key+"=zz"))
			}
		}
	}
	check(t, routes, append(filtered, []request{
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
		get("/v3/projects?enabled=no"), get("/v3/projects?is_domain=yes"), get("/v3/users?enabled=no"), get("/v3/domains?enabled=no"),
		get("/v3/users/" + ids["user"] + "/projects?enabled=no"), get("/v3/role_assignments?scope.system=all"),
		{method: "POST", path: credentials, body: `{"application_credential": {"name": "n", "description": "d", "secret": "x", "expires_at": "2027-01-01T00:00:00", "roles": [{"name": "reader"}], "unrestricted": true}}`},
		{method: "POST", path: credentials, body: `{"application_credential": {"name": "n", "roles": [{"id": "` + ids["role"] + `"}],
			"access_rules": [{"id": "r", "service": "compute", "method": "GET", "path": "/compute/**"}]}}`},
	}...), func(r request) answer {
		server, token, ids := newKeystone(t)
		got := send(t, server, r, "X-Auth-Token", token, "X-Subject-Token", token)
		seen := got.seen + send(t, server, get("/v3/users/"+ids["user"]+"/application_credentials"), "X-Auth-Token", token).seen
		var made struct {
			Credential struct{ ID, Secret string } `json:"application_credential"`
		}
		if json.Unmarshal([]byte(got.seen), &made) == nil && made.Credential.ID != "" { // what the credential may do shows in its token
			seen += send(t, server, request{method: "POST", path: "/v3/auth/tokens", body: fmt.Sprintf(`{"auth": {"identity": {"methods": ["application_credential"],
				"application_credential": {"id": %q, "secret": %q}}}}`, made.Credential.ID, made.Credential.Secret)}).seen
		}
		return answer{got.status, withoutSelf(seen)}
	})
}

// withoutSelf takes out the link of a list to itself, which repeats the query.
func withoutSelf(text string) string {
	before, rest, found := strings.Cut(text, `"self":"http://example.com/v3/`)
	if !found {
		return text
	}
	_, after, _ := strings.Cut(rest, `"`)
	return before + withoutSelf(after)
}

// fullKeystone is a server with one of everything in its state, and the token of an administrator.
func fullKeystone(t testing.TB) (server *keystone.Server, token string) {
	t.Helper()
	server = keystone.New(guestConfig())
	login := func(identity string) string {
		w := exchange(t, server, request{method: "POST", path: "/v3/auth/tokens", body: `{"auth": {` + identity + `}}`})
		if w.Code != http.StatusCreated {
			t.Fatalf("log in with %s: %d %s", identity, w.Code, w.Body)
		}
		return w.Header().Get("X-Subject-Token")
	}
	byPassword := func(user, project string) string {
		return login(`"identity": {"methods": ["password"], "password": {"user": {"name": "` + user + `", "domain": {"name": "Default"}, "password": "secret"}}},
			"scope": {"project": {"name": "` + project + `", "domain": {"id": "default"}}}`)
	}
	token = byPassword("admin", "admin")
	guest := byPassword("guest", "lab")
	who, err := server.VerifyToken(guest)
	must(t, err)
	credential := request{
		method: "POST", path: "/v3/users/" + who.Get("X-User-Id") + "/application_credentials",
		body: `{"application_credential": {"name": "robot", "secret": "hush", "expires_at": "2027-01-01T00:00:00",
			"access_rules": [{"id": "reads", "service": "image", "method": "GET", "path": "/image/**"}]}}`,
	}
	if got := send(t, server, credential, "X-Auth-Token", guest); got.status != http.StatusCreated {
		t.Fatalf("create a credential: %d %s", got.status, got.seen)
	}
	login(`"identity": {"methods": ["application_credential"], "application_credential": {"name": "robot", "user": {"name": "guest", "domain": {"id": "default"}}, "secret": "hush"}}`)
	return server, token
}

// guestConfig has a user with roles on several projects.
func guestConfig() keystone.Config {
	return keystone.Config{Seed: 7, Clock: stopped(), Users: []keystone.User{
		{Name: "guest", Roles: map[string][]string{"lab": {"member"}, "demo": {"reader"}}},
	}}
}

func TestKeystoneStates(t *testing.T) {
	t.Parallel()
	s, token := fullKeystone(t)
	before := dump(t, s.State())
	other, _ := fullKeystone(t)
	must(t, load(other.State(), before))
	replaced := replacer(t, before)
	bad := []badState{
		{"unknown table", replaced(`"identity.tokens"`, `"identity.grants"`), "identity.grants"},
		{"unknown field", replaced(`"audit_ids"`, `"audits"`), `unknown field "audits"`},
		{"unknown user", strings.ReplaceAll(before, `"user": "guest"`, `"user": "stranger"`), `user "stranger": the configuration has no such user`},
		{"unknown user of a token", replaced(`"user": "admin"`, `"user": "stranger"`), `user "stranger": the configuration has no such user`},
		{"unknown project", strings.ReplaceAll(before, `"project": "lab"`, `"project": "moon"`), `has no project "moon"`},
		{"project without a role", replaced(`"project": "admin"`, `"project": "demo"`), `gives the user no role on project "demo"`},
		{"role that is not the user's", replaced(`"reader"`, `"admin"`), `does not give the user role "admin"`},
		{"no credential", replaced(`"application_credential": "`, `"application_credential": "x`), "there is no application credential"},
		{"no access rule", replaced(`"access_rules": [`+"\n", `"access_rules": [ "x",`+"\n"), `there is no access rule "x" of the user`},
		{"an access rule without a path", strings.Replace(before, `"path": "/image/**"`, `"path": ""`, 1), "a field is missing"},
		{"a token for a hash", replaced(`"sha256": "`, `"sha256": "`+token), "a SHA-256 is not 64 hexadecimal digits"},
		{"token without audit ids", replaced(`"audit_ids": [`, `"audit_ids": [], "methods": [`), "repeated"},
		{"unknown method", replaced(`"password"`, `"totp"`), `unknown method "totp"`},
		{"no time", replaced(`"issued": "2`, `"issued": "0001-01-01T00:00:00Z", "system": false, "expires": "2`), "repeated"},
		{"the zero time", replaced(`"issued": "2026-01-01T00:00:00Z"`, `"issued": "0001-01-01T00:00:00Z"`), "issued is missing"},
		{"time out of range", replaced(`"expires": "2026-01-01T01:00:00Z"`, `"expires": "9999-12-31T23:59:59-12:00"`), "year 10000"},
		{"fewer tokens than there are", replaced(`"last": 3`, `"last": 1`), "it is at 1, and there are 3 tokens"},
	}
	checkBadStates(t, s.State(), bad)
	for _, b := range bad {
		if strings.Contains(fmt.Sprint(load(s.State(), b.state)), token) {
			t.Errorf("%s: the error has a token", b.name)
		}
	}
}

func FuzzKeystoneState(f *testing.F) {
	s, _ := fullKeystone(f)
	state := dump(f, s.State())
	f.Add(`[]`)
	f.Add(state)
	f.Add(strings.Replace(state, `"2027-01-01T00:00:00Z"`, `"9999-12-31T23:59:59-23:59"`, 1))
	f.Fuzz(func(t *testing.T, text string) { checkLoad(t, keystone.New(guestConfig()).State(), text) })
}
