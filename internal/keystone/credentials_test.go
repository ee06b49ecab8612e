package keystone_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/internal/keystone"
)

// withUsers is a server with users of every kind.
func withUsers() *keystone.Server {
	return keystone.New(keystone.Config{Seed: 7, Services: services, Users: []keystone.User{
		{Name: "boss", Roles: map[string][]string{"lab": {"manager"}}},
		{Name: "guest", Password: "other", Roles: map[string][]string{"lab": {"reader"}, "demo": {"member"}}},
		{Name: "blazar", Roles: map[string][]string{"service": {"service"}}},
		{Name: "auditor", SystemRoles: []string{"reader"}},
		{Name: "robot", Roles: map[string][]string{"lab": {"operator"}}},
	}})
}

func TestUsersOfTheConfigurationLogIn(t *testing.T) {
	t.Parallel()
	server := withUsers()
	login := func(user, password, project string) answer {
		identity := strings.NewReplacer("admin", user, "secret", password).Replace(passwordOfAdmin)
		scope := `{"project":{"name":"` + project + `","domain":{"id":"default"}}}`
		if project == "system" {
			scope = `{"system":{"all":true}}`
		}
		return send(t, server, "POST", "/v3/auth/tokens", authBody(identity, scope))
	}
	tests := []struct {
		user, password, project string
		want                    int
		roles                   string
	}{
		{"boss", "secret", "lab", 201, "manager,member,reader"},
		{"guest", "other", "lab", 201, "reader"},
		{"guest", "other", "demo", 201, "member,reader"},
		{"guest", "secret", "lab", 401, ""},
		{"guest", "other", "service", 401, ""},
		{"blazar", "secret", "service", 201, "service"},
		{"robot", "secret", "lab", 201, "operator"},
		{"auditor", "secret", "system", 201, "reader"},
		{"boss", "secret", "system", 401, ""},
		{"admin", "secret", "admin", 201, "admin,manager,member,reader"},
	}
	for _, tt := range tests {
		res := login(tt.user, tt.password, tt.project)
		if res.StatusCode != tt.want {
			t.Errorf("%s on %s: %d %s, want %d", tt.user, tt.project, res.StatusCode, res.body, tt.want)
			continue
		}
		if h, err := server.VerifyToken(res.Header.Get("X-Subject-Token")); tt.want == 201 && (err != nil || h.Get("X-Roles") != tt.roles) {
			t.Errorf("%s on %s: roles %q, %v, want %q", tt.user, tt.project, h.Get("X-Roles"), err, tt.roles)
		}
	}
	roles := send(t, server, "GET", "/v3/roles", "", "X-Auth-Token", issue(t, server, "admin"))
	if !strings.Contains(roles.body, `"name":"operator"`) || roles.StatusCode != 200 {
		t.Errorf("roles: %d %s", roles.StatusCode, roles.body)
	}
	if res := send(t, server, "GET", "/v3/roles", "", "X-Auth-Token", issue(t, server, "boss")); res.StatusCode != 403 {
		t.Errorf("roles for a manager: %d", res.StatusCode)
	}
}

func TestBadUsersAreRefusedByName(t *testing.T) {
	t.Parallel()
	for want, users := range map[string][]keystone.User{
		`users[0]: the name ""`:             {{}},
		`users[1]: the name "a"`:            {{Name: "a"}, {Name: "a"}},
		`user a: project "x y"`:             {{Name: "a", Roles: map[string][]string{"x y": {"member"}}}},
		`user a: project "x" is not a name`: {{Name: "a", Roles: map[string][]string{"x": nil}}},
		`user a: role "m,n"`:                {{Name: "a", Roles: map[string][]string{"x": {"m,n"}}}},
		`user b: role ""`:                   {{Name: "b", SystemRoles: []string{""}}},
	} {
		if err := (keystone.Config{Users: users}).Validate(); !errors.Is(err, keystone.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want ErrConfig with %q", users, err, want)
		}
	}
	if err := (keystone.Config{TokenLifetime: -1}).Validate(); !errors.Is(err, keystone.ErrConfig) {
		t.Errorf("a negative lifetime: %v", err)
	}
	if err := (keystone.Config{Users: []keystone.User{{Name: "x@y.org"}}}).Validate(); err != nil {
		t.Error(err)
	}
}

// app is an application credential as its creator sees it.
type app struct {
	ID, Secret string
	Name       string
	ExpiresAt  string `json:"expires_at"`
	Roles      []struct{ Name string }
}

