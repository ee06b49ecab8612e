package servicetest_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// request is one that a service takes.
type request struct {
	// method and path, which is below the service's root and may have a query.
	method, path string
	// body is JSON, or empty.
	body string
	// media is the Content-Type, that of JSON if empty.
	media string
	// version is the value of OpenStack-API-Version.
	version string
	// refused is set for a request that the service refuses, which may be an answer, too, to
	// something that it reads.
	refused bool
	// after are requests that are sent to the same service before.
	after []request
}

// get is a request for reading.
func get(path string) request { return request{method: "GET", path: path} }

// remove is a request to delete something.
func remove(path string) request { return request{method: "DELETE", path: path} }

// answer is what came of a request: the status and everything that can be seen
// afterwards, the body of the answer and the state of the service.
type answer struct {
	status int
	seen   string
}

// check sends each case as it is and then, each time to a service that is new, with every
// query key and every member of its body taken away or given another value. Every key and
// path that a route declares must make a difference in one case at least; what is added
// and not declared must make none, unless the service refuses it. A simple route without a
// case gets one that is derived from what it declares. send must answer equal requests equally.
func check(t sim.TB, routes []sim.Route, cases []request, send func(request) answer) {
	t.Helper()
	c := &checker{t: t, router: routerOf(routes), send: send, read: make(map[string]bool)}
	for _, each := range cases {
		c.try(each)
	}
	list := slices.DeleteFunc(c.router.Routes(), func(r simhttp.Route) bool { return r.Method == http.MethodHead }) // as the GET
	made := make(map[string][]request)
	for _, posts := range []bool{true, false} {
		for _, r := range list {
			if posts == (r.Method == http.MethodPost) && !c.shows(r) {
				c.derive(r, made)
			}
		}
	}
	for _, r := range list {
		for _, key := range r.Query {
			if !strings.HasPrefix(key, "!") && !c.read[name(r, "query", key)] {
				t.Errorf("%s %s: nothing shows that the query key %s is read", r.Method, r.Pattern, key)
			}
		}
		for _, path := range r.Body {
			if !strings.HasPrefix(path, "!") && !c.read[name(r, "body", path)] {
				t.Errorf("%s %s: nothing shows that %q of the body is read", r.Method, r.Pattern, path)
			}
		}
	}
}

// routerOf finds the declared route of a request.
func routerOf(routes []sim.Route) *simhttp.Router {
	list := make([]simhttp.Route, 0, len(routes))
	for _, r := range routes {
		list = append(list, simhttp.Route{Operation: r.Operation, Method: r.Method, Pattern: r.Pattern, Input: simhttp.Input{Query: r.Query, Body: r.Body}})
	}
	return simhttp.NewRouter(list...)
}

type checker struct {
	t      sim.TB
	router *simhttp.Router
	send   func(request) answer
	read   map[string]bool
}

func name(r simhttp.Route, kind, item string) string {
	return strings.Join([]string{r.Method, r.Pattern, kind, item}, " ")
}

// shows reports whether a case has shown that something of a route is read, or the route reads nothing.
func (c *checker) shows(r simhttp.Route) bool {
	return len(r.Query)+len(r.Body) == 0 ||
		slices.ContainsFunc(r.Query, func(key string) bool { return c.read[name(r, "query", key)] }) ||
		slices.ContainsFunc(r.Body, func(path string) bool { return c.read[name(r, "body", path)] })
}

// derive tries the first accepted request that has all keys and members of a route, if these are plain names and the
// pattern has no variable. It comes after the POST that was derived for the same pattern. A value is what a GET or
// the state shows under the name, or zz, or 7.
func (c *checker) derive(r simhttp.Route, made map[string][]request) {
	c.t.Helper()
	names := slices.Concat(r.Query, r.Body)
	if strings.Contains(r.Pattern, "{") || len(names) > 4 ||
		slices.ContainsFunc(names, func(name string) bool { return name == "" || strings.ContainsAny(name, "[].*!") }) {
		return
	}
	each := request{method: r.Method, path: r.Pattern, after: made[r.Pattern]}
	seen := c.send(request{method: http.MethodGet, path: r.Pattern, after: each.after}).seen
	for _, values := range assignments(names, seen) {
		query, body := make(url.Values), make(map[string]json.RawMessage)
		for _, key := range r.Query {
			query.Set(key, strings.Trim(string(values[key]), `"`))
		}
		for _, member := range r.Body {
			body[member] = values[member]
		}
		if each.path = r.Pattern; len(query) > 0 {
			each.path += "?" + query.Encode()
		}
		if len(body) > 0 {
			data, err := json.Marshal(body)
			if err != nil {
				c.t.Fatalf("%v", err)
			}
			each.body = string(data)
		}
		if c.send(each).status >= http.StatusBadRequest {
			continue
		}
		if c.try(each); r.Method == http.MethodPost {
			made[r.Pattern] = []request{each}
		}
		return
	}
}

