package placementsim

// Policy says who may do what.
type Policy string

// The policies of a Config.
const (
	PolicyDefault Policy = "default" // the service's default
	PolicySecure  Policy = "secure"  // its new defaults are enforced
	PolicyOpen    Policy = "open"    // everybody may do everything
)

// rule is who may use an operation.
type rule int

const (
	operators rule = iota // admin or service
	anybody               // no rule at all
	ownUsages             // readers too, for their own project
	reshaping             // service, and admin unless the new defaults are enforced
)

// allowed reports whether the policy lets the caller use the operation. Its
// rules are for projects, so a system scoped token is never enough.
func (c *call) allowed(r rule) bool {
	policy := c.server.config.Policy
	if r == anybody || policy == PolicyOpen {
		return true
	}
	if c.Identity.SystemScope {
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
	return c.Identity.HasRole("admin", "service")
}
