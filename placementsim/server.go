package placementsim

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// ErrConfig is matched by the error of [New] for a configuration that cannot
// be used.
var ErrConfig = errors.New("placementsim: bad configuration")

// Config says how a Placement service behaves. The zero value is the service
// as it is shipped.
type Config struct {
	// Seed decides the uuids of providers that are created without one, and
	// the request ids.
	Seed uint64 `json:"seed,omitempty"`
	// Policy is who may do what: "default" (or empty) is the service's
	// default, "secure" its new defaults enforced, "open" no checks at all.
	Policy string `json:"policy,omitempty"`
	// CORSOrigin is the one origin whose browser requests are allowed; empty
	// for none.
	CORSOrigin string `json:"cors_origin,omitempty"`
	// NoLeftoverConsumers corrects a defect that is imitated otherwise: a
	// first allocation write that names an unknown provider, or that is empty,
	// leaves a consumer with generation 0 behind, and the next write must name
	// that generation.
	NoLeftoverConsumers bool `json:"no_leftover_consumers,omitempty"`
}

// TokenVerifier answers the identity headers that keystonemiddleware would set
// for a valid token (X-User-Id, X-Project-Id, X-Roles comma separated,
// OpenStack-System-Scope), or an error for an invalid one.
type TokenVerifier interface {
	VerifyToken(token string) (http.Header, error)
}

// Clock is the server's notion of time.
type Clock interface {
	// Now is the present time.
	Now() time.Time
	// Wait returns after d, or earlier with the context's error.
	Wait(ctx context.Context, d time.Duration) error
}

// Exchange is one request that the server has answered. Bodies and tokens are
// not kept.
type Exchange struct {
	Service      string        // "placement"
	Operation    string        // one of Operations; empty for an unknown route
	Subject      string        // the first identifier in the path
	From         string        // the caller's User-Agent header
	Method       string        // the request's
	Path         string        // unescaped, with its prefix
	Query        string        // as it was sent
	Microversion string        // the one applied, "1.36"
	RequestID    string        // as in the answer's header
	Status       int           // 0: no answer was sent
	Fault        string        // the action of the fault that was injected
	Started      time.Time     // by the server's clock
	Duration     time.Duration // by the server's clock
	Changes      []Change      // what the request changed, in the order in which it did
}

// Option is a setting of [New] that must be passed in code.
type Option func(*Server)

// WithTokenVerifier makes the server ask v about tokens. Without it the
// conventions of Placement's "noauth2" hold: the token is the user, or
// user:project, "admin" has the role admin, and X-Roles and X-Project-Id win.
func WithTokenVerifier(v TokenVerifier) Option { return func(s *Server) { s.verifier = v } }

// WithFaults makes the server fail as the set says. The operations are those
// of [Operations], and the subject is the first identifier in the path.
func WithFaults(set *fault.Set) Option { return func(s *Server) { s.service.Faults = set } }

// WithClock gives the server another clock than the machine's.
func WithClock(c Clock) Option { return func(s *Server) { s.clock, s.service.Clock = c, c } }

// WithObserver calls observe with each exchange when it ends.
func WithObserver(observe func(Exchange)) Option {
	return func(s *Server) {
		s.service.Observe = func(e simhttp.Exchange) {
			observe(Exchange{
				Service: e.Service, Operation: e.Operation, Subject: e.Subject, From: e.From, Method: e.Method,
				Path: e.Path, Query: e.Query, Microversion: e.Microversion, RequestID: e.RequestID,
				Status: e.Status, Fault: e.Fault, Started: e.Started, Duration: e.Duration,
				Changes: publicChanges(e.Changes),
			})
		}
	}
}

// WithPrefix serves below a path such as "/placement" as well, and makes links
// and locations name it.
func WithPrefix(prefix string) Option {
	return func(s *Server) { s.prefix = strings.TrimRight(prefix, "/") }
}

// Server is a Placement service. It is safe for parallel use.
type Server struct {
	config   Config
	state    *engine.State
	service  *simhttp.Service
	verifier TokenVerifier
	clock    Clock
	ids      *simhttp.IDs
	prefix   string
	ops      map[string]*operation
	buffers  sync.Pool // of *[]byte, for long answers
}

var _ http.Handler = (*Server)(nil)

//go:embed traits.txt
var standardTraits string

// New returns a service that knows the standard resource classes and traits
// and nothing else. The error matches [ErrConfig].
func New(cfg Config, opts ...Option) (*Server, error) {
	switch cfg.Policy {
	case "":
		cfg.Policy = policyDefault
	case policyDefault, policySecure, policyOpen:
	default:
		return nil, fmt.Errorf("%w: unknown policy %q (known: default, secure, open)", ErrConfig, cfg.Policy)
	}
	s := &Server{
		config: cfg, clock: simhttp.Wall{}, ids: simhttp.NewIDs(cfg.Seed, "placement provider"),
		ops: make(map[string]*operation),
	}
	s.service = &simhttp.Service{
		Name: "placement", Router: newRouter(), Handler: http.HandlerFunc(s.handle), WriteFault: s.writeFault,
		VersionHeader: versionHeader, Clock: simhttp.Wall{}, IDs: simhttp.NewIDs(cfg.Seed, "placement request"),
		Refuse: refuseUnread,
	}
	for _, opt := range opts {
		opt(s)
	}
	if s.prefix != "" {
		s.service.Prefixes = []string{s.prefix}
	}
	for _, op := range operations() {
		s.ops[op.name] = &op
	}
	s.state = engine.New(StandardTraits(), s.clock.Now())
	return s, nil
}

// StandardTraits lists the traits that every service has, sorted: those of
// os-traits 2.9.0.
func StandardTraits() []string {
	var names []string
	for line := range strings.Lines(standardTraits) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	return names
}

// StandardResourceClasses lists the resource classes that every service has,
// in the order of their ids.
func StandardResourceClasses() []string { return engine.StandardClasses() }

// Operations lists the names of the operations, sorted, for fault rules.
func Operations() []string { return newRouter().Operations() }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.service.ServeHTTP(w, r) }