// created is the application credential of an answer.
func created(t rapid.TB, res answer) app {
	t.Helper()
	var made struct {
		App app `json:"application_credential"`
	}
	if err := json.Unmarshal([]byte(res.body), &made); err != nil || made.App.ID == "" {
		t.Errorf("%v, %s", err, res.body)
	}
	return made.App
}

func TestApplicationCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := withUsers()
		token := login(t, server, "boss", "lab")
		who, err := server.VerifyToken(token)
		must(t, err)
		path := "/v3/users/" + who.Get("X-User-Id") + "/application_credentials"
		create := func(token, body string, want int) app {
			t.Helper()
			res := send(t, server, "POST", path, `{"application_credential":`+body+`}`, "X-Auth-Token", token)
			if res.StatusCode != want {
				t.Errorf("create %s: %d %s, want %d", body, res.StatusCode, res.body, want)
			}
			if want != 201 {
				return app{}
			}
			return created(t, res)
		}
		use := func(id, secret, scope string) answer {
			t.Helper()
			return send(t, server, "POST", "/v3/auth/tokens", authBody(
				`"identity":{"methods":["application_credential"],"application_credential":{"id":"`+id+`","secret":"`+secret+`"}}`, scope))
		}

		made := create(token, `{"name":"ci","roles":[{"name":"reader"}],"expires_at":"`+time.Now().Add(2*time.Hour).UTC().Format("2006-01-02T15:04:05.000000")+`"}`, 201)
		if _, err := time.Parse("2006-01-02T15:04:05.000000", made.ExpiresAt); err != nil {
			t.Errorf("expires_at: %v", err)
		}
		if made.Secret == "" || len(made.Roles) != 1 || made.Roles[0].Name != "reader" {
			t.Fatalf("made: %+v", made)
		}
		create(token, `{"name":"ci"}`, 409)
		create(token, `{}`, 400)
		create(token, `{"name":"x","roles":[{"name":"admin"}]}`, 400)
		create(token, `{"name":"x","expires_at":"1999-12-31T23:59:59"}`, 400)
		create(token, `{"name":"x","expires_at":"soon"}`, 400)
		create(login(t, server, "demo", "demo"), `{"name":"x"}`, 403)
		create("stolen", `{"name":"x"}`, 401)

		res := use(made.ID, made.Secret, "")
		scoped := res.Header.Get("X-Subject-Token")
		h, err := server.VerifyToken(scoped)
		if err != nil || h.Get("X-Roles") != "reader" || h.Get("X-Project-Id") != who.Get("X-Project-Id") || !strings.Contains(res.body, `"methods":["application_credential"]`) {
			t.Errorf("token: %v, %v, %s", h, err, res.body)
		}
		byName := credentialBody(`"name":"ci","secret":"` + made.Secret + `","user":{"name":"boss","domain":{"id":"default"}}`)
		if res := send(t, server, "POST", "/v3/auth/tokens", byName); res.StatusCode != 201 {
			t.Errorf("by name: %d %s", res.StatusCode, res.body)
		}
		for name, got := range map[string]answer{
			"wrong secret": use(made.ID, "x", ""), "no secret": use(made.ID, "", ""),
			"with a scope": use(made.ID, made.Secret, `{"project":{"name":"lab","domain":{"id":"default"}}}`),
		} {
			if got.StatusCode != 401 || strings.Contains(got.body, made.Secret) {
				t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
			}
		}
		create(scoped, `{"name":"more"}`, 403) // restricted
		again := `"identity":{"methods":["token"],"token":{"id":"` + scoped + `"}}`
		if res := send(t, server, "POST", "/v3/auth/tokens", authBody(again, "")); res.StatusCode != 403 || !strings.Contains(res.body, "Using a delegated token to create another token is not allowed.") {
			t.Errorf("trade for another token: %d %s", res.StatusCode, res.body)
		}

		list := send(t, server, "GET", path, "", "X-Auth-Token", token)
		if list.StatusCode != 200 || !strings.Contains(list.body, made.ID) || strings.Contains(list.body, made.Secret) {
			t.Errorf("list: %d %s", list.StatusCode, list.body)
		}
		if one := send(t, server, "GET", path+"/"+made.ID, "", "X-Auth-Token", issue(t, server, "admin")); one.StatusCode != 200 {
			t.Errorf("get by admin: %d %s", one.StatusCode, one.body)
		}

		time.Sleep(90 * time.Minute) // the token ends after its hour, another with the credential
		if _, err := server.VerifyToken(scoped); err == nil {
			t.Error("the token outlived its hour")
		}
		second := use(made.ID, made.Secret, "").Header.Get("X-Subject-Token")
		time.Sleep(31 * time.Minute)
		if _, err := server.VerifyToken(second); err == nil {
			t.Error("the token outlived its credential")
		}
		if res := use(made.ID, made.Secret, ""); res.StatusCode != 401 {
			t.Errorf("expired: %d", res.StatusCode)
		}

		token = login(t, server, "boss", "lab")
		lasting := create(token, `{"name":"lasting","secret":"mine","unrestricted":true}`, 201)
		third := use(lasting.ID, "mine", "").Header.Get("X-Subject-Token")
		create(third, `{"name":"child"}`, 201)
		if res := send(t, server, "DELETE", path+"/"+lasting.ID, "", "X-Auth-Token", token); res.StatusCode != 204 {
			t.Errorf("delete: %d %s", res.StatusCode, res.body)
		}
		if _, err := server.VerifyToken(third); err == nil {
			t.Error("the token outlived the deleted credential")
		}
		if res := send(t, server, "DELETE", path+"/"+lasting.ID, "", "X-Auth-Token", token); res.StatusCode != 404 {
			t.Errorf("delete again: %d", res.StatusCode)
		}
		if res := use(lasting.ID, "mine", ""); res.StatusCode != 404 || !strings.Contains(res.body, "Could not find Application Credential: "+lasting.ID) {
			t.Errorf("use of the deleted one: %d %s", res.StatusCode, res.body)
		}
		if !slices.Contains(server.Operations(), fault.ApplicationCredentialCreate) {
			t.Error("no operation for fault rules")
		}
	})
}

