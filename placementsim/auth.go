package placementsim

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Policy selects the rules of access.
type Policy string

// The policies of a Config.
const (
	// PolicyDefault is the rules that hold without enforce_new_defaults: the default before 12.0.0 (2024.2).
	PolicyDefault Policy = "default"
	// PolicySecure is the new defaults with scopes, enforced: the default since 12.0.0.
	PolicySecure Policy = "secure"
	// PolicyOpen allows everything.
	PolicyOpen Policy = "open"
)

// rule is the rule of access to an operation.
type rule int

const (
	operators rule = iota // the roles of the release
	anybody               // no rule at all
	ownUsages             // readers too, for their own project
	reshaping             // service, and admin unless the new defaults are enforced
)

// authorize refuses an operation that the policy does not let the caller use. The
// rules are for projects: where scopes are enforced a system scoped token is never enough.
func (c *call) authorize(op operation) error {
	refuse := func(text string) error { return escaped{&simhttp.Error{Status: http.StatusForbidden, Text: text}} }
	policy := c.server.config.Policy
	switch {
	case op.rule == anybody || policy == PolicyOpen && op.rule != ownUsages:
		return nil
	case op.rule == ownUsages && parseQuery(c.URL.RawQuery).bad != nil: // the rule reads the project of the query
		return escaped{parseQuery(c.URL.RawQuery).bad}
	case policy == PolicyOpen:
		return nil
	case c.Identity.SystemScope && c.server.release.enforcesScope(policy):
		return refuse("placement:" + op.policy)
	case !c.allowed(op.rule):
		return refuse("Policy does not allow placement:" + op.policy + " to be performed.")
	}
	return nil
}

// allowed reports whether the roles and the project of the caller are enough.
func (c *call) allowed(r rule) bool {
	switch r {
	case ownUsages:
		if c.Identity.HasRole("reader") && c.Identity.Project == parseQuery(c.URL.RawQuery).first("project_id") {
			return true
		}
	case reshaping:
		if c.server.config.Policy == PolicySecure {
			return c.Identity.HasRole("service")
		}
	}
	return c.Identity.HasRole(c.server.release.operators...)
}
