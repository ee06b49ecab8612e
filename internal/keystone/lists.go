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
	Options     map[string]any    `json:"options"`
	Links       map[string]string `json:"links"`
}

type accountBody struct {
	ID                string            `json:"id"`
	Name              string            `json:"name"`
	DomainID          string            `json:"domain_id"`
	Enabled           bool              `json:"enabled"`
	PasswordExpiresAt *string           `json:"password_expires_at"`
	Options           map[string]any    `json:"options"`
	Links             map[string]string `json:"links"`
}

func (s *Server) projectBody(r *http.Request, p project) projectBody {
	domain := domainID
	return projectBody{
		ID: p.id, Name: p.name, DomainID: &domain, ParentID: &domain, Enabled: true, Tags: []string{},
		Options: map[string]any{}, Links: map[string]string{"self": baseURL(r) + "/identity/v3/projects/" + p.id},
	}
}

func userAccount(r *http.Request, u user) accountBody {
	return accountBody{
		ID: u.id, Name: u.name, DomainID: domainID, Enabled: true,
		Options: map[string]any{}, Links: map[string]string{"self": baseURL(r) + "/identity/v3/users/" + u.id},
	}
}

func domainBody(r *http.Request) projectBody {
	return projectBody{
		ID: domainID, Name: domainName, Description: "The default domain", Enabled: true, Tags: []string{},
		Options: map[string]any{}, Links: map[string]string{"self": baseURL(r) + "/identity/v3/domains/" + domainID},
	}
}

// matchesFilter reports whether a value passes the filter of that query key.
func matchesFilter(r *http.Request, key, value string) bool {
	filter, filtered := r.URL.Query()[key]
	return !filtered || filter[0] == value
}

// authProjects is GET /v3/auth/projects: those the caller may scope to.
func (s *Server) authProjects(w http.ResponseWriter, r *http.Request, who *token) {
	list := []projectBody{}
	for _, p := range s.directory.projects {
		if len(who.user.roles[p.name]) > 0 {
			list = append(list, s.projectBody(r, p))
		}
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"projects": list, "links": selfLink(r)})
}

func (s *Server) listProjects(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:list_projects") {
		return
	}
	list := []projectBody{}
	for _, p := range s.directory.projects {
		if matchesFilter(r, "name", p.name) {
			list = append(list, s.projectBody(r, p))
		}
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"projects": list, "links": selfLink(r)})
}

func (s *Server) getProject(w http.ResponseWriter, r *http.Request, who *token) {
	found, ok := s.directory.findProject(projectRef{ID: r.PathValue("id")})
	if ok && who.project == found || requireAdmin(w, r, who, "identity:get_project") {
		if !ok {
			writeError(w, r, http.StatusNotFound, "Could not find project: "+r.PathValue("id")+".")
			return
		}
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"project": s.projectBody(r, *found)})
	}
}

func (s *Server) listUsers(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:list_users") {
		return
	}
	list := []accountBody{}
	for _, u := range s.directory.users {
		if matchesFilter(r, "name", u.name) {
			list = append(list, userAccount(r, u))
		}
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"users": list, "links": selfLink(r)})
}

func (s *Server) getUser(w http.ResponseWriter, r *http.Request, who *token) {
	found, ok := s.directory.findUser(userRef{ID: r.PathValue("id")})
	if ok && who.user == found || requireAdmin(w, r, who, "identity:get_user") {
		if !ok {
			writeError(w, r, http.StatusNotFound, "Could not find user: "+r.PathValue("id")+".")
			return
		}
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"user": userAccount(r, *found)})
	}
}

func (s *Server) listDomains(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:list_domains") {
		return
	}
	list := []projectBody{}
	if matchesFilter(r, "name", domainName) {
		list = append(list, domainBody(r))
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"domains": list, "links": selfLink(r)})
}

func (s *Server) getDomain(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:get_domain") {
		return
	}
	if r.PathValue("id") != domainID {
		writeError(w, r, http.StatusNotFound, "Could not find domain: "+r.PathValue("id")+".")
		return
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"domain": domainBody(r)})
}
