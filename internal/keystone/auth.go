package keystone

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// authRequest is the body of POST /v3/auth/tokens.
type authRequest struct {
	Auth *struct {
		Identity *identityRef    `json:"identity"`
		Scope    json.RawMessage `json:"scope"`
	} `json:"auth"`
}

type identityRef struct {
	Methods  []string `json:"methods"`
	Password *struct {
		User *userRef `json:"user"`
	} `json:"password"`
	Token *struct {
		ID string `json:"id"`
	} `json:"token"`
	ApplicationCredential *credentialRef `json:"application_credential"`
}

// ref names a user or a project: by its id, or by its name and domain.
type ref struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Domain *domainRef `json:"domain"`
}

type domainRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type userRef struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Password string     `json:"password"`
	Domain   *domainRef `json:"domain"`
}

// inDomain is the reference to a name in the only domain.
func inDomain(name string) ref { return ref{Name: name, Domain: &domainRef{ID: domainID}} }

// check refuses a reference that is not complete.
func (r ref) check(target string) error {
	switch {
	case r.ID == "" && r.Name == "":
		return malformed("id or name", target)
	case r.ID == "" && r.Domain == nil:
		return malformed("domain", target)
	}
	return nil
}

// is reports whether the reference is to the user or project with an id and a name. Names of
// domains compare without case, as they do in the databases that Keystone is deployed on.
func (r ref) is(id, name string) bool {
	if r.ID != "" {
		return r.ID == id
	}
	d := r.Domain
	return r.Name == name && d != nil && (d.ID == domainID || d.ID == "" && strings.EqualFold(d.Name, domainName))
}

// createToken is POST /v3/auth/tokens.
func (s *Server) createToken(c *simhttp.Call) error {
	req, err := readAuth(c)
	if err != nil {
		return err
	}
	proof, err := s.identify(req.Auth.Identity)
	if err != nil {
		return err
	}
	if err := s.applyScope(proof, req.Auth.Scope); err != nil {
		return err
	}
	c.W.Header().Set("X-Subject-Token", s.issue(c.Log(), proof))
	return c.JSON(http.StatusCreated, map[string]any{"token": s.tokenBody(c, *proof)})
}

// readBody reads a JSON body. The text of a JSON error would quote what was sent, which
// may be a password, so only the place is named.
func readBody(c *simhttp.Call, into any) error {
	data, err := simhttp.ReadBody(c.Request)
	if errors.Is(err, simhttp.ErrBodyTooLarge) {
		return simhttp.Refuse(http.StatusRequestEntityTooLarge, "Request is too large.")
	}
	if err != nil {
		return simhttp.Refuse(http.StatusBadRequest, "The request body could not be read.")
	}
	return decode(data, into)
}

func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return simhttp.Refuse(http.StatusBadRequest, "Invalid input for field '%s': it has the wrong type.", wrongType.Field)
	}
	return simhttp.Refuse(http.StatusBadRequest, "Malformed JSON in request body.")
}

// authPaths are the members of an authRequest.
func authPaths() []string {
	const (
		identity   = "auth.identity."
		password   = identity + "password.user."
		credential = identity + "application_credential."
		project    = "auth.scope.project."
	)
	return []string{
		identity + "methods", identity + "token.id",
		password + "id", password + "name", password + "password", password + "domain.id", password + "domain.name",
		credential + "id", credential + "name", credential + "secret",
		credential + "user.id", credential + "user.name", credential + "user.domain.id", credential + "user.domain.name",
		project + "id", project + "name", project + "domain.id", project + "domain.name",
		"auth.scope.domain", "auth.scope.system.all", "auth.scope.OS-TRUST:trust", "auth.scope.unscoped",
	}
}

// readAuth decodes the body.
func readAuth(c *simhttp.Call) (*authRequest, error) {
	var req authRequest
	if err := readBody(c, &req); err != nil {
		return nil, err
	}
	switch {
	case req.Auth == nil:
		return nil, malformed("auth", "request body")
	case req.Auth.Identity == nil:
		return nil, malformed("identity", "auth")
	case req.Auth.Identity.Methods == nil:
		return nil, malformed("methods", "identity")
	}
	return &req, nil
}

// identify proves who the caller is. As in Keystone, every method named must succeed
// and all must prove the same user.
func (s *Server) identify(id *identityRef) (*session, error) {
	var proof *session
	for _, method := range id.Methods {
		next, err := s.proveBy(method, id)
		if err != nil {
			return nil, err
		}
		if proof != nil {
			if next.user != proof.user {
				return nil, unauthorized()
			}
			next.Methods = append(proof.Methods, next.Methods...)
		}
		proof = next
	}
	if proof == nil {
		return nil, unauthorized()
	}
	slices.Sort(proof.Methods)
	proof.Methods = slices.Compact(proof.Methods)
	return proof, nil
}

func (s *Server) proveBy(method string, id *identityRef) (*session, error) {
	switch method {
	case "password":
		return s.byPassword(id)
	case "token":
		return s.byToken(id)
	case "application_credential":
		return s.byCredential(id)
	}
	return nil, simhttp.Refuse(http.StatusUnauthorized, "Attempted to authenticate with an unsupported method.")
}

func (s *Server) byPassword(id *identityRef) (*session, error) {
	switch {
	case id.Password == nil:
		return nil, malformed("password", "identity")
	case id.Password.User == nil:
		return nil, malformed("user", "password")
	}
	sent := id.Password.User
	named := ref{sent.ID, sent.Name, sent.Domain}
	if err := named.check("user"); err != nil {
		return nil, err
	}
	found, ok := s.directory.findUser(named)
	if !ok || subtle.ConstantTimeCompare([]byte(sent.Password), []byte(found.password)) != 1 {
		return nil, unauthorized()
	}
	return &session{user: found, token: token{Methods: []string{"password"}}}, nil
}

// byToken trades a token for another one, usually of another scope; the new one
// expires with the old one, or renewing would be endless.
func (s *Server) byToken(id *identityRef) (*session, error) {
	if id.Token == nil || id.Token.ID == "" {
		return nil, malformed("token", "identity")
	}
	old, ok := s.lookup(id.Token.ID)
	if !ok || old.credential != nil { // what an application credential may do is fixed
		return nil, unauthorized()
	}
	return &session{user: old.user, token: token{
		Methods: append(slices.Clone(old.Methods), "token"), Expires: old.Expires, AuditIDs: old.AuditIDs[len(old.AuditIDs)-1:],
	}}, nil
}
