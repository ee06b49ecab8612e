package keystone

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
)

const (
	credentialsPath = "/v3/users/{id}/application_credentials"
	credentialPath  = credentialsPath + "/{credential}"
)

// credentialTimeLayout is how Keystone writes when an application credential expires, unlike all its other times.
const credentialTimeLayout = "2006-01-02T15:04:05.000000"

// credentialRef names an application credential in an authentication request.
type credentialRef struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Secret string `json:"secret"`
	User   *ref   `json:"user"`
}

// credentialRefusal is the answer to an application credential that tries to manage others.
const credentialRefusal = "Using method 'application_credential' is not allowed for managing additional application credentials."

// byCredential proves a user by an application credential. The token is for its
// project and roles, and expires with it at the latest.
func (s *Server) byCredential(id *identityRef) (*session, error) {
	sent := id.ApplicationCredential
	switch {
	case sent == nil:
		return nil, malformed("application_credential", "identity")
	case sent.ID == "" && sent.Name == "":
		return nil, malformed("id or name", "application_credential")
	case sent.ID == "" && sent.User == nil:
		return nil, malformed("user", "application_credential")
	case sent.Secret == "":
		return nil, malformed("secret", "application_credential")
	}
	found, ok := s.findCredential(*sent)
	now, secret := s.Clock.Now(), digestOf(sent.Secret)
	if !ok || subtle.ConstantTimeCompare(secret[:], found.SecretSHA256[:]) != 1 ||
		!found.Expires.IsZero() && !now.Before(found.Expires) {
		return nil, unauthorized()
	}
	u, p, err := s.directory.owned(found.User, found.Project)
	if err != nil {
		return nil, err
	}
	return &session{user: u, project: p, roles: found.Roles, credential: &found, rules: s.rulesOf(found), token: token{
		Methods: []string{"application_credential"}, Expires: found.Expires, Credential: found.ID,
	}}, nil
}

func (s *Server) findCredential(sent credentialRef) (found credential, ok bool) {
	s.state.db.View(func(tx *tables.Tx) {
		if sent.ID != "" {
			found, ok = s.state.credentialByID.Get(tx, sent.ID)
		} else if owner, known := s.directory.findUser(*sent.User); known {
			found, ok = s.state.credentialByName.Get(tx, ownName(owner.name, sent.Name))
		}
	})
	return found, ok
}

// owner finds the user of the path, who must be the caller or be read by an
// administrator.
func (s *Server) owner(c *simhttp.Call, who session, policy string, admins bool) (*user, error) {
	found, ok := s.directory.findUser(ref{ID: c.PathValue("id")})
	if ok && (who.user == found || admins && slices.Contains(who.roles, roleAdmin)) {
		return found, nil
	}
	return nil, forbidden(policy)
}

// credentialBody is an application credential on the wire. The secret is added once, for
// its creator.
func (s *Server) credentialBody(c *simhttp.Call, owner *user, row credential) map[string]any {
	project, _ := s.directory.findProject(inDomain(row.Project))
	shown := body(c, "application_credentials", row.ID, map[string]any{ // Keystone's link, which leads nowhere
		"name": row.Name, "description": nil, "project_id": project.id, "user_id": owner.id,
		"roles": s.roleBodies(row.Roles), "unrestricted": row.Unrestricted, "expires_at": nil, "system": nil,
	})
	if row.Description != "" {
		shown["description"] = row.Description
	}
	if !row.Expires.IsZero() {
		shown["expires_at"] = row.Expires.UTC().Format(credentialTimeLayout)
	}
	if rules := s.rulesOf(row); len(rules) > 0 {
		shown["access_rules"] = rules
	}
	return shown
}

// newCredential is the body of a creation.
type newCredential struct {
	Name         string           `json:"name"`
	Description  string           `json:"description"`
	Secret       string           `json:"secret"`
	ExpiresAt    string           `json:"expires_at"`
	Roles        []named          `json:"roles"`
	Unrestricted bool             `json:"unrestricted"`
	AccessRules  []accessRuleBody `json:"access_rules"`
}

func newCredentialPaths() []string {
	const in = "application_credential."
	return []string{
		in + "name", in + "description", in + "secret", in + "expires_at", in + "roles[].id", in + "roles[].name", in + "unrestricted",
		in + "access_rules[].id", in + "access_rules[].service", in + "access_rules[].path", in + "access_rules[].method",
	}
}

func (s *Server) createCredential(c *simhttp.Call, who session) error {
	owner, err := s.owner(c, who, "identity:create_application_credential", false)
	if err != nil {
		return err
	}
	made, sent, err := s.readCredential(c, who)
	if err != nil {
		return err
	}
	secret := sent.Secret
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		if _, exists := s.state.credentialByName.Get(tx, ownName(made.User, made.Name)); exists {
			err = simhttp.Refuse(http.StatusConflict, "Conflict occurred attempting to store application_credential - Duplicate entry found with name %s.", made.Name)
			return
		}
		if made.AccessRules, err = s.putRules(tx, made.User, sent.AccessRules); err != nil {
			tx.Rollback()
			return
		}
		made.Number = s.state.credentialNumbers.Next(tx)
		made.ID = stableID(s.cfg.Seed, "application_credential", fmt.Sprint(made.Number))
		if secret == "" {
			secret = stableID(s.cfg.Seed, "application_credential secret", fmt.Sprint(made.Number))
		}
		made.SecretSHA256 = digestOf(secret)
		s.state.credentials.Put(tx, made)
	})
	if err != nil {
		return err
	}
	shown := s.credentialBody(c, owner, made)
	shown["secret"] = secret
	return c.JSON(http.StatusCreated, map[string]any{"application_credential": shown})
}

