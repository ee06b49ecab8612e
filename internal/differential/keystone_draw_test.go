//go:build differential

package differential_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/simcloud"
)

// keystoneWorld draws requests to Keystone.
type keystoneWorld struct {
	draws
	ids         struct{ user, project, role map[string]string } // labels by name
	credentials int                                             // application credentials that both services have made
	asked       int
}

const unscopedToken = "TOKEN-WITHOUT-SCOPE"

func credentialLabel(i int) string { return objectLabel("a9", i) }
func secretLabel(i int) string     { return fmt.Sprintf("SECRET-%d-LABEL", i) }
func credentialName(i int) string  { return fmt.Sprintf("credential-%d", i) }

func passwordLogin(user, password, project string) object {
	body := object{"identity": object{"methods": []any{"password"}, "password": object{"user": object{"name": user, "password": password, "domain": object{"id": "default"}}}}}
	if project != "" {
		body["scope"] = object{"project": object{"name": project, "domain": object{"id": "default"}}}
	}
	return object{"auth": body}
}

// build is a request with a token if it is not empty, and a body if it is not empty.
func (w *keystoneWorld) build(method, target, token, body string) request {
	req := request{method: method, target: target, body: body}
	if token != "" {
		req.set("X-Auth-Token", token)
	}
	if body != "" {
		req.set("Content-Type", json1)
	}
	return req
}

func (w *keystoneWorld) next() request {
	w.asked++
	return pickWeighted(w.draws, []weighted[func() request]{
		{40, w.authenticate}, {14, w.validate}, {8, w.createCredential}, {12, w.credential}, {20, w.list}, {4, w.odd},
	})()
}

// token draws a token, mostly of the administrator.
func (w *keystoneWorld) token() string {
	if w.chance(40) {
		return tokenOf("admin")
	}
	return pick(w.draws, tokenOf("demo"), tokenOf("nova"), tokenOf("reader"), tokenOf("alice"), unscopedToken, "no-token", "")
}

// user draws what a login says of its user, mostly a user that there is.
func (w *keystoneWorld) user() object {
	name := pick(w.draws, "admin", "admin", "demo", "nova", "alice")
	user := pick(w.draws, object{"name": name, "domain": object{"name": "Default"}}, object{"name": name, "domain": object{"id": "default"}}, object{"id": w.ids.user[name]})
	user["password"] = simcloud.Password
	switch w.IntN(16) {
	case 0:
		user["password"] = pick[any](w.draws, "wrong", "", nil, 5)
	case 1:
		delete(user, pick(w.draws, "password", "domain", "name", "id"))
	case 2:
		user = object{"name": pick(w.draws, "nobody", strings.ToUpper(name)), "domain": object{"id": "default"}, "password": simcloud.Password}
	case 3:
		user = object{"name": name, "domain": pick[any](w.draws, object{"id": "nope"}, object{}, object{"name": "default"}, nil, "Default"), "password": simcloud.Password}
	}
	return user
}

// scope draws the scope of a login, nil for none.
func (w *keystoneWorld) scope() any {
	name := pick(w.draws, "admin", "admin", "demo", "service", "lab")
	byID := object{"project": object{"id": w.ids.project[name]}}
	switch w.IntN(14) {
	case 0:
		return object{"domain": object{"id": "default"}}
	case 1:
		return object{"system": object{"all": true}}
	case 2:
		return pick[any](w.draws, "unscoped", object{"unscoped": object{}})
	case 3:
		return pick[any](w.draws, object{"project": object{"name": name}}, object{"project": object{}}, object{}, object{"project": object{"id": "x"}}, object{"system": object{}}, object{"system": object{"all": false}},
			object{"project": object{"name": "nope", "domain": object{"id": "default"}}}, object{"domain": object{"name": "Default"}}, object{"OS-TRUST:trust": object{"id": "x"}}, "x", 5, []any{},
			object{"project": byID["project"], "domain": object{"id": "default"}})
	case 4, 5, 6, 7:
		return byID
	case 8, 9, 10:
		return object{"project": object{"name": name, "domain": object{"name": "Default"}}}
	}
	return nil
}

