package keystone

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// ErrToken is returned for a token that is unknown, revoked or expired.
var ErrToken = errors.New("keystone: token is not valid")

// ErrUser is returned for a user that does not exist.
var ErrUser = errors.New("keystone: no such user")

// minSweep is the least number of tokens at which the expired ones are deleted.
const minSweep = 1024

// issue makes a token of what was proved, and returns its text. A proof that came from a
// token expires with that token.
func (s *Server) issue(log *tables.ChangeLog, who *session) string {
	now := s.Clock.Now().UTC()
	s.dropExpired(now)
	who.Issued = now
	who.User = who.user.name
	if who.project != nil {
		who.Project = who.project.name
	}
	if limit := now.Add(s.cfg.TokenLifetime); who.Expires.IsZero() || who.credential != nil && limit.Before(who.Expires) {
		who.Expires = limit
	}
	var text string
	s.state.db.Update(log, func(tx *tables.Tx) {
		number := s.state.tokenNumbers.Next(tx)
		text = fernetPrefix + s.derive("token", number, &who.token, tokenBytes)
		who.SHA256 = digestOf(text)
		who.AuditIDs = append([]string{s.derive("audit", number, &who.token, 16)}, who.AuditIDs...)
		s.state.tokens.Put(tx, who.token)
	})
	return text
}

// fernetPrefix is the prefix of Keystone's tokens. Without it one of 64 tokens would begin with a
// hyphen, which a command line takes for an option.
const fernetPrefix = "gAAAAA"

// tokenBytes is how much of a token differs.
const tokenBytes = 32

// derive makes n bytes of text from the seed, the number of the token, and what it is for.
// Numbers repeat if the service starts from an earlier state or from scratch. The other inputs
// ensure that an earlier token does not become the token of another user.
func (s *Server) derive(kind string, number int64, t *token, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "keystone %s %d %d %d %q %q %t", kind, s.cfg.Seed, number, t.Issued.UnixNano(), t.User, t.Project, t.System))
	return base64.RawURLEncoding.EncodeToString(sum[:n])
}

// dropExpired deletes the expired tokens each time that the number of tokens has doubled, and the oldest when there are
// too many.
func (s *Server) dropExpired(now time.Time) {
	s.state.db.Update(nil, func(tx *tables.Tx) {
		most := cmp.Or(s.cfg.MaxTokens, math.MaxInt)
		if s.state.tokens.Len(tx) < min(max(minSweep, s.sweepAt), most) {
			return
		}
		var valid []token
		for t := range s.state.tokens.All(tx) {
			if now.Before(t.Expires) {
				valid = append(valid, t)
			} else {
				s.state.tokens.Delete(tx, t.SHA256.key())
			}
		}
		if len(valid) >= most {
			slices.SortStableFunc(valid, func(a, b token) int { return a.Issued.Compare(b.Issued) })
			for _, t := range valid[:len(valid)-most+max(most/droppedShare, 1)] {
				s.state.tokens.Delete(tx, t.SHA256.key())
			}
		}
		s.sweepAt = 2 * s.state.tokens.Len(tx)
	})
}

// droppedShare is the share of tokens that end at once when there are too many.
const droppedShare = 16

// lookup finds a valid token by its text.
func (s *Server) lookup(text string) (who session, ok bool) {
	s.state.db.View(func(tx *tables.Tx) {
		var t token
		if t, ok = s.state.tokens.Get(tx, digestOf(text).key()); ok && s.Clock.Now().Before(t.Expires) {
			var err error
			who, err = s.state.session(tx, &s.directory, t)
			ok = err == nil
		} else {
			ok = false
		}
	})
	return who, ok
}

// tokenNotFound is the answer about a token that lookup does not find. If it has the service's
// own form, it has expired, was revoked, or is from another cloud. The real service distinguishes
// these.
func tokenNotFound(text string) error {
	switch {
	case text == "":
		return simhttp.Refuse(http.StatusNotFound, "No token in the request")
	case strings.HasPrefix(text, fernetPrefix) && len(text) == len(fernetPrefix)+base64.RawURLEncoding.EncodedLen(tokenBytes):
		return simhttp.Refuse(http.StatusNotFound, "Failed to validate token")
	}
	return simhttp.Refuse(http.StatusNotFound, "Could not recognize Fernet token")
}

// VerifyToken implements [sim.TokenVerifier]. A token that is unknown, revoked or expired
// gives ErrToken, whose text does not contain it.
func (s *Server) VerifyToken(text string) (http.Header, error) {
	id, err := s.Identify(text)
	return id.Headers(), err
}

// Identify is [Server.VerifyToken] for the services of this module.
func (s *Server) Identify(text string) (simhttp.Identity, error) {
	found, ok := s.lookup(text)
	if !ok {
		return simhttp.Identity{}, ErrToken
	}
	id := simhttp.Identity{User: found.user.id, Roles: found.roles, SystemScope: found.System}
	if found.project != nil {
		id.Project = found.project.id
	}
	for _, rule := range found.rules {
		id.AccessRules = append(id.AccessRules, simhttp.AccessRule{Service: rule.Service, Path: rule.Path, Method: rule.Method})
	}
	return id, nil
}

// IsValid reports whether a token is valid.
func (s *Server) IsValid(text string) bool {
	_, ok := s.lookup(text)
	return ok
}

// IssueToken returns a token of a user in the user's first project without a request, for
// the simulator's own services. An unknown name gives ErrUser.
func (s *Server) IssueToken(name string) (string, error) {
	found, ok := s.directory.findUser(inDomain(name))
	if !ok {
		return "", fmt.Errorf("%w: %q", ErrUser, name)
	}
	who := session{user: found, token: token{Methods: []string{"password"}}}
	if i := slices.IndexFunc(s.directory.projects, func(p project) bool { return len(found.roles[p.name]) > 0 }); i >= 0 {
		who.project = &s.directory.projects[i]
		who.roles = found.roles[who.project.name]
	}
	return s.issue(nil, &who), nil
}

// TokenLifetime is how long a token from IssueToken is valid.
func (s *Server) TokenLifetime() time.Duration { return s.cfg.TokenLifetime }

// Users lists the names of the users, sorted.
func (s *Server) Users() []string {
	names := make([]string, 0, len(s.directory.users))
	for _, u := range s.directory.users {
		names = append(names, u.name)
	}
	slices.Sort(names)
	return names
}

// ProjectOf returns the name and id of the last project that a user has roles on. An
// unknown name gives ErrUser.
func (s *Server) ProjectOf(name string) (project, id string, err error) {
	found, ok := s.directory.findUser(inDomain(name))
	if !ok {
		return "", "", fmt.Errorf("%w: %q", ErrUser, name)
	}
	for _, p := range s.directory.projects {
		if len(found.roles[p.name]) > 0 {
			project, id = p.name, p.id
		}
	}
	return project, id, nil
}

// PasswordOf returns the password of a user. An unknown name gives ErrUser.
func (s *Server) PasswordOf(name string) (string, error) {
	found, ok := s.directory.findUser(inDomain(name))
	if !ok {
		return "", fmt.Errorf("%w: %q", ErrUser, name)
	}
	return found.password, nil
}

// HasProject reports whether there is a project of an id.
func (s *Server) HasProject(id string) bool {
	_, ok := s.directory.findProject(ref{ID: id})
	return ok
}