// The answers are those of Keystone 30, except that it answers 500 to a rule without a path or with an unknown id, and names
// an unknown member of a rule in other words.
func TestAccessRules(t *testing.T) {
	t.Parallel()
	server := withUsers()
	token := login(t, server, "boss", "lab")
	who, err := server.VerifyToken(token)
	must(t, err)
	user := "/v3/users/" + who.Get("X-User-Id")
	rules, credentials := user+"/access_rules", user+"/application_credentials"
	ask := func(token, method, path, body string, want int, text string) answer {
		t.Helper()
		res := send(t, server, method, path, body, "X-Auth-Token", token)
		if res.StatusCode != want || !strings.Contains(res.body, text) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", method, path, body, res.StatusCode, res.body, want, text)
		}
		return res
	}
	create := func(name, rules string, want int, text string) (made struct {
		App struct {
			app
			Rules []struct{ ID, Service, Path, Method string } `json:"access_rules"`
		} `json:"application_credential"`
	}) {
		t.Helper()
		res := ask(token, "POST", credentials, `{"application_credential":{"name":"`+name+`","access_rules":`+rules+`}}`, want, text)
		if err := json.Unmarshal([]byte(res.body), &made); err != nil {
			t.Error(err)
		}
		return made
	}
	const read = `{"service":"compute","method":"GET","path":"/v2.1/servers"}`
	first := create("first", `[`+read+`]`, 201, `"path":"/v2.1/servers"`).App
	second := create("second", `[`+read+`,{"service":"placement","method":"PUT","path":"/placement/*"},`+read+`]`, 201, "").App
	third := create("third", `[{"id":"`+first.Rules[0].ID+`"}]`, 201, first.Rules[0].ID).App
	if len(second.Rules) != 2 || second.Rules[0] != first.Rules[0] || third.Rules[0] != first.Rules[0] {
		t.Errorf("one rule has two ids: %+v, %+v, %+v", first.Rules, second.Rules, third.Rules)
	}
	create("none", `[]`, 201, `"unrestricted":null`)
	create("own", `[{"id":"mine","service":"image","method":"GET","path":"/"}]`, 201, `"id":"mine"`)
	create("x", `[{"id":"nope"}]`, 400, "service in access_rules/0")
	create("x", `[{"service":"image","method":"GET"}]`, 400, "path in access_rules/0")
	create("x", `[{"service":"image","method":"HEAD","path":"/refused"},{"id":"nope"}]`, 400, "service in access_rules/1")
	if list := ask(token, "GET", rules, "", 200, ""); strings.Contains(list.body, "/refused") {
		t.Errorf("a refused creation leaves a rule: %s", list.body)
	}
	create("x", `[{"service":"image","method":"FETCH","path":"/"}]`, 400,
		"Invalid input for field/attribute method. Value: FETCH. 'FETCH' is not one of ['DELETE', 'GET', 'HEAD', 'PATCH', 'POST', 'PUT']")
	create("x", `[{"service":"image","method":"GET","path":"x"}]`, 400, "Invalid input for field/attribute path. Value: x. 'x' does not match")
	create("x", `[{"service":"image","method":"GET","path":"/","a":1}]`, 400, "('a' was unexpected)")
	create("x", `"x"`, 400, "Invalid input for field/attribute access_rules. Value: x. 'x' is not of type 'array'")
	if res := ask(token, "POST", credentials, `{"application_credential":{"secret":"hidden"}}`, 400, "'name' is a required property"); strings.Contains(res.body, "hidden") {
		t.Errorf("the refusal has the secret: %s", res.body)
	}

	ask(token, "GET", credentials+"/"+first.ID, "", 200, first.Rules[0].ID)
	ask(token, "GET", rules, "", 200, first.Rules[0].ID)
	ask(token, "GET", rules+"?service=image", "", 200, `"access_rules":[{"id":"mine"`)
	one := rules + "/" + first.Rules[0].ID
	ask(token, "GET", one, "", 200, `"method":"GET"`)
	ask(token, "GET", rules+"/x", "", 404, "Could not find Access Rule: x.")
	ask(login(t, server, "admin", "admin"), "GET", rules, "", 403, "identity:list_access_rules")
	ask(token, "DELETE", one, "", 403, "May not delete access rule in use")
	for _, made := range []string{first.ID, second.ID, third.ID} {
		ask(token, "DELETE", credentials+"/"+made, "", 204, "")
	}
	ask(token, "DELETE", one, "", 204, "")
	ask(token, "DELETE", one, "", 404, "")
}

