package fakecyborg

import (
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// caller is who sent a request, and with which backing.
type caller struct {
	simhttp.Identity
	// service is set for a request with a valid service token, whatever the
	// user's own token says.
	service bool
}

// admin is what upstream's context calls is_admin.
func (c caller) admin() bool { return c.HasRole("admin") }

// scope is whose accelerator requests the caller sees.
func (s *Server) scope(c caller) store.Scope {
	return store.Scope{Project: c.Project, All: c.admin(), Revealing: s.cfg.zed()}
}

// callerOf is who sent a call whose token was checked.
func (s *Server) callerOf(c *simhttp.Call) caller {
	if s.verifier == nil {
		return caller{c.Identity, c.Header.Get("X-Service-Token") != ""}
	}
	backing, valid := simhttp.IdentifyService(c.Request, s.verifier)
	return caller{c.Identity, valid && backing.HasRole("service")}
}

// errServiceToken is upstream's refusal since CVE-2026-40214.
var errServiceToken error = &store.Refusal{
	Kind: store.Forbidden, Text: "This operation requires a service token. Use the Compute API to manage instance accelerators.",
}

// requireService guards what only Nova may do.
func (s *Server) requireService(c caller) error {
	if c.service || !*s.cfg.RequireServiceToken {
		return nil
	}
	return errServiceToken
}

// The policy rules that differ from each other (cyborg/policies).
const (
	ruleProfileRead   = "cyborg:device_profile:get_one"
	ruleProfileList   = "cyborg:device_profile:get_all"
	ruleProfileCreate = "cyborg:device_profile:create"
	ruleProfileDelete = "cyborg:device_profile:delete"
	ruleARQList       = "cyborg:arq:get_all"
	ruleARQRead       = "cyborg:arq:get_one"
	ruleARQCreate     = "cyborg:arq:create"
	ruleARQUpdate     = "cyborg:arq:update"
	ruleARQDelete     = "cyborg:arq:delete"
	ruleDeviceList    = "cyborg:device:get_all"
	ruleDeviceRead    = "cyborg:device:get_one"
	ruleDeviceEnable  = "cyborg:device:enable"
	ruleDeviceDisable = "cyborg:device:disable"
	rulePartList      = "cyborg:deployable:get_all"
	rulePartRead      = "cyborg:deployable:get_one"
	rulePartProgram   = "cyborg:deployable:program"
	ruleAttrList      = "cyborg:attribute:get_all"
	ruleAttrRead      = "cyborg:attribute:get_one"
	ruleAttrCreate    = "cyborg:attribute:create"
	ruleAttrDelete    = "cyborg:attribute:delete"
)

// authorize applies the policy. All rules ask for a token of a project. By
// default reading and requests are open to any role, because the deprecated
// rules are still or-ed in, and writing is the administrator's.
func (s *Server) authorize(c caller, rule string) error {
	if c.SystemScope {
		return store.Denied(rule)
	}
	allowed := c.admin() || !adminOnly(rule)
	if s.cfg.EnforceNewDefaults && !c.admin() {
		allowed = c.HasRole(newDefaultRoles(rule)...)
	}
	if !allowed {
		return store.Denied(rule)
	}
	return nil
}

func adminOnly(rule string) bool {
	return slices.Contains([]string{
		ruleProfileCreate, ruleProfileDelete, ruleDeviceEnable, ruleDeviceDisable,
		rulePartProgram, ruleAttrCreate, ruleAttrDelete,
	}, rule)
}

// newDefaultRoles are the roles beside admin that enforce_new_defaults lets in.
func newDefaultRoles(rule string) []string {
	switch rule {
	case ruleProfileRead, ruleProfileList, ruleARQRead, ruleARQList:
		return []string{"manager", "member", "reader"}
	case ruleARQCreate, ruleARQUpdate, ruleARQDelete:
		return []string{"manager", "member", "service"}
	case ruleDeviceList, ruleDeviceRead, rulePartList, rulePartRead, ruleAttrList, ruleAttrRead:
		return []string{"manager"}
	}
	return nil
}
