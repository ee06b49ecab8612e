package keystone

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// digest is the SHA-256 of a token or of the secret of an application credential, whose
// text is not stored.
type digest [sha256.Size]byte

func digestOf(text string) digest {
	var room [64]byte // of a token; every request has one
	return sha256.Sum256(append(room[:0], text...))
}

// MarshalText implements encoding.TextMarshaler.
func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The error does not quote the text,
// which may be a token.
func (d *digest) UnmarshalText(text []byte) error {
	data, err := hex.DecodeString(string(text))
	if err != nil || len(data) != len(d) {
		return fmt.Errorf("a SHA-256 is not %d hexadecimal digits", 2*len(d))
	}
	copy(d[:], data)
	return nil
}

func (d digest) key() string {
	var text [2 * len(d)]byte
	hex.Encode(text[:], d[:])
	return string(text[:])
}

// token is a token that was not revoked. Its roles are the user's roles on the project or the
// system, or the roles of the application credential.
type token struct {
	SHA256 digest `json:"sha256"`
	User   string `json:"user"` // by name, as Project
	// Project is empty for a token without a scope or of the system.
	Project string `json:"project,omitempty"`
	System  bool   `json:"system,omitempty"`
	// Credential is the id of the application credential that gave the token, if one did.
	Credential string   `json:"application_credential,omitempty"`
	Methods    []string `json:"methods"`
	// AuditIDs are the audit ids of the token and of the first token of the chain.
	AuditIDs []string  `json:"audit_ids"`
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires"`
}

func (t token) label() string {
	switch {
	case t.Project != "":
		return "of user " + t.User + " on project " + t.Project
	case t.System:
		return "of user " + t.User + " on the system"
	}
	return "of user " + t.User
}

// errMissing is the cause where a field that every row has is empty.
var errMissing = errors.New("a field is missing")

// check looks at a token alone.
func (t token) check() error {
	switch {
	case t.SHA256 == digest{} || len(t.Methods) == 0:
		return errMissing
	case len(t.AuditIDs) < 1 || len(t.AuditIDs) > 2 || slices.Contains(t.AuditIDs, ""):
		return errors.New("audit_ids are not one or two ids")
	case t.System && t.Project != "":
		return errors.New("it is for a project and the system")
	}
	for _, method := range t.Methods {
		if !slices.Contains([]string{"password", "token", "application_credential"}, method) {
			return fmt.Errorf("unknown method %q", method)
		}
	}
	return errors.Join(simhttp.CheckTime("issued", t.Issued), simhttp.CheckTime("expires", t.Expires))
}

// credential is an application credential: some roles of a user on one project.
type credential struct {
	Number       int64    `json:"number"`
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Description  *string  `json:"description,omitempty"`
	SecretSHA256 digest   `json:"secret_sha256"`
	User         string   `json:"user"` // by name, as Project
	Project      string   `json:"project"`
	Roles        []string `json:"roles"`
	Unrestricted *bool    `json:"unrestricted,omitempty"` // nil: false, which clients see as null
	// AccessRules are the ids of the access rules that the tokens are restricted to; none: unrestricted.
	AccessRules []string `json:"access_rules,omitempty"`
	// Expires is zero for one that never does.
	Expires time.Time `json:"expires,omitzero"`
}

// unrestricted reports whether a token of the credential may manage application credentials.
func (c credential) unrestricted() bool { return c.Unrestricted != nil && *c.Unrestricted }

// check looks at a credential alone.
func (c credential) check() error {
	if c.ID == "" || c.Name == "" || c.SecretSHA256 == (digest{}) || c.Project == "" || len(c.Roles) == 0 {
		return errMissing
	}
	if c.Expires.IsZero() {
		return nil
	}
	return simhttp.CheckTime("expires", c.Expires)
}

// state is the tables of the service. Users, projects, roles and services are the
// configuration's.
type state struct {
	db           *tables.DB
	tokens       *tables.Table[string, token]
	byCredential tables.Index[string, token]
	tokenNumbers tables.Sequence

	credentials       *tables.Table[int64, credential]
	credentialByID    tables.Unique[int64, credential]
	credentialByName  tables.Unique[int64, credential]
	credentialNumbers tables.Sequence

	rules       *tables.Table[int64, accessRule]
	ruleByID    tables.Unique[int64, accessRule]
	ruleBySame  tables.Unique[int64, accessRule]
	ruleNumbers tables.Sequence
}

// ownName is unique among the application credentials.
func ownName(user, name string) string { return user + "/" + name }

