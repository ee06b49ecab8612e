package simhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// Identity is who sent a request.
type Identity struct {
	User, Project string
	Roles         []string
	// SystemScope is set for a token that is scoped to the whole cloud
	// instead of to a project.
	SystemScope bool
}

// HasRole reports whether one of the roles is held.
func (id Identity) HasRole(roles ...string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(id.Roles, role) })
}

// IdentityFromHeaders reads the identity headers that keystonemiddleware sets
// for the service behind it.
func IdentityFromHeaders(h http.Header) Identity {
	return Identity{
		User:        h.Get("X-User-Id"),
		Project:     h.Get("X-Project-Id"),
		Roles:       splitList(h.Get("X-Roles")),
		SystemScope: h.Get("OpenStack-System-Scope") == "all",
	}
}

// NoAuth reads the identity that a request claims for itself, by the
// conventions of Placement's "noauth2": the token is the user, or user:project;
// the user "admin" has the role admin; X-Roles and X-Project-Id win over the
// token. It reports false for a request without a token.
func NoAuth(r *http.Request) (Identity, bool) {
	token := r.Header.Get("X-Auth-Token")
	if token == "" {
		return Identity{}, false
	}
	user, project, found := strings.Cut(token, ":")
	if !found {
		project = user
	}
	id := Identity{User: user, Project: project, SystemScope: r.Header.Get("OpenStack-System-Scope") == "all"}
	if sent := r.Header.Get("X-Project-Id"); sent != "" {
		id.Project = sent
	}
	switch roles := r.Header.Get("X-Roles"); {
	case roles != "":
		id.Roles = splitList(roles)
	case user == "admin":
		id.Roles = []string{"admin"}
	}
	return id, true
}

// Identify finds out who sent a request: by its X-Auth-Token and the verifier,
// or by the conventions of NoAuth if there is none. It reports false for a
// request whose answer is 401.
func Identify(r *http.Request, verifier sim.TokenVerifier) (Identity, bool) {
	if verifier == nil {
		return NoAuth(r)
	}
	return verified(r.Header.Get("X-Auth-Token"), verifier)
}

// textUnauthorized is what every service says of a missing or invalid token.
const textUnauthorized = "The request you have made requires authentication."

// Authenticate sets the identity of the call as [Identify] does. Its error has status 401.
func (c *Call) Authenticate(verifier sim.TokenVerifier) error {
	id, ok := Identify(c.Request, verifier)
	if !ok {
		return &Error{Status: http.StatusUnauthorized, Text: textUnauthorized}
	}
	c.Identity = id
	return nil
}

// WriteUnauthorized answers 401 as keystonemiddleware in front of a service does; uri is
// the address of the identity service in the challenge.
func (c *Call) WriteUnauthorized(uri string) {
	c.W.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", uri))
	WriteJSON(c.W, http.StatusUnauthorized, map[string]any{"error": map[string]any{
		"code": http.StatusUnauthorized, "title": "Unauthorized", "message": textUnauthorized,
	}})
}

// IdentifyService finds out who stands behind the X-Service-Token of a request.
// It reports false for a request without one or with an invalid one.
func IdentifyService(r *http.Request, verifier sim.TokenVerifier) (Identity, bool) {
	return verified(r.Header.Get("X-Service-Token"), verifier)
}

func verified(token string, verifier sim.TokenVerifier) (Identity, bool) {
	if token == "" {
		return Identity{}, false
	}
	headers, err := verifier.VerifyToken(token)
	if err != nil {
		return Identity{}, false
	}
	return IdentityFromHeaders(headers), true
}

func splitList(s string) []string {
	var list []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}
