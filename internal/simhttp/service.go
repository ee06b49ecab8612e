package simhttp

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// RequestIDHeader is set on every answer, as OpenStack's services do.
const RequestIDHeader = "X-Openstack-Request-Id"

// Service wraps one simulated service: it finds the route, lets faults act,
// calls Handler and records the exchange.
type Service struct {
	// Name appears in records: "placement".
	Name string
	// Prefixes are the mount points that are cut off before routing, longest
	// first; "" is always tried last. A path equal to a prefix routes as "".
	Prefixes []string
	// Canonical, if set, rewrites the escaped path that is left before it is
	// routed; the record keeps the path as it was sent.
	Canonical func(escapedPath string) string
	Router    *Router
	// Handler is the service itself: it checks the token, negotiates the microversion, in
	// the service's order, and ends with [Call.Dispatch].
	Handler Handler
	// WriteError answers with an error in the service's form; see [AsError].
	WriteError func(c *Call, err error)
	// VersionHeader is the answer header with the microversion applied.
	VersionHeader string
	Faults        *fault.Set // nil: never fails
	Recorder      *Recorder  // nil: that of Recording, if there is one
	// Observe, if set, is called with each exchange when it ends, on the
	// goroutine that served it.
	Observe func(sim.Exchange)
	Clock   sim.Clock
	IDs     *IDs
}

// Routes lists what the service serves, in the order of its router.
func (s *Service) Routes() []sim.Route {
	var list []sim.Route
	for _, r := range s.Router.Routes() {
		list = append(list, sim.Route{Service: s.Name, Operation: r.Operation, Method: r.Method, Pattern: r.Pattern})
	}
	return list
}

// Operations lists the names that fault rules may use, sorted.
func (s *Service) Operations() []string { return s.Router.Operations() }

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := s.Clock.Now()
	id := s.IDs.RequestID()
	mount, path := s.route(r.URL.EscapedPath())
	match := s.Router.Match(r.Method, path)
	ctx, log := s.withChangeLog(r.Context())
	r = r.WithContext(ctx)
	w.Header().Set(RequestIDHeader, id)
	w.Header().Set("Date", started.UTC().Format(http.TimeFormat)) // net/http would use its own clock

	exchange := sim.Exchange{
		Service: s.Name, From: r.UserAgent(), Method: r.Method, Path: r.URL.Path,
		Query: r.URL.RawQuery, RequestID: id, Started: started, Internal: IsInternal(r.Context()),
	}
	var rule fault.Rule
	if match.Route != nil {
		for name, value := range match.vars {
			r.SetPathValue(name, value)
		}
		exchange.Operation, exchange.Subject = match.Route.Operation, match.Route.subject(r)
		rule, _ = s.Faults.Decide(exchange.Operation, exchange.Subject)
		exchange.Fault = string(rule.Action)
	}
	out := &statusWriter{ResponseWriter: w}
	recorder := s.Recorder
	if recorder == nil {
		recorder = recorderOf(r.Context())
	}
	number := recorder.begin()
	defer func() {
		exchange.Status, exchange.Duration = out.status, s.Clock.Now().Sub(started)
		exchange.Microversion = lastWord(w.Header().Get(s.VersionHeader))
		exchange.Changes = log.End()
		recorder.add(number, exchange)
		if s.Observe != nil {
			s.Observe(exchange)
		}
	}()
	if recorder != nil {
		exchange.Unrecognized = unrecognized(r, match, bufferBody(r, match))
	}
	c := &Call{Request: r, W: out, Match: match, Mount: mount}
	if len(exchange.Unrecognized) > 0 && recorder.RefusesUnrecognized {
		s.WriteError(c, Refuse(http.StatusBadRequest, "The simulator is strict about requests. Unrecognized: %s", strings.Join(exchange.Unrecognized, ", ")))
		return
	}
	s.serve(c, rule)
}

// serve lets a fault rule act on a call.
func (s *Service) serve(c *Call, rule fault.Rule) {
	switch {
	case rule.Action == "":
		s.handle(c)
	case rule.Applied():
		s.failAfter(c, rule)
	default:
		s.failBefore(c, rule)
	}
}

// handle serves a call without a fault.
func (s *Service) handle(c *Call) {
	if err := s.Handler(c); err != nil {
		s.WriteError(c, err)
	}
}

func (s *Service) failBefore(c *Call, rule fault.Rule) {
	switch rule.Action {
	case fault.Delay:
		s.pause(c.Request, rule.Delay)
		s.handle(c)
	case fault.Drop:
		panic(http.ErrAbortHandler)
	default:
		s.WriteError(c, injected(rule))
	}
}

// failAfter applies the request against a buffer, then spoils the answer.
func (s *Service) failAfter(c *Call, rule fault.Rule) {
	w, answer := c.W, newBuffer()
	c.W = answer
	s.handle(c)
	c.W = w
	switch rule.Action {
	case fault.Delay:
		s.pause(c.Request, rule.Delay)
		answer.copyTo(w, answer.body.Bytes())
	case fault.Truncate:
		answer.truncateTo(w)
	case fault.SlowBody:
		s.trickle(w, c.Request, answer, rule.Delay)
	case fault.Malformed:
		answer.header.Del("Content-Length")
		answer.copyTo(w, []byte(`{"malformed": `))
	case fault.Drop:
		panic(http.ErrAbortHandler)
	default:
		s.WriteError(c, injected(rule))
	}
}

// injected is the error of a rule.
func injected(rule fault.Rule) error {
	return &Error{Status: cmp.Or(rule.Status, http.StatusInternalServerError), Code: rule.Code, Text: "injected fault"}
}

// route splits a path into the mount point and the path that the router sees.
func (s *Service) route(path string) (mount, routed string) {
	for _, prefix := range s.Prefixes {
		rest, ok := strings.CutPrefix(path, prefix)
		if ok && (rest == "" || rest[0] == '/') {
			mount, path = prefix, rest
			break
		}
	}
	if s.Canonical != nil {
		path = s.Canonical(path)
	}
	return mount, path
}

func lastWord(s string) string {
	return s[strings.LastIndexByte(s, ' ')+1:]
}

// statusWriter remembers the status that was sent.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
