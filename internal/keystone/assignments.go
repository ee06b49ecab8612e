package keystone

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// assignment is a role that a user has on a project, or on the system if project is nil.
type assignment struct {
	user    *user
	project *project
	role    string
	prior   string // the role that implies it; empty for one that was granted
}

// assignments lists all roles of users, with implied roles if effective.
func (s *Server) assignments(effective bool) (list []assignment) {
	add := func(u *user, p *project, granted, all []string) {
		for _, role := range granted {
			list = append(list, assignment{u, p, role, ""})
		}
		for _, role := range all {
			if prior := implying(role, all); effective && !slices.Contains(granted, role) {
				list = append(list, assignment{u, p, role, prior})
			}
		}
	}
	for i := range s.directory.users {
		u := &s.directory.users[i]
		for _, name := range slices.Sorted(maps.Keys(u.roles)) {
			p, _ := s.directory.findProject(inDomain(name))
			add(u, p, u.granted[name], u.roles[name])
		}
		add(u, nil, u.systemGranted, u.systemRoles)
	}
	return list
}

// roleAssignmentKeys are the keys of a query of role assignments.
var roleAssignmentKeys = []string{
	"user.id", "group.id", "role.id", "scope.project.id", "scope.domain.id", "scope.system", "scope.OS-INHERIT:inherited_to", "effective", "include_names",
}

// exclusive are the pairs of keys that exclude each other in a query, with Keystone's words for them.
var exclusive = []struct{ one, other, words string }{
	{"scope.domain.id", "scope.project.id", "Specify a domain or project, not both"},
	{"scope.domain.id", "scope.system", "Specify system or domain, not both"},
	{"scope.project.id", "scope.system", "Specify system or project, not both"},
	{"user.id", "group.id", "Specify a user or group, not both"},
	{"effective", "group.id", "Combining effective and group filter will always result in an empty list."},
}

// asked reports whether an assignment matches a query. There are no assignments of groups, on
// domains, or inherited.
func (s *Server) asked(a assignment, query url.Values) bool {
	onProject := ""
	if a.project != nil {
		onProject = a.project.id
	}
	for key, have := range map[string]string{
		"user.id": a.user.id, "role.id": s.directory.roleIDs[a.role], "scope.project.id": onProject,
		"group.id": "", "scope.domain.id": "", "scope.OS-INHERIT:inherited_to": "",
	} {
		if want := query.Get(key); want != "" && want != have {
			return false
		}
	}
	return query.Get("scope.system") != "all" || a.project == nil
}

// listAssignments is GET /v3/role_assignments.
func (s *Server) listAssignments(c *simhttp.Call, who session) error {
	if err := requireReader(who, "identity:list_role_assignments"); err != nil {
		return err
	}
	query := c.URL.Query()
	isSet := func(key string) bool { return query.Has(key) && !isFalse(query.Get(key)) }
	for _, pair := range exclusive {
		if query.Get(pair.other) != "" && (query.Get(pair.one) != "" || pair.one == "effective" && isSet(pair.one)) {
			return simhttp.Refuse(http.StatusBadRequest, "%s", pair.words)
		}
	}
	list := []map[string]any{}
	for _, a := range s.assignments(isSet("effective")) {
		if s.asked(a, query) {
			list = append(list, s.assignmentBody(c, a, isSet("include_names")))
		}
	}
	return listOf(c, "role_assignments", list)
}

// assignmentBody is a role assignment on the wire. Its link is the link of the grant.
func (s *Server) assignmentBody(c *simhttp.Call, a assignment, names bool) map[string]any {
	entity := func(id, name string, inDomain bool) map[string]any {
		e := map[string]any{"id": id}
		if names {
			e["name"] = name
			if inDomain {
				e["domain"] = named{domainID, domainName}
			}
		}
		return e
	}
	root := c.BaseURL() + "/identity/v3/"
	shown := map[string]any{"user": entity(a.user.id, a.user.name, true), "role": entity(s.directory.roleIDs[a.role], a.role, false)}
	on := "system"
	if a.project == nil {
		shown["scope"] = map[string]any{"system": map[string]bool{"all": true}}
	} else {
		on = "projects/" + a.project.id
		shown["scope"] = map[string]any{"project": entity(a.project.id, a.project.name, true)}
	}
	granted := a.role
	links := map[string]string{}
	if a.prior != "" {
		granted = a.prior
		// The ids are in Keystone's order.
		links["prior_role"] = root + strings.Join([]string{"prior_role", s.directory.roleIDs[a.role], "implies", s.directory.roleIDs[a.prior]}, "/")
	}
	links["assignment"] = root + strings.Join([]string{on, "users", a.user.id, "roles", s.directory.roleIDs[granted]}, "/")
	shown["links"] = links
	return shown
}