// identity draws the identity part of a login.
func (w *keystoneWorld) identity() object {
	password := object{"methods": []any{"password"}, "password": object{"user": w.user()}}
	switch n := w.IntN(20); {
	case n < 4:
		return object{"methods": []any{"token"}, "token": object{"id": pick(w.draws, tokenOf("admin"), tokenOf("admin"), tokenOf("demo"), unscopedToken, "no-token", "")}}
	case n < 8:
		i := w.IntN(max(1, w.credentials))
		name := credentialName(i)
		return object{"methods": []any{"application_credential"}, "application_credential": pick(w.draws,
			object{"id": credentialLabel(i), "secret": secretLabel(i)}, object{"id": credentialLabel(i), "secret": secretLabel(i)},
			object{"id": credentialLabel(i), "secret": "wrong"}, object{"id": "nope", "secret": "x"}, object{"id": credentialLabel(i)}, object{"secret": secretLabel(i)},
			object{"name": name, "secret": secretLabel(i), "user": object{"id": w.ids.user["admin"]}}, object{"name": name, "secret": secretLabel(i)},
			object{"name": name, "secret": secretLabel(i), "user": object{"name": "admin", "domain": object{"id": "default"}}})}
	case n < 9:
		return pick(w.draws, object{"methods": []any{}}, object{"methods": []any{"password"}}, object{"methods": []any{"nope"}, "nope": object{}}, object{"methods": "password", "password": password["password"]},
			object{"password": password["password"]}, object{}, object{"methods": []any{"password", "token"}, "password": password["password"], "token": object{"id": tokenOf("admin")}},
			object{"methods": []any{"external"}}, object{"methods": []any{"password"}, "password": object{}}, object{"methods": []any{"token"}, "token": object{}})
	}
	return password
}

func (w *keystoneWorld) authenticate() request {
	identity := w.identity()
	auth := object{"identity": identity}
	if scope := w.scope(); scope != nil && (identity["application_credential"] == nil || w.chance(20)) {
		auth["scope"] = scope
	}
	text := asJSON(object{"auth": auth})
	if w.chance(4) {
		text = pick(w.draws, "{}", "[]", "null", "{", `"x"`, `{"auth": {}}`, `{"auth": null}`, asJSON(object{"auth": auth, "other": 1}), asJSON(object{"auth": object{"identity": identity, "other": 1}}))
	}
	req := w.build("POST", "/v3/auth/tokens"+pick(w.draws, "", "", "", "?nocatalog", "?nocatalog=true"), "", text)
	if w.chance(2) {
		req.set("Content-Type", pick(w.draws, "text/plain", "application/xml", "application/json; charset=utf-8"))
	}
	return req
}

func (w *keystoneWorld) validate() request {
	req := w.build(pick(w.draws, "GET", "GET", "GET", "HEAD"), "/v3/auth/tokens"+pick(w.draws, "", "", "?nocatalog", "?allow_expired=1"), w.token(), "")
	if subject := pick(w.draws, tokenOf("admin"), tokenOf("demo"), tokenOf("nova"), tokenOf("alice"), unscopedToken, "no-token", ""); subject != "" || w.chance(50) {
		req.set("X-Subject-Token", subject)
		if subject == "no-token" && w.chance(30) {
			req.method = "DELETE"
		}
	}
	return req
}

// owner draws a user, and mostly the token of the user.
func (w *keystoneWorld) owner() (path, token string) {
	user := pick(w.draws, "admin", "admin", "demo")
	path, token = "/v3/users/"+w.ids.user[user]+"/application_credentials", tokenOf(user)
	if w.chance(20) {
		token = w.token()
	}
	return path, token
}

