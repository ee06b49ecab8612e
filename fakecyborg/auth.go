package fakecyborg

import (
	"encoding/json"
	"net/url"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// isAdmin is what upstream's context calls is_admin.
func isAdmin(c *simhttp.Call) bool { return c.Identity.HasRole("admin") }

// scope says which accelerator requests the user sees.
func (s *Server) scope(c *simhttp.Call) store.Scope {
	return store.Scope{Project: c.Identity.Project, All: isAdmin(c) || !s.release.Isolates}
}

// novaScope is the scope of what Nova does for the owner of an instance, whoever its requests belong to: an
// evacuation by an administrator makes new ones, in the administrator's project, which the owner's
// deletion has to find. Upstream does not look at the service token.
func (s *Server) novaScope(c *simhttp.Call) store.Scope {
	scope := s.scope(c)
	scope.All = scope.All || c.Header.Get("X-Service-Token") != "" && !s.cfg.UpstreamQuirks
	return scope
}

// errServiceToken is upstream's refusal since CVE-2026-40214.
var errServiceToken error = &store.Refusal{
	Kind: store.Forbidden, Text: "This operation requires a service token. Use the Compute API to manage instance accelerators.",
}

// serviceRoles are those of which a service token must have one.
func (s *Server) serviceRoles() []string {
	if *s.cfg.RequireServiceToken || s.release.ServiceToken {
		return []string{"service"}
	}
	return nil
}

// requireService refuses a call without a service token to do what only Nova may do, whatever
// the user's own token says. An invalid service token was refused before.
func (s *Server) requireService(c *simhttp.Call) error {
	if c.Header.Get("X-Service-Token") != "" || !*s.cfg.RequireServiceToken {
		return nil
	}
	return errServiceToken
}

// The policy rules (cyborg/common/policies).
const (
	ruleProfileRead       = "cyborg:device_profile:get_one"
	ruleProfileList       = "cyborg:device_profile:get_all"
	ruleProfileCreate     = "cyborg:device_profile:create"
	ruleProfileDelete     = "cyborg:device_profile:delete"
	ruleARQList           = "cyborg:arq:get_all"
	ruleARQRead           = "cyborg:arq:get_one"
	ruleARQCreate         = "cyborg:arq:create"
	ruleARQUpdate         = "cyborg:arq:update"
	ruleARQDelete         = "cyborg:arq:delete"
	ruleDeviceList        = "cyborg:device:get_all"
	ruleDeviceRead        = "cyborg:device:get_one"
	ruleDeviceEnable      = "cyborg:device:enable"
	ruleDeviceDisable     = "cyborg:device:disable"
	ruleDeployableList    = "cyborg:deployable:get_all"
	ruleDeployableRead    = "cyborg:deployable:get_one"
	ruleDeployableProgram = "cyborg:deployable:program"
	ruleAttributeList     = "cyborg:attribute:get_all"
	ruleAttributeRead     = "cyborg:attribute:get_one"
	ruleAttributeCreate   = "cyborg:attribute:create"
	ruleAttributeDelete   = "cyborg:attribute:delete"
)

// authorize applies the policy. All rules ask for a token of a project. By default any role
// may do what is not reserved for administrators, because the deprecated rules are still
// or-ed in.
func (s *Server) authorize(c *simhttp.Call, rule string) error {
	roles := rolesOf(rule)
	open := roles != nil && (!s.cfg.EnforceNewDefaults || c.Identity.HasRole(roles...)) || rule == ruleDeployableProgram && !s.release.GuardsRegions
	if c.Identity.SystemScope || c.Identity.Domain != "" || !open && !isAdmin(c) {
		return store.Denied(rule)
	}
	return nil
}

// rolesOf lists the roles beside admin that enforce_new_defaults lets in, nil for a rule that
// is for administrators in any case.
func rolesOf(rule string) []string {
	switch rule {
	case ruleProfileRead, ruleProfileList, ruleARQRead, ruleARQList:
		return []string{"manager", "member", "reader"}
	case ruleARQCreate, ruleARQUpdate, ruleARQDelete:
		return []string{"manager", "member", "service"}
	case ruleDeviceList, ruleDeviceRead, ruleDeployableList, ruleDeployableRead, ruleAttributeList, ruleAttributeRead:
		return []string{"manager"}
	}
	return nil
}

// authorizeQuery is how most calls without a body begin: with the policy rule, and then the query.
func (s *Server) authorizeQuery(c *simhttp.Call, rule string) (url.Values, error) {
	if err := s.authorize(c, rule); err != nil {
		return nil, err
	}
	return queryArgs(c)
}

// authorizeBody is how the calls with a body begin: the body is read before the policy rule is
// applied, and must be JSON after it. Upstream's handler calls it argument.
func (s *Server) authorizeBody(c *simhttp.Call, rule, argument string) (json.RawMessage, error) {
	body, err := readBody(c, argument)
	if err != nil {
		return nil, err
	}
	if err := s.authorize(c, rule); err != nil {
		return nil, err
	}
	return body, checkJSON(body)
}
