package keystone

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

type projectBody struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	DomainID    *string           `json:"domain_id"`
	ParentID    *string           `json:"parent_id"`
	Description string            `json:"description"`
	Enabled     bool              `json:"enabled"`
	IsDomain    bool              `json:"is_domain"`
	Tags        []string          `json:"tags"`
	Options     struct{}          `json:"options"` // none are set
	Links       map[string]string `json:"links"`
}

type accountBody struct {
	ID                string            `json:"id"`
	Name              string            `json:"name"`
	DomainID          string            `json:"domain_id"`
	Enabled           bool              `json:"enabled"`
	PasswordExpiresAt *string           `json:"password_expires_at"`
	Options           struct{}          `json:"options"`
	Links             map[string]string `json:"links"`
}

func (s *Server) projectBody(c *simhttp.Call, p project) projectBody {
	domain := domainID
	return projectBody{
		ID: p.id, Name: p.name, DomainID: &domain, ParentID: &domain, Enabled: true, Tags: []string{},
		Links: map[string]string{"self": c.BaseURL() + "/identity/v3/projects/" + p.id},
	}
}

func userAccount(c *simhttp.Call, u user) accountBody {
	return accountBody{
		ID: u.id, Name: u.name, DomainID: domainID, Enabled: true,
		Links: map[string]string{"self": c.BaseURL() + "/identity/v3/users/" + u.id},
	}
}

func domainBody(c *simhttp.Call) projectBody {
	return projectBody{
		ID: domainID, Name: domainName, Description: "The default domain", Enabled: true, Tags: []string{},
		Links: map[string]string{"self": c.BaseURL() + "/identity/v3/domains/" + domainID},
	}
}

// matchesFilter reports whether a value passes the filter of that query key.
func matchesFilter(c *simhttp.Call, key, value string) bool {
	filter, filtered := c.URL.Query()[key]
	return !filtered || filter[0] == value
}

// authProjects is GET /v3/auth/projects: those the caller may scope to.
func (s *Server) authProjects(c *simhttp.Call, who session) error {
	list := []projectBody{}
	for _, p := range s.directory.projects {
		if len(who.user.roles[p.name]) > 0 {
			list = append(list, s.projectBody(c, p))
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"projects": list, "links": selfLink(c)})
}

func (s *Server) listProjects(c *simhttp.Call, _ session) error {
	list := []projectBody{}
	for _, p := range s.directory.projects {
		if matchesFilter(c, "name", p.name) {
			list = append(list, s.projectBody(c, p))
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"projects": list, "links": selfLink(c)})
}

func (s *Server) getProject(c *simhttp.Call, who session) error {
	found, ok := s.directory.findProject(projectRef{ID: c.PathValue("id")})
	if err := requireAdmin(who, "identity:get_project"); err != nil && (!ok || who.project != found) {
		return err
	}
	if !ok {
		return notFound("project", c.PathValue("id"))
	}
	return c.JSON(http.StatusOK, map[string]any{"project": s.projectBody(c, *found)})
}

func (s *Server) listUsers(c *simhttp.Call, _ session) error {
	list := []accountBody{}
	for _, u := range s.directory.users {
		if matchesFilter(c, "name", u.name) {
			list = append(list, userAccount(c, u))
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"users": list, "links": selfLink(c)})
}

func (s *Server) getUser(c *simhttp.Call, who session) error {
	found, ok := s.directory.findUser(userRef{ID: c.PathValue("id")})
	if err := requireAdmin(who, "identity:get_user"); err != nil && (!ok || who.user != found) {
		return err
	}
	if !ok {
		return notFound("user", c.PathValue("id"))
	}
	return c.JSON(http.StatusOK, map[string]any{"user": userAccount(c, *found)})
}

func (s *Server) listDomains(c *simhttp.Call, _ session) error {
	list := []projectBody{}
	if matchesFilter(c, "name", domainName) {
		list = append(list, domainBody(c))
	}
	return c.JSON(http.StatusOK, map[string]any{"domains": list, "links": selfLink(c)})
}

func (s *Server) getDomain(c *simhttp.Call, _ session) error {
	if c.PathValue("id") != domainID {
		return notFound("domain", c.PathValue("id"))
	}
	return c.JSON(http.StatusOK, map[string]any{"domain": domainBody(c)})
}
