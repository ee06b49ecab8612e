package fakecyborg

import (
	"log/slog"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Option passes what only code can give to a Server. Everything else is in Config.
type Option func(*Server)

// WithTokenVerifier makes the server verify tokens. Without it the noauth conventions of OpenStack's
// services hold: the token names user and project ("user:project"), the user admin has the role admin,
// X-Roles and X-Project-Id take precedence, and any X-Service-Token is a service's.
func WithTokenVerifier(v sim.TokenVerifier) Option {
	return func(s *Server) { s.verifier = v }
}

// WithPlacement makes the conductor report resource providers to a Placement. Without it nothing is reported.
func WithPlacement(e sim.Endpoint) Option {
	return func(s *Server) {
		s.placement = &layout.Client{Peer: simhttp.Peer{Endpoint: e, Agent: "cyborg-conductor"}}
	}
}

// WithNova makes the server post its events to Nova; without it they are only stored, see Server.Events.
func WithNova(e sim.Endpoint) Option {
	return func(s *Server) { s.nova = &simhttp.Peer{Endpoint: e, Agent: "cyborg"} }
}

// WithGlance makes the server read bitstream images from Glance: GET images/{id}/file below the URL.
// Without it every programming of a deployable fails.
func WithGlance(e sim.Endpoint) Option {
	return func(s *Server) { s.glance = &simhttp.Peer{Endpoint: e, Agent: "cyborg-agent"} }
}

// WithFaults applies the rules of a set, with which the names of Operations are registered.
func WithFaults(set *fault.Set) Option {
	return func(s *Server) { s.faults = set }
}

// WithClock replaces the machine's clock.
func WithClock(c sim.Clock) Option {
	return func(s *Server) { s.clock = c }
}

// WithLogger logs what no answer contains: why binds fail.
func WithLogger(logger *slog.Logger) Option {
	return func(s *Server) { s.logger = logger }
}

// WithObserver calls observe with every request when it ends, on the goroutine that served it.
func WithObserver(observe func(sim.Exchange)) Option {
	return func(s *Server) { s.observe = observe }
}

// WithAgentLoop makes the agents report by themselves: at once and then every minute on the server's
// clock, until Close. Upstream's agents do so with periodic_interval.
func WithAgentLoop() Option {
	return func(s *Server) { s.loop = true }
}

// WithReportObserver calls observe at the end of every report of a host's agent with the error that
// [Server.ReportHost] has, on the goroutine of the report. Reports of several hosts end side by side.
func WithReportObserver(observe func(host string, err error)) Option {
	return func(s *Server) { s.reported = observe }
}
