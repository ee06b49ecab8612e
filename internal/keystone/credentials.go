package keystone

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Secret string   `json:"secret"`
	User   *sentRef `json:"user"`
}

// credentialRefusal is the answer to an application credential that tries to manage others.
const credentialRefusal = "Using method 'application_credential' is not allowed for managing additional application credentials."

// byCredential proves a user by an application credential. The token is for its
// project and roles, and expires with it at the latest.
func (s *Server) byCredential(payload json.RawMessage) (*session, error) {
	found, err := s.sentCredential(payload)
	if err != nil {
		return nil, err
	}
	var sent credentialRef
	if err := decode(payload, &sent); err != nil {
		return nil, err
	}
	now, secret := s.Clock.Now(), digestOf(sent.Secret)
	if subtle.ConstantTimeCompare(secret[:], found.SecretSHA256[:]) != 1 || !found.Expires.IsZero() && !now.Before(found.Expires) {
		return nil, unauthorized()
	}
	u, p, err := s.directory.owned(found.User, found.Project)
	if err != nil {
		return nil, err
	}
	return &session{user: u, project: p, roles: found.Roles, credential: &found, rules: s.rulesOf(found), token: token{
		Methods: []string{methodCredential}, Expires: found.Expires, Credential: found.ID,
	}}, nil
}

// sentCredential looks up the application credential of a request. An unknown id and an unknown name of a user are 404, an
// unknown name of a credential is 401 (keystone/auth/core.py, _lookup_app_cred).
func (s *Server) sentCredential(payload json.RawMessage) (found credential, err error) {
	const target = "application credential"
	var sent credentialRef
	if err := decode(payload, &sent); err != nil {
		return found, err
	}
	switch {
	case sent.ID != "":
		ok := false
		s.state.db.View(func(tx *tables.Tx) { found, ok = s.state.credentialByID.Get(tx, sent.ID) })
		if !ok {
			return found, notFound("Application Credential", sent.ID)
		}
		return found, nil
	case sent.Name == "":
		return found, malformed("name or ID", target)
	case sent.User == nil || *sent.User == (sentRef{}):
		return found, malformed("user", target)
	}
	owner, err := s.sentOwner(*sent.User)
	if err != nil {
		return found, err
	}
	ok := false
	s.state.db.View(func(tx *tables.Tx) { found, ok = s.state.credentialByName.Get(tx, ownName(owner, sent.Name)) })
	if !ok {
		return found, unauthorized()
	}
	return found, nil
}

// sentOwner is the name of the user of an application credential.
func (s *Server) sentOwner(sent sentRef) (string, error) {
	if id := textOf(sent.ID); id != "" { // before a name, unlike elsewhere
		sent = sentRef{ID: &id}
	}
	named, err := sent.ref("user")
	switch {
	case err != nil:
		return "", err
	case named.Domain != nil && !named.Domain.exists():
		return "", unauthorized()
	}
	owner, ok := s.directory.findUser(named)
	switch {
	case ok:
		return owner.name, nil
	case named.Name == "":
		return "", unauthorized()
	}
	return "", notFound("user", named.Name)
}

// credentialBody is an application credential on the wire. The secret is added once, for
// its creator.
func (s *Server) credentialBody(c *simhttp.Call, owner string, row credential) map[string]any {
	project, _ := s.directory.findProject(inDomain(row.Project))
	shown := body(c, "application_credentials", row.ID, map[string]any{ // Keystone's link, which leads nowhere
		"name": row.Name, "description": row.Description, "project_id": project.id, "user_id": owner,
		"roles": s.wholeRoles(row.Roles), "unrestricted": row.Unrestricted, "expires_at": nil, "system": nil,
	})
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
	Description  *string          `json:"description"`
	Secret       string           `json:"secret"`
	ExpiresAt    string           `json:"expires_at"`
	Roles        []named          `json:"roles"`
	Unrestricted *bool            `json:"unrestricted"`
	AccessRules  []accessRuleBody `json:"access_rules"`
}

func newCredentialPaths() []string {
	const in = "application_credential."
	return []string{
		in + "name", in + "description", in + "secret", in + "expires_at", in + "roles[].id", in + "roles[].name", in + "unrestricted",
		in + "access_rules[].id", in + "access_rules[].service", in + "access_rules[].path", in + "access_rules[].method",
	}
}

// createCredential is POST on the application credentials of the caller. As in Keystone, the body is checked before the token.
func (s *Server) createCredential(c *simhttp.Call) error {
	sent, err := readCredential(c)
	if err != nil {
		return err
	}
	return s.authenticated(func(c *simhttp.Call, who session) error { return s.addCredential(c, who, sent) })(c)
}

func (s *Server) addCredential(c *simhttp.Call, who session, sent newCredential) error {
	if !who.is(c.PathValue("id")) || who.System {
		return forbidden("identity:create_application_credential")
	}
	made, err := s.newCredential(who, sent)
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
	shown := s.credentialBody(c, who.user.id, made)
	shown["secret"] = secret
	return c.JSON(http.StatusCreated, map[string]any{"application_credential": shown})
}

