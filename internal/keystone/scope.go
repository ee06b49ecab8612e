package keystone

import (
	"encoding/json"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// scopeRef is the scope of an authentication request in its object form.
type scopeRef struct {
	Project  *ref            `json:"project"`
	Domain   *domainRef      `json:"domain"`
	System   json.RawMessage `json:"system"`
	Trust    json.RawMessage `json:"OS-TRUST:trust"`
	Unscoped json.RawMessage `json:"unscoped"`
}

// applyScope gives the proof the project or system that is asked for. Without a scope
// the token is unscoped, since no user here has a default project.
func (s *Server) applyScope(proof *session, raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if proof.credential != nil {
		return simhttp.Refuse(http.StatusUnauthorized, "Application credentials cannot request a scope.")
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if word == "unscoped" {
			return nil
		}
		return malformed("project, domain, system or unscoped", "scope")
	}
	var scope scopeRef
	if err := decode(raw, &scope); err != nil {
		return err
	}
	if scope.count() != 1 {
		return malformed("exactly one of project, domain, system, OS-TRUST:trust or unscoped", "scope")
	}
	switch {
	case scope.Project != nil:
		return s.scopeToProject(proof, *scope.Project)
	case scope.System != nil:
		return scopeToSystem(proof, scope.System)
	case scope.Trust != nil:
		return simhttp.Refuse(http.StatusNotFound, "Could not find trust.")
	case scope.Domain != nil:
		return unauthorized() // no user has a role on a domain
	}
	return nil
}

func (s *scopeRef) count() int {
	n := 0
	for _, given := range []bool{s.Project != nil, s.Domain != nil, s.System != nil, s.Trust != nil, s.Unscoped != nil} {
		if given {
			n++
		}
	}
	return n
}

// scopeToProject refuses an unknown project and one the user has no role on alike.
func (s *Server) scopeToProject(proof *session, sent ref) error {
	if err := sent.check("project"); err != nil {
		return err
	}
	found, ok := s.directory.findProject(sent)
	if !ok || len(proof.user.roles[found.name]) == 0 {
		return unauthorized()
	}
	proof.project, proof.roles = found, proof.user.roles[found.name]
	return nil
}

func scopeToSystem(proof *session, raw json.RawMessage) error {
	var system struct {
		All bool `json:"all"`
	}
	if err := decode(raw, &system); err != nil {
		return err
	}
	if !system.All {
		return malformed("all", "system")
	}
	if len(proof.user.systemRoles) == 0 {
		return unauthorized()
	}
	proof.System, proof.roles = true, proof.user.systemRoles
	return nil
}
