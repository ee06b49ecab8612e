package nova

import (
	"net/http"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// The names of the operations that fault rules may use.
const (
	opVersions = "compute.versions.list"
	opVersion  = "compute.version.get"
	opEvents   = "compute.external_events.create"
	// opForward is not a request: it is forwarding one event, with the event's tag as
	// the subject. Drop loses the event, Delay forwards it later and answers at once,
	// Status forwards it as failed, Duplicate a second time right after the first, and
	// Reorder after all others of its request.
	opForward = "compute.external_event.forward"
)

// Config is the configuration of a Server. The zero value accepts events for any instance.
type Config struct {
	// Seed determines request ids.
	Seed uint64
	// StrictInstances answers 404 for instances that are no guests and 422 for guests
	// without a host, per event, as Nova does.
	StrictInstances bool
	// EventForm is the form of the specifications that is taken beside the shipped one:
	// EventFormTrain or EventFormUssuri; empty: none, as in Nova itself.
	EventForm string
}

// The forms of the event of the specifications, of which Nova took neither.
const (
	// EventFormTrain: arq_resolved, one for each request, with the status ok or failed.
	EventFormTrain = "train"
	// EventFormUssuri: accelerator-requests-bound, one for an instance; its tag is the
	// name of the device profile.
	EventFormUssuri = "ussuri"
)

// Option changes how a Server works.
type Option func(*Server)

// WithClock sets the clock; the machine's by default.
func WithClock(clock sim.Clock) Option { return func(s *Server) { s.clock = clock } }

// WithFaults lets the rules of a set act on requests and on the forwarding of events.
func WithFaults(faults *fault.Set) Option {
	return func(s *Server) { s.service.Faults = faults }
}

// WithTokenVerifier checks tokens; without it the conventions of simhttp.NoAuth hold.
func WithTokenVerifier(v sim.TokenVerifier) Option { return func(s *Server) { s.verifier = v } }

// Server is the compute service. It is an http.Handler for /compute, /compute/v2.1 and
// the same without /compute, and safe for parallel use.
type Server struct {
	cfg       Config
	clock     sim.Clock
	verifier  sim.TokenVerifier
	urlClient *http.Client
	service   *simhttp.Service
	state     state
	// deliveries forward the delayed events.
	deliveries deliveries

	mu      sync.RWMutex
	handler http.Handler // nil: none
	urls    []string
}

var _ http.Handler = (*Server)(nil)

// eventTimeout limits one delivery to a URL.
const eventTimeout = 10 * time.Second

// New returns a server without guests. Close it, or delayed events may still be
// forwarded.
func New(cfg Config, opts ...Option) *Server {
	s := &Server{
		cfg:       cfg,
		clock:     sim.Wall{},
		urlClient: &http.Client{Timeout: eventTimeout},
		state:     newState(),
	}
	s.service = &simhttp.Service{
		Name:          "compute",
		Prefixes:      []string{"/compute"},
		Router:        simhttp.NewRouter(simhttp.WithInputs(s.routes(), inputs())...),
		Handler:       s.serve,
		WriteError:    writeError,
		VersionHeader: headerVersion,
		IDs:           simhttp.NewIDs(cfg.Seed, "compute"),
	}
	for _, opt := range opts {
		opt(s)
	}
	s.service.Clock = s.clock
	if s.service.Faults != nil {
		s.service.Faults.RegisterWork(fault.Operation{
			Name: opForward, Subject: "the event's tag",
			Actions: []fault.Action{fault.Status, fault.Drop, fault.Delay, fault.Duplicate, fault.Reorder},
		})
	}
	return s
}

// Close stops delayed events and waits until none is being forwarded.
func (s *Server) Close() { s.deliveries.close() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.service.ServeHTTP(w, r) }

// Service is the server as the other simulators wrap themselves, for lists of routes.
func (s *Server) Service() *simhttp.Service { return s.service }

// Operations lists the names that fault rules may use, sorted.
func (s *Server) Operations() []string {
	return append([]string{opForward}, s.service.Router.Operations()...)
}

func (s *Server) routes() []simhttp.Route {
	routes := []simhttp.Route{{
		Operation: opEvents, Method: http.MethodPost, Pattern: "/v2.1/os-server-external-events", Handler: s.postEvents,
	}}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, pattern := range []string{"", "/"} {
			routes = append(routes, simhttp.Route{Operation: opVersions, Method: method, Pattern: pattern, Handler: listVersions})
		}
		for _, pattern := range []string{"/v2.1", "/v2.1/"} {
			routes = append(routes, simhttp.Route{Operation: opVersion, Method: method, Pattern: pattern, Handler: getVersion})
		}
	}
	return routes
}

// serve keeps Nova's order: token, route, microversion. The documents at the roots
// need neither token nor version.
func (s *Server) serve(c *simhttp.Call) error {
	if c.Route != nil && c.Route.Operation != opEvents {
		return c.Dispatch()
	}
	if err := c.Authenticate(s.verifier); err != nil {
		return err
	}
	if err := c.RequireRoute(); err != nil {
		return err
	}
	if err := negotiate(c); err != nil {
		return err
	}
	return c.Dispatch()
}
