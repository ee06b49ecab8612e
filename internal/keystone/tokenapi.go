package keystone

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// timeLayout is how Keystone writes times.
const timeLayout = "2006-01-02T15:04:05.000000Z"

const tokensPath = "/v3/auth/tokens"

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
func (s *Server) tokenBody(c *simhttp.Call, t session) map[string]any {
	body := map[string]any{
		"methods":    t.Methods,
		"user":       userBody{ownedBody: ownedBody{named{t.user.id, t.user.name}, named{domainID, domainName}}},
		"audit_ids":  t.AuditIDs,
		"issued_at":  formatTime(t.Issued),
		"expires_at": formatTime(t.Expires),
	}
	if t.project != nil {
		body["project"] = ownedBody{named{t.project.id, t.project.name}, named{domainID, domainName}}
		body["is_domain"] = false
	}
	if t.credential != nil {
		credential := map[string]any{"id": t.credential.ID, "name": t.credential.Name, "restricted": !t.credential.unrestricted()}
		if len(t.rules) > 0 {
			credential["access_rules"] = t.rules
		}
		body["application_credential"] = credential
	}
	if t.System {
		body["system"] = map[string]bool{"all": true}
	}
	if t.roles != nil {
		body["roles"] = s.roleBodies(t.roles)
		if !c.URL.Query().Has("nocatalog") {
			body["catalog"] = s.catalog(c)
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

// subject finds the token in X-Subject-Token, which must be the caller's own unless the caller is
// privileged. As in Keystone, a token in the header is validated before the policy is checked; a
// missing header is reported afterwards.
func (s *Server) subject(c *simhttp.Call, who session, action string, privileged bool) (session, error) {
	var subject session
	text, sent := c.Header.Get("X-Subject-Token"), len(c.Header.Values("X-Subject-Token")) > 0
	if sent {
		var ok bool
		if subject, ok = s.lookup(text); !ok {
			return session{}, tokenNotFound(text)
		}
		if len(subject.rules) > 0 && !enforcesAccessRules(c) {
			return session{}, simhttp.Refuse(http.StatusNotFound, "Failed to validate token")
		}
	}
	switch isOwn := sent && who.user == subject.user; {
	case !isOwn && !privileged:
		return session{}, forbidden(action)
	case !sent:
		return session{}, tokenNotFound("")
	}
	return subject, nil
}

// headerAccessRules holds the version of access rules that a caller enforces.
const headerAccessRules = "OpenStack-Identity-Access-Rules"

// enforcesAccessRules reports whether the caller enforces the access rules of the tokens that it validates.
func enforcesAccessRules(c *simhttp.Call) bool {
	const firstVersion = 1.0
	version, err := strconv.ParseFloat(c.Header.Get(headerAccessRules), 64)
	return err == nil && version >= firstVersion
}

// validateToken is GET and HEAD /v3/auth/tokens, which a real service's keystonemiddleware calls. A token with access rules
// is valid only for a caller that enforces them. HEAD has its own policy, without the role service.
func (s *Server) validateToken(c *simhttp.Call, who session) error {
	action, privileged := "identity:check_token", who.readsAll()
	if c.Method == http.MethodGet {
		action, privileged = "identity:validate_token", privileged || who.has(roleService)
	}
	subject, err := s.subject(c, who, action, privileged)
	if err != nil {
		return err
	}
	c.W.Header().Set("X-Subject-Token", c.Header.Get("X-Subject-Token"))
	return c.JSON(http.StatusOK, map[string]any{"token": s.tokenBody(c, subject)})
}

// Revoke ends the validity of a token.
func (s *Server) Revoke(text string) {
	s.state.db.Update(nil, func(tx *tables.Tx) { s.state.tokens.Delete(tx, digestOf(text).key()) })
}

// revokeToken is DELETE /v3/auth/tokens.
func (s *Server) revokeToken(c *simhttp.Call, who session) error {
	subject, err := s.subject(c, who, "identity:revoke_token", who.has(roleAdmin))
	if err != nil {
		return err
	}
	s.state.db.Update(c.Log(), func(tx *tables.Tx) { s.state.tokens.Delete(tx, subject.SHA256.key()) })
	return c.Empty(http.StatusNoContent)
}
