package keystone

import (
	"net/http"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// timeLayout is how Keystone writes times.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type ownedBody struct {
	named
	Domain named `json:"domain"`
}

type userBody struct {
	ownedBody
	PasswordExpiresAt *string `json:"password_expires_at"`
}

// tokenBody is the answer about a token. An unscoped token has neither project nor
// roles nor catalog.
func (s *Server) tokenBody(r *http.Request, t *token, withCatalog bool) map[string]any {
	body := map[string]any{
		"methods":    t.methods,
		"user":       userBody{ownedBody: ownedBody{named{t.user.id, t.user.name}, named{domainID, domainName}}},
		"audit_ids":  t.auditIDs,
		"issued_at":  formatTime(t.issued),
		"expires_at": formatTime(t.expires),
	}
	if t.project != nil {
		body["project"] = ownedBody{named{t.project.id, t.project.name}, named{domainID, domainName}}
		body["is_domain"] = false
	}
	if t.credential != nil {
		body["application_credential"] = map[string]any{
			"id": t.credential.id, "name": t.credential.name, "restricted": !t.credential.unrestricted,
		}
	}
	if t.system {
		body["system"] = map[string]bool{"all": true}
	}
	if t.roles != nil {
		body["roles"] = s.roleBodies(t.roles)
		if withCatalog {
			body["catalog"] = s.catalog(r)
		}
	}
	return body
}

func (s *Server) roleBodies(roles []string) []named {
	list := make([]named, 0, len(roles))
	for _, role := range roles {
		list = append(list, named{s.directory.roleIDs[role], role})
	}
	return list
}

// subject finds the token in X-Subject-Token and checks that the caller may touch it:
// its own, or any for the roles given.
func (s *Server) subject(w http.ResponseWriter, r *http.Request, who *token, policy string, roles ...string) (string, *token, bool) {
	text := r.Header.Get("X-Subject-Token")
	subject, ok := s.tokens.get(text, s.clock.Now())
	if !ok {
		writeError(w, r, http.StatusNotFound, "Could not find token.")
		return "", nil, false
	}
	allowed := who.user == subject.user ||
		slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(who.roles, role) })
	if !allowed {
		writeError(w, r, http.StatusForbidden, "You are not authorized to perform the requested action: "+policy+".")
	}
	return text, subject, allowed
}

// validateToken is GET and HEAD /v3/auth/tokens, which a real service's
// keystonemiddleware calls.
func (s *Server) validateToken(w http.ResponseWriter, r *http.Request, who *token) {
	text, subject, ok := s.subject(w, r, who, "identity:validate_token", roleAdmin, roleService)
	if !ok {
		return
	}
	_, nocatalog := r.URL.Query()["nocatalog"]
	w.Header().Set("X-Subject-Token", text)
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"token": s.tokenBody(r, subject, !nocatalog)})
}

// revokeToken is DELETE /v3/auth/tokens.
func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request, who *token) {
	text, subject, ok := s.subject(w, r, who, "identity:revoke_token", roleAdmin)
	if !ok {
		return
	}
	s.tokens.revoke(text)
	simhttp.Note(r.Context(), subject.change(sim.Deleted))
	simhttp.WriteEmpty(w, http.StatusNoContent)
}