// A token restricted by access rules is not valid for other requests, as with keystonemiddleware, unless a service adds its own
// token. Only callers that enforce access rules can validate it (keystone/token/provider.py, _validate_token_access_rules).
func TestAccessRulesRestrictTokens(t *testing.T) {
	t.Parallel()
	server := withUsers()
	images := glance.New(glance.Config{Seed: 7, Verifier: server})
	token := login(t, server, "boss", "lab")
	path := credentialsOf(t, server, token)
	for _, tt := range []struct {
		service, method, path string
		listed, read          int
	}{
		{"image", "GET", "/image/v2/images", 200, 401},
		{"image", "GET", "/image/v2/*", 200, 401},
		{"image", "GET", "/image/v2/images/{id}", 401, 404},
		{"image", "GET", "/image/**", 200, 404},
		{"image", "PUT", "/image/**", 401, 401},
		{"compute", "GET", "/image/**", 401, 401},
		{"image", "GET", "/image/v2/image.", 401, 401},
	} {
		rule := `{"service":"` + tt.service + `","method":"` + tt.method + `","path":"` + tt.path + `"}`
		made := created(t, send(t, server, "POST", path, `{"application_credential":{"name":"`+uuid.NewString()+`","access_rules":[`+rule+`]}}`, "X-Auth-Token", token))
		res := send(t, server, "POST", "/v3/auth/tokens", credentialBody(`"id":"`+made.ID+`","secret":"`+made.Secret+`"`))
		if !strings.Contains(res.body, `"access_rules":[`) {
			t.Errorf("token: %s", res.body)
		}
		restricted := res.Header.Get("X-Subject-Token")
		for version, want := range map[string]int{"": 404, "0.9": 404, "x": 404, "1": 200, "1.0": 200, "2": 200} {
			res := send(t, server, "GET", "/v3/auth/tokens", "", "X-Auth-Token", token, "X-Subject-Token", restricted, "OpenStack-Identity-Access-Rules", version)
			if res.StatusCode != want || want == 404 && !strings.Contains(res.body, "Failed to validate token") {
				t.Errorf("validation with access rules %q: %d %s", version, res.StatusCode, res.body)
			}
		}
		if res := send(t, server, "GET", "/v3/auth/tokens", "", "X-Auth-Token", token, "X-Subject-Token", token); res.StatusCode != 200 {
			t.Errorf("validation of an unrestricted token: %d %s", res.StatusCode, res.body)
		}
		list := send(t, images, "GET", "/image/v2/images", "", "X-Auth-Token", restricted)
		read := send(t, images, "GET", "/image/v2/images/x", "", "X-Auth-Token", restricted)
		if list.StatusCode != tt.listed || read.StatusCode != tt.read {
			t.Errorf("%s: %d and %d, want %d and %d", rule, list.StatusCode, read.StatusCode, tt.listed, tt.read)
		}
		service := send(t, images, "GET", "/image/v2/images", "", "X-Auth-Token", restricted, "X-Service-Token", login(t, server, "nova", "service"))
		own := send(t, images, "GET", "/image/v2/images", "", "X-Auth-Token", restricted, "X-Service-Token", restricted)
		if own.StatusCode != tt.listed {
			t.Errorf("%s: %d with the token itself as the service token", rule, own.StatusCode)
		}
		forged := send(t, images, "GET", "/image/v2/images", "", "X-Auth-Token", restricted, "X-Service-Token", "forged")
		if service.StatusCode != 200 || forged.StatusCode != 401 {
			t.Errorf("%s: %d for a service, %d with a false service token", rule, service.StatusCode, forged.StatusCode)
		}
	}
}

