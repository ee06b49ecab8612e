package keystone

import (
	"maps"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// resource is a kind of thing that can be listed and read by id. Its paths and policies are
// named after it.
type resource struct {
	name string // "project"
	// lists and gets are the operations; without gets there is only a list.
	lists, gets sim.OperationName
	// filters are the query keys of the list, which are members of the body.
	filters []string
	// public is set if every caller may read it, not only administrators.
	public bool
	// own is the id that a caller may read who is no administrator; nil: none.
	own func(who session) string
	all func(c *simhttp.Call) []map[string]any
}

func (s *Server) resources() []resource {
	return []resource{
		{name: "project", lists: fault.ProjectList, gets: fault.ProjectGet, filters: []string{"name"}, all: s.projects, own: func(who session) string {
			if who.project == nil {
				return ""
			}
			return who.project.id
		}},
		{name: "user", lists: fault.UserList, gets: fault.UserGet, filters: []string{"name"}, all: s.users, own: func(who session) string { return who.user.id }},
		{name: "domain", lists: fault.DomainList, gets: fault.DomainGet, filters: []string{"name"}, all: domains},
		{name: "role", lists: fault.RoleList, filters: []string{"name"}, all: s.roles},
		{name: "service", lists: fault.IdentityServiceList, gets: fault.IdentityServiceGet, filters: []string{"name", "type"}, all: s.services},
		{name: "region", lists: fault.RegionList, gets: fault.RegionGet, all: s.regions, public: true},
	}
}

// list is GET /v3/projects and its like.
func (r resource) list(c *simhttp.Call, who session) error {
	if err := requireAdmin(who, "identity:list_"+r.name+"s"); err != nil && !r.public {
		return err
	}
	return listOf(c, r.name+"s", slices.DeleteFunc(r.all(c), func(item map[string]any) bool {
		return slices.ContainsFunc(r.filters, func(key string) bool { return !matchesFilter(c, key, item[key]) })
	}))
}

// get is GET /v3/projects/{id} and its like.
func (r resource) get(c *simhttp.Call, who session) error {
	id, all := c.PathValue("id"), r.all(c)
	i := slices.IndexFunc(all, func(item map[string]any) bool { return item["id"] == id })
	own := i >= 0 && r.own != nil && r.own(who) == id
	if err := requireAdmin(who, "identity:get_"+r.name); err != nil && !r.public && !own {
		return err
	}
	if i < 0 {
		return notFound(r.name, id)
	}
	return c.JSON(http.StatusOK, map[string]any{r.name: all[i]})
}

// listOf answers a list of bodies.
func listOf(c *simhttp.Call, name string, list []map[string]any) error {
	return c.JSON(http.StatusOK, map[string]any{name: list, "links": selfLink(c)})
}

// matchesFilter reports whether a value passes the filter of that query key.
func matchesFilter(c *simhttp.Call, key string, value any) bool {
	filter, filtered := c.URL.Query()[key]
	return !filtered || filter[0] == value
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
			"name": p.name, "domain_id": domainID, "parent_id": domainID, "description": "",
		}))
	}
	return list
}

// projectBody is a project or a domain, which Keystone stores as a project.
func projectBody(c *simhttp.Call, path, id string, members map[string]any) map[string]any {
	maps.Copy(members, map[string]any{"enabled": true, "is_domain": false, "tags": []string{}, "options": map[string]any{}})
	return body(c, path, id, members)
}

// authProjects is GET /v3/auth/projects: those the caller may scope to.
func (s *Server) authProjects(c *simhttp.Call, who session) error {
	return listOf(c, "projects", slices.DeleteFunc(s.projects(c), func(p map[string]any) bool {
		name, _ := p["name"].(string)
		return len(who.user.roles[name]) == 0
	}))
}

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
		"name": domainName, "domain_id": nil, "parent_id": nil, "description": "The default domain",
	})}
}

func (s *Server) roles(c *simhttp.Call) []map[string]any {
	list := []map[string]any{}
	for _, role := range s.roleBodies(slices.Sorted(maps.Keys(s.directory.roleIDs))) {
		list = append(list, body(c, "roles", role.ID, map[string]any{
			"name": role.Name, "domain_id": nil, "description": nil, "options": map[string]any{},
		}))
	}
	return list
}

func (s *Server) serviceID(e CatalogEntry) string { return stableID(s.cfg.Seed, "service", e.Type) }

func (s *Server) services(c *simhttp.Call) []map[string]any {
	list := []map[string]any{}
	for _, e := range s.cfg.Services {
		list = append(list, body(c, "services", s.serviceID(e), map[string]any{
			"name": e.Name, "type": e.Type, "enabled": true, "description": "",
		}))
	}
	return list
}

// regions has the one region.
func (s *Server) regions(c *simhttp.Call) []map[string]any {
	return []map[string]any{body(c, "regions", s.cfg.Region, map[string]any{"description": "", "parent_region_id": nil})}
}
