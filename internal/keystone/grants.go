package keystone

import (
	"maps"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	grantsPath = "/v3/projects/{id}/users/{user}/roles"
	grantPath  = grantsPath + "/{role}"
)

// grant finds the role, the user and the project in a path of grants. As in Keystone, they are
// looked up before the policy is checked.
func (s *Server) grant(c *simhttp.Call) (u *user, p *project, role string, err error) {
	if id := c.PathValue("role"); id != "" {
		names := slices.Sorted(maps.Keys(s.directory.roleIDs))
		i := slices.IndexFunc(names, func(name string) bool { return s.directory.roleIDs[name] == id })
		if i < 0 {
			return nil, nil, "", notFound("role", id)
		}
		role = names[i]
	}
	u, ok := s.directory.findUser(ref{ID: c.PathValue("user")})
	if !ok {
		return nil, nil, "", notFound("user", c.PathValue("user"))
	}
	p, ok = s.directory.findProject(ref{ID: c.PathValue("id")})
	if !ok {
		return nil, nil, "", notFound("project", c.PathValue("id"))
	}
	return u, p, role, nil
}

// listGrants is GET on the roles that a user was granted on a project, without implied roles.
func (s *Server) listGrants(c *simhttp.Call, who session) error {
	u, p, _, err := s.grant(c)
	if err != nil {
		return err
	}
	if err := requireReader(who, "identity:list_grants"); err != nil {
		return err
	}
	return listOf(c, "roles", s.linkedRoles(c, u.granted[p.name]))
}

// checkGrant is GET and HEAD on one of them, which is answered without a body.
func (s *Server) checkGrant(c *simhttp.Call, who session) error {
	u, p, role, err := s.grant(c)
	if err != nil {
		return err
	}
	if err := requireReader(who, "identity:check_grant"); err != nil {
		return err
	}
	if !slices.Contains(u.granted[p.name], role) {
		return simhttp.Refuse(http.StatusNotFound, "Could not find role assignment with role: %s, user or group: %s, project, domain, or system: %s.",
			c.PathValue("role"), u.id, p.id)
	}
	return c.Empty(http.StatusNoContent)
}
