package placementsim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
	"github.com/gocyborg/gocyborg/sim"
)

// Config is the configuration of a Placement service. The zero value is the
// service as shipped.
type Config struct {
	// Seed determines the uuids of providers that are created without one, the
	// request ids, and which candidates a limit chooses.
	Seed uint64 `json:"seed,omitempty"`
	// Policy selects the rules of access; empty means the release's default: PolicyDefault before
	// 12.0.0 (2024.2), then PolicySecure.
	Policy Policy `json:"policy,omitempty"`
	// Release is one of [Releases], or the name of its series; empty means Release20262.
	Release Release `json:"release,omitempty"`
	// UpstreamQuirks restores defects of the service, such as the status 500 for candidates of a sharing provider that is not a
	// root, groups without resources that nothing serves, and prefixes of traits with the wildcards of SQL.
	// docs/placement-api.md lists all of them.
	UpstreamQuirks bool `json:"upstream_quirks,omitempty"`
	// CORSOrigin is the one origin whose browser requests are allowed; empty
	// for none.
	CORSOrigin string `json:"cors_origin,omitempty"`
	// Collation is how names and uuids compare where Placement compares them in SQL: names and uuids of providers, aggregates,
	// consumers, projects, users, and the names in the filter of traits. Empty means sim.CollationBinary, as with SQLite.
	Collation sim.Collation `json:"collation,omitempty"`
	// NoLeftoverConsumers corrects a defect that is imitated otherwise: a
	// first allocation write that names an unknown provider, or that is empty,
	// leaves a consumer with generation 0 behind, and the next write must name
	// that generation.
	NoLeftoverConsumers bool `json:"no_leftover_consumers,omitempty"`
	// MaxAllocationCandidates is how many allocation candidates a request generates before
	// its limit applies, as upstream's option max_allocation_candidates; 0 and less: all of
	// them. Upstream's -1 is all, and its 0 acts as 1.
	MaxAllocationCandidates int `json:"max_allocation_candidates,omitempty"`
	// GenerationStrategy is which candidates are generated with MaxAllocationCandidates, as
	// upstream's option allocation_candidates_generation_strategy; empty means
	// StrategyDepthFirst.
	GenerationStrategy GenerationStrategy `json:"allocation_candidates_generation_strategy,omitempty"`
	// OptimizeForWideProviderTrees is upstream's option of this name: the amounts that several
	// groups take from one inventory are compared with its capacity, without what is in use
	// already, so that a candidate may be offered that cannot be claimed.
	OptimizeForWideProviderTrees bool `json:"optimize_for_wide_provider_trees,omitempty"`
}

// WithDefaults returns the configuration with its defaults written out, and a series as its version.
func (c Config) WithDefaults() Config {
	c.Release = cmp.Or(c.Release, Release20262)
	c.Collation = cmp.Or(c.Collation, sim.CollationBinary)
	c.MaxAllocationCandidates = max(0, c.MaxAllocationCandidates)
	release, err := c.Release.find()
	if err != nil {
		return c // New refuses it
	}
	c.Release, c.Policy = release.version, cmp.Or(c.Policy, release.policy)
	if release.options >= withMaximum {
		c.GenerationStrategy = cmp.Or(c.GenerationStrategy, StrategyDepthFirst)
	}
	return c
}

// GenerationStrategy is the order in which allocation candidates are generated.
type GenerationStrategy string

// The strategies.
const (
	// StrategyDepthFirst generates all candidates of a root provider before the candidates of the next one.
	StrategyDepthFirst GenerationStrategy = "depth-first"
	// StrategyBreadthFirst generates one candidate of each root provider in turn.
	StrategyBreadthFirst GenerationStrategy = "breadth-first"
)

// Option is an option of [New].
type Option func(*Server)

// WithTokenVerifier verifies tokens with v. Without it the
// conventions of Placement's "noauth2" hold: the token is the user, or
// user:project, "admin" has the role admin, and X-Roles and X-Project-Id win.
func WithTokenVerifier(v sim.TokenVerifier) Option {
	return func(s *Server) { s.service.Verifier = v }
}

