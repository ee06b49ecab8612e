package keystone_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

var services = []keystone.CatalogEntry{
	{Type: "placement", Name: "placement", Path: "/placement"},
	{Type: "accelerator", Name: "cyborg", Path: "/accelerator/v2"},
}

func newServer() *keystone.Server { return keystone.New(serverConfig()) }

func serverConfig() keystone.Config { return keystone.Config{Seed: 7, Services: services} }

// answer is a response with its body read.
type answer struct {
	*http.Response
	body string
}

func send(t testing.TB, h http.Handler, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://cloud.example:5000"+path, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{
		Transport:     simhttp.NewTransport(h),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	return answer{res, string(data)}
}

const passwordOfAdmin = `"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"name":"Default"},"password":"secret"}}}`

func authBody(identity, scope string) string {
	if scope == "" {
		return `{"auth":{` + identity + `}}`
	}
	return `{"auth":{` + identity + `,"scope":` + scope + `}}`
}

func login(t testing.TB, h http.Handler, user, project string) string {
	t.Helper()
	identity := strings.Replace(passwordOfAdmin, "admin", user, 1)
	scope := `{"project":{"name":"` + project + `","domain":{"id":"default"}}}`
	res := send(t, h, "POST", "/v3/auth/tokens", authBody(identity, scope))
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("login as %s: %d %s", user, res.StatusCode, res.body)
	}
	return res.Header.Get("X-Subject-Token")
}

// credentialBody is a login with an application credential.
func credentialBody(members string) string {
	return authBody(`"identity":{"methods":["application_credential"],"application_credential":{`+members+`}}`, "")
}

func foreignToken() string {
	token, _ := keystone.New(keystone.Config{Seed: 8}).IssueToken("admin")
	return token
}

