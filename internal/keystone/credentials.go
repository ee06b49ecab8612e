package keystone

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

const credentialsPath = "/v3/users/{id}/application_credentials"

// credential is an application credential: some roles of a user on one project.
// It never changes but for its end.
type credential struct {
	id, name, description string
	secret                digest
	user                  *user
	project               *project
	roles                 []string
	unrestricted          bool
	expires               time.Time // zero: never
	gone                  atomic.Bool
}

// credentialStore holds the application credentials.
type credentialStore struct {
	seed uint64
	mu   sync.RWMutex
	made uint64
	list []*credential
}

// credentialRef names an application credential in an authentication request.
type credentialRef struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Secret string   `json:"secret"`
	User   *userRef `json:"user"`
}

// add stores a credential unless its user has one of that name. It returns the secret,
// which is chosen if none is given.
func (s *credentialStore) add(c *credential, secret string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.list {
		if other.user == c.user && other.name == c.name {
			return "", false
		}
	}
	s.made++
	c.id = stableID(s.seed, "application_credential", fmt.Sprint(s.made))
	if secret == "" {
		secret = stableID(s.seed, "application_credential secret", fmt.Sprint(s.made))
	}
	c.secret = digestOf(secret)
	s.list = append(s.list, c)
	return secret, true
}

// find looks by a test.
func (s *credentialStore) find(fits func(*credential) bool) *credential {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i := slices.IndexFunc(s.list, fits); i >= 0 {
		return s.list[i]
	}
	return nil
}

func (s *credentialStore) of(u *user) []*credential {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(s.list), func(c *credential) bool { return c.user != u })
}

// remove ends a credential and with it the tokens that it gave.
func (s *credentialStore) remove(c *credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.gone.Store(true)
	s.list = slices.DeleteFunc(s.list, func(other *credential) bool { return other == c })
}

// byCredential proves a user by an application credential. The token is for its
// project and roles, and ends with it at the latest.
func (s *Server) byCredential(id *identityRef) (*token, *requestError) {
	ref := id.ApplicationCredential
	switch {
	case ref == nil:
		return nil, malformed("application_credential", "identity")
	case ref.ID == "" && ref.Name == "":
		return nil, malformed("id or name", "application_credential")
	case ref.ID == "" && ref.User == nil:
		return nil, malformed("user", "application_credential")
	case ref.Secret == "":
		return nil, malformed("secret", "application_credential")
	}
	found := s.grants.find(func(c *credential) bool {
		if ref.ID != "" {
			return c.id == ref.ID
		}
		owner, ok := s.directory.findUser(*ref.User)
		return ok && c.user == owner && c.name == ref.Name
	})
	now, secret := s.clock.Now(), digestOf(ref.Secret)
	if found == nil || subtle.ConstantTimeCompare(secret[:], found.secret[:]) != 1 ||
		!found.expires.IsZero() && !now.Before(found.expires) {
		return nil, unauthorized()
	}
	return &token{
		user: found.user, project: found.project, roles: found.roles, credential: found,
		methods: []string{"application_credential"}, expires: found.expires,
	}, nil
}

// owner finds the user of the path, who must be the caller or be read by an
// administrator.
func (s *Server) owner(w http.ResponseWriter, r *http.Request, who *token, policy string, admins bool) (*user, bool) {
	found, ok := s.directory.findUser(userRef{ID: r.PathValue("id")})
	if ok && who.user == found || admins && ok && slices.Contains(who.roles, roleAdmin) {
		return found, true
	}
	writeError(w, r, http.StatusForbidden, "You are not authorized to perform the requested action: "+policy+".")
	return nil, false
}

// credentialBody is an application credential on the wire. The secret is added once, for
// its creator.
func (s *Server) credentialBody(r *http.Request, c *credential) map[string]any {
	body := map[string]any{
		"id": c.id, "name": c.name, "description": nil, "project_id": c.project.id, "user_id": c.user.id,
		"roles": s.roleBodies(c.roles), "unrestricted": c.unrestricted, "expires_at": nil, "system": nil,
		"links": map[string]string{"self": baseURL(r) + "/identity/v3/users/" + c.user.id + "/application_credentials/" + c.id},
	}
	if c.description != "" {
		body["description"] = c.description
	}
	if !c.expires.IsZero() {
		body["expires_at"] = formatTime(c.expires)
	}
	return body
}

// newCredential is the body of a creation.
type newCredential struct {
	Name         string  `json:"name"`
	Description  string  `json:"description"`
	Secret       string  `json:"secret"`
	ExpiresAt    string  `json:"expires_at"`
	Roles        []named `json:"roles"`
	Unrestricted bool    `json:"unrestricted"`
}

func (s *Server) createCredential(w http.ResponseWriter, r *http.Request, who *token) {
	if _, ok := s.owner(w, r, who, "identity:create_application_credential", false); !ok {
		return
	}
	made, secret, err := s.readCredential(r, who)
	if err != nil {
		writeError(w, r, err.status, err.message)
		return
	}
	secret, added := s.grants.add(made, secret)
	if !added {
		writeError(w, r, http.StatusConflict, "Conflict occurred attempting to store application_credential - Duplicate entry found with name "+made.name+".")
		return
	}
	simhttp.Note(r.Context(), made.change(sim.Created))
	body := s.credentialBody(r, made)
	body["secret"] = secret
	simhttp.WriteJSON(w, http.StatusCreated, map[string]any{"application_credential": body})
}

