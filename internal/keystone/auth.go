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

// authRequest is the member auth of the body of POST /v3/auth/tokens.
type authRequest struct {
	methods  []string // each once
	payloads map[string]json.RawMessage
	scope    scopeRef
}

// ref names a user or a project: by its id, or by its name and domain.
type ref struct {
	ID, Name string
	Domain   *domainRef
}

// domainRef names a domain: by its id or its name.
type domainRef struct{ ID, Name string }

// sentRef is a reference to a user or a project as a request has it. A name goes before an id.
type sentRef struct {
	ID     *string     `json:"id"`
	Name   *string     `json:"name"`
	Domain *sentDomain `json:"domain"`
}

type sentDomain struct {
	ID   *string `json:"id"`
	Name *string `json:"name"`
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (d sentDomain) ref() *domainRef {
	if name := textOf(d.Name); name != "" {
		return &domainRef{Name: name}
	}
	return &domainRef{ID: textOf(d.ID)}
}

// ref is the reference. A name without a domain is an error about the target.
func (r sentRef) ref(target string) (ref, error) {
	name := textOf(r.Name)
	switch {
	case name == "":
		return ref{ID: textOf(r.ID)}, nil
	case r.Domain == nil:
		return ref{}, malformed("domain", target)
	}
	return ref{Name: name, Domain: r.Domain.ref()}, nil
}

// inDomain is the reference to a name in the only domain.
func inDomain(name string) ref { return ref{Name: name, Domain: &domainRef{ID: domainID}} }

// is reports whether the reference is to the user or project with an id and a name.
func (r ref) is(id, name string) bool {
	if r.ID != "" {
		return r.ID == id
	}
	return r.Name == name && r.Domain.exists()
}

// exists reports whether the reference is to the only domain. Names of domains compare without case, as they do in the
// databases that Keystone is deployed on.
func (d *domainRef) exists() bool {
	return d != nil && (d.ID == domainID || d.ID == "" && strings.EqualFold(d.Name, domainName))
}

// createToken is POST /v3/auth/tokens. As in Keystone, the scope is looked up before the proof.
func (s *Server) createToken(c *simhttp.Call) error {
	req, err := readAuth(c)
	if err != nil {
		return err
	}
	applyScope, err := s.findScope(req)
	if err != nil {
		return err
	}
	proof, err := s.identify(req)
	if err != nil {
		return err
	}
	if err := applyScope(proof); err != nil {
		return err
	}
	c.W.Header().Set("X-Subject-Token", s.issue(c.Log(), proof))
	return c.JSON(http.StatusCreated, map[string]any{"token": s.tokenBody(c, *proof)})
}

// decode reads what no schema describes. The text of a JSON error would quote what was sent, which may be a secret, so
// only the place is named.
func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return simhttp.Refuse(http.StatusBadRequest, "Invalid input for field '%s': it has the wrong type.", wrongType.Field)
	}
	return malformed("valid JSON", "request body")
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

// readAuth reads the body and checks what can be checked without the directory, in Keystone's order.
func readAuth(c *simhttp.Call) (*authRequest, error) {
	data, err := simhttp.ReadBody(c.Request)
	if err != nil {
		return nil, err
	}
	var body struct {
		Auth json.RawMessage `json:"auth"`
	}
	if len(data) > 0 {
		if err := decode(data, &body); err != nil {
			return nil, err
		}
	}
	if len(body.Auth) == 0 || string(body.Auth) == "null" {
		return nil, malformed("auth", "request body")
	}
	var sent struct {
		Identity map[string]json.RawMessage `json:"identity"`
		Scope    json.RawMessage            `json:"scope"`
	}
	if err := decodeValid("token_issue", body.Auth, describeField, &sent); err != nil {
		return nil, err
	}
	req := &authRequest{payloads: sent.Identity}
	if err := json.Unmarshal(sent.Identity["methods"], &req.methods); err != nil {
		return nil, err
	}
	if err := req.checkUser(); err != nil {
		return nil, err
	}
	if req.scope, err = readScope(sent.Scope); err != nil {
		return nil, err
	}
	return req, req.checkMethods()
}

// unnamed is the refusal of a reference that has neither id nor name.
func unnamed(place string) error {
	return simhttp.Refuse(http.StatusBadRequest, "Invalid input for field %s: id or name must be present.", place)
}

