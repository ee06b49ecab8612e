package fakecyborg

import (
	"context"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Clock is the one notion of time of a simulated cloud. The default is the
// machine's clock, which is virtual inside a testing/synctest bubble.
type Clock interface {
	// Now is the present time.
	Now() time.Time
	// Wait returns after d, or earlier with the context's error.
	Wait(ctx context.Context, d time.Duration) error
}

// TokenVerifier answers the identity headers that keystonemiddleware would set
// for a valid token: X-User-Id, X-Project-Id, X-Roles (comma separated) and
// OpenStack-System-Scope; an error for an invalid one.
type TokenVerifier interface {
	VerifyToken(token string) (http.Header, error)
}

// Endpoint is a peer that the server speaks to over HTTP.
type Endpoint struct {
	// URL is the root of the peer's API: "http://host/placement",
	// "http://host/compute/v2.1".
	URL string
	// Client sends the requests; nil means http.DefaultClient.
	Client *http.Client
	// Token returns the X-Auth-Token of a request; nil sends none.
	Token func(context.Context) (string, error)
}

// Request is one request that the server answered, without bodies and tokens.
type Request struct {
	// Operation is a name of Operations, or empty for an unknown path.
	Operation string
	// Subject is the first identifier in the path.
	Subject string
	// From is the caller's User-Agent.
	From         string
	Method       string
	Path         string
	Query        string
	Microversion string
	RequestID    string
	// Status is the status sent, 0 if the connection was dropped.
	Status int
	// Fault is the action of the fault rule that acted, if one did.
	Fault    string
	Started  time.Time
	Duration time.Duration
	// Changes is what the request changed, in the order in which it did.
	Changes []Change
}

// Option is something a Server is given in code; what a file could say is in
// Config.
type Option func(*Server)

// WithTokenVerifier makes the server check tokens. Without it the noauth
// conventions of OpenStack's services hold: the token names user and project
// ("user:project"), the user admin has the role admin, X-Roles and
// X-Project-Id win, and any X-Service-Token is a service's.
func WithTokenVerifier(v TokenVerifier) Option {
	return func(s *Server) { s.verifier = v }
}

// WithPlacement makes the conductor report resource providers to a Placement.
// Without it, devices are known to Cyborg only.
func WithPlacement(e Endpoint) Option {
	return func(s *Server) { s.placement = &placementClient{peer: peer{endpoint: e, agent: "cyborg-conductor"}} }
}

// WithNova makes the server post its events to Nova; without it they are only
// kept, see Server.Events.
func WithNova(e Endpoint) Option {
	return func(s *Server) { s.nova = &peer{endpoint: e, agent: "cyborg"} }
}

// WithGlance is where bitstream images are read: GET images/{id}/file below
// the URL. Without it every programming of a deployable fails.
func WithGlance(e Endpoint) Option {
	return func(s *Server) { s.glance = &peer{endpoint: e, agent: "cyborg-agent"} }
}

// WithFaults lets the rules of a set act; the names of Operations are
// registered with it.
func WithFaults(set *fault.Set) Option {
	return func(s *Server) { s.faults = set }
}

// WithClock replaces the machine's clock.
func WithClock(c Clock) Option {
	return func(s *Server) { s.clock = c }
}

// WithObserver is told of every request when it ends, on the goroutine that
// served it.
func WithObserver(observe func(Request)) Option {
	return func(s *Server) {
		s.observe = func(e simhttp.Exchange) {
			observe(Request{
				Operation: e.Operation, Subject: e.Subject, From: e.From, Method: e.Method, Path: e.Path,
				Query: e.Query, Microversion: e.Microversion, RequestID: e.RequestID, Status: e.Status,
				Fault: e.Fault, Started: e.Started, Duration: e.Duration, Changes: publicChanges(e.Changes),
			})
		}
	}
}

// WithAgentLoop lets the agents report by themselves: at once and then every
// minute on the server's clock, until Close. Upstream's agents do so with
// periodic_interval.
func WithAgentLoop() Option {
	return func(s *Server) { s.loop = true }
}
