package keystone

import (
	"maps"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// resource is a kind of thing that can be listed and read by id. Its paths and policies are
// named after it.
type resource struct {
	name, names string // "project", "projects"
	// lists and gets are the operations.
	lists, gets sim.OperationName
	// filters are the query keys of the list, which are members of the body.
	filters filters
	// key compares the members by which a list is filtered.
	key collation.Key
	// open reports whether every caller may list them.
	open bool
	// own reports whether a caller without the right to read all may read the one with an id; nil: no.
	own func(who session, id string) bool
	all func(c *simhttp.Call) []map[string]any
	// unknown is the text about an id that does not exist; empty: that of notFound.
	unknown string
}

func (s *Server) resources() []resource {
	list := []resource{
		{name: "project", names: "projects", lists: fault.ProjectList, gets: fault.ProjectGet, filters: filters{"name", "domain_id", "parent_id", "enabled", "is_domain"}, all: s.projects,
			own: func(who session, id string) bool { return who.project != nil && who.project.id == id }},
		{name: "user", names: "users", lists: fault.UserList, gets: fault.UserGet, filters: filters{"name", "domain_id", "enabled"}, all: s.users, own: session.is},
		{name: "group", names: "groups", lists: fault.GroupList, gets: fault.GroupGet, filters: filters{"name", "domain_id"}, all: none},
		{name: "domain", names: "domains", lists: fault.DomainList, gets: fault.DomainGet, filters: filters{"name", "enabled"}, all: domains,
			own: func(who session, id string) bool { return who.project != nil && id == domainID }},
		{name: "role", names: "roles", lists: fault.RoleList, gets: fault.RoleGet, filters: filters{"name", "domain_id"}, all: s.roles},
		{name: "service", names: "services", lists: fault.IdentityServiceList, gets: fault.IdentityServiceGet, filters: filters{"name", "type"}, all: s.services},
		{name: "endpoint", names: "endpoints", lists: fault.EndpointList, gets: fault.EndpointGet, filters: filters{"interface", "service_id", "region_id"}, all: s.endpoints},
		{name: "region", names: "regions", lists: fault.RegionList, gets: fault.RegionGet, filters: filters{"parent_region_id"}, all: s.regions, open: true, own: anyID},
		{name: "registered_limit", names: "registered_limits", lists: fault.RegisteredLimitList, gets: fault.RegisteredLimitGet, filters: filters{"service_id", "region_id", "resource_name"},
			all: none, open: true, own: anyID, unknown: "Could not find registered limit for %s."},
		{name: "limit", names: "limits", lists: fault.LimitList, gets: fault.LimitGet, filters: filters{"service_id", "region_id", "resource_name", "project_id", "domain_id"},
			all: none, open: true, own: anyID, unknown: "Could not find limit for %s."},
		{name: "credential", names: "credentials", lists: fault.CredentialList, gets: fault.CredentialGet, filters: filters{"user_id", "type"}, all: none, open: true},
		{name: "policy", names: "policies", lists: fault.PolicyList, gets: fault.PolicyGet, filters: filters{"type"}, all: none},
	}
	for i := range list {
		list[i].key = s.directory.key
	}
	return list
}

func anyID(session, string) bool { return true }

// list is GET /v3/projects and its like.
func (r resource) list(c *simhttp.Call, who session) error {
	if err := requireReader(who, "identity:list_"+r.names); err != nil && !r.open {
		return err
	}
	return listOf(c, r.names, r.filters.apply(c, r.key, r.all(c)))
}

// get is GET /v3/projects/{id} and its like.
func (r resource) get(c *simhttp.Call, who session) error {
	id, all := c.PathValue("id"), r.all(c)
	i := slices.IndexFunc(all, func(item map[string]any) bool { return item["id"] == id })
	if err := requireReader(who, "identity:get_"+r.name); err != nil && (r.own == nil || !r.own(who, id)) {
		return err
	}
	switch {
	case i < 0 && r.unknown != "":
		return simhttp.Refuse(http.StatusNotFound, r.unknown, id)
	case i < 0:
		return notFound(r.name, id)
	}
	return c.JSON(http.StatusOK, map[string]any{r.name: all[i]})
}

// listOf answers a list of bodies.
func listOf(c *simhttp.Call, name string, list []map[string]any) error {
	return c.JSON(http.StatusOK, map[string]any{name: list, "links": selfLink(c)})
}

// body is a thing on the wire: what all have, and the given members.
func body(c *simhttp.Call, path, id string, members map[string]any) map[string]any {
	members["id"] = id
	members["links"] = map[string]string{"self": c.BaseURL() + "/identity/v3/" + path + "/" + id}
	return members
}

func (s *Server) projects(c *simhttp.Call) []map[string]any {
	list := []map[string]any{}
	for _, p := range s.directory.projects {
		list = append(list, projectBody(c, "projects", p.id, map[string]any{
			"name": p.name, "domain_id": domainID, "parent_id": domainID, "is_domain": false, "description": "",
		}))
	}
	return list
}

// projectBody has what a project and a domain have in common.
func projectBody(c *simhttp.Call, path, id string, members map[string]any) map[string]any {
	maps.Copy(members, map[string]any{"enabled": true, "tags": []string{}, "options": map[string]any{}})
	return body(c, path, id, members)
}

// projectsOf are the projects on which a user has a role.
func (s *Server) projectsOf(c *simhttp.Call, u *user) []map[string]any {
	return slices.DeleteFunc(s.projects(c), func(p map[string]any) bool {
		name, _ := p["name"].(string)
		return len(u.roles[name]) == 0
	})
}

// authProjects is GET /v3/auth/projects: those the caller may scope to.
func (s *Server) authProjects(c *simhttp.Call, who session) error {
	return listOf(c, "projects", s.projectsOf(c, who.user))
}

// authDomains is GET /v3/auth/domains: no user has a role on a domain.
func authDomains(c *simhttp.Call, _ session) error { return listOf(c, "domains", none(c)) }

// authSystem is GET /v3/auth/system: the system, if the caller may scope to it.
func authSystem(c *simhttp.Call, who session) error {
	scopes := []map[string]any{}
	if len(who.user.systemRoles) > 0 {
		scopes = append(scopes, map[string]any{"all": true})
	}
	return c.JSON(http.StatusOK, map[string]any{"system": scopes, "links": map[string]string{"self": c.BaseURL() + c.URL.EscapedPath()}})
}

// userProjectFilters are the filters for the projects of one user.
var userProjectFilters = filters{"name", "domain_id", "enabled"}

// userProjects is GET /v3/users/{id}/projects.
func (s *Server) userProjects(c *simhttp.Call, who session) error {
	found, err := s.readUser(c, who, "identity:list_user_projects")
	if err != nil {
		return err
	}
	return listOf(c, "projects", userProjectFilters.apply(c, s.directory.key, s.projectsOf(c, found)))
}

// userGroups is GET /v3/users/{id}/groups: there are no groups.
func (s *Server) userGroups(c *simhttp.Call, who session) error {
	if _, err := s.readUser(c, who, "identity:list_groups_for_user"); err != nil {
		return err
	}
	return listOf(c, "groups", none(c))
}

// limitModel is GET /v3/limits/model: the default of [unified_limit] enforcement_model (keystone/limit/models/flat.py).
func limitModel(c *simhttp.Call, _ session) error {
	return c.JSON(http.StatusOK, map[string]any{"model": map[string]string{
		"name": "flat", "description": "Limit enforcement and validation does not take project hierarchy into consideration.",
	}})
}

// readUser finds the user of the path, who must be the caller, or any user if the caller may read all.
func (s *Server) readUser(c *simhttp.Call, who session, policy string) (*user, error) {
	id := c.PathValue("id")
	if err := requireReader(who, policy); err != nil && !who.is(id) {
		return nil, err
	}
	found, ok := s.directory.findUser(ref{ID: id})
	if !ok {
		return nil, notFound("user", id)
	}
	return found, nil
}

// none is the list of resources that cannot be created here.
func none(*simhttp.Call) []map[string]any { return []map[string]any{} }

func (s *Server) users(c *simhttp.Call) []map[string]any {
	list := []map[string]any{}
	for _, u := range s.directory.users {
		list = append(list, body(c, "users", u.id, map[string]any{
			"name": u.name, "domain_id": domainID, "enabled": true, "password_expires_at": nil, "options": map[string]any{},
		}))
	}
	return list
}

func domains(c *simhttp.Call) []map[string]any {
	return []map[string]any{projectBody(c, "domains", domainID, map[string]any{
		"name": domainName, "description": "The default domain",
	})}
}

func (s *Server) roles(c *simhttp.Call) []map[string]any {
	return s.linkedRoles(c, slices.Sorted(maps.Keys(s.directory.roleIDs)))
}

// linkedRoles are roles as resources.
func (s *Server) linkedRoles(c *simhttp.Call, names []string) []map[string]any {
	list := s.wholeRoles(names)
	for i, role := range list {
		id, _ := role["id"].(string)
		list[i] = body(c, "roles", id, role)
	}
	return list
}

// wholeRoles are roles with all members, as application credentials have them.
func (s *Server) wholeRoles(names []string) []map[string]any {
	list := []map[string]any{}
	for _, role := range s.roleBodies(names) {
		options := map[string]any{}
		if role.Name == roleService || slices.Contains(implied, role.Name) { // of Keystone's bootstrap
			options["immutable"] = true
		}
		list = append(list, map[string]any{
			"id": role.ID, "name": role.Name, "domain_id": nil, "description": nil, "options": options,
		})
	}
	return list
}

func (s *Server) serviceID(e CatalogEntry) string { return stableID(s.cfg.Seed, "service", e.Type) }

func (s *Server) services(c *simhttp.Call) []map[string]any {
	list := []map[string]any{}
	for _, e := range s.cfg.Services {
		list = append(list, body(c, "services", s.serviceID(e), map[string]any{
			"name": e.Name, "type": e.Type, "enabled": true,
		}))
	}
	return list
}

// regions has the one region.
func (s *Server) regions(c *simhttp.Call) []map[string]any {
	return []map[string]any{body(c, "regions", s.cfg.Region, map[string]any{"description": "", "parent_region_id": nil})}
}

// endpoints returns the endpoints of the catalog.
func (s *Server) endpoints(c *simhttp.Call) []map[string]any {
	list := []map[string]any{}
	for _, service := range s.catalog(c) {
		for _, e := range service.Endpoints {
			list = append(list, body(c, "endpoints", e.ID, map[string]any{
				"interface": e.Interface, "service_id": service.ID, "region": e.Region, "region_id": e.RegionID, "url": e.URL, "enabled": true,
			}))
		}
	}
	return list
}