func (w *keystoneWorld) createCredential() request {
	path, token := "/v3/users/"+w.ids.user["admin"]+"/application_credentials", tokenOf("admin")
	if w.chance(25) {
		path, token = w.owner()
	}
	fields := object{"name": credentialName(w.credentials)}
	some := func(percent int, key string, values ...any) {
		if w.chance(percent) {
			fields[key] = pick(w.draws, values...)
		}
	}
	some(50, "secret", fmt.Sprintf("%032d-a-secret", w.asked), fmt.Sprintf("%032d-a-secret", w.asked), "", nil, 5)
	some(30, "roles", []any{object{"name": "admin"}}, []any{object{"id": w.ids.role["admin"]}}, []any{object{"name": "member"}}, []any{object{"name": "nope"}}, []any{}, []any{object{}}, "x", []any{object{"id": "x"}})
	some(20, "description", "text", "", nil, 5)
	some(20, "expires_at", "2100-01-01T00:00:00", "2100-01-01T00:00:00Z", "2100-01-01T00:00:00.000000", "2000-01-01T00:00:00Z", "x", nil, "2100-01-01")
	some(20, "unrestricted", true, false, nil, "x")
	some(8, "access_rules", []any{}, []any{object{"path": "/v2.1/servers", "method": "GET", "service": "compute"}}, []any{object{}}, nil)
	some(6, pick(w.draws, "other", "id", "project_id"), "x")
	some(4, "name", "", nil, 5, strings.Repeat("x", 300), credentialName(0))
	text := asJSON(object{"application_credential": fields})
	if w.chance(3) {
		text = pick(w.draws, asJSON(fields), "{}", "[]", "null", `{"application_credential": null}`)
	}
	return w.build("POST", path, token, text)
}

func (w *keystoneWorld) credential() request {
	path, token := w.owner()
	id := pick(w.draws, credentialLabel(w.IntN(max(1, w.credentials))), credentialLabel(w.IntN(max(1, w.credentials))), "nope")
	switch n := w.IntN(10); {
	case n < 4:
		return w.build("GET", path+pick(w.draws, "", "", "?name="+credentialName(0), "?name=nope", "?other=1"), token, "")
	case n < 8:
		return w.build(pick(w.draws, "GET", "GET", "HEAD"), path+"/"+id, token, "")
	case n < 9:
		return w.build("DELETE", path+"/"+id, token, "")
	}
	return w.build(pick(w.draws, "PUT", "PATCH", "POST"), path+"/nope", token, "{}")
}

func (w *keystoneWorld) list() request {
	project, user, role := w.ids.project["demo"], w.ids.user["demo"], w.ids.role["member"]
	return w.build(pick(w.draws, "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD"), "/v3/"+pick(w.draws,
		"auth/catalog", "auth/projects", "auth/domains", "auth/system", "projects", "projects/"+project, "projects?name=demo", "projects?name=nope", "projects?name=DEMO", "users?name=DEMO", "services?name=PLACEMENT", "services?type=PLACEMENT", "roles?name=ADMIN", "projects?enabled=true", "projects?domain_id=default",
		"projects/nope", "users", "users/"+user, "users?name=demo", "users/nope", "roles", "roles?name=admin", "roles/"+role, "role_assignments", "role_assignments?user.id="+user,
		"role_assignments?include_names=1&user.id="+user, "role_assignments?scope.project.id="+project, "services", "services?type=placement", "endpoints", "endpoints?interface=public", "regions",
		"regions/RegionOne", "domains", "domains/default", "domains?name=Default", "users/"+user+"/projects", "projects/"+project+"/users/"+user+"/roles", "projects/"+project+"/users/"+user+"/roles/"+role,
		"credentials", "groups", "limits", "registered_limits", "limits/model", "users/"+user+"/groups", "nope", "policies", "services/nope", "endpoints/nope", "users/"+w.ids.user["admin"]+"/access_rules"), w.token(), "")
}

func (w *keystoneWorld) odd() request {
	req := w.build(pick(w.draws, "GET", "GET", "HEAD", "OPTIONS"), pick(w.draws, "/", "/v3", "/v3/", "/v2.0", "/v3/auth", "/v3/auth/tokens/"), "", "")
	switch w.IntN(6) {
	case 0:
		req.set("Accept", "application/json-home")
	case 1:
		return w.build(pick(w.draws, "PUT", "PATCH"), "/v3/"+pick(w.draws, "auth/tokens", "projects/nope"), tokenOf("admin"), "{}")
	case 2:
		return w.build("POST", "/v3/projects", tokenOf("admin"), `{"project": {}}`)
	}
	return req
}

// learn labels the application credential that a request made, and reports whether it made one.
func (w *keystoneWorld) learn(req request, s *side, got answer) bool {
	var body struct {
		Credential struct{ ID, Secret string } `json:"application_credential"`
	}
	if req.method != "POST" || got.status != 201 || json.Unmarshal([]byte(got.body), &body) != nil || body.Credential.ID == "" {
		return false
	}
	s.names[credentialLabel(w.credentials)] = body.Credential.ID
	s.names[secretLabel(w.credentials)] = body.Credential.Secret
	return true
}