// assignments lists the ways to give each name a value: what a text has as JSON under the name, or zz, or 7.
func assignments(names []string, seen string) []map[string]json.RawMessage {
	list := []map[string]json.RawMessage{{}}
	for _, name := range names {
		values := []string{`"zz"`, "7"}
		member := regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `": *("[^"\\]*"|[0-9]+)`)
		if match := member.FindStringSubmatch(seen); match != nil {
			values = slices.Insert(values, 0, match[1])
		}
		var longer []map[string]json.RawMessage
		for _, shorter := range list {
			for _, value := range values {
				next := maps.Clone(shorter)
				next[name] = json.RawMessage(value)
				longer = append(longer, next)
			}
		}
		list = longer
	}
	return list
}

func (c *checker) try(each request) {
	c.t.Helper()
	path, _, _ := strings.Cut(each.path, "?")
	route := c.router.Match(each.method, path).Route
	if route == nil {
		c.t.Fatalf("%s %s has no route", each.method, each.path)
		return
	}
	base := c.send(each)
	if refused := base.status >= http.StatusBadRequest; refused != each.refused {
		c.t.Errorf("%s %s %s: %d %s, refused: %v, want %v", each.method, each.path, each.body, base.status, base.seen, refused, each.refused)
		return
	}
	c.query(*route, each, base)
	if each.body != "" {
		c.body(*route, each, base)
	}
}

// query changes the query keys one by one.
func (c *checker) query(route simhttp.Route, each request, base answer) {
	c.t.Helper()
	_, raw, _ := strings.Cut(each.path, "?")
	values, err := url.ParseQuery(raw)
	if err != nil {
		c.t.Fatalf("%s: %v", each.path, err)
	}
	for key := range values {
		declared := slices.IndexFunc(route.Query, func(known string) bool { return fits(known, key) })
		if slices.Contains(route.Query, "!"+key) {
			declared = -1
		}
		read := c.withKey(each, key) != base || c.withKey(each, key, "zz") != base || c.withKey(each, key, "") != base
		switch {
		case declared < 0 && read:
			c.t.Errorf("%s %s: the query key %s is read and not declared", route.Method, route.Pattern, key)
		case declared >= 0 && read:
			c.read[name(route, "query", route.Query[declared])] = true
		}
	}
	if slices.Contains(route.Query, "*") {
		return
	}
	if got := c.withKey(each, "zzz", "1"); got != base && got.status < http.StatusBadRequest {
		c.t.Errorf("%s %s: the query key zzz changes the answer", route.Method, route.Pattern)
	}
}

// withKey sends a case with other values of a query key, or without it.
func (c *checker) withKey(each request, key string, values ...string) answer {
	path, raw, _ := strings.Cut(each.path, "?")
	query, _ := url.ParseQuery(raw) // it was parsed before
	delete(query, key)
	if len(values) > 0 {
		query[key] = values
	}
	each.path = path + "?" + query.Encode()
	return c.send(each)
}

func fits(known, key string) bool {
	prefix, open := strings.CutSuffix(known, "*")
	return open && strings.HasPrefix(key, prefix) || known == key
}

// body changes the members of the body one by one, and adds some.
func (c *checker) body(route simhttp.Route, each request, base answer) {
	c.t.Helper()
	for _, path := range route.Body {
		switch {
		case path == "":
			c.checkedAsAWhole(route, each)
		case path[0] == '!':
			if c.differs(each, path[1:], gone{}, base) {
				c.t.Errorf("%s %s: %s of the body is read and declared not to be", route.Method, route.Pattern, path[1:])
			}
		default:
			values := []any{gone{}, "zz", 7, []any{[]any{7}}, map[string]any{"zz": 1}, true}
			if slices.ContainsFunc(values, func(value any) bool { return c.differs(each, path, value, base) }) {
				c.read[name(route, "body", path)] = true
			}
		}
	}
	if slices.Contains(route.Body, "") {
		return
	}
	for _, place := range objects(decoded(c.t, each.body), nil) {
		if free(route.Body, place) {
			continue
		}
		if got := c.extended(each, place); got != base && got.status < http.StatusBadRequest {
			c.t.Errorf("%s %s: zzz at %v of the body changes the answer", route.Method, route.Pattern, place)
		}
	}
}

// differs sends a case with another value where a path leads to in the body, and reports
// whether the answer is another one.
func (c *checker) differs(each request, path string, value any, base answer) bool {
	document := decoded(c.t, each.body)
	return replace(&document, steps(path), value) && c.sendBody(each, document) != base
}

// extended sends a case with a member more in the object at a place of the body.
func (c *checker) extended(each request, place []string) answer {
	document := decoded(c.t, each.body)
	at(document, place)["zzz"] = 1
	return c.sendBody(each, document)
}

func (c *checker) sendBody(each request, document any) answer {
	data, err := json.Marshal(document)
	if err != nil {
		c.t.Fatalf("%v", err)
	}
	each.body = string(data)
	return c.send(each)
}

// checkedAsAWhole checks that no object of the body takes an additional member.
func (c *checker) checkedAsAWhole(route simhttp.Route, each request) {
	c.t.Helper()
	document := decoded(c.t, each.body)
	places := objects(document, nil)
	for _, place := range places {
		if got := c.extended(each, place); got.status < http.StatusBadRequest {
			c.t.Errorf("%s %s: zzz at %v of the body is taken: %d", route.Method, route.Pattern, place, got.status)
		}
	}
	if _, isList := document.([]any); isList || len(places) > 0 {
		c.read[name(route, "body", "")] = true
	}
}
