package simhttp

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/internal/uuids"
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
	// Canonical, if set, rewrites the remaining escaped path before it is routed. The record
	// keeps the path as it was sent.
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
	// Observe, if set, is called with each exchange when it ends, on the
	// goroutine that served it.
	Observe func(sim.Exchange)
	Clock   sim.Clock
	// ClockSkew is added to the time in the header Date.
	ClockSkew time.Duration
	// Verifier is that of Handler. The faults ExpireToken and ExpireServiceToken need one with
	// the method Revoke(token string).
	Verifier sim.TokenVerifier
	IDs      *IDs

	late Background // requests that are applied after their connection ended
}

// Routes lists what the service serves, in the order of its router.
func (s *Service) Routes() []sim.Route {
	var list []sim.Route
	for _, r := range s.Router.Routes() {
		list = append(list, sim.Route{
			Service: s.Name, Operation: r.Operation, Method: r.Method, Pattern: r.Pattern,
			Query: slices.Clone(r.Query), Body: slices.Clone(r.Body),
		})
	}
	return list
}

// Operations lists the names that fault rules may use, sorted.
func (s *Service) Operations() []sim.OperationName { return s.Router.Operations() }

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &statusWriter{ResponseWriter: w}
	s.answer(out, r)
	out.linger(r.Body)
}

func (s *Service) answer(out *statusWriter, r *http.Request) {
	r, scope := s.take(r)
	mount, path := s.route(r.URL.EscapedPath())
	c := &Call{Request: r, W: out, Match: s.Router.Match(r.Method, path), Mount: mount, service: s.Name}
	exchange := s.begin(c)
	var rule fault.Rule
	if c.Route != nil {
		rule, _ = s.Faults.Decide(exchange.Operation, exchange.Subject)
		exchange.Fault = string(rule.Action)
	}
	number := scope.recorder.begin()
	if scope.recorder != nil {
		exchange.Unrecognized = unrecognized(c.Request, c.Match, bufferBody(c.Request, c.Match))
	}
	refused := len(exchange.Unrecognized) > 0 && scope.recorder.RefusesUnrecognized
	if scope.log != nil { // else nothing keeps the exchange
		scope.secrets = secretsOf(r.Header)
		scope.secrets.redact(&exchange)
	}
	if rule.Action == fault.Late && !refused {
		late := exchange // only this copy outlives the call
		s.serveLate(c, rule, func(answer http.Header) { s.end(scope, number, c, late, out.status, answer) })
		return
	}
	defer func() { s.end(scope, number, c, exchange, out.status, out.Header()) }()
	if refused {
		s.WriteError(c, Refuse(http.StatusBadRequest, "The simulator is strict about requests. Unrecognized: %s", strings.Join(exchange.Unrecognized, ", ")))
		return
	}
	s.serve(c, rule)
}

// take returns a request that is served as a new exchange. It has a log if anything reads it, and
// no access to the log of an outer exchange.
func (s *Service) take(r *http.Request) (*http.Request, *scope) {
	r, scope := withScope(r)
	scope.taken = true
	if s.Observe != nil || scope.recorder != nil {
		scope.log = new(tables.ChangeLog)
	}
	return r, scope
}

// begin sets the headers that every answer has, and returns what is known of the exchange.
func (s *Service) begin(c *Call) sim.Exchange {
	exchange := sim.Exchange{
		Service: s.Name, From: c.UserAgent(), Method: c.Method, Path: c.URL.Path, Query: c.URL.RawQuery,
		RequestID: s.IDs.RequestID(), Started: s.Clock.Now(), Internal: IsInternal(c.Context()),
	}
	if id := c.Header.Get(RequestIDHeader); uuids.IsRequestID(id) {
		exchange.GlobalRequestID = id
	}
	c.W.Header().Set(RequestIDHeader, exchange.RequestID)
	c.W.Header().Set("Date", exchange.Started.Add(s.ClockSkew).UTC().Format(http.TimeFormat)) // net/http would use its own clock
	if c.Route != nil {
		exchange.Operation, exchange.Subject = c.Route.Operation, c.subject(c.Request)
	}
	return exchange
}

// end records an exchange.
func (s *Service) end(scope *scope, number uint64, c *Call, exchange sim.Exchange, status int, answer http.Header) {
	exchange.Deviation = c.Deviation
	exchange.Status, exchange.Duration = status, s.Clock.Now().Sub(exchange.Started)
	exchange.Microversion = lastWord(answer.Get(s.VersionHeader))
	scope.recorder.add(number, exchange, scope.log, scope.secrets)
	if s.Observe != nil {
		exchange.Changes = scope.secrets.changes(scope.log.Changes())
		s.Observe(exchange)
	}
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
	case fault.Proxy:
		writeProxyError(c.W, rule)
	case fault.ExpireToken:
		s.revoke(c.Header.Get("X-Auth-Token"))
		s.handle(c)
	case fault.ExpireServiceToken:
		s.revoke(c.Header.Get("X-Service-Token"))
		s.handle(c)
	default:
		s.WriteError(c, injected(rule))
	}
}

// revoke ends the validity of a token, if the verifier can.
func (s *Service) revoke(token string) {
	if r, ok := s.Verifier.(interface{ Revoke(token string) }); ok {
		r.Revoke(token)
	}
}

// writeProxyError answers as a proxy before the service does, with a page for people.
func writeProxyError(w http.ResponseWriter, rule fault.Rule) {
	status := cmp.Or(rule.Status, http.StatusBadGateway)
	title := fmt.Sprint(status, " ", http.StatusText(status))
	w.Header().Del(RequestIDHeader)
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<html>\n<head><title>%[1]s</title></head>\n<body>\n<center><h1>%[1]s</h1></center>\n</body>\n</html>\n", title)
}

// failAfter applies the request against a buffer, then spoils the answer.
func (s *Service) failAfter(c *Call, rule fault.Rule) {
	w, answer := c.W, newBuffer(new(bytes.Buffer))
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
	case fault.Proxy:
		writeProxyError(w, rule)
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
	status  int
	refusal *bytes.Buffer // the body of an answer that linger sends; nil for others
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		if w.refuses(status) {
			return
		}
	}
	if w.refusal == nil {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements io.Writer.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.refusal != nil {
		return w.refusal.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