// The answers of Keystone 30, except that it quotes passwords and tokens of a wrong type.
func TestAuthenticationRequests(t *testing.T) {
	t.Parallel()
	const project = `{"project":{"name":"admin","domain":{"id":"default"}}}`
	tests := []struct {
		name string
		body string
		want int
		text string
	}{
		{"by password", authBody(passwordOfAdmin, project), 201, `"project":{"id":`},
		{"domain name in any case", authBody(passwordOfAdmin, `{"project":{"name":"admin","domain":{"name":"DEFAULT"}}}`), 201, `"catalog":`},
		{"unscoped", authBody(passwordOfAdmin, ""), 201, `"methods":["password"]`},
		{"unscoped by word", authBody(passwordOfAdmin, `"unscoped"`), 201, `"expires_at"`},
		{"unscoped by object", authBody(passwordOfAdmin, `{"unscoped":{}}`), 201, `"expires_at"`},
		{"system", authBody(passwordOfAdmin, `{"system":{"all":true}}`), 201, `"system":{"all":true}`},
		{"wrong password", authBody(strings.Replace(passwordOfAdmin, "secret", "wrong-one", 1), project), 401, "requires authentication"},
		{"unknown user", authBody(strings.Replace(passwordOfAdmin, "admin", "nobody", 1), project), 401, "requires authentication"},
		{"wrong domain", authBody(strings.Replace(passwordOfAdmin, "Default", "other", 1), project), 401, "requires authentication"},
		{"unknown project", authBody(passwordOfAdmin, `{"project":{"id":"x"}}`), 401, "requires authentication"},
		{"project without a role", authBody(passwordOfAdmin, `{"project":{"name":"demo","domain":{"id":"default"}}}`), 401, "requires authentication"},
		{"domain scope", authBody(passwordOfAdmin, `{"domain":{"id":"default"}}`), 401, "requires authentication"},
		{"trust", authBody(passwordOfAdmin, `{"OS-TRUST:trust":{"id":"x"}}`), 401, "requires authentication"},
		{"trust without id", authBody(passwordOfAdmin, `{"OS-TRUST:trust":{}}`), 400, "Expecting to find trust_id in trust."},
		{"two scopes", authBody(passwordOfAdmin, `{"project":{"id":"x"},"system":{"all":true}}`), 400, "Expecting to find system, project, domain, OS-TRUST:trust or unscoped in scope."},
		{"unknown scope", authBody(passwordOfAdmin, `{"planet":{}}`), 400, "Expecting to find system, project, domain, OS-TRUST:trust or unscoped in scope."},
		{"another word", authBody(passwordOfAdmin, `"planet"`), 400, "Expecting to find system, project"},
		{"scope of a wrong type", authBody(passwordOfAdmin, `7`), 400, "Invalid input for field 'scope': 7 is not of type 'object', 'string'"},
		{"no scope but null", authBody(passwordOfAdmin, `null`), 400, "None is not of type 'object', 'string'"},
		{"system not all", authBody(passwordOfAdmin, `{"system":{"all":false}}`), 201, `"system":{"all":true}`},
		{"system of a wrong type", authBody(passwordOfAdmin, `{"system":{"all":"yes"}}`), 400, "Invalid input for field 'scope/system/all': 'yes' is not of type 'boolean'"},
		{"project without domain", authBody(passwordOfAdmin, `{"project":{"name":"admin"}}`), 400, "Expecting to find domain in project."},
		{"project without name", authBody(passwordOfAdmin, `{"project":{}}`), 400, "Invalid input for field scope/project: id or name must be present."},
		{"project of an empty domain", authBody(passwordOfAdmin, `{"project":{"id":"x","domain":{}}}`), 400, "Invalid input for field scope/project/domain: id or name must be present."},
		{"domain without name", authBody(passwordOfAdmin, `{"domain":{}}`), 400, "Invalid input for field scope/domain: id or name must be present."},
		{"user without domain", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","password":"secret"}}}}}`, 400, "Expecting to find domain in user."},
		{"user without name", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"password":"secret"}}}}}`, 400, "Invalid input for field identity/password/user: id or name must be present."},
		{"user with an empty name", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"","password":"secret"}}}}}`, 400, "Expecting to find id or name in user."},
		{"user of an empty domain", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{}}}}}}`, 400, "Invalid input for field identity/password/user/domain: id or name must be present."},
		{"a name goes before an id", authBody(strings.Replace(passwordOfAdmin, `"name":"admin"`, `"name":"admin","id":"x"`, 1), project), 201, `"catalog":`},
		{"no user", `{"auth":{"identity":{"methods":["password"],"password":{}}}}`, 400, "Expecting to find user in None."},
		{"no password", authBody(strings.Replace(passwordOfAdmin, `,"password":"secret"`, "", 1), ""), 401, "requires authentication"},
		{"no password object", `{"auth":{"identity":{"methods":["password"]}}}`, 400, "Expecting to find password in identity."},
		{"user null", `{"auth":{"identity":{"methods":["password"],"password":{"user":null}}}}`, 400, "Invalid input for field 'identity/password/user': None is not of type 'object'"},
		{"no token object", `{"auth":{"identity":{"methods":["token"]}}}`, 400, "Expecting to find token in identity."},
		{"token without id", `{"auth":{"identity":{"methods":["token"],"token":{}}}}`, 400, "Invalid input for field 'identity/token': 'id' is a required property"},
		{"unknown token", `{"auth":{"identity":{"methods":["token"],"token":{"id":"secret-token"}}}}`, 404, "Could not recognize Fernet token"},
		{"the proof is checked before the roles on a domain", authBody(`"identity":{"methods":["token"],"token":{"id":"x"}}`, `{"domain":{"id":"default"}}`), 404, "Could not recognize Fernet token"},
		{"an unknown domain is refused before", authBody(`"identity":{"methods":["token"],"token":{"id":"x"}}`, `{"domain":{"id":"x"}}`), 401, "requires authentication"},
		{"empty token", `{"auth":{"identity":{"methods":["token"],"token":{"id":""}}}}`, 404, "No token in the request"},
		{"token of another cloud", `{"auth":{"identity":{"methods":["token"],"token":{"id":"` + foreignToken() + `"}}}}`, 404, "Failed to validate token"},
		{"unknown method", `{"auth":{"identity":{"methods":["saml2"],"saml2":{}}}}`, 401,
			`"identity":{"methods":["external","password","token","oauth1","mapped","application_credential","ec2credential"]},"message":"Attempted to authenticate with an unsupported method."`},
		{"unknown method without payload", `{"auth":{"identity":{"methods":["saml2"]}}}`, 400, "Expecting to find saml2 in identity."},
		{"a method that is not simulated", `{"auth":{"identity":{"methods":["external"],"external":{}}}}`, 401, "requires authentication"},
		{"a method twice", authBody(strings.Replace(passwordOfAdmin, `["password"]`, `["password","password"]`, 1), project), 201, `"methods":["password"]`},
		{"no method", `{"auth":{"identity":{"methods":[]}}}`, 401, "requires authentication"},
		{"methods of a wrong type", `{"auth":{"identity":{"methods":"password"}}}`, 400, "Invalid input for field 'identity/methods': 'password' is not of type 'array'"},
		{"methods absent", `{"auth":{"identity":{"password":{"user":{"password":"wrong-one"}},"token":{"id":"secret-token"}}}}`, 400, "Invalid input for field 'identity': 'methods' is a required property"},
		{"no identity", `{"auth":{}}`, 400, "'identity' is a required property"},
		{"no auth", `{}`, 400, "Expecting to find auth in request body."},
		{"auth null", `{"auth":null}`, 400, "Expecting to find auth in request body."},
		{"no body", ``, 400, "Expecting to find auth in request body."},
		{"not JSON", `{"auth"`, 400, "Expecting to find valid JSON in request body."},
		{"not an object", `[]`, 400, "Expecting to find valid JSON in request body."},
		{"password of a wrong type", strings.Replace(authBody(passwordOfAdmin, ""), `"secret"`, `20261120`, 1), 400, "Invalid input for field 'identity/password/user/password': 0 is not of type 'string'"},
		{"unknown credential", credentialBody(`"id":"x","secret":"wrong-one"`), 404, "Could not find Application Credential: x."},
		{"credential without name", credentialBody(`"secret":"wrong-one"`), 400, "Expecting to find name or ID in application credential."},
		{"credential without user", credentialBody(`"name":"x","secret":"wrong-one"`), 400, "Expecting to find user in application credential."},
		{"credential of an unnamed user", credentialBody(`"name":"x","secret":"wrong-one","user":{}`), 400, "Expecting to find user in application credential."},
		{"credential of a user without domain", credentialBody(`"name":"x","secret":"wrong-one","user":{"name":"admin"}`), 400, "Expecting to find domain in user."},
		{"credential of an unknown user", credentialBody(`"name":"x","secret":"wrong-one","user":{"name":"unknown","domain":{"id":"default"}}`), 404, "Could not find user: unknown."},
		{"credential of an unknown user id", credentialBody(`"name":"x","secret":"wrong-one","user":{"id":"unknown"}`), 401, "requires authentication"},
		{"credential of an unknown domain", credentialBody(`"name":"x","secret":"wrong-one","user":{"name":"admin","domain":{}}`), 401, "requires authentication"},
		{"unknown name of a credential", credentialBody(`"name":"x","secret":"wrong-one","user":{"name":"admin","domain":{"id":"default"}}`), 401, "requires authentication"},
		{"credential with a scope", strings.Replace(credentialBody(`"id":"x","secret":"wrong-one"`), `"auth":{`, `"auth":{"scope":{"unscoped":{}},`, 1), 401,
			`"identity":{},"message":"Error authenticating with application credential: Application credentials cannot request a scope."`},
		{"too large", `{"auth":"` + strings.Repeat("x", simhttp.MaxBody) + `"}`, 413, "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := send(t, newServer(), "POST", "/v3/auth/tokens", tt.body)
			if res.StatusCode != tt.want || !strings.Contains(res.body, tt.text) {
				t.Fatalf("got %d %s, want %d with %q", res.StatusCode, res.body, tt.want, tt.text)
			}
			if got := res.Header.Get("X-Subject-Token") != ""; got != (tt.want == 201) {
				t.Errorf("a token was given: %v", got)
			}
			if tt.want >= 400 {
				checkErrorShape(t, res)
			}
			for _, private := range []string{"wrong-one", "secret-token", "20261120"} {
				if strings.Contains(res.body, private) {
					t.Errorf("the answer repeats %q: %s", private, res.body)
				}
			}
		})
	}
}

func checkErrorShape(t *testing.T, res answer) {
	t.Helper()
	var body struct {
		Error struct {
			Code           int
			Message, Title string
		}
	}
	must(t, json.Unmarshal([]byte(res.body), &body))
	if body.Error.Code != res.StatusCode || body.Error.Title != http.StatusText(res.StatusCode) || body.Error.Message == "" {
		t.Errorf("error body: got %+v for status %d", body.Error, res.StatusCode)
	}
	if challenge := res.Header.Get("WWW-Authenticate"); (challenge != "") != (res.StatusCode == 401) {
		t.Errorf("WWW-Authenticate of a %d: %q", res.StatusCode, challenge)
	}
}

func TestVersionDocumentsInEverySpelling(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path, wantSelf string
		want           int
	}{
		{"/", "http://cloud.example:5000/v3/", 300},
		{"/v3", "http://cloud.example:5000/v3/", 200},
		{"/v3/", "http://cloud.example:5000/v3/", 200},
		{"/identity", "http://cloud.example:5000/identity/v3/", 300},
		{"/identity/", "http://cloud.example:5000/identity/v3/", 300},
		{"/identity/v3", "http://cloud.example:5000/identity/v3/", 200},
		{"/identity/v3/", "http://cloud.example:5000/identity/v3/", 200},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			res := send(t, newServer(), "GET", tt.path, "")
			type version struct {
				ID     string
				Status string
				Links  []struct{ Rel, Href string }
			}
			var body struct {
				Version  version
				Versions struct{ Values []version }
			}
			must(t, json.Unmarshal([]byte(res.body), &body))
			got := body.Version
			if tt.want == 300 {
				got = body.Versions.Values[0]
			}
			if res.StatusCode != tt.want || got.ID != "v3.14" || got.Status != "stable" || got.Links[0].Href != tt.wantSelf {
				t.Errorf("got %d %+v, want %d with self %s", res.StatusCode, got, tt.want, tt.wantSelf)
			}
			head := send(t, newServer(), "HEAD", tt.path, "")
			if head.StatusCode != tt.want || head.body != "" {
				t.Errorf("HEAD: got %d %q", head.StatusCode, head.body)
			}
		})
	}
}

func TestJSONHome(t *testing.T) {
	t.Parallel()
	const home, docs = "application/json-home", "https://docs.openstack.org/api/openstack-identity/3/"
	for _, tt := range []struct {
		path, accept, kind string
		want               int
	}{
		{"/", home, home, 200},
		{"/identity/v3", "text/html, " + home + ";q=0.8", home, 200},
		{"/v3", home + ";q=0.9, application/json;q=0.5", home, 200},
		{"/v3", home + ", */*", "application/json", 200},
		{"/v3", home + ";q=0", "application/json", 200},
		{"/", "text/html", "application/json", 300},
		{"/", ", ;", "application/json", 300},
	} {
		res := send(t, newServer(), "GET", tt.path, "", "Accept", tt.accept)
		if res.StatusCode != tt.want || res.Header.Get("Content-Type") != tt.kind {
			t.Errorf("%s for %q: %d %q, want %d %q", tt.path, tt.accept, res.StatusCode, res.Header.Get("Content-Type"), tt.want, tt.kind)
		}
	}
	type resource struct {
		Href     string            `json:"href"`
		Template string            `json:"href-template"`
		Vars     map[string]string `json:"href-vars"`
	}
	var document struct{ Resources map[string]resource }
	res := send(t, newServer(), "GET", "/", "", "Accept", home)
	must(t, json.Unmarshal([]byte(res.body), &document))
	want := resource{Template: "/v3/projects/{project_id}", Vars: map[string]string{"project_id": docs + "param/project_id"}}
	if diff := cmp.Diff(want, document.Resources[docs+"rel/project"]); diff != "" {
		t.Errorf("project (-want +got):\n%s", diff)
	}
	shape := regexp.MustCompile(`\{\w+\}`)
	paths := make(map[string]bool)
	for _, r := range document.Resources {
		paths[shape.ReplaceAllString(r.Href+r.Template, "{}")] = true
	}
	served := map[string]bool{}
	for _, r := range newServer().Routes() {
		if path := shape.ReplaceAllString(r.Pattern, "{}"); path != "" && path != "/v3" {
			served[path] = true
		}
	}
	if diff := cmp.Diff(served, paths); diff != "" {
		t.Errorf("paths (-served +named):\n%s", diff)
	}
}

func TestCatalogFollowsTheHostOfTheRequest(t *testing.T) {
	t.Parallel()
	server := newServer()
	body := authBody(passwordOfAdmin, `{"project":{"name":"admin","domain":{"id":"default"}}}`)
	res := send(t, server, "POST", "/identity/v3/auth/tokens", body, "X-Forwarded-Proto", "https")
	var got struct {
		Token struct {
			Catalog []struct {
				Type, Name string
				Endpoints  []struct {
					Interface, Region string
					RegionID          string `json:"region_id"`
					URL               string
				}
			}
			Roles   []struct{ Name string }
			Expires time.Time `json:"expires_at"`
			Issued  time.Time `json:"issued_at"`
		}
	}
	must(t, json.Unmarshal([]byte(res.body), &got))
	urls := map[string]string{}
	for _, service := range got.Token.Catalog {
		for _, e := range service.Endpoints {
			if e.Region != "RegionOne" || e.RegionID != "RegionOne" {
				t.Errorf("%s: region %q, region_id %q", service.Type, e.Region, e.RegionID)
			}
			urls[service.Type+" "+e.Interface] = e.URL
		}
	}
	want := map[string]string{}
	for _, name := range []string{"public", "internal", "admin"} {
		want["identity "+name] = "https://cloud.example:5000/identity/v3"
		want["placement "+name] = "https://cloud.example:5000/placement"
		want["accelerator "+name] = "https://cloud.example:5000/accelerator/v2"
	}
	if diff := cmp.Diff(want, urls); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	if life := got.Token.Expires.Sub(got.Token.Issued); life != keystone.DefaultTokenLifetime {
		t.Errorf("life of the token: %s", life)
	}
	if diff := cmp.Diff([]struct{ Name string }{{"admin"}, {"manager"}, {"member"}, {"reader"}}, got.Token.Roles); diff != "" {
		t.Errorf("roles of admin with the implied ones (-want +got):\n%s", diff)
	}
	list := send(t, server, "GET", "/v3/auth/catalog", "", "X-Auth-Token", res.Header.Get("X-Subject-Token"))
	if list.StatusCode != 200 || !strings.Contains(list.body, `"http://cloud.example:5000/accelerator/v2"`) {
		t.Errorf("GET /v3/auth/catalog: %d %s", list.StatusCode, list.body)
	}
}

func TestVerifyTokenGivesTheMiddlewaresHeaders(t *testing.T) {
	t.Parallel()
	server := newServer()
	tests := []struct{ user, project, roles string }{
		{"admin", "admin", "admin,manager,member,reader"},
		{"demo", "demo", "member,reader"},
		{"nova", "service", "service"},
		{"cyborg", "service", "admin,manager,member,reader,service"},
	}
	admin := issue(t, server, "admin")
	for _, tt := range tests {
		var found struct{ Users []struct{ ID string } }
		list := send(t, server, "GET", "/v3/users?name="+tt.user, "", "X-Auth-Token", admin)
		if err := json.Unmarshal([]byte(list.body), &found); err != nil || len(found.Users) != 1 || len(found.Users[0].ID) != 32 {
			t.Fatalf("user %s: %v, %s", tt.user, err, list.body)
		}
		project, id, err := server.ProjectOf(tt.user)
		if err != nil || project != tt.project || len(id) != 32 {
			t.Errorf("%s: project %s %s, error %v", tt.user, project, id, err)
		}
		want := simhttp.Identity{User: found.Users[0].ID, Project: id, Roles: strings.Split(tt.roles, ",")}
		headers := http.Header{"X-User-Id": {want.User}, "X-Project-Id": {id}, "X-Roles": {tt.roles}}
		for how, token := range map[string]string{"by request": login(t, server, tt.user, tt.project), "in process": issue(t, server, tt.user)} {
			if h, err := server.VerifyToken(token); err != nil || cmp.Diff(headers, h) != "" {
				t.Errorf("%s %s: %v (-want +got):\n%s", tt.user, how, err, cmp.Diff(headers, h))
			}
			if who, err := server.Identify(token); err != nil || cmp.Diff(want, who) != "" {
				t.Errorf("%s %s: %v (-want +got):\n%s", tt.user, how, err, cmp.Diff(want, who))
			}
		}
	}
	system := send(t, server, "POST", "/v3/auth/tokens", authBody(passwordOfAdmin, `{"system":{"all":true}}`))
	if h, err := server.VerifyToken(system.Header.Get("X-Subject-Token")); err != nil || h.Get("OpenStack-System-Scope") != "all" || h.Get("X-Project-Id") != "" {
		t.Errorf("system scope: %v, %v", h, err)
	}
	if who, err := server.Identify(system.Header.Get("X-Subject-Token")); err != nil || !who.SystemScope || who.Project != "" {
		t.Errorf("system scope: %+v, %v", who, err)
	}
	if who, err := server.Identify("stolen"); err == nil {
		t.Errorf("unknown token: %+v", who)
	}
	if _, err := server.VerifyToken("stolen"); !errors.Is(err, keystone.ErrToken) || strings.Contains(err.Error(), "stolen") {
		t.Errorf("unknown token: %v", err)
	}
	if _, err := server.IssueToken("nobody"); !errors.Is(err, keystone.ErrUser) {
		t.Errorf("unknown user: %v", err)
	}
}

func issue(t *testing.T, server *keystone.Server, user string) string {
	t.Helper()
	token, err := server.IssueToken(user)
	must(t, err)
	return token
}

// A token that began with a hyphen would be an option of a command line.
func TestTokensBeginLikeKeystones(t *testing.T) {
	t.Parallel()
	server := newServer()
	for range 200 {
		if token := issue(t, server, "admin"); !strings.HasPrefix(token, "gAAAA") {
			t.Fatalf("token %s", token)
		}
	}
}

func TestTokensOfOneSeedRepeatAndOfTwoDiffer(t *testing.T) {
	t.Parallel()
	at := func(seed uint64, second int) *keystone.Server {
		return keystone.New(keystone.Config{Seed: seed, Clock: sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC))})
	}
	first := at(7, 0)
	token := issue(t, first, "admin")
	if same := issue(t, at(7, 0), "admin"); same != token {
		t.Errorf("tokens %s, %s: want them equal", token, same)
	}
	for name, other := range map[string]string{
		"the next": issue(t, first, "admin"), "of another cloud": issue(t, at(8, 0), "admin"),
		"of a later process": issue(t, at(7, 1), "admin"), "of another user": issue(t, at(7, 0), "demo"),
	} {
		if other == token {
			t.Errorf("the token %s equals the first", name)
		}
	}
	if _, err := first.VerifyToken(issue(t, at(8, 0), "admin")); !errors.Is(err, keystone.ErrToken) {
		t.Errorf("a token of another cloud: %v", err)
	}
}

func TestValidationAndRevocation(t *testing.T) {
	t.Parallel()
	server := newServer()
	admin, demo, nova := login(t, server, "admin", "admin"), login(t, server, "demo", "demo"), login(t, server, "nova", "service")
	tests := []struct {
		name, method, who, subject string
		want                       int
	}{
		{"by admin", "GET", admin, demo, 200},
		{"by a service", "GET", nova, demo, 200},
		{"of oneself", "GET", demo, demo, 200},
		{"of another", "GET", demo, admin, 403},
		{"head", "HEAD", admin, demo, 200},
		{"unknown subject", "GET", admin, "x", 404},
		{"unknown subject for a member", "GET", demo, "x", 404},
		{"empty subject", "GET", admin, "", 404},
		{"empty subject for a member", "GET", demo, "", 404},
		{"no subject", "GET", admin, "none", 404},
		{"no subject for a member", "GET", demo, "none", 403},
		{"head by a service", "HEAD", nova, demo, 403},
		{"head of oneself", "HEAD", nova, nova, 200},
		{"head without a subject for a member", "HEAD", demo, "none", 403},
		{"revoke nothing", "DELETE", admin, "none", 404},
		{"revoke nothing as a member", "DELETE", demo, "none", 403},
		{"unknown caller", "GET", "x", demo, 401},
		{"no caller", "GET", "", demo, 401},
		{"revoke another's", "DELETE", demo, admin, 403},
		{"revoke by service", "DELETE", nova, demo, 403},
		{"revoke", "DELETE", admin, demo, 204},
		{"revoke again", "DELETE", admin, demo, 404},
		{"validate revoked", "GET", admin, demo, 404},
		{"use revoked", "GET", demo, demo, 401},
	}
	for _, tt := range tests { // in order: later ones see the revocation
		header := []string{"X-Auth-Token", tt.who, "X-Subject-Token", tt.subject}
		if tt.subject == "none" {
			header = header[:2]
		}
		res := send(t, server, tt.method, "/v3/auth/tokens", "", header...)
		if res.StatusCode != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.name, res.StatusCode, res.body, tt.want)
		}
		if tt.want == 200 && res.Header.Get("X-Subject-Token") != tt.subject {
			t.Errorf("%s: subject not answered", tt.name)
		}
		if tt.want >= 400 && (strings.Contains(res.body, admin) || strings.Contains(res.body, demo)) {
			t.Errorf("%s: a token in %s", tt.name, res.body)
		}
	}
}

func TestATokenFromATokenExpiresWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		unscoped := send(t, server, "POST", "/v3/auth/tokens", authBody(passwordOfAdmin, "")).Header.Get("X-Subject-Token")
		if got := send(t, server, "GET", "/v3/auth/catalog", "", "X-Auth-Token", unscoped).StatusCode; got != 403 {
			t.Errorf("catalog of an unscoped token: %d, want 403", got)
		}
		system := send(t, server, "POST", "/v3/auth/tokens", authBody(passwordOfAdmin, `{"system":{"all":true}}`)).Header.Get("X-Subject-Token")
		body := authBody(`"identity":{"methods":["token"],"token":{"id":"`+system+`"}}`, `{"project":{"name":"admin","domain":{"id":"default"}}}`)
		if res := send(t, server, "POST", "/v3/auth/tokens", body); res.StatusCode != 403 || !strings.Contains(res.body, "Using a system-scoped token to create a project-scoped") {
			t.Errorf("a project for a token of the system: %d %s", res.StatusCode, res.body)
		}
		time.Sleep(59 * time.Minute)
		again := `"identity":{"methods":["token"],"token":{"id":"` + unscoped + `"}}`
		res := send(t, server, "POST", "/v3/auth/tokens", authBody(again, `{"project":{"name":"admin","domain":{"id":"default"}}}`))
		if res.StatusCode != 201 || !strings.Contains(res.body, `"methods":["password","token"]`) {
			t.Fatalf("got %d %s", res.StatusCode, res.body)
		}
		scoped := res.Header.Get("X-Subject-Token")
		if _, err := server.VerifyToken(scoped); err != nil {
			t.Errorf("before the hour: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := server.VerifyToken(scoped); !errors.Is(err, keystone.ErrToken) {
			t.Errorf("after the hour: %v, want ErrToken", err)
		}
		for range 3000 { // expired tokens do not pile up
			issue(t, server, "demo")
		}
	})
}

func roleID(t *testing.T, server *keystone.Server, name string) string {
	t.Helper()
	var list struct{ Roles []struct{ ID string } }
	res := send(t, server, "GET", "/v3/roles?name="+name, "", "X-Auth-Token", issue(t, server, "admin"))
	if err := json.Unmarshal([]byte(res.body), &list); err != nil || len(list.Roles) != 1 {
		t.Fatal(err, res.body)
	}
	return list.Roles[0].ID
}

func TestListsForAdministrators(t *testing.T) {
	t.Parallel()
	server := newServer()
	admin, demo := login(t, server, "admin", "admin"), login(t, server, "demo", "demo")
	whose, err := server.VerifyToken(demo)
	must(t, err)
	demoUser, demoProject := whose.Get("X-User-Id"), whose.Get("X-Project-Id")
	member, reader := roleID(t, server, "member"), roleID(t, server, "reader")
	grants := "/v3/projects/" + demoProject + "/users/" + demoUser + "/roles"
	system := send(t, server, "POST", "/v3/auth/tokens", authBody(passwordOfAdmin, `{"system":{"all":true}}`)).Header.Get("X-Subject-Token")
	tests := []struct {
		path, token string
		want        int
		text        string
	}{
		{"/v3/projects", admin, 200, `"name":"service"`},
		{"/v3/projects?name=demo", admin, 200, `"name":"demo"`},
		{"/v3/projects?name=nothing", admin, 200, `"projects":[]`},
		{"/v3/projects", demo, 403, "identity:list_projects"},
		{"/v3/projects/" + demoProject, demo, 200, `"name":"demo"`},
		{"/v3/projects/" + demoProject, admin, 200, `"name":"demo"`},
		{"/v3/projects/x", admin, 404, "project: x"},
		{"/v3/projects/x", demo, 403, "identity:get_project"},
		{"/v3/auth/projects", demo, 200, `"name":"demo"`},
		{"/v3/users", admin, 200, `"name":"cyborg"`},
		{"/v3/users", demo, 403, "identity:list_users"},
		{"/v3/users/x", admin, 404, "user: x"},
		{"/v3/domains", admin, 200, `"name":"Default"`},
		{"/v3/domains/default", admin, 200, `"name":"Default"`},
		{"/v3/domains/x", admin, 404, "domain: x"},
		{"/v3/domains", demo, 403, "identity:list_domains"},
		{"/v3/users", "", 401, "requires authentication"},
		{"/v3/planets", admin, 404, "The requested URL was not found on the server."},
		{"/v3/projects/", admin, 200, `"name":"demo"`},
		{"/v3/domains/default", demo, 200, `"name":"Default"`},
		{"/v3/domains/x", demo, 403, "identity:get_domain"},
		{"/v3/projects?name__contains=em", admin, 200, `"name":"demo"`},
		{"/v3/projects?name__icontains=EM&enabled=true", admin, 200, `"name":"demo"`},
		{"/v3/projects?name__startswith=x", admin, 200, `"projects":[]`},
		{"/v3/projects?name__endswith=mo&name__startswith=se", admin, 200, `"projects":[]`},
		{"/v3/projects?name=demo&name=admin", admin, 200, `"projects":[]`},
		{"/v3/projects?enabled=no", admin, 200, `"projects":[]`},
		{"/v3/projects?domain_id=other", admin, 200, `"projects":[]`},
		{"/v3/regions?parent_region_id=x", admin, 200, `"regions":[]`},
		{"/v3/endpoints?interface=internal", admin, 200, `"interface":"internal"`},
		{"/v3/endpoints?interface=secret", admin, 200, `"endpoints":[]`},
		{"/v3/endpoints", demo, 403, "identity:list_endpoints"},
		{"/v3/endpoints/x", admin, 404, "endpoint: x"},
		{"/v3/groups", admin, 200, `"groups":[]`},
		{"/v3/groups/x", admin, 404, "group: x"},
		{"/v3/roles/x", admin, 404, "role: x"},
		{"/v3/registered_limits", demo, 200, `"registered_limits":[]`},
		{"/v3/registered_limits?resource_name=class:PGPU", admin, 200, `"registered_limits":[]`},
		{"/v3/registered_limits/x", admin, 404, "Could not find registered limit for x."},
		{"/v3/limits", demo, 200, `"limits":[]`},
		{"/v3/limits?project_id=" + demoProject, admin, 200, `"limits":[]`},
		{"/v3/limits/x", admin, 404, "Could not find limit for x."},
		{"/v3/limits/model", demo, 200, `{"description":"Limit enforcement and validation does not take project hierarchy into consideration.","name":"flat"}`},
		{"/v3/limits/model", "", 401, "requires authentication"},
		{"/v3/credentials", demo, 200, `"credentials":[]`},
		{"/v3/credentials/x", demo, 403, "identity:get_credential"},
		{"/v3/credentials/x", admin, 404, "Could not find credential: x."},
		{"/v3/policies", admin, 200, `"policies":[]`},
		{"/v3/policies", demo, 403, "identity:list_policies"},
		{"/v3/policies/x", admin, 404, "Could not find policy: x."},
		{"/v3/policies/x", demo, 403, "identity:get_policy"},
		{grants, admin, 200, `"roles":[{"description":null,"domain_id":null,"id":"` + member + `","links":{`},
		{grants, demo, 403, "identity:list_grants"},
		{grants, "", 401, "requires authentication"},
		{grants + "/" + member, admin, 204, ""},
		{grants + "/" + member, demo, 403, "identity:check_grant"},
		{grants + "/" + reader, admin, 404, "Could not find role assignment with role: " + reader + ", user or group: " + demoUser + ", project, domain, or system: " + demoProject + "."},
		{grants + "/x", demo, 404, "Could not find role: x."},
		{"/v3/projects/" + demoProject + "/users/x/roles", demo, 404, "Could not find user: x."},
		{"/v3/projects/x/users/" + demoUser + "/roles", demo, 404, "Could not find project: x."},
		{"/v3/domains", admin, 200, `"domains":[{"description":"The default domain","enabled":true,"id":"default","links":{"self":"http://cloud.example:5000/identity/v3/domains/default"},"name":"Default","options":{},"tags":[]}]`},
		{"/v3/roles?name=member", demo, 403, "identity:list_roles"},
		{"/v3/roles?name=member", admin, 200, `"options":{"immutable":true}`},
		{"/v3/auth/catalog", admin, 200, `"links":{"self":"http://cloud.example:5000/v3/auth/catalog"}}`},
		{"/v3/auth/catalog", system, 403, `"message":"You are not authorized to perform the requested action."`},
		{"/v3/auth/domains", demo, 200, `"domains":[]`},
		{"/v3/auth/system", demo, 200, `"system":[]`},
		{"/v3/auth/system", admin, 200, `"system":[{"all":true}]`},
		{"/v3/users/" + demoUser + "/projects", demo, 200, `"name":"demo"`},
		{"/v3/users/" + demoUser + "/projects?name=x", demo, 200, `"projects":[]`},
		{"/v3/users/" + demoUser + "/groups", demo, 200, `"groups":[]`},
		{"/v3/users/" + demoUser + "/groups", admin, 200, `"groups":[]`},
		{"/v3/users/x/projects", demo, 403, "identity:list_user_projects"},
		{"/v3/users/x/groups", admin, 404, "user: x"},
		{"/v3/role_assignments", demo, 403, "identity:list_role_assignments"},
		{"/v3/role_assignments?user.id=" + demoUser, admin, 200, `"scope":{"project":{"id":"` + demoProject + `"}}`},
		{"/v3/role_assignments?include_names&scope.project.id=" + demoProject, admin, 200, `"role":{"id":"` + member + `","name":"member"}`},
		{"/v3/role_assignments?effective&user.id=" + demoUser, admin, 200, "/implies/" + member},
		{"/v3/role_assignments?scope.system=all", admin, 200, `"scope":{"system":{"all":true}}`},
		{"/v3/role_assignments?group.id=x", admin, 200, `"role_assignments":[]`},
		{"/v3/role_assignments?scope.domain.id=x", admin, 200, `"role_assignments":[]`},
		{"/v3/role_assignments?scope.domain.id=x&scope.system=all", admin, 400, "system or domain"},
		{"/v3/role_assignments?effective&group.id=x", admin, 400, "empty list"},
	}
	for _, tt := range tests {
		res := send(t, server, "GET", tt.path, "", "X-Auth-Token", tt.token)
		if res.StatusCode != tt.want || !strings.Contains(res.body, tt.text) {
			t.Errorf("%s: got %d %s, want %d with %s", tt.path, res.StatusCode, res.body, tt.want, tt.text)
		}
	}
}

// What Flask and Flask-RESTful answer before a route of Keystone does.
func TestRequestsWithoutARoute(t *testing.T) {
	t.Parallel()
	const page, json = "text/html; charset=utf-8", "application/json"
	tests := []struct {
		method, path, kind, body string
		want                     int
		allow, answer, text      string
	}{
		{"POST", "/v3/users", json, "{}", 405, "GET, HEAD, OPTIONS", json, `{"message":"The method is not allowed for the requested URL."}`},
		{"PUT", "/v3/auth/tokens", "", "", 405, "DELETE, GET, HEAD, OPTIONS, POST", json, `{"message":"The method is not allowed for the requested URL."}`},
		{"PUT", "/v3", "", "", 405, "GET, HEAD, OPTIONS", page, "<h1>Method Not Allowed</h1>\n<p>The method is not allowed for the requested URL.</p>"},
		{"POST", "/identity", "", "", 405, "GET, HEAD, OPTIONS", page, "<title>405 Method Not Allowed</title>"},
		{"GET", "/v3/auth", "", "", 404, "", page, "<h1>Not Found</h1>\n<p>The requested URL was not found on the server."},
		{"HEAD", "/v3/auth", "", "", 404, "", page, ""},
		{"OPTIONS", "/v3/auth/tokens", "", "", 200, "DELETE, GET, HEAD, OPTIONS, POST", page, ""},
		{"OPTIONS", "/v3/auth", "", "", 200, "", "", ""},
		{"POST", "/v3/auth", json, "x", 400, "", json, "Expecting to find valid JSON in request body."},
		{"POST", "/v3/users", json, "[]", 400, "", json, "Expecting to find valid JSON in request body."},
		{"POST", "/v3/users", "text/plain", "{}", 400, "", json, "Expecting to find application/json in Content-Type header."},
		{"POST", "/v3/users", "Application/JSON; charset=utf-8", "{}", 405, "GET, HEAD, OPTIONS", json, ""},
		{"POST", "/v3/users", "application/vnd.example+json", "{}", 405, "GET, HEAD, OPTIONS", json, ""},
	}
	for _, tt := range tests {
		res := send(t, newServer(), tt.method, tt.path, tt.body, "Content-Type", tt.kind)
		if res.StatusCode != tt.want || res.Header.Get("Allow") != tt.allow || res.Header.Get("Content-Type") != tt.answer || !strings.Contains(res.body, tt.text) {
			t.Errorf("%s %s: %d, Allow %q, %q, %s; want %+v", tt.method, tt.path, res.StatusCode, res.Header.Get("Allow"), res.Header.Get("Content-Type"), res.body, tt)
		}
	}
}

// The answers of Keystone 22 with Werkzeug 2.2.2.
func TestSlashesInARow(t *testing.T) {
	t.Parallel()
	server := newServer()
	admin := login(t, server, "admin", "admin")
	for _, tt := range []struct {
		method, path string
		want         int
		location     string
	}{
		{"GET", "/v3//projects?a=1", 308, "http://cloud.example:5000/v3/projects?a=1"},
		{"POST", "/v3//auth/tokens", 308, "http://cloud.example:5000/v3/auth/tokens"},
		{"DELETE", "/v3//projects", 308, "http://cloud.example:5000/v3/projects"},
		{"GET", "/identity//v3//projects?name=demo", 308, "http://cloud.example:5000/identity/v3/projects?name=demo"},
		{"GET", "//v3/projects", 200, ""},
		{"GET", "/identity//v3/projects", 200, ""},
		{"GET", "///v3///projects", 404, ""},
		{"GET", "/v3//nope", 404, ""},
		{"GET", "/v3//", 200, ""},
		{"GET", "/identity/v3/projects/", 200, ""},
	} {
		res := send(t, server, tt.method, tt.path, "", "X-Auth-Token", admin)
		if res.StatusCode != tt.want || res.Header.Get("Location") != tt.location {
			t.Errorf("%s %s: %d to %q, want %d to %q", tt.method, tt.path, res.StatusCode, res.Header.Get("Location"), tt.want, tt.location)
		}
	}
}

func TestFaultsUseKeystonesShape(t *testing.T) {
	t.Parallel()
	faults, recorder := fault.NewSet(newServer().Operations()...), simhttp.NewRecorder(10)
	config := serverConfig()
	config.Faults = faults
	server := simhttp.Recording(keystone.New(config), recorder)
	must(t, faults.Set(fault.Rule{Operation: fault.TokenCreate, Action: fault.Status, Status: 503}))
	res := send(t, server, "POST", "/v3/auth/tokens", authBody(passwordOfAdmin, ""))
	if res.StatusCode != 503 {
		t.Fatalf("got %d %s", res.StatusCode, res.body)
	}
	checkErrorShape(t, res)
	if got := recorder.Exchanges(); len(got) != 1 || got[0].Operation != fault.TokenCreate || got[0].Fault != "status" {
		t.Errorf("recorded: %+v", got)
	}
}

func TestGophercloudLogsIn(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"/identity", "/identity/", "/identity/v3", "/v3", "/v3/", "/", ""} {
		t.Run("auth_url "+root, func(t *testing.T) {
			t.Parallel()
			provider, err := openstack.NewClient("http://cloud.example" + root)
			must(t, err)
			provider.HTTPClient = http.Client{Transport: simhttp.NewTransport(newServer())}
			must(t, openstack.Authenticate(t.Context(), provider, gophercloud.AuthOptions{
				Username: "admin", Password: keystone.Password, DomainName: "Default",
				Scope: &gophercloud.AuthScope{ProjectName: "admin", DomainName: "Default"},
			}))
			url, err := provider.EndpointLocator(gophercloud.EndpointOpts{
				Type: "accelerator", Region: "RegionOne", Availability: gophercloud.AvailabilityInternal,
			})
			if err != nil || url != "http://cloud.example/accelerator/v2/" {
				t.Errorf("accelerator endpoint: %q, %v", url, err)
			}
		})
	}
}

func FuzzAuthRequest(f *testing.F) {
	f.Add(authBody(passwordOfAdmin, `{"project":{"id":"x"}}`))
	f.Add(`{"auth":{"identity":{"methods":["token"],"token":{"id":"t"}},"scope":"unscoped"}}`)
	f.Add(`{"auth":{"identity":{"methods":["password","token"]}}}`)
	f.Add(`[]`)
	server := newServer()
	f.Fuzz(func(t *testing.T, body string) {
		res := send(t, server, "POST", "/v3/auth/tokens", body)
		switch res.StatusCode {
		case 201, 400, 401, 403, 404, 413:
		default:
			t.Errorf("%q: %d %s", body, res.StatusCode, res.body)
		}
		if !json.Valid([]byte(res.body)) {
			t.Errorf("%q: the answer is not JSON: %s", body, res.body)
		}
	})
}