// WithFaults applies the fault rules of the set. The operations are those
// of [Operations], and the subject is the first identifier in the path.
func WithFaults(set *fault.Set) Option {
	return func(s *Server) {
		if s.service.Faults = set; set != nil {
			set.RegisterWork(work()...)
		}
	}
}

// WithClock replaces the wall clock.
func WithClock(c sim.Clock) Option { return func(s *Server) { s.service.Clock = c } }

// WithObserver calls observe with each exchange when it ends.
func WithObserver(observe func(sim.Exchange)) Option {
	return func(s *Server) { s.service.Observe = observe }
}

// WithPrefix also serves below a path such as "/placement", which links and
// locations then have.
func WithPrefix(prefix string) Option {
	return func(s *Server) { s.prefix = strings.TrimRight(prefix, "/") }
}

// Server is a Placement service. It is safe for parallel use.
type Server struct {
	config   Config
	release  release
	schemas  *schema.Set
	state    *engine.State
	service  *simhttp.Service
	standard []string // traits
	ids      *simhttp.IDs
	prefix   string
	buffers  sync.Pool // of *[]byte, for long answers
	queries  struct {
		parsed sync.Map // of *engine.CandidateQuery by queryString
		count  atomic.Int64
	}
}

var _ http.Handler = (*Server)(nil)

// New returns a service with the standard resource classes and traits only. The error matches [ErrConfig].
func New(cfg Config, opts ...Option) (*Server, error) {
	cfg = cfg.WithDefaults()
	release, err := cfg.Release.find()
	if err != nil {
		return nil, err
	}
	switch cfg.Policy {
	case PolicyDefault, PolicySecure, PolicyOpen:
	default:
		return nil, fmt.Errorf("%w: unknown policy %q (known: default, secure, open)", ErrConfig, cfg.Policy)
	}
	switch cfg.GenerationStrategy {
	case "", StrategyDepthFirst, StrategyBreadthFirst:
	default:
		return nil, fmt.Errorf("%w: unknown generation strategy %q (known: depth-first, breadth-first)", ErrConfig, cfg.GenerationStrategy)
	}
	if err := release.check(cfg); err != nil {
		return nil, err
	}
	if err := cfg.Collation.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	schemas, err := loadSchemas()
	if err != nil {
		return nil, err
	}
	standard := standardTraits(release.osTraits)
	s := &Server{
		config: cfg, release: release, schemas: schemas.In(release.jsonschema), standard: standard, ids: simhttp.NewIDs(cfg.Seed, "placement provider"),
	}
	s.service = &simhttp.Service{
		Name: "placement", Router: s.router(), Handler: s.serve, WriteError: s.writeError,
		Canonical: decodedPath, VersionHeader: versionHeader, Clock: simhttp.Wall{}, IDs: simhttp.NewIDs(cfg.Seed, "placement request"),
	}
	for _, opt := range opts {
		opt(s)
	}
	if s.prefix != "" {
		s.service.Prefixes = []string{s.prefix}
	}
	s.state = engine.New(standard, collation.Of(cfg.Collation), s.now())
	return s, nil
}

// StandardResourceClasses lists the resource classes that every service has,
// in the order of their ids.
func StandardResourceClasses() []string { return engine.StandardClasses() }

// Operations lists the names of the operations, sorted, for fault rules: those of requests, and the write of allocations
// within a request ([fault.AllocationsWrite]). [fault.Set.Describe] describes the actions of each.
func Operations() []sim.OperationName {
	names := (&Server{}).router().Operations()
	for _, w := range work() {
		names = append(names, w.Name)
	}
	slices.Sort(names)
	return names
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.service.ServeHTTP(w, r) }

func (s *Server) now() time.Time { return s.service.Clock.Now() }

// Close drops the requests that a fault rule applies late ([fault.Late]). The server still
// answers afterwards.
func (s *Server) Close() { s.service.Close() }