// readCredential checks a creation: the roles are some of the caller's own. The secret is
// the one that is wished for, if one is.
func (s *Server) readCredential(r *http.Request, who *token) (made *credential, secret string, err *requestError) {
	in, err := readNewCredential(r)
	switch {
	case err != nil:
		return nil, "", err
	case in.Name == "":
		return nil, "", malformed("name", "application_credential")
	case who.project == nil:
		return nil, "", &requestError{http.StatusBadRequest, "A project-scoped token is required to create an application credential."}
	case who.credential != nil && !who.credential.unrestricted:
		return nil, "", &requestError{http.StatusForbidden, "Using method 'application_credential' is not allowed for managing additional application credentials."}
	}
	made = &credential{
		name: in.Name, description: in.Description, user: who.user, project: who.project,
		roles: who.roles, unrestricted: in.Unrestricted,
	}
	if len(in.Roles) > 0 {
		if made.roles, err = s.chosenRoles(in.Roles, who.roles); err != nil {
			return nil, "", err
		}
	}
	return made, in.Secret, made.expireAt(in.ExpiresAt, s.clock.Now())
}

// readNewCredential reads the body of a creation.
func readNewCredential(r *http.Request) (*newCredential, *requestError) {
	data, err := simhttp.ReadBody(r)
	if errors.Is(err, simhttp.ErrBodyTooLarge) {
		return nil, &requestError{http.StatusRequestEntityTooLarge, "Request is too large."}
	}
	var body struct {
		ApplicationCredential *newCredential `json:"application_credential"`
	}
	if err != nil || json.Unmarshal(data, &body) != nil {
		return nil, &requestError{http.StatusBadRequest, "Malformed JSON in request body."}
	}
	if body.ApplicationCredential == nil {
		return nil, malformed("application_credential", "request body")
	}
	return body.ApplicationCredential, nil
}

func (s *Server) chosenRoles(refs []named, own []string) ([]string, *requestError) {
	var roles []string
	for _, ref := range refs {
		i := slices.IndexFunc(own, func(role string) bool { return role == ref.Name || ref.ID != "" && s.directory.roleIDs[role] == ref.ID })
		if i < 0 {
			return nil, &requestError{http.StatusBadRequest, "Invalid application credential: Could not find role assignment with role: " + ref.Name + ref.ID + "."}
		}
		roles = append(roles, own[i])
	}
	return withImplied(roles), nil
}

func (c *credential) expireAt(text string, now time.Time) *requestError {
	if text == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			if !now.Before(at) || at.UTC().Year() > simhttp.LastYear {
				break
			}
			c.expires = at
			return nil
		}
	}
	return &requestError{http.StatusBadRequest, "Invalid input for field 'expires_at': it is no time in the future."}
}

func (s *Server) listCredentials(w http.ResponseWriter, r *http.Request, who *token) {
	owner, ok := s.owner(w, r, who, "identity:list_application_credentials", true)
	if !ok {
		return
	}
	list := []map[string]any{}
	for _, c := range s.grants.of(owner) {
		if matchesFilter(r, "name", c.name) {
			list = append(list, s.credentialBody(r, c))
		}
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"application_credentials": list, "links": selfLink(r)})
}

// credentialOf finds the credential of the path among those of its user.
func (s *Server) credentialOf(w http.ResponseWriter, r *http.Request, owner *user) (*credential, bool) {
	id := r.PathValue("credential")
	found := s.grants.find(func(c *credential) bool { return c.user == owner && c.id == id })
	if found == nil {
		writeError(w, r, http.StatusNotFound, "Could not find Application Credential: "+id+".")
	}
	return found, found != nil
}

func (s *Server) getCredential(w http.ResponseWriter, r *http.Request, who *token) {
	owner, ok := s.owner(w, r, who, "identity:get_application_credential", true)
	if !ok {
		return
	}
	if found, ok := s.credentialOf(w, r, owner); ok {
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"application_credential": s.credentialBody(r, found)})
	}
}

func (s *Server) deleteCredential(w http.ResponseWriter, r *http.Request, who *token) {
	owner, ok := s.owner(w, r, who, "identity:delete_application_credential", true)
	if !ok {
		return
	}
	if who.credential != nil && !who.credential.unrestricted {
		writeError(w, r, http.StatusForbidden, "Using method 'application_credential' is not allowed for managing additional application credentials.")
		return
	}
	if found, ok := s.credentialOf(w, r, owner); ok {
		s.grants.remove(found)
		simhttp.Note(r.Context(), found.change(sim.Deleted))
		simhttp.WriteEmpty(w, http.StatusNoContent)
	}
}

// listRoles is GET /v3/roles.
func (s *Server) listRoles(w http.ResponseWriter, r *http.Request, who *token) {
	if !requireAdmin(w, r, who, "identity:list_roles") {
		return
	}
	var names []string
	for name := range s.directory.roleIDs {
		if matchesFilter(r, "name", name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list := []map[string]any{}
	for _, role := range s.roleBodies(names) {
		list = append(list, map[string]any{
			"id": role.ID, "name": role.Name, "domain_id": nil, "description": nil, "options": map[string]any{},
			"links": map[string]string{"self": baseURL(r) + "/identity/v3/roles/" + role.ID},
		})
	}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"roles": list, "links": selfLink(r)})
}
