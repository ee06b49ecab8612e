package simhttp

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// Route is one operation of a service.
type Route struct {
	Operation sim.OperationName
	Method    string
	// Pattern is a path below the service's root; a segment in braces is a
	// variable, available through Call.PathValue:
	// "/resource_providers/{uuid}/traits". A pattern matches segment by
	// segment and exactly: nothing is cleaned and nothing redirected, unlike
	// in http.ServeMux, because clients refuse the redirects.
	Pattern string
	Handler Handler
	// Subject returns the subject of the request, for faults and records; nil
	// means the first path variable.
	Subject func(*http.Request) string
	// Input lists the parts of a request that the route reads.
	Input
}

// Match is the result of a Router for a request.
type Match struct {
	// Route is nil when no route has both the path and the method.
	Route *Route
	// Allowed lists, sorted, the methods of the routes that have the path, if Route is nil;
	// empty for an unknown path.
	Allowed []string
	pattern []string // of the route
	path    string
	body    *shape
}

// Router finds the route of a request. Routes are tried in order, so a fixed
// segment that must win over a variable comes first.
type Router struct {
	routes []parsedRoute
}

type parsedRoute struct {
	route    Route
	segments []string
	body     *shape
}

// NewRouter returns a router over the routes.
func NewRouter(routes ...Route) *Router {
	r := &Router{routes: make([]parsedRoute, 0, len(routes))}
	for _, route := range routes {
		r.routes = append(r.routes, parsedRoute{route, strings.Split(route.Pattern, "/"), newShape(route.Body)})
	}
	return r
}

// Routes returns a copy of the routes in order.
func (r *Router) Routes() []Route {
	routes := make([]Route, 0, len(r.routes))
	for _, parsed := range r.routes {
		routes = append(routes, parsed.route)
	}
	return routes
}

// Operations lists the operation names, sorted, each once.
func (r *Router) Operations() []sim.OperationName {
	names := make([]sim.OperationName, 0, len(r.routes))
	for _, parsed := range r.routes {
		names = append(names, parsed.route.Operation)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Match finds the route for a method and an escaped path below the service's
// root.
func (r *Router) Match(method, escapedPath string) Match {
	var room [8]string
	segments := slices.AppendSeq(room[:0], strings.SplitSeq(escapedPath, "/"))
	for i := range r.routes {
		if parsed := &r.routes[i]; parsed.route.Method == method && matches(parsed.segments, segments) {
			return Match{Route: &parsed.route, pattern: parsed.segments, path: escapedPath, body: parsed.body}
		}
	}
	var allowed []string
	for i := range r.routes {
		if parsed := &r.routes[i]; matches(parsed.segments, segments) {
			allowed = append(allowed, parsed.route.Method)
		}
	}
	slices.Sort(allowed)
	return Match{Allowed: slices.Compact(allowed)}
}

// matches compares a pattern with a path; a variable takes any segment that is not empty.
func matches(pattern, path []string) bool {
	if len(pattern) != len(path) {
		return false
	}
	for i, want := range pattern {
		if _, isVariable := variable(want); !isVariable {
			if want != path[i] {
				return false
			}
		} else if value, err := url.PathUnescape(path[i]); err != nil || value == "" {
			return false
		}
	}
	return true
}

// PathValue is the value of a variable of the path, unescaped; "" without one of the name.
func (m Match) PathValue(name string) string {
	return m.value(func(variable string) bool { return variable == name })
}

// subject returns the subject of the request, for faults and records.
func (m Match) subject(r *http.Request) string {
	if m.Route.Subject != nil {
		return m.Route.Subject(r)
	}
	return m.value(func(string) bool { return true })
}

func (m Match) value(of func(variable string) bool) string {
	if m.Route == nil {
		return ""
	}
	i := 0
	for segment := range strings.SplitSeq(m.path, "/") {
		if name, ok := variable(m.pattern[i]); ok && of(name) {
			value, _ := url.PathUnescape(segment)
			return value
		}
		i++
	}
	return ""
}

func variable(segment string) (string, bool) {
	if len(segment) < 3 || segment[0] != '{' || segment[len(segment)-1] != '}' {
		return "", false
	}
	return segment[1 : len(segment)-1], true
}
