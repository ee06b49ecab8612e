package keystone

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// ErrDump is matched by the errors of [Server.Load].
var ErrDump = errors.New("keystone: bad dump")

// stateDump is the state of a service as JSON. Users, projects, roles and services are
// not in it, since the configuration has them.
type stateDump struct {
	SchemaVersion int              `json:"schema_version"`
	IDs           dumpIDs          `json:"ids"`
	Tokens        []dumpToken      `json:"tokens"`
	Credentials   []dumpCredential `json:"application_credentials"`
}

// dumpIDs are positions in the sequences of identifiers.
type dumpIDs struct {
	Token      uint64 `json:"token"`
	Credential uint64 `json:"application_credential"`
	Request    uint64 `json:"request"`
}

// dumpToken is a token that was not revoked. Its roles are those that the user has on
// the project or the cloud, or those of the application credential.
type dumpToken struct {
	SHA256     digest    `json:"sha256"`
	User       string    `json:"user"`
	Project    string    `json:"project,omitempty"`
	System     bool      `json:"system,omitempty"`
	Credential string    `json:"application_credential,omitempty"`
	Methods    []string  `json:"methods"`
	AuditIDs   []string  `json:"audit_ids"`
	Issued     time.Time `json:"issued"`
	Expires    time.Time `json:"expires"`
}

type dumpCredential struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Description  string    `json:"description,omitempty"`
	SecretSHA256 digest    `json:"secret_sha256"`
	User         string    `json:"user"`
	Project      string    `json:"project"`
	Roles        []string  `json:"roles"`
	Unrestricted bool      `json:"unrestricted,omitempty"`
	Expires      time.Time `json:"expires,omitzero"`
}

// MarshalText implements encoding.TextMarshaler.
func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The error does not quote the text,
// which may be what should not have been there: a token.
func (d *digest) UnmarshalText(text []byte) error {
	data, err := hex.DecodeString(string(text))
	if err != nil || len(data) != len(d) {
		return fmt.Errorf("a SHA-256 is not %d hexadecimal digits", 2*len(d))
	}
	copy(d[:], data)
	return nil
}

// Dump returns what the service knows beside its configuration, as one JSON document with
// the field schema_version: tokens, application credentials, and how many
// identifiers were given. Tokens and secrets are in it by their SHA-256 only. The same
// state gives the same bytes, and a service that has loaded a dump gives the same dump.
func (s *Server) Dump() ([]byte, error) {
	s.grants.mu.RLock()
	defer s.grants.mu.RUnlock()
	s.tokens.mu.RLock()
	defer s.tokens.mu.RUnlock()
	d := stateDump{
		SchemaVersion: simhttp.DumpSchema,
		IDs:           dumpIDs{s.tokens.next, s.grants.made, s.service.IDs.Position()},
		Tokens:        []dumpToken{}, Credentials: []dumpCredential{},
	}
	for of, t := range s.tokens.living {
		if t.credential == nil || !t.credential.gone.Load() {
			d.Tokens = append(d.Tokens, dumpOfToken(of, t))
		}
	}
	slices.SortFunc(d.Tokens, func(a, b dumpToken) int { return bytes.Compare(a.SHA256[:], b.SHA256[:]) })
	for _, c := range s.grants.list {
		d.Credentials = append(d.Credentials, dumpOfCredential(c))
	}
	return json.MarshalIndent(d, "", "  ")
}

func dumpOfToken(of digest, t *token) dumpToken {
	out := dumpToken{
		SHA256: of, User: t.user.name, System: t.system, Methods: t.methods, AuditIDs: t.auditIDs,
		Issued: t.issued.UTC(), Expires: t.expires.UTC(),
	}
	if t.project != nil {
		out.Project = t.project.name
	}
	if t.credential != nil {
		out.Credential = t.credential.id
	}
	return out
}

func dumpOfCredential(c *credential) dumpCredential {
	return dumpCredential{
		ID: c.id, Name: c.name, Description: c.description, SecretSHA256: c.secret, User: c.user.name, Project: c.project.name,
		Roles: c.roles, Unrestricted: c.unrestricted, Expires: c.expires.UTC(),
	}
}

// Load makes the service what a dump says, in place of all it knew. A dump of another
// schema_version, with unknown fields, that contradicts itself or that refers to a user,
// project, role or service which the configuration does not have is refused; the error
// matches [ErrDump], names users and never tokens, and the service is as it was. It is
// for moments when nothing is going on.
func (s *Server) Load(data []byte) error {
	var d stateDump
	if err := simhttp.DecodeDump(data, &d, &d.SchemaVersion); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	grants, err := s.loadCredentials(d)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	living, err := s.loadTokens(d, grants)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	s.become(d, grants, living)
	return nil
}

// become replaces the state.
func (s *Server) become(d stateDump, grants []*credential, living map[digest]*token) {
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	s.grants.list, s.grants.made = grants, d.IDs.Credential
	s.tokens.living, s.tokens.next, s.tokens.sweep = living, d.IDs.Token, max(minSweep, 2*len(living))
	s.service.IDs.Continue(d.IDs.Request)
}
