package fakecyborg

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Server is a Cyborg: API, conductor and the agents of its hosts. It is an http.Handler and safe for
// parallel use.
type Server struct {
	cfg       Config
	release   release
	verifier  sim.TokenVerifier
	placement *layout.Client
	nova      *simhttp.Peer
	glance    *simhttp.Peer
	faults    *fault.Set
	clock     sim.Clock
	logger    *slog.Logger
	observe   func(sim.Exchange)
	loop      bool
	reported  func(host string, err error)

	service   *simhttp.Service
	policies  map[sim.OperationName]policy
	db        *store.Store
	conductor *agent.Conductor
	foreign   sync.Once // the warning of noteForeign
}

// New returns a server without hosts and profiles. The error matches [ErrConfig].
func New(cfg Config, opts ...Option) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	s := &Server{cfg: cfg, release: cfg.Release.release(cfg.EnforceNewDefaults), clock: simhttp.Wall{}}
	if !cfg.UpstreamQuirks {
		s.release = s.release.mended()
	}
	for _, opt := range opts {
		opt(s)
	}
	rules := layout.Rules{Layout: string(cfg.PlacementMode), Quirks: cfg.UpstreamQuirks, StandardTraits: s.release.StandardTraits}
	if s.placement != nil {
		s.placement.Rules, s.placement.GetErrors = rules, s.release.GetErrors
	}
	if s.faults != nil {
		s.faults.RegisterWork(agent.Operations()...)
		s.faults.Register(Operations()...)
	}
	ids := simhttp.NewIDs(cfg.Seed, "cyborg")
	s.db = store.New(store.Config{
		Seed: s.cfg.Seed, Quirks: s.cfg.UpstreamQuirks, Layout: string(s.cfg.PlacementMode), Mdevs: string(s.cfg.MdevCreation), RequestIDs: ids.Position,
		Collation: collation.Of(s.cfg.Collation),
	})
	if s.cfg.ReadLag > 0 {
		s.db.DB().KeepPast(s.cfg.ReadLag, s.clock.Now)
	}
	s.conductor = agent.New(agent.Config{
		Rules: rules, Async: s.cfg.async(), BindDelay: s.cfg.BindDelay,
		BindTimeout: s.cfg.BindTimeout, EventForm: string(s.cfg.EventForm), BindingStates: s.cfg.BindingStates,
		HeartbeatPeriod: s.cfg.HeartbeatPeriod, MissedBeats: s.cfg.MissedBeats, RuntimeProgramming: s.cfg.RuntimeProgramming,
		RootName: s.release.RootName, DriverReport: s.driverReport,
		Clock: s.clock, Logger: s.logger, Faults: s.faults, Placement: s.placement, Nova: s.nova, Glance: s.glance, Loop: s.loop, Reported: s.reported,
	}, s.db)
	s.policies = make(map[sim.OperationName]policy)
	for _, r := range s.routes() {
		s.policies[r.operation] = r.policy
	}
	s.service = &simhttp.Service{
		Name: "accelerator", Prefixes: []string{"/accelerator"}, Canonical: canonicalPath,
		Router: s.router(), Handler: s.handle, WriteError: s.writeError,
		VersionHeader: headerVersion, Faults: s.faults, Observe: s.observe,
		Clock: s.clock, ClockSkew: s.cfg.ClockSkew, Verifier: s.verifier, IDs: ids,
	}
	return s, nil
}

// ServeHTTP implements http.Handler. The API is served below /accelerator and
// without that prefix, with and without the version.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.service.ServeHTTP(w, r) }

// Close ends the agents, the binds in the background and the requests that are applied late, and waits for
// them. The server still answers afterwards, but calls no peer.
func (s *Server) Close() {
	s.service.Close()
	s.conductor.Close()
}

// update changes the database for the request of ctx.
func (s *Server) update(ctx context.Context, write func(store.Tx)) {
	s.db.Update(simhttp.ChangeLogOf(ctx), write)
}

// Operations lists the names that fault rules use: the operations of the API, sending events,
// creating and removing mediated devices, writing bitstreams, finding devices, calls and reports
// of agents, and the write of a PATCH or DELETE of requests after its check. [fault.Set.Describe]
// describes the actions of each.
func Operations() []sim.OperationName {
	names := (&Server{release: Release20262.release(nil)}).router().Operations()
	for _, w := range agent.Operations() {
		names = append(names, w.Name)
	}
	slices.Sort(names)
	return names
}

// canonicalPath is one form of the paths that upstream accepts: no trailing slash, no ".json", always with the version.
func canonicalPath(path string) string {
	path = strings.TrimSuffix(strings.TrimRight(path, "/"), jsonExtension)
	if path == "" {
		return ""
	}
	if path != "/v2" && !strings.HasPrefix(path, "/v2/") {
		path = "/v2" + path
	}
	return path
}

// jsonExtension at the end of a path chooses JSON, regardless of the Accept header.
const jsonExtension = ".json"

// handle checks a call in upstream's order: token, version, path and method, Accept, policy, and then the
// handler's own checks. The middlewares in front answer OPTIONS and know the public documents by their paths.
func (s *Server) handle(c *simhttp.Call) error {
	if c.Method == http.MethodOptions {
		c.W.Header().Del(simhttp.RequestIDHeader)
		return c.Empty(http.StatusOK)
	}
	path := canonicalPath(strings.TrimPrefix(c.URL.Path, c.Mount))
	if path != "" && path != "/v2" {
		if err := c.Authenticate(s.verifier, s.serviceRoles()...); err != nil {
			return err
		}
	}
	if path != "" {
		if err := s.negotiate(c); err != nil {
			return err
		}
	}
	if c.Route == nil {
		return s.unrouted(c)
	}
	if err := acceptsJSON(c); err != nil {
		return err
	}
	if err := s.authorize(c); err != nil && !s.programsOwn(c) {
		return err
	}
	return c.Dispatch()
}

// acceptsJSON refuses a client that does not accept JSON. The answer has no version headers.
func acceptsJSON(c *simhttp.Call) error {
	accept := strings.Join(c.Header.Values("Accept"), ",")
	if accept == "" || strings.HasSuffix(strings.TrimRight(c.URL.Path, "/"), jsonExtension) {
		return nil
	}
	for _, known := range []string{"json", "*/*", "application/*"} {
		if strings.Contains(accept, known) {
			return nil
		}
	}
	clearVersion(c.W.Header())
	return notAcceptable("")
}

// links writes the addresses of resources.
type links struct{ base string }

func (s *Server) links(c *simhttp.Call) links {
	return links{cmp.Or(s.cfg.PublicEndpoint, s.requestURL(c))}
}

// requestURL returns the scheme and the host of a request. Behind a proxy it returns the
// client's, if the release and the configuration enable it (oslo.middleware's
// http_proxy_to_wsgi).
func (s *Server) requestURL(c *simhttp.Call) string {
	if s.release.ProxyHeaders == yes && s.cfg.EnableProxyHeadersParsing {
		return c.ForwardedURL()
	}
	return c.DirectURL()
}

// link is one reference in a body.
type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// self is the list of one link that most resources have. It has the prefix even if the request did not.
func (l links) self(collection, id string) []link {
	return []link{{l.base + "/accelerator/v2/" + collection + "/" + id, "self"}}
}