// check refuses a reference without id and name, of its domain, too.
func (r sentRef) check(place string) error {
	switch {
	case r.ID == nil && r.Name == nil:
		return unnamed(place)
	case r.Domain != nil && r.Domain.ID == nil && r.Domain.Name == nil:
		return unnamed(place + "/domain")
	}
	return nil
}

// passwordPayload is the member identity.password.
type passwordPayload struct {
	User *struct {
		sentRef
		Password string `json:"password"`
	} `json:"user"`
}

func (r *authRequest) checkUser() error {
	var sent passwordPayload
	if data, ok := r.payloads["password"]; ok {
		if err := json.Unmarshal(data, &sent); err != nil {
			return err
		}
	}
	if sent.User == nil {
		return nil
	}
	return sent.User.check("identity/password/user")
}

const (
	methodPassword   = "password"
	methodToken      = "token"
	methodCredential = "application_credential"
)

// supportedMethods is the default of the option [auth] methods. Three are simulated.
var supportedMethods = []string{"external", methodPassword, methodToken, "oauth1", "mapped", methodCredential, "ec2credential"}

// checkMethods removes repeated methods, and refuses those without a payload and unknown ones.
func (r *authRequest) checkMethods() error {
	var methods []string
	for _, method := range r.methods {
		if _, sent := r.payloads[method]; !sent {
			return malformed(method, "identity")
		}
		if !slices.Contains(methods, method) {
			methods = append(methods, method)
		}
	}
	r.methods = methods
	for _, method := range r.methods {
		if !slices.Contains(supportedMethods, method) {
			return refuseMethod("Attempted to authenticate with an unsupported method.", supportedMethods...)
		}
	}
	return nil
}

func (r *authRequest) uses(method string) bool { return slices.Contains(r.methods, method) }

// identify authenticates the caller. As in Keystone, every method named must succeed
// and all must prove the same user.
func (s *Server) identify(req *authRequest) (*session, error) {
	var proof *session
	for _, method := range req.methods {
		next, err := s.proveBy(method, req)
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

func (s *Server) proveBy(method string, req *authRequest) (*session, error) {
	payload := req.payloads[method]
	switch method {
	case methodPassword:
		return s.byPassword(payload)
	case methodToken:
		return s.byToken(payload, req.scope)
	case methodCredential:
		return s.byCredential(payload)
	}
	return nil, unauthorized()
}

func (s *Server) byPassword(payload json.RawMessage) (*session, error) {
	var sent passwordPayload
	if err := json.Unmarshal(payload, &sent); err != nil {
		return nil, err
	}
	if sent.User == nil {
		return nil, malformed("user", "None") // the name of the method is set later
	}
	if textOf(sent.User.ID)+textOf(sent.User.Name) == "" {
		return nil, malformed("id or name", "user")
	}
	named, err := sent.User.ref("user")
	if err != nil {
		return nil, err
	}
	if d := named.Domain; d != nil && *d == (domainRef{}) {
		return nil, malformed("id or name", "domain")
	}
	found, ok := s.directory.findUser(named)
	if !ok || subtle.ConstantTimeCompare([]byte(sent.User.Password), []byte(found.password)) != 1 {
		return nil, unauthorized()
	}
	return &session{user: found, token: token{Methods: []string{methodPassword}}}, nil
}

// byToken trades a token for another one, usually of another scope; the new one
// expires with the old one, or renewing would be endless.
func (s *Server) byToken(payload json.RawMessage, scope scopeRef) (*session, error) {
	var sent struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(payload, &sent); err != nil {
		return nil, err
	}
	old, ok := s.lookup(sent.ID)
	switch {
	case !ok:
		return nil, tokenNotFound(sent.ID)
	case old.System && (scope.Project != nil || scope.Domain != nil):
		return nil, forbidden("Using a system-scoped token to create a project-scoped or domain-scoped token is not allowed.")
	case old.credential != nil:
		return nil, forbidden("Using a delegated token to create another token is not allowed.")
	}
	return &session{user: old.user, token: token{
		Methods: append(slices.Clone(old.Methods), methodToken), Expires: old.Expires, AuditIDs: old.AuditIDs[len(old.AuditIDs)-1:],
	}}, nil
}
