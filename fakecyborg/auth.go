package fakecyborg

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// isAdmin is what upstream's context calls is_admin.
func (s *Server) isAdmin(c *simhttp.Call) bool {
	return c.Identity.HasRole("admin") || s.release.Administrator == yes && c.Identity.HasRole("administrator")
}

// scope says which accelerator requests the user sees.
func (s *Server) scope(c *simhttp.Call) store.Scope {
	return store.Scope{Project: c.Identity.Project, All: s.isAdmin(c) || s.release.Isolates == no}
}

// novaScope is the scope of Nova's calls for the owner of an instance. It includes requests of
// other projects: an evacuation by an administrator makes new requests in the administrator's
// project, and the owner's deletion must find them. Upstream ignores the service token.
func (s *Server) novaScope(c *simhttp.Call) store.Scope {
	scope := s.scope(c)
	scope.All = scope.All || c.Header.Get("X-Service-Token") != "" && !s.cfg.UpstreamQuirks
	return scope
}

// noteForeign notes that an answer rests on a request that only the service token shows to the caller: upstream answers as if
// it did not exist. A client that sends no token of the request's owner passes here and fails on a real cloud.
func (s *Server) noteForeign(c *simhttp.Call, a store.ARQ) {
	scope := s.scope(c)
	if scope.All || a.Project == scope.Project {
		return
	}
	c.Deviation = fmt.Sprintf("the service token shows ARQ %s of project %s to project %s: the real Cyborg ignores it and does not find the ARQ", a.UUID, a.Project, scope.Project)
	s.foreign.Do(func() {
		if s.logger != nil {
			s.logger.Warn("Cyborg served an ARQ of another project because of a service token: the real Cyborg does not find it; send the owner's or an administrator's token as X-Auth-Token", "operation", c.Route.Operation, "arq", a.UUID, "arq project", a.Project, "caller project", scope.Project)
		}
	})
}

// errServiceToken is upstream's refusal since CVE-2026-40214.
var errServiceToken error = &store.Refusal{
	Kind: store.Forbidden, Text: "This operation requires a service token. Use the Compute API to manage instance accelerators.",
}

// serviceRoles returns the accepted roles of a service token; one is enough.
func (s *Server) serviceRoles() []string {
	if *s.cfg.RequireServiceToken || s.release.ServiceToken == yes {
		return []string{"service"}
	}
	return nil
}

// requireService refuses a call without a service token to do what only Nova may do, regardless
// of the user's own token. An invalid service token was refused before.
func (s *Server) requireService(c *simhttp.Call) error {
	if c.Header.Get("X-Service-Token") != "" || !*s.cfg.RequireServiceToken {
		return nil
	}
	return errServiceToken
}

// authorize applies the policy of the route, which upstream does before it reads an argument or a body
// (cyborg/common/authorize_wsgi.py). A route without a rule is public.
func (s *Server) authorize(c *simhttp.Call) error {
	p := s.policies[c.Route.Operation]
	unscoped := c.Identity.SystemScope || c.Identity.Domain != ""
	switch {
	case p.rule == "":
	case unscoped && s.release.SystemScope == scopeOfProfiles && strings.HasPrefix(p.rule, "cyborg:device_profile:"):
		return wrongScope{p.rule, c.Identity}
	case unscoped && s.release.SystemScope == scopeRefused, !p.roles.at(s.release.policies).admits(c.Identity, s.isAdmin(c)):
		return store.Denied(p.rule)
	}
	return nil
}

// wrongScope is the error of oslo.policy about a token whose scope is not a project. Cyborg 13.0 to 16.0 do not translate it.
type wrongScope struct {
	rule string
	id   simhttp.Identity
}

// Error implements error.
func (e wrongScope) Error() string {
	scope := "domain"
	if e.id.SystemScope {
		scope = "system"
	}
	return fmt.Sprintf("%s requires a scope of ['project'], request was made with %s scope.", e.rule, scope)
}
