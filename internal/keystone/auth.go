package keystone

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
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

type userRef struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Password string     `json:"password"`
	Domain   *domainRef `json:"domain"`
}

type domainRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type projectRef struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Domain *domainRef `json:"domain"`
}

// createToken is POST /v3/auth/tokens.
func (s *Server) createToken(w http.ResponseWriter, r *http.Request) {
	text, issued, err := s.authenticate(r)
	if err != nil {
		writeError(w, r, err.status, err.message)
		return
	}
	_, nocatalog := r.URL.Query()["nocatalog"]
	w.Header().Set("X-Subject-Token", text)
	simhttp.WriteJSON(w, http.StatusCreated, map[string]any{"token": s.tokenBody(r, issued, !nocatalog)})
}

func (s *Server) authenticate(r *http.Request) (string, *token, *requestError) {
	req, err := readAuth(r)
	if err != nil {
		return "", nil, err
	}
	proof, err := s.identify(req.Auth.Identity)
	if err != nil {
		return "", nil, err
	}
	if err := s.applyScope(proof, req.Auth.Scope); err != nil {
		return "", nil, err
	}
	text, issued := s.tokens.issue(*proof, s.clock.Now())
	simhttp.Note(r.Context(), issued.change(sim.Created))
	return text, issued, nil
}

// readAuth decodes the body. A JSON error's own text would quote what was sent, which
// may be a password, so only the place is named.
func readAuth(r *http.Request) (*authRequest, *requestError) {
	data, err := simhttp.ReadBody(r)
	if errors.Is(err, simhttp.ErrBodyTooLarge) {
		return nil, &requestError{http.StatusRequestEntityTooLarge, "Request is too large."}
	}
	if err != nil {
		return nil, &requestError{http.StatusBadRequest, "The request body could not be read."}
	}
	var req authRequest
	if err := json.Unmarshal(data, &req); err != nil {
		return nil, undecodable(err)
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

func undecodable(err error) *requestError {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return &requestError{http.StatusBadRequest, "Invalid input for field '" + wrongType.Field + "': it has the wrong type."}
	}
	return &requestError{http.StatusBadRequest, "Malformed JSON in request body."}
}

// identify proves who the caller is. As in Keystone, every method named must succeed
// and all must prove the same user.
func (s *Server) identify(id *identityRef) (*token, *requestError) {
	var proof *token
	for _, method := range id.Methods {
		next, err := s.proveBy(method, id)
		if err != nil {
			return nil, err
		}
		if proof != nil {
			if next.user != proof.user {
				return nil, unauthorized()
			}
			next.methods = append(proof.methods, next.methods...)
		}
		proof = next
	}
	if proof == nil {
		return nil, unauthorized()
	}
	slices.Sort(proof.methods)
	proof.methods = slices.Compact(proof.methods)
	return proof, nil
}

func (s *Server) proveBy(method string, id *identityRef) (*token, *requestError) {
	switch method {
	case "password":
		return s.byPassword(id)
	case "token":
		return s.byToken(id)
	case "application_credential":
		return s.byCredential(id)
	}
	return nil, &requestError{http.StatusUnauthorized, "Attempted to authenticate with an unsupported method."}
}

func (s *Server) byPassword(id *identityRef) (*token, *requestError) {
	switch {
	case id.Password == nil:
		return nil, malformed("password", "identity")
	case id.Password.User == nil:
		return nil, malformed("user", "password")
	}
	ref := id.Password.User
	switch {
	case ref.ID == "" && ref.Name == "":
		return nil, malformed("id or name", "user")
	case ref.ID == "" && ref.Domain == nil:
		return nil, malformed("domain", "user")
	}
	found, ok := s.directory.findUser(*ref)
	if !ok || subtle.ConstantTimeCompare([]byte(ref.Password), []byte(found.password)) != 1 {
		return nil, unauthorized()
	}
	return &token{user: found, methods: []string{"password"}}, nil
}

// byToken trades a token for another one, usually of another scope; the new one
// expires with the old one, or renewing would be endless.
func (s *Server) byToken(id *identityRef) (*token, *requestError) {
	if id.Token == nil || id.Token.ID == "" {
		return nil, malformed("token", "identity")
	}
	old, ok := s.tokens.get(id.Token.ID, s.clock.Now())
	if !ok || old.credential != nil { // what an application credential may do is fixed
		return nil, unauthorized()
	}
	return &token{
		user: old.user, methods: append(slices.Clone(old.methods), "token"),
		expires: old.expires, auditIDs: []string{old.auditIDs[len(old.auditIDs)-1]},
	}, nil
}