// readCredential reads the body of a creation. No body is an empty one.
func readCredential(c *simhttp.Call) (newCredential, error) {
	var body struct {
		Credential newCredential `json:"application_credential"`
	}
	data, err := simhttp.ReadBody(c.Request)
	if err != nil {
		return body.Credential, err
	}
	if len(data) == 0 {
		data = []byte("{}")
	}
	return body.Credential, decodeValid("application_credential", data, describeAttribute, &body)
}

// newCredential is the row of a creation: the roles are some of the caller's own.
func (s *Server) newCredential(who session, sent newCredential) (made credential, err error) {
	switch {
	case who.credential != nil && !who.credential.unrestricted():
		return made, forbidden(credentialRefusal)
	case who.project == nil:
		return made, simhttp.Refuse(http.StatusBadRequest, "A project-scoped token is required to create an application credential.")
	}
	made = credential{
		Name: sent.Name, Description: sent.Description, User: who.User, Project: who.Project,
		Roles: who.roles, Unrestricted: sent.Unrestricted,
	}
	if len(sent.Roles) > 0 {
		if made.Roles, err = s.chosenRoles(sent.Roles, who.roles); err != nil {
			return made, err
		}
	}
	made.Expires, err = readExpiry(sent.ExpiresAt, s.Clock.Now())
	return made, err
}

// chosenRoles finds the roles of a creation among the caller's own, and adds the roles that they imply.
func (s *Server) chosenRoles(refs []named, own []string) ([]string, error) {
	known := slices.Collect(maps.Keys(s.directory.roleIDs))
	for _, ref := range refs {
		isNamed := func(role string) bool { return s.directory.key.Equal(role, ref.Name) }
		if ref.ID == "" && !slices.ContainsFunc(known, isNamed) {
			return nil, simhttp.Refuse(http.StatusNotFound, "Role %s is not defined", ref.Name)
		}
	}
	var roles []string
	for _, ref := range refs {
		i := slices.IndexFunc(own, func(role string) bool {
			return s.directory.key.Equal(role, ref.Name) || ref.ID != "" && s.directory.key.Equal(s.directory.roleIDs[role], ref.ID)
		})
		if i < 0 {
			return nil, simhttp.Refuse(http.StatusBadRequest, "Invalid application credential: Cannot create an application credential with unassigned role")
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
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04:05.999999999"} {
		at, err := time.Parse(layout, strings.TrimSuffix(text, "Z"))
		switch {
		case err != nil || at.Year() > simhttp.LastYear:
		case at.Before(now):
			return at, simhttp.Refuse(http.StatusBadRequest, "The 'expires_at' must not be before now. %s", malformedText)
		default:
			return at, nil
		}
	}
	return time.Time{}, simhttp.Refuse(http.StatusBadRequest, "Timestamp not in expected format. %s", malformedText)
}

var credentialFilters = filters{"name"}

func (s *Server) listCredentials(c *simhttp.Call, who session) error {
	id := c.PathValue("id")
	if !who.is(id) && !who.readsAll() {
		return forbidden("identity:list_application_credentials")
	}
	list := []map[string]any{}
	if owner, ok := s.directory.findUser(ref{ID: id}); ok {
		for _, row := range s.credentialsOf(owner) {
			list = append(list, s.credentialBody(c, id, row))
		}
	}
	return listOf(c, "application_credentials", credentialFilters.apply(c, s.directory.key, list))
}

func (s *Server) credentialsOf(owner *user) (rows []credential) {
	s.state.db.View(func(tx *tables.Tx) {
		for row := range s.state.credentials.All(tx) {
			if row.User == owner.name {
				rows = append(rows, row)
			}
		}
	})
	return rows
}

// credentialOf finds the credential of the path, and its owner for the policy, even if the path
// names another user. If it does not exist, the owner is the user of the path.
func (s *Server) credentialOf(tx *tables.Tx, c *simhttp.Call) (found credential, owner string, ok bool) {
	found, ok = s.state.credentialByID.Get(tx, c.PathValue("credential"))
	if !ok {
		return found, c.PathValue("id"), false
	}
	u, ok := s.directory.findUser(inDomain(found.User)) // known, as check says
	if !ok {
		return found, "", false
	}
	return found, u.id, true
}

func (s *Server) getCredential(c *simhttp.Call, who session) error {
	var found credential
	var owner string
	var ok bool
	s.state.db.View(func(tx *tables.Tx) { found, owner, ok = s.credentialOf(tx, c) })
	switch {
	case !who.is(owner) && !who.readsAll():
		return forbidden("identity:get_application_credential")
	case !ok:
		return notFound("Application Credential", c.PathValue("credential"))
	}
	return c.JSON(http.StatusOK, map[string]any{"application_credential": s.credentialBody(c, owner, found)})
}

// deleteCredential deletes an application credential and the tokens that it gave.
func (s *Server) deleteCredential(c *simhttp.Call, who session) (err error) {
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		found, owner, ok := s.credentialOf(tx, c)
		switch {
		case !who.is(owner) && !who.has(roleAdmin):
			err = forbidden("identity:delete_application_credential")
		case who.credential != nil && !who.credential.unrestricted():
			err = forbidden(credentialRefusal)
		case !ok:
			err = notFound("Application Credential", c.PathValue("credential"))
		}
		if err != nil {
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
