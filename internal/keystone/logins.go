package keystone

import (
	"fmt"
	"strings"
)

// SystemScope stands for the whole system where a login names its project.
const SystemScope = "*"

// LoginOf tells whose a valid token is, as user/project, user/ without a scope or user/*
// for the whole system; empty for any other text.
func (s *Server) LoginOf(text string) string {
	found, ok := s.tokens.get(text, s.clock.Now())
	switch {
	case !ok:
		return ""
	case found.project != nil:
		return found.user.name + "/" + found.project.name
	case found.system:
		return found.user.name + "/" + SystemScope
	}
	return found.user.name + "/"
}

// IssueLogin returns a token of a login, as LoginOf writes it, without a request. A user
// that is not there, or has no role there, gives ErrUser.
func (s *Server) IssueLogin(login string) (string, error) {
	name, scope, _ := strings.Cut(login, "/")
	found, ok := s.directory.userNamed(name)
	if !ok {
		return "", fmt.Errorf("%w: %q", ErrUser, name)
	}
	proof := token{user: found, methods: []string{"password"}}
	var refused *requestError
	switch scope {
	case "":
	case SystemScope:
		refused = scopeToSystem(&proof, []byte(`{"all": true}`))
	default:
		refused = s.scopeToProject(&proof, projectRef{Name: scope, Domain: &domainRef{ID: domainID}})
	}
	if refused != nil {
		return "", fmt.Errorf("%w: %q has no role on %q", ErrUser, name, scope)
	}
	text, _ := s.tokens.issue(proof, s.clock.Now())
	return text, nil
}

// PasswordOf returns the password of a user by id or, in the only domain, by name.
func (s *Server) PasswordOf(id, name string) (string, bool) {
	found, ok := s.directory.findUser(userRef{ID: id, Name: name, Domain: &domainRef{ID: domainID}})
	if !ok {
		return "", false
	}
	return found.password, true
}