// readCredential checks a creation: the roles are some of the caller's own.
func (s *Server) readCredential(c *simhttp.Call, who session) (made credential, sent newCredential, err error) {
	var body struct {
		ApplicationCredential json.RawMessage `json:"application_credential"`
	}
	err = readBody(c, &body)
	switch {
	case err != nil && simhttp.AsError(err).Status == http.StatusBadRequest:
		return made, sent, simhttp.Refuse(http.StatusBadRequest, "Malformed JSON in request body.")
	case err != nil:
		return made, sent, err
	case body.ApplicationCredential == nil:
		return made, sent, malformed("application_credential", "request body")
	}
	if err = decodeValid("application_credential", body.ApplicationCredential, &sent); err != nil {
		return made, sent, err
	}
	switch {
	case who.project == nil:
		return made, sent, simhttp.Refuse(http.StatusBadRequest, "A project-scoped token is required to create an application credential.")
	case who.credential != nil && !who.credential.Unrestricted:
		return made, sent, simhttp.Refuse(http.StatusForbidden, credentialRefusal)
	}
	made = credential{
		Name: sent.Name, Description: sent.Description, User: who.User, Project: who.Project,
		Roles: who.roles, Unrestricted: sent.Unrestricted,
	}
	if len(sent.Roles) > 0 {
		if made.Roles, err = s.chosenRoles(sent.Roles, who.roles); err != nil {
			return made, sent, err
		}
	}
	made.Expires, err = readExpiry(sent.ExpiresAt, s.Clock.Now())
	return made, sent, err
}

func (s *Server) chosenRoles(refs []named, own []string) ([]string, error) {
	var roles []string
	for _, ref := range refs {
		i := slices.IndexFunc(own, func(role string) bool {
			return s.directory.key.Equal(role, ref.Name) || ref.ID != "" && s.directory.key.Equal(s.directory.roleIDs[role], ref.ID)
		})
		if i < 0 {
			return nil, simhttp.Refuse(http.StatusBadRequest, "Invalid application credential: Could not find role assignment with role: %s%s.", ref.Name, ref.ID)
		}
		roles = append(roles, own[i])
	}
	return withImplied(roles), nil
}

// readExpiry reads a time in the future, or the zero one for an empty text.
func readExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil && now.Before(at) && at.UTC().Year() <= simhttp.LastYear {
			return at.UTC(), nil
		}
	}
	return time.Time{}, simhttp.Refuse(http.StatusBadRequest, "Invalid input for field 'expires_at': it is no time in the future.")
}

var credentialFilters = filters{"name"}

func (s *Server) listCredentials(c *simhttp.Call, who session) error {
	owner, err := s.owner(c, who, "identity:list_application_credentials", true)
	if err != nil {
		return err
	}
	var rows []credential
	s.state.db.View(func(tx *tables.Tx) {
		for row := range s.state.credentials.All(tx) {
			if row.User == owner.name {
				rows = append(rows, row)
			}
		}
	})
	list := []map[string]any{}
	for _, row := range rows {
		list = append(list, s.credentialBody(c, owner, row))
	}
	return listOf(c, "application_credentials", credentialFilters.apply(c, s.directory.key, list))
}

// credentialOf finds the credential of the path among those of its user.
func (s *Server) credentialOf(tx *tables.Tx, c *simhttp.Call, owner *user) (credential, error) {
	id := c.PathValue("credential")
	found, ok := s.state.credentialByID.Get(tx, id)
	if !ok || found.User != owner.name {
		return found, notFound("Application Credential", id)
	}
	return found, nil
}

func (s *Server) getCredential(c *simhttp.Call, who session) error {
	owner, err := s.owner(c, who, "identity:get_application_credential", true)
	if err != nil {
		return err
	}
	var found credential
	s.state.db.View(func(tx *tables.Tx) { found, err = s.credentialOf(tx, c, owner) })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"application_credential": s.credentialBody(c, owner, found)})
}

// deleteCredential deletes an application credential and the tokens that it gave.
func (s *Server) deleteCredential(c *simhttp.Call, who session) error {
	owner, err := s.owner(c, who, "identity:delete_application_credential", true)
	if err != nil {
		return err
	}
	if who.credential != nil && !who.credential.Unrestricted {
		return simhttp.Refuse(http.StatusForbidden, credentialRefusal)
	}
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		var found credential
		if found, err = s.credentialOf(tx, c, owner); err != nil {
			return
		}
		s.state.credentials.Delete(tx, found.Number)
		for t := range s.state.byCredential.All(tx, found.ID) {
			s.state.tokens.Delete(tx, t.SHA256.key())
		}
	})
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}