func newState(d *directory) state {
	db := tables.New("identity")
	s := state{db: db}
	s.tokens = tables.Add(db, tables.Spec[string, token]{
		Name: "tokens", Kind: "token", Key: func(t token) string { return t.SHA256.key() },
		ID: func(t token) string { return t.AuditIDs[0] }, Label: token.label, Check: token.check,
	})
	s.byCredential = s.tokens.Index(func(t token) string { return t.Credential })
	s.tokenNumbers = db.Sequence("tokens")
	s.credentials = tables.Add(db, tables.Spec[int64, credential]{
		Name: "application_credentials", Kind: "application_credential", Key: func(c credential) int64 { return c.Number },
		ID:    func(c credential) string { return c.ID },
		Label: func(c credential) string { return c.Name + " of user " + c.User + " on project " + c.Project },
		Check: credential.check,
	})
	s.credentialByID = s.credentials.Unique(func(c credential) string { return c.ID }).Collate(d.key)
	s.credentialByName = s.credentials.Unique(func(c credential) string { return ownName(c.User, c.Name) }).Collate(d.key)
	s.credentialNumbers = tables.KeySequence(s.credentials)
	s.rules = tables.Add(db, tables.Spec[int64, accessRule]{
		Name: "access_rules", Kind: "access_rule", Key: func(r accessRule) int64 { return r.Number },
		ID: func(r accessRule) string { return r.ID }, Label: accessRule.same, Check: accessRule.check,
	})
	s.ruleByID = s.rules.Unique(func(r accessRule) string { return r.ID }).Collate(d.key)
	s.ruleBySame = s.rules.Unique(accessRule.same).Collate(d.key)
	s.ruleNumbers = tables.KeySequence(s.rules)
	db.Check(func(tx *tables.Tx) error { return s.check(tx, d) })
	return s
}

// check refuses rows that the configuration contradicts.
func (s *state) check(tx *tables.Tx, d *directory) error {
	for c := range s.credentials.All(tx) {
		u, p, err := d.owned(c.User, c.Project)
		for _, role := range c.Roles {
			if err == nil && !slices.Contains(u.roles[p.name], role) {
				err = fmt.Errorf("the configuration does not give the user role %q on project %q", role, p.name)
			}
		}
		for _, id := range c.AccessRules {
			if rule, ok := s.ruleByID.Get(tx, id); err == nil && (!ok || rule.User != c.User) {
				err = fmt.Errorf("there is no access rule %q of the user", id)
			}
		}
		if err != nil {
			return s.credentials.Errorf(c.Number, "user %q: %w", c.User, err)
		}
	}
	for r := range s.rules.All(tx) {
		if _, _, err := d.owned(r.User, ""); err != nil {
			return s.rules.Errorf(r.Number, "user %q: %w", r.User, err)
		}
	}
	for t := range s.tokens.All(tx) {
		if _, err := s.session(tx, d, t); err != nil {
			return s.tokens.Errorf(t.SHA256.key(), "user %q: %w", t.User, err)
		}
	}
	if last, n := s.tokenNumbers.Last(tx), s.tokens.Len(tx); int64(n) > last {
		return fmt.Errorf("%w: identity.sequences tokens: it is at %d, and there are %d tokens", sim.ErrRecords, last, n)
	}
	return nil
}

// session is a token with what it refers to.
type session struct {
	token
	user       *user
	project    *project // nil: unscoped or of the system
	roles      []string
	credential *credential      // nil: none
	rules      []accessRuleBody // of the credential
}

// is reports whether the token belongs to a user.
func (who session) is(userID string) bool { return who.user.id == userID }

// has reports whether the token has a role.
func (who session) has(role string) bool { return slices.Contains(who.roles, role) }

// session looks up what a token refers to. The error is for something that is not there,
// which only records from outside can cause.
func (s *state) session(tx *tables.Tx, d *directory, t token) (session, error) {
	u, p, err := d.owned(t.User, t.Project)
	if err != nil {
		return session{}, err
	}
	who := session{token: t, user: u, project: p}
	switch {
	case t.Credential != "":
		c, ok := s.credentialByID.Get(tx, t.Credential)
		if !ok {
			return session{}, fmt.Errorf("there is no application credential %q", t.Credential)
		}
		if c.User != t.User || c.Project != t.Project {
			return session{}, fmt.Errorf("application credential %q is of another user or project", c.ID)
		}
		who.credential, who.roles = &c, c.Roles
		for _, id := range c.AccessRules {
			rule, _ := s.ruleByID.Get(tx, id) // there, as check says
			who.rules = append(who.rules, rule.accessRuleBody)
		}
	case p != nil:
		who.roles = u.roles[p.name]
	case t.System:
		who.roles = u.systemRoles
	}
	if t.System && len(who.roles) == 0 {
		return session{}, errors.New("the configuration gives the user no role on the system")
	}
	return who, nil
}

// State is the tokens and application credentials, for the state of a cloud. Tokens and
// secrets are in it by their SHA-256 only.
func (s *Server) State() sim.Recorded {
	return simhttp.Recorded{Recorded: s.state.db, Service: s.Service}
}
