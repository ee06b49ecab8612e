package keystone

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrToken is returned for a token that is unknown, revoked or expired.
var ErrToken = errors.New("keystone: token is not valid")

// ErrUser is returned for a user that does not exist.
var ErrUser = errors.New("keystone: no such user")

// token is what a token stands for. It never changes once issued.
type token struct {
	user    *user
	project *project // nil: unscoped or system
	system  bool
	roles   []string
	methods []string
	// credential is the application credential that gave the token, if one did.
	credential *credential
	// auditIDs are the token's own id and that of the one the chain began with.
	auditIDs        []string
	issued, expires time.Time
}

// digest stands for a token or the secret of an application credential: whoever reads it
// in a dump cannot log in with it.
type digest [sha256.Size]byte

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// tokenStore holds the living tokens, not by their text, which it does not keep.
type tokenStore struct {
	seed     uint64
	lifetime time.Duration

	mu     sync.RWMutex
	next   uint64
	living map[digest]*token
	sweep  int // size at which expired tokens are dropped
}

const minSweep = 1024

func newTokenStore(seed uint64, lifetime time.Duration) *tokenStore {
	return &tokenStore{seed: seed, lifetime: lifetime, living: make(map[digest]*token), sweep: minSweep}
}

// issue makes a token of what was proved. A proof that already expires at some time,
// because it came from a token, keeps it.
func (s *tokenStore) issue(proof token, now time.Time) (string, *token) {
	proof.issued = now
	if limit := now.Add(s.lifetime); proof.expires.IsZero() || proof.credential != nil && limit.Before(proof.expires) {
		proof.expires = limit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	text := s.derive("token", 32)
	proof.auditIDs = append([]string{s.derive("audit", 16)}, proof.auditIDs...)
	if len(s.living) >= s.sweep {
		s.dropExpired(now)
	}
	s.living[digestOf(text)] = &proof
	return text, &proof
}

// derive makes n bytes of text from the seed and the number of the token; it expects
// the lock held.
func (s *tokenStore) derive(kind string, n int) string {
	input := binary.BigEndian.AppendUint64(nil, s.seed)
	input = binary.BigEndian.AppendUint64(input, s.next)
	sum := sha256.Sum256(append(input, "keystone "+kind...))
	return base64.RawURLEncoding.EncodeToString(sum[:n])
}

func (s *tokenStore) dropExpired(now time.Time) {
	for of, t := range s.living {
		if !now.Before(t.expires) {
			delete(s.living, of)
		}
	}
	s.sweep = max(minSweep, 2*len(s.living))
}

func (s *tokenStore) get(text string, now time.Time) (*token, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, ok := s.living[digestOf(text)]
	if !ok || !now.Before(found.expires) || found.credential != nil && found.credential.gone.Load() {
		return nil, false
	}
	return found, true
}

func (s *tokenStore) revoke(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.living, digestOf(text))
}

// VerifyToken returns the identity headers that keystonemiddleware sets for the
// service behind it: X-User-Id, X-User-Name, X-Project-Id, X-Project-Name, X-Roles
// and OpenStack-System-Scope among them. A token that is unknown, revoked or expired
// gives ErrToken, whose text does not contain it.
func (s *Server) VerifyToken(text string) (http.Header, error) {
	found, ok := s.tokens.get(text, s.clock.Now())
	if !ok {
		return nil, ErrToken
	}
	h := http.Header{}
	h.Set("X-Identity-Status", "Confirmed")
	h.Set("X-User-Id", found.user.id)
	h.Set("X-User-Name", found.user.name)
	h.Set("X-User-Domain-Id", domainID)
	h.Set("X-User-Domain-Name", domainName)
	h.Set("X-Roles", strings.Join(found.roles, ","))
	if found.project != nil {
		h.Set("X-Project-Id", found.project.id)
		h.Set("X-Project-Name", found.project.name)
		h.Set("X-Project-Domain-Id", domainID)
		h.Set("X-Project-Domain-Name", domainName)
	}
	if found.system {
		h.Set("OpenStack-System-Scope", "all")
	}
	return h, nil
}

// IssueToken returns a token of a user in the user's project without a request, for
// the simulator's own services. An unknown name gives ErrUser.
func (s *Server) IssueToken(name string) (string, error) {
	found, ok := s.directory.userNamed(name)
	if !ok {
		return "", fmt.Errorf("%w: %q", ErrUser, name)
	}
	proof := token{user: found, methods: []string{"password"}}
	for i := range s.directory.projects {
		p := &s.directory.projects[i]
		if roles := found.roles[p.name]; len(roles) > 0 {
			proof.project, proof.roles = p, roles
			break
		}
	}
	text, _ := s.tokens.issue(proof, s.clock.Now())
	return text, nil
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

// ProjectOf returns the name and id of the project that a user's roles are on. An
// unknown name gives ErrUser.
func (s *Server) ProjectOf(name string) (project, id string, err error) {
	found, ok := s.directory.userNamed(name)
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
