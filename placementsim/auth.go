package placementsim

// Policy says who may do what.
type Policy string

// The policies of a Config.
const (
	// PolicyDefault is the rules that hold without enforce_new_defaults: the default before 12.0.0 (2024.2).
	PolicyDefault Policy = "default"
	// PolicySecure is the new defaults with scopes, enforced: the default since 12.0.0.
	PolicySecure Policy = "secure"
	// PolicyOpen is no rules.
	PolicyOpen Policy = "open"
)

// rule is who may use an operation.
type rule int

const (
	operators rule = iota // the roles of the release
	anybody               // no rule at all
	ownUsages             // readers too, for their own project
	reshaping             // service, and admin unless the new defaults are enforced
)

// allowed reports whether the policy lets the caller use the operation. The
// rules are for projects: where scopes are enforced a system scoped token is never enough.
func (c *call) allowed(r rule) bool {
	policy := c.server.config.Policy
	if r == anybody || policy == PolicyOpen {
		return true
	}
	if c.Identity.SystemScope && c.server.release.enforcesScope(policy) {
		return false
	}
	switch r {
	case ownUsages:
		if c.Identity.HasRole("reader") && c.Identity.Project == parseQuery(c.URL.RawQuery).first("project_id") {
			return true
		}
	case reshaping:
		if policy == PolicySecure {
			return c.Identity.HasRole("service")
		}
	}
	return c.Identity.HasRole(c.server.release.operators...)
}
