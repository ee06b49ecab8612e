package nova

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Config is the configuration of a Server. The zero value accepts events for any instance.
type Config struct {
	// Seed determines request ids.
	Seed uint64
	// Release is the newest if it is zero.
	Release Release
	// StrictInstances answers 404 for instances that are not guests and 422 for guests
	// without a host, per event, as Nova does.
	StrictInstances bool
	// EventForm is the form of the specifications that is accepted in addition to the shipped one:
	// EventFormTrain or EventFormUssuri; empty: none, as in Nova itself.
	EventForm string
	// Flavors are the flavors of the API.
	Flavors []Flavor
	// Clock is the machine's if nil.
	Clock sim.Clock
	// Faults are the rules that act on requests and on the forwarding of events; nil means no rules.
	Faults *fault.Set
	// Verifier checks tokens; if nil, callers identify themselves (simhttp.Call.Authenticate).
	Verifier sim.TokenVerifier
	// Token is sent with forwarded events. It must belong to an administrator; nil sends none.
	Token func(context.Context) (string, error)
	// Logger logs the events that could not be forwarded; nil: nothing.
	Logger *slog.Logger
}

// The forms of the event in the specifications. Nova never accepted either.
const (
	// EventFormTrain: arq_resolved, one for each request, with the status ok or failed.
	EventFormTrain = "train"
	// EventFormUssuri: accelerator-requests-bound, one for an instance; its tag is the
	// name of the device profile.
	EventFormUssuri = "ussuri"
)

// Server is the compute service. It is an http.Handler for /compute, /compute/v2.1 and
// the same without /compute, and safe for parallel use.
type Server struct {
	*simhttp.Service
	cfg       Config
	urlClient *http.Client // with its own connections: an httptest.Server that ends closes those of http.DefaultTransport
	flavors   []flavor
	state     state
	// deliveries forward the delayed events.
	deliveries deliveries

	mu      sync.RWMutex
	handler *http.Client // of the handler; nil: none
	urls    []string
}

var _ http.Handler = (*Server)(nil)

// eventTimeout limits one delivery to a URL.
const eventTimeout = 10 * time.Second

// New returns a server without guests. Close it, or delayed events may still be
// forwarded.
func New(cfg Config) *Server {
	cfg.Clock = cmp.Or[sim.Clock](cfg.Clock, simhttp.Wall{})
	cfg.Release = cmp.Or(cfg.Release, newest())
	s := &Server{cfg: cfg, flavors: newFlavors(cfg.Seed, cfg.Flavors), state: newState(), deliveries: deliveries{waiting: make(map[int64]*context.CancelFunc)}}
	s.urlClient = &http.Client{Transport: ownConnections(), Timeout: eventTimeout}
	s.Service = &simhttp.Service{
		Name:          "compute",
		Prefixes:      []string{"/compute"},
		Router:        simhttp.NewRouter(s.routes()...),
		Handler:       s.serve,
		WriteError:    writeError,
		VersionHeader: headerVersion,
		Clock:         cfg.Clock,
		Verifier:      cfg.Verifier,
		Faults:        cfg.Faults,
		IDs:           simhttp.NewIDs(cfg.Seed, "compute"),
	}
	if cfg.Faults != nil {
		// Drop loses the event, Delay forwards it later and answers at once, Status
		// forwards it as failed, Duplicate a second time right after the first, and
		// Reorder after all others of its request.
		cfg.Faults.RegisterWork(fault.Operation{
			Name: fault.ExternalEventForward, Subject: "the event's tag",
			Actions: []fault.Action{fault.Status, fault.Drop, fault.Delay, fault.Duplicate, fault.Reorder},
		})
	}
	return s
}

// Close stops delayed events and requests, and waits until none is being forwarded or
// applied.
func (s *Server) Close() {
	s.Service.Close()
	s.deliveries.close()
	s.urlClient.CloseIdleConnections()
}

func ownConnections() http.RoundTripper {
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		return standard.Clone()
	}
	return http.DefaultTransport // what the program has put there
}

func (s *Server) routes() []simhttp.Route {
	routes := []simhttp.Route{{
		Operation: fault.ExternalEventsCreate, Method: http.MethodPost, Pattern: "/v2.1/os-server-external-events", Handler: s.postEvents,
		Input: simhttp.Input{Body: []string{"events[].name", "events[].server_uuid", "events[].tag", "events[].status"}},
	}}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, pattern := range []string{"", "/"} {
			routes = append(routes, simhttp.Route{Operation: fault.ComputeVersionsList, Method: method, Pattern: pattern, Handler: s.listVersions})
		}
		for _, pattern := range []string{"/v2.1", "/v2.1/"} {
			routes = append(routes, simhttp.Route{Operation: fault.ComputeVersionGet, Method: method, Pattern: pattern, Handler: s.getVersion})
		}
	}
	return append(routes, s.flavorRoutes()...)
}

// serve keeps Nova's order: token, route, microversion. The documents at the roots
// need neither token nor version.
func (s *Server) serve(c *simhttp.Call) error {
	if c.Route != nil && (c.Route.Operation == fault.ComputeVersionsList || c.Route.Operation == fault.ComputeVersionGet) {
		return c.Dispatch()
	}
	if err := c.Authenticate(s.cfg.Verifier); err != nil {
		return err
	}
	if err := c.RequireRoute(); err != nil {
		return err
	}
	if err := s.negotiate(c); err != nil {
		return err
	}
	return c.Dispatch()
}

// absent is the text for a path that nothing answers. For servers it refers to a real Nova.
func absent(c *simhttp.Call) string {
	if strings.Contains(c.Request.URL.Path, "/servers") {
		return "This cloud runs no servers. docs/nova/run of gocyborg starts a real Nova for it."
	}
	return "The resource could not be found."
}

// writeError answers in Nova's form, in which the key follows from the status. A 401 is
// that of keystonemiddleware in front of Nova.
func writeError(c *simhttp.Call, err error) {
	e := simhttp.AsError(err)
	key, text := "computeFault", e.Text
	switch e.Status {
	case http.StatusUnauthorized:
		c.WriteUnauthorized("/identity")
		return
	case http.StatusBadRequest:
		key = "badRequest"
	case http.StatusForbidden:
		key = "forbidden"
	case http.StatusNotFound:
		key, text = "itemNotFound", cmp.Or(text, absent(c))
	case http.StatusMethodNotAllowed:
		key, text = "badMethod", cmp.Or(text, "The method is not allowed for this resource.")
	case http.StatusConflict:
		key = "conflictingRequest"
	case http.StatusRequestEntityTooLarge:
		key = "overLimit"
	case http.StatusUnsupportedMediaType:
		key = "badMediaType"
	case http.StatusServiceUnavailable:
		key = "serviceUnavailable"
	}
	simhttp.WriteJSON(c.W, e.Status, map[string]any{key: map[string]any{"code": e.Status, "message": text}})
}