// The answers of Keystone 30, except that it quotes secrets of a wrong type.
func TestCreationsOfApplicationCredentials(t *testing.T) {
	t.Parallel()
	server := withUsers()
	boss, demo := login(t, server, "boss", "lab"), login(t, server, "demo", "demo")
	system := send(t, server, "POST", "/v3/auth/tokens", authBody(passwordOfAdmin, `{"system":{"all":true}}`)).Header.Get("X-Subject-Token")
	path, adminsPath := credentialsOf(t, server, boss), credentialsOf(t, server, system)
	const refused = "You are not authorized to perform the requested action: identity:create_application_credential."
	tests := []struct {
		name, token, path, body string
		want                    int
		text                    string
	}{
		{"no token and a bad body", "", path, `{"application_credential":{"name":5}}`, 400, "Invalid input for field/attribute name. Value: 5. 5 is not of type 'string'"},
		{"no token", "", path, `{"application_credential":{"name":"a"}}`, 401, "requires authentication"},
		{"of another user", demo, path, `{"application_credential":{"name":"a"}}`, 403, refused},
		{"by a token of the system", system, adminsPath, `{"application_credential":{"name":"a"}}`, 403, refused},
		{"no body", boss, path, ``, 400, `"message":"'application_credential' is a required property"`},
		{"null", boss, path, `{"application_credential":null}`, 400, "Invalid input for field/attribute application_credential. Value: None. None is not of type 'object'"},
		{"next to it", boss, path, `{"application_credential":{"name":"a"},"b":1}`, 400, `"message":"Additional properties are not allowed ('b' was unexpected)"`},
		{"without a name", boss, path, `{"application_credential":{"secret":"hidden"}}`, 400,
			"Invalid input for field/attribute application_credential. Value: {'secret': '***'}. 'name' is a required property"},
		{"the first violation", boss, path, `{"application_credential":{"secret":20261120}}`, 400, "Invalid input for field/attribute secret. Value: 0. 0 is not of type 'string', 'null'"},
		{"an empty name", boss, path, `{"application_credential":{"name":""}}`, 400, "Invalid input for field/attribute name. Value: . '' should be non-empty"},
		{"an empty role", boss, path, `{"application_credential":{"name":"a","roles":[{}]}}`, 400, "Invalid input for field/attribute 0. Value: {}. {} should be non-empty"},
		{"an unknown member", boss, path, `{"application_credential":{"name":"a","extra":1}}`, 400, "Additional properties are not allowed ('extra' was unexpected)"},
		{"an unknown role", boss, path, `{"application_credential":{"name":"a","roles":[{"id":"x"},{"name":"nope"}]}}`, 404, `"message":"Role nope is not defined"`},
		{"an unknown id of a role", boss, path, `{"application_credential":{"name":"a","roles":[{"id":"x"}]}}`, 400,
			"Invalid application credential: Cannot create an application credential with unassigned role"},
		{"a role of others", boss, path, `{"application_credential":{"name":"a","roles":[{"id":"` + roleID(t, server, "admin") + `"}]}}`, 400, "with unassigned role"},
		{"not a time", boss, path, `{"application_credential":{"name":"a","expires_at":"2030-01-01"}}`, 400, "Timestamp not in expected format. The server could not comply"},
		{"a time with a zone", boss, path, `{"application_credential":{"name":"a","expires_at":"2030-01-01T00:00:00+00:00"}}`, 400, "Timestamp not in expected format."},
		{"a time in the past", boss, path, `{"application_credential":{"name":"a","expires_at":"2000-01-01T00:00:00Z"}}`, 400, "The 'expires_at' must not be before now."},
		{"members that mean nothing", boss, path, `{"application_credential":{"name":"a","id":"x","project_id":"x","unrestricted":null,"description":null,"secret":null,"system":null}}`, 201,
			`"description":null,"expires_at":null`},
		{"as it was sent", boss, path, `{"application_credential":{"name":"b","description":"","unrestricted":false,"expires_at":"2030-01-01T00:00Z","roles":[{"name":"reader"}]}}`, 201,
			`"roles":[{"description":null,"domain_id":null,"id":"` + roleID(t, server, "reader") + `","name":"reader","options":{"immutable":true}}]`},
		{"the name of another", boss, path, `{"application_credential":{"name":"b"}}`, 409, "Duplicate entry found with name b."},
	}
	for _, tt := range tests {
		res := send(t, server, "POST", tt.path, tt.body, "X-Auth-Token", tt.token)
		if res.StatusCode != tt.want || !strings.Contains(res.body, tt.text) {
			t.Errorf("%s: %d %s, want %d with %s", tt.name, res.StatusCode, res.body, tt.want, tt.text)
		}
		if strings.Contains(res.body, "hidden") || strings.Contains(res.body, "20261120") {
			t.Errorf("%s: the answer has the secret: %s", tt.name, res.body)
		}
	}
	list := send(t, server, "GET", path+"?name=b", "", "X-Auth-Token", boss)
	for _, text := range []string{`"unrestricted":false`, `"description":""`, `"expires_at":"2030-01-01T00:00:00.000000"`} {
		if !strings.Contains(list.body, text) {
			t.Errorf("list: %s, want %s", list.body, text)
		}
	}
}

