package keystone

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// errMissing is the cause where a field that every object has is empty.
var errMissing = errors.New("a field is missing")

// owned finds a user and a project of the configuration. No project is none.
func (s *Server) owned(userName, projectName string) (*user, *project, error) {
	u, ok := s.directory.userNamed(userName)
	if !ok {
		return nil, nil, errors.New("the configuration has no such user")
	}
	if projectName == "" {
		return u, nil, nil
	}
	p, ok := s.directory.findProject(projectRef{Name: projectName, Domain: &domainRef{ID: domainID}})
	if !ok {
		return nil, nil, fmt.Errorf("the configuration has no project %q", projectName)
	}
	if len(u.roles[p.name]) == 0 {
		return nil, nil, fmt.Errorf("the configuration gives the user no role on project %q", projectName)
	}
	return u, p, nil
}

// loadCredentials makes the application credentials of a dump.
func (s *Server) loadCredentials(d stateDump) ([]*credential, error) {
	if uint64(len(d.Credentials)) > d.IDs.Credential {
		return nil, fmt.Errorf("ids.application_credential is %d, and there are %d", d.IDs.Credential, len(d.Credentials))
	}
	var list []*credential
	for i, in := range d.Credentials {
		c, err := s.loadCredential(in)
		if err == nil && slices.ContainsFunc(list, c.clashes) {
			err = errors.New("its id or its name is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("application_credentials[%d] %q of user %q: %w", i, in.Name, in.User, err)
		}
		list = append(list, c)
	}
	return list, nil
}

func (c *credential) clashes(other *credential) bool {
	return other.id == c.id || other.user == c.user && other.name == c.name
}

func (s *Server) loadCredential(in dumpCredential) (*credential, error) {
	u, p, err := s.owned(in.User, in.Project)
	switch {
	case err != nil:
		return nil, err
	case in.ID == "" || in.Name == "" || in.SecretSHA256 == digest{} || p == nil || len(in.Roles) == 0:
		return nil, errMissing
	}
	for _, role := range in.Roles {
		if !slices.Contains(u.roles[p.name], role) {
			return nil, fmt.Errorf("the configuration does not give the user role %q on project %q", role, p.name)
		}
	}
	if !in.Expires.IsZero() {
		if err := simhttp.CheckTime("expires", in.Expires); err != nil {
			return nil, err
		}
	}
	return &credential{
		id: in.ID, name: in.Name, description: in.Description, secret: in.SecretSHA256, user: u, project: p, roles: in.Roles,
		unrestricted: in.Unrestricted, expires: in.Expires,
	}, nil
}

// loadTokens makes the tokens of a dump.
func (s *Server) loadTokens(d stateDump, grants []*credential) (map[digest]*token, error) {
	if uint64(len(d.Tokens)) > d.IDs.Token {
		return nil, fmt.Errorf("ids.token is %d, and there are %d", d.IDs.Token, len(d.Tokens))
	}
	byID := make(map[string]*credential, len(grants))
	for _, c := range grants {
		byID[c.id] = c
	}
	living := make(map[digest]*token, len(d.Tokens))
	for i, in := range d.Tokens {
		t, err := s.loadToken(in, byID)
		if err == nil && living[in.SHA256] != nil {
			err = errors.New("it is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("tokens[%d] of user %q: %w", i, in.User, err)
		}
		living[in.SHA256] = t
	}
	return living, nil
}

func (s *Server) loadToken(in dumpToken, grants map[string]*credential) (*token, error) {
	u, p, err := s.owned(in.User, in.Project)
	if err == nil {
		err = in.check()
	}
	if err != nil {
		return nil, err
	}
	t := &token{
		user: u, project: p, system: in.System, methods: in.Methods, auditIDs: in.AuditIDs, issued: in.Issued, expires: in.Expires,
	}
	switch {
	case in.Credential != "":
		if t.credential = grants[in.Credential]; t.credential == nil {
			return nil, fmt.Errorf("there is no application credential %q", in.Credential)
		}
		if t.credential.user != u || t.credential.project != p {
			return nil, fmt.Errorf("application credential %q is of another user or project", in.Credential)
		}
		t.roles = t.credential.roles
	case p != nil:
		t.roles = u.roles[p.name]
	case in.System:
		t.roles = u.systemRoles
	}
	if in.System && len(t.roles) == 0 {
		return nil, errors.New("the configuration gives the user no role on the whole cloud")
	}
	return t, nil
}

// check looks at a token alone.
func (in dumpToken) check() error {
	switch {
	case in.SHA256 == digest{} || len(in.Methods) == 0:
		return errMissing
	case len(in.AuditIDs) < 1 || len(in.AuditIDs) > 2 || slices.Contains(in.AuditIDs, ""):
		return errors.New("audit_ids are not one or two ids")
	case in.System && in.Project != "":
		return errors.New("it is for a project and the whole cloud")
	}
	for _, method := range in.Methods {
		if !slices.Contains([]string{"password", "token", "application_credential"}, method) {
			return fmt.Errorf("unknown method %q", method)
		}
	}
	return errors.Join(simhttp.CheckTime("issued", in.Issued), simhttp.CheckTime("expires", in.Expires))
}
