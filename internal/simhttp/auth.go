package simhttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// Identity identifies the sender of a request.
type Identity struct {
	User, Project string
	Roles         []string
	// SystemScope is set for a token that is scoped to the whole cloud
	// instead of to a project.
	SystemScope bool
	// Domain is set for a token that is scoped to a domain instead.
	Domain string
	// AccessRules restrict an application credential; nil means no restriction.
	AccessRules []AccessRule
}

// AccessRule allows requests of one method to the paths of one service. In the path, * and {name}
// match one segment, and ** matches any text.
type AccessRule struct{ Service, Path, Method string }

// pathParts are the parts of the path of a rule.
var pathParts = regexp.MustCompile(`\{[^}]*\}|\*\*|\*|[^{}*]+`)

// allows reports whether a request to a service is one of the rule's.
func (r AccessRule) allows(service string, req *http.Request) bool {
	if r.Service != service || r.Method != req.Method {
		return false
	}
	var pattern strings.Builder
	for _, part := range pathParts.FindAllString(r.Path, -1) {
		switch {
		case part == "**":
			pattern.WriteString(".*")
		case part == "*" || part[0] == '{':
			pattern.WriteString("[^/]+")
		default:
			pattern.WriteString(regexp.QuoteMeta(part))
		}
	}
	matched, err := regexp.MatchString("^(?:"+pattern.String()+")$", req.URL.EscapedPath())
	return err == nil && matched
}

// mayAsk reports whether the access rules allow a request to a service.
func (id Identity) mayAsk(service string, req *http.Request) bool {
	return len(id.AccessRules) == 0 || slices.ContainsFunc(id.AccessRules, func(r AccessRule) bool { return r.allows(service, req) })
}

// HasRole reports whether one of the roles is held.
func (id Identity) HasRole(roles ...string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(id.Roles, role) })
}

// identityOf reads the identity headers that keystonemiddleware sets for the service behind it.
func identityOf(h http.Header) Identity {
	return Identity{
		User:        h.Get("X-User-Id"),
		Project:     h.Get("X-Project-Id"),
		Roles:       splitList(h.Get("X-Roles")),
		SystemScope: h.Get("Openstack-System-Scope") == "all", // the canonical form
		Domain:      h.Get("X-Domain-Id"),
	}
}

// Headers are the identity headers that keystonemiddleware sets, without the access rules.
func (id Identity) Headers() http.Header {
	h := make(http.Header)
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("X-User-Id", id.User)
	set("X-Project-Id", id.Project)
	set("X-Roles", strings.Join(id.Roles, ","))
	set("X-Domain-Id", id.Domain)
	if id.SystemScope {
		set("OpenStack-System-Scope", "all")
	}
	return h
}

// claimed reads the identity that a request claims for itself, by the conventions of
// Placement's "noauth2": the token is the user, or user:project, and an empty one a user without
// a name; the user "admin" has the role admin and the roles that it implies; X-Roles and
// X-Project-Id win over the token.
func claimed(h http.Header) Identity {
	id := identityOf(h)
	user, project, found := strings.Cut(h.Get("X-Auth-Token"), ":")
	if !found {
		project = user
	}
	id.User, id.Project = user, cmp.Or(id.Project, project)
	if user == "admin" && h.Get("X-Roles") == "" {
		id.Roles = []string{"admin", "manager", "member", "reader"}
	}
	return id
}

// textUnauthorized is every service's text about a missing or invalid token.
const textUnauthorized = "The request you have made requires authentication."

// Authenticate sets the identity of the call: the owner of its X-Auth-Token, or, without a
// verifier, the identity that it claims by the conventions of Placement's "noauth2". The error
// has status 401, also if the access rules of an application credential do not allow the request,
// or it is the error of a failing verifier. Authenticate also checks an X-Service-Token: see
// checkServiceToken.
func (c *Call) Authenticate(verifier sim.TokenVerifier, serviceRoles ...string) (err error) {
	if verifier == nil {
		if _, sent := c.Header["X-Auth-Token"]; !sent {
			return unauthorized()
		}
		c.Identity = claimed(c.Header)
		return nil
	}
	token := c.Header.Get("X-Auth-Token")
	id, err := verified(token, verifier)
	if late, ok := verifier.(expiredIdentifier); ok && token != "" && err != nil && AsError(err).Status == http.StatusUnauthorized && c.isByService(verifier) {
		id, err = late.IdentifyExpired(token)
		err = refusalOf(err)
	}
	if err == nil && !id.mayAsk(c.service, c.Request) && !c.isByService(verifier) { // a service may ask for its user
		err = unauthorized()
	}
	if err != nil {
		return err
	}
	c.Identity = id
	return c.checkServiceToken(verifier, serviceRoles...)
}

// unauthorized is the error of a caller without a valid token.
func unauthorized() error { return &Error{Status: http.StatusUnauthorized, Text: textUnauthorized} }

// WriteUnauthorized answers 401 as keystonemiddleware in front of a service does; uri is
// the address of the identity service in the challenge.
func (c *Call) WriteUnauthorized(uri string) {
	c.W.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", uri))
	WriteJSON(c.W, http.StatusUnauthorized, map[string]any{"error": map[string]any{
		"code": http.StatusUnauthorized, "title": "Unauthorized", "message": textUnauthorized,
	}})
}

// isByService reports whether the request has the valid token of a service.
func (c *Call) isByService(verifier sim.TokenVerifier) bool {
	return c.Header.Get("X-Service-Token") != "" && c.checkServiceToken(verifier, "service") == nil
}

// checkServiceToken refuses an X-Service-Token that is invalid, or whose user lacks all of the
// given roles, as keystonemiddleware does on every route: the error has status 401. A request
// without one is not refused.
func (c *Call) checkServiceToken(verifier sim.TokenVerifier, roles ...string) error {
	token := c.Header.Get("X-Service-Token")
	if token == "" || verifier == nil {
		return nil
	}
	id, err := verified(token, verifier)
	if err == nil && len(roles) > 0 && !id.HasRole(roles...) {
		err = unauthorized()
	}
	return err
}

// identifier is a verifier that answers an identity instead of the headers of one.
type identifier interface {
	Identify(token string) (Identity, error)
}

// expiredIdentifier is a verifier that also knows tokens that have expired. A service may act for its
// user with one, because what it does may take longer than a token is valid.
type expiredIdentifier interface {
	IdentifyExpired(token string) (Identity, error)
}

// verified returns the identity of a token. The error is the error for a missing or invalid
// token, or an [Error] of the verifier.
func verified(token string, verifier sim.TokenVerifier) (Identity, error) {
	if token == "" {
		return Identity{}, unauthorized()
	}
	var id Identity
	var err error
	if v, ok := verifier.(identifier); ok {
		id, err = v.Identify(token)
	} else {
		var headers http.Header
		headers, err = verifier.VerifyToken(token)
		id = identityOf(headers)
	}
	return id, refusalOf(err)
}

// refusalOf is the answer to the error of a verifier: its own [Error], or else 401.
func refusalOf(err error) error {
	if err == nil {
		return nil
	}
	if refusal := new(Error); errors.As(err, &refusal) {
		return refusal
	}
	return unauthorized()
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
