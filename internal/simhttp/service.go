package simhttp

import (
	"context"
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
	// Handler is the service itself: it authenticates, negotiates the
	// microversion and then either refuses or calls the route that MatchOf
	// returns.
	Handler http.Handler
	// WriteFault answers an injected status in the service's error dialect.
	WriteFault func(w http.ResponseWriter, r *http.Request, status int, code string)
	// VersionHeader is the answer header that tells the microversion applied.
	VersionHeader string
	Faults        *fault.Set // nil: never fails
	Recorder      *Recorder  // nil: that of Recording, if there is one
	// Observe, if set, is called with each exchange when it ends, on the
	// goroutine that served it.
	Observe func(sim.Exchange)
	Clock   sim.Clock
	IDs     *IDs
	// Headers are the headers that this service reads beside those that every one does,
	// in canonical form.
	Headers []string
	// Refuse answers 400 with a text in the service's error dialect.
	Refuse func(w http.ResponseWriter, r *http.Request, detail string)
}

type matchKey struct{}

type requestIDKey struct{}

// MatchOf returns the route found for a request by its Service.
func MatchOf(r *http.Request) Match {
	match, _ := r.Context().Value(matchKey{}).(Match)
	return match
}

// RequestIDOf returns the id that the Service gave to a request.
func RequestIDOf(r *http.Request) string {
	id, _ := r.Context().Value(requestIDKey{}).(string)
	return id
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := s.Clock.Now()
	id := s.IDs.RequestID()
	match := s.Router.Match(r.Method, s.routedPath(r.URL.EscapedPath()))
	ctx := context.WithValue(r.Context(), matchKey{}, match)
	ctx, log := s.withChangeLog(ctx)
	r = r.WithContext(context.WithValue(ctx, requestIDKey{}, id))
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
	out := &watched{ResponseWriter: w}
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
		exchange.Unrecognized = s.unread(r, match, bufferBody(r, match))
	}
	if len(exchange.Unrecognized) > 0 && recorder.RefusesUnread {
		s.Refuse(out, r, refusal(exchange.Unrecognized))
		return
	}
	s.serve(out, r, rule)
}

func refusal(unread []string) string {
	return "The simulator is strict about requests, and nobody reads: " + strings.Join(unread, ", ")
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request, rule fault.Rule) {
	switch {
	case rule.Action == "":
		s.Handler.ServeHTTP(w, r)
	case rule.Applied():
		s.failAfter(w, r, rule)
	default:
		s.failBefore(w, r, rule)
	}
}

func (s *Service) failBefore(w http.ResponseWriter, r *http.Request, rule fault.Rule) {
	switch rule.Action {
	case fault.Delay:
		s.pause(r, rule.Delay)
		s.Handler.ServeHTTP(w, r)
	case fault.Drop:
		panic(http.ErrAbortHandler)
	default:
		s.WriteFault(w, r, statusOr500(rule.Status), rule.Code)
	}
}

// failAfter applies the request against a buffer, then spoils the answer.
func (s *Service) failAfter(w http.ResponseWriter, r *http.Request, rule fault.Rule) {
	answer := newBuffer()
	s.Handler.ServeHTTP(answer, r)
	switch rule.Action {
	case fault.Delay:
		s.pause(r, rule.Delay)
		answer.copyTo(w, answer.body.Bytes())
	case fault.Truncate:
		answer.truncateTo(w)
	case fault.SlowBody:
		s.trickle(w, r, answer, rule.Delay)
	case fault.Malformed:
		answer.header.Del("Content-Length")
		answer.copyTo(w, []byte(`{"malformed": `))
	case fault.Drop:
		panic(http.ErrAbortHandler)
	default:
		s.WriteFault(w, r, statusOr500(rule.Status), rule.Code)
	}
}

func statusOr500(status int) int {
	if status == 0 {
		return http.StatusInternalServerError
	}
	return status
}

// routedPath is the path that the router sees.
func (s *Service) routedPath(path string) string {
	path = s.trimPrefix(path)
	if s.Canonical != nil {
		path = s.Canonical(path)
	}
	return path
}

// trimPrefix cuts the mount point off.
func (s *Service) trimPrefix(path string) string {
	for _, prefix := range s.Prefixes {
		rest, ok := strings.CutPrefix(path, prefix)
		if ok && (rest == "" || rest[0] == '/') {
			return rest
		}
	}
	return path
}

func lastWord(s string) string {
	return s[strings.LastIndexByte(s, ' ')+1:]
}

// watched remembers the status that was sent.
type watched struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *watched) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