// The owner of a credential counts, not the user of the path.
func TestWhoSeesApplicationCredentials(t *testing.T) {
	t.Parallel()
	server := withUsers()
	boss, demo, admin := login(t, server, "boss", "lab"), login(t, server, "demo", "demo"), login(t, server, "admin", "admin")
	auditor := send(t, server, "POST", "/v3/auth/tokens", authBody(strings.Replace(passwordOfAdmin, "admin", "auditor", 1), `{"system":{"all":true}}`)).Header.Get("X-Subject-Token")
	own, others := credentialsOf(t, server, boss), credentialsOf(t, server, demo)
	made := created(t, send(t, server, "POST", own, `{"application_credential":{"name":"a"}}`, "X-Auth-Token", boss))
	limited := send(t, server, "POST", "/v3/auth/tokens", credentialBody(`"id":"`+made.ID+`","secret":"`+made.Secret+`"`)).Header.Get("X-Subject-Token")
	for _, tt := range []struct {
		name, token, method, path string
		want                      int
	}{
		{"the owner", boss, "GET", own + "/" + made.ID, 200},
		{"the owner below another user", boss, "GET", others + "/" + made.ID, 200},
		{"another user", demo, "GET", own + "/" + made.ID, 403},
		{"another user below itself", demo, "GET", others + "/" + made.ID, 403},
		{"an administrator below anyone", admin, "GET", "/v3/users/x/application_credentials/" + made.ID, 200},
		{"a reader of the system", auditor, "HEAD", own + "/" + made.ID, 200},
		{"unknown for the user", demo, "GET", others + "/x", 404},
		{"unknown for another", demo, "GET", own + "/x", 403},
		{"unknown for an administrator", admin, "GET", own + "/x", 404},
		{"the list of another", demo, "GET", own, 403},
		{"the list of anyone", admin, "GET", "/v3/users/x/application_credentials", 200},
		{"the list for a reader of the system", auditor, "GET", own, 200},
		{"deleted by another", demo, "DELETE", others + "/" + made.ID, 403},
		{"deleted by a reader of the system", auditor, "DELETE", own + "/" + made.ID, 403},
		{"deleted with itself", limited, "DELETE", own + "/" + made.ID, 403},
		{"an unknown one deleted with it", limited, "DELETE", own + "/x", 403},
		{"deleted by an administrator below anyone", admin, "DELETE", "/v3/users/x/application_credentials/" + made.ID, 204},
		{"deleted twice", admin, "DELETE", own + "/" + made.ID, 404},
	} {
		if res := send(t, server, tt.method, tt.path, "", "X-Auth-Token", tt.token); res.StatusCode != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, res.StatusCode, res.body, tt.want)
		}
	}
}
