package keystone

import "github.com/gocyborg/gocyborg/internal/simhttp"

// inputs is what each operation reads.
func inputs() map[string]simhttp.Input {
	query := func(keys ...string) simhttp.Input { return simhttp.Input{Query: keys} }
	body := func(paths ...string) simhttp.Input { return simhttp.Input{Body: paths} }
	return map[string]simhttp.Input{
		"identity.token.create":                  {Query: []string{"nocatalog"}, Body: authPaths()},
		"identity.token.validate":                query("nocatalog"),
		"identity.project.list":                  query("name"),
		"identity.user.list":                     query("name"),
		"identity.domain.list":                   query("name"),
		"identity.role.list":                     query("name"),
		"identity.service.list":                  query("name", "type"),
		"identity.application_credential.list":   query("name"),
		"identity.application_credential.create": body(credentialPaths()...),
	}
}

// authPaths are the members of an authentication request.
func authPaths() []string {
	const (
		identity   = "auth.identity."
		password   = identity + "password.user."
		credential = identity + "application_credential."
		project    = "auth.scope.project."
	)
	return []string{
		identity + "methods", identity + "token.id",
		password + "id", password + "name", password + "password", password + "domain.id", password + "domain.name",
		credential + "id", credential + "name", credential + "secret",
		credential + "user.id", credential + "user.name", credential + "user.domain.id", credential + "user.domain.name",
		project + "id", project + "name", project + "domain.id", project + "domain.name",
		"auth.scope.domain", "auth.scope.system.all", "auth.scope.OS-TRUST:trust", "auth.scope.unscoped",
	}
}

func credentialPaths() []string {
	const in = "application_credential."
	return []string{
		in + "name", in + "description", in + "secret", in + "expires_at", in + "roles[].id", in + "roles[].name", in + "unrestricted",
	}
}
