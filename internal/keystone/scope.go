package keystone

import (
	"encoding/json"
	"strings"
)

// scopeRef is the scope of an authentication request. At most one member is set in one that check accepts.
type scopeRef struct {
	sent     json.RawMessage // empty: none
	Project  *sentRef        `json:"project"`
	Domain   *sentDomain     `json:"domain"`
	System   json.RawMessage `json:"system"`
	Trust    *sentDomain     `json:"OS-TRUST:trust"`
	Unscoped json.RawMessage `json:"unscoped"`
}

// readScope reads a scope that the schema allows: an object, or the word unscoped.
func readScope(sent json.RawMessage) (scope scopeRef, err error) {
	scope.sent = sent
	var word string
	switch {
	case len(sent) == 0:
	case json.Unmarshal(sent, &word) == nil:
		if strings.Contains(word, "unscoped") {
			scope.Unscoped = sent
		}
	default:
		err = json.Unmarshal(sent, &scope)
	}
	if err != nil {
		return scope, err
	}
	if scope.Project != nil {
		if err := scope.Project.check("scope/project"); err != nil {
			return scope, err
		}
	}
	if d := scope.Domain; d != nil && d.ID == nil && d.Name == nil {
		return scope, unnamed("scope/domain")
	}
	return scope, nil
}

func (r scopeRef) isSet() bool { return len(r.sent) > 0 }

// findScope looks up what a request asks for, and returns what gives it to the proof. Without a scope the token is
// unscoped, since no user here has a default project.
func (s *Server) findScope(req *authRequest) (func(proof *session) error, error) {
	as := func(*session) error { return nil }
	scope := req.scope
	if req.uses(methodCredential) {
		if scope.isSet() {
			return nil, refuseMethod("Error authenticating with application credential: Application credentials cannot request a scope.")
		}
		_, err := s.sentCredential(req.payloads[methodCredential])
		return as, err
	}
	switch {
	case !scope.isSet():
	case scope.count() != 1:
		return nil, malformed("system, project, domain, OS-TRUST:trust or unscoped", "scope")
	case len(scope.System) > 0:
		as = scopeToSystem
	case scope.Project != nil:
		named, err := scope.Project.ref("project")
		if err != nil {
			return nil, err
		}
		found, ok := s.directory.findProject(named)
		if !ok {
			return nil, unauthorized()
		}
		as = func(proof *session) error { return scopeToProject(proof, found) }
	case scope.Domain != nil:
		if !scope.Domain.ref().exists() {
			return nil, unauthorized()
		}
		as = func(*session) error { return unauthorized() } // no user has a role on it
	case scope.Trust != nil:
		if textOf(scope.Trust.ID) == "" {
			return nil, malformed("trust_id", "trust")
		}
		return nil, unauthorized() // there are no trusts
	}
	return as, nil
}

func (r scopeRef) count() int {
	n := 0
	for _, given := range []bool{r.Project != nil, r.Domain != nil, len(r.System) > 0, r.Trust != nil, len(r.Unscoped) > 0} {
		if given {
			n++
		}
	}
	return n
}

// scopeToProject refuses an unknown project and one the user has no role on alike.
func scopeToProject(proof *session, found *project) error {
	if len(proof.user.roles[found.name]) == 0 {
		return unauthorized()
	}
	proof.project, proof.roles = found, proof.user.roles[found.name]
	return nil
}

// scopeToSystem reads nothing of the scope: {"all": false} is the system, too.
func scopeToSystem(proof *session) error {
	if len(proof.user.systemRoles) == 0 {
		return unauthorized()
	}
	proof.System, proof.roles = true, proof.user.systemRoles
	return nil
}
