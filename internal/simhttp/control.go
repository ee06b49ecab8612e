package simhttp

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// controlSchema is the version of the bodies under /_sim/.
const controlSchema = 1

// Control serves the routes under /_sim/ that every simulator has: health,
// routes, faults and requests. It asks for no token: it is meant for the
// loopback interface.
type Control struct {
	Faults   *fault.Set
	Recorder *Recorder
	// Routes are the routes of all services.
	Routes []sim.Route
	// More are further routes. One with the pattern of another replaces it.
	More []ControlRoute
}

// ControlRoute is a route below /_sim/. The page docs/control-api.md is made of these.
type ControlRoute struct {
	// Pattern is the method and the path, as http.ServeMux reads them.
	Pattern string `json:"route"`
	// Help says what the route does. A route without it is not listed.
	Help string `json:"help"`
	// Query are the query keys that the route reads: a request with another key is refused. The
	// key * means keys that the route checks itself.
	Query []string `json:"query,omitempty"`
	// Body and Answer say what the bodies are: the key next to schema_version, if that is all.
	Body    string           `json:"body,omitempty"`
	Answer  string           `json:"answer,omitempty"`
	Handler http.HandlerFunc `json:"-"`
}

// ServeHTTP refuses unknown query keys, and calls the handler.
func (c ControlRoute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if list := unrecognizedQuery(r.URL.RawQuery, c.Query); len(list) > 0 {
		reads := "no query"
		if len(c.Query) > 0 {
			reads = strings.Join(c.Query, ", ")
		}
		http.Error(w, fmt.Sprintf("unknown %s; %s reads %s", list[0], c.Pattern, reads), http.StatusBadRequest)
		return
	}
	c.Handler(w, r)
}

// Handler returns the routes as a handler.
func (c Control) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range c.All() {
		mux.Handle(route.Pattern, route)
	}
	return lingering(mux)
}

// All are the routes that every simulator has, and More, in the order of their paths.
func (c Control) All() []ControlRoute {
	routes := []ControlRoute{
		{Pattern: "GET /_sim/health", Answer: "status", Help: "200 when it is ready, 503 with the reason before.", Handler: Show("status", func() any { return "ok" })},
		{Pattern: "GET /_sim/routes", Answer: "routes, operations, control", Help: "Lists the routes of all services with the query keys and body fields that they read, the operations with the actions of fault rules, and these routes.", Handler: c.getRoutes},
		{Pattern: "GET /_sim/faults", Answer: "rules", Help: "Lists the fault rules with their hit counts.", Handler: Show("rules", func() any { return c.Faults.Rules() })},
		{Pattern: "PUT /_sim/faults", Body: "a list of fault rules", Answer: "rules", Help: "Replaces all fault rules.", Handler: c.putFaults},
		{Pattern: "POST /_sim/faults", Body: "a list of fault rules", Answer: "rules", Help: "Adds fault rules after the existing ones, which keep their hit counts, and answers the added rules.", Handler: c.postFaults},
		{Pattern: "DELETE /_sim/faults", Help: "Removes all fault rules.", Handler: c.deleteFaults},
		{Pattern: "GET /_sim/requests", Query: []string{"limit", "before"}, Answer: "requests, older", Help: "Lists the newest requests with what they changed, with limit only so many; older is the value of before for those before them.", Handler: c.getRequests},
		{Pattern: "DELETE /_sim/requests", Help: "Empties the record of requests.", Handler: c.deleteRequests},
	}
	for _, more := range c.More {
		routes = slices.DeleteFunc(routes, func(r ControlRoute) bool { return r.Pattern == more.Pattern })
		routes = append(routes, more)
	}
	slices.SortStableFunc(routes, func(a, b ControlRoute) int { return cmp.Compare(path(a.Pattern), path(b.Pattern)) })
	return routes
}

// path is the path of a pattern.
func path(pattern string) string {
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// ControlBody is a body under /_sim/ with its schema version.
func ControlBody(key string, value any) map[string]any {
	return map[string]any{"schema_version": controlSchema, key: value}
}

// Show is the handler of a route that answers a value, under a key next to the schema version.
func Show(key string, value func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		WriteControl(w, http.StatusOK, ControlBody(key, value()))
	}
}

// getRequests lists the newest requests, with limit only so many. If there are older ones, older
// in the answer is the value of before that asks for them.
func (c Control) getRequests(w http.ResponseWriter, r *http.Request) {
	before, limit := uint64(math.MaxUint64), math.MaxInt
	var err error
	query := r.URL.Query()
	if query.Has("limit") {
		if limit, err = strconv.Atoi(query.Get("limit")); err == nil && limit < 1 {
			err = strconv.ErrRange
		}
	}
	if query.Has("before") && err == nil {
		before, err = strconv.ParseUint(query.Get("before"), 10, 64)
	}
	if err != nil {
		http.Error(w, "limit and before are positive whole numbers", http.StatusBadRequest)
		return
	}
	numbers, older := c.Recorder.numbers(before, limit)
	writeExchanges(w, c.Recorder.each(numbers, atOnce), older)
}

// atOnce is how many exchanges an answer holds: a client that reads slowly keeps them in memory.
const atOnce = 64

// writeExchanges writes one after the other: a text of all would take several times the memory of the record.
func writeExchanges(w http.ResponseWriter, list iter.Seq2[uint64, sim.Exchange], older uint64) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w) // an error means that the caller has disconnected
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = out.WriteByte('{')
	if older > 0 {
		fmt.Fprintf(out, `"older":%d,`, older)
	}
	separator := `"requests":[`
	for _, e := range list {
		_, _ = out.WriteString(separator)
		if encoder.Encode(e) != nil {
			return
		}
		separator = ","
	}
	if separator != "," {
		_, _ = out.WriteString(separator)
	}
	fmt.Fprintf(out, "],\"schema_version\":%d}\n", controlSchema)
	_ = out.Flush()
}

// getRoutes lists what the services answer, and all that fault rules can act on.
func (c Control) getRoutes(w http.ResponseWriter, _ *http.Request) {
	list := append([]sim.Route{}, c.Routes...)
	slices.SortStableFunc(list, func(a, b sim.Route) int { return cmp.Compare(a.Service, b.Service) })
	body := ControlBody("routes", list)
	body["operations"] = c.Faults.Describe()
	body["control"] = slices.DeleteFunc(c.All(), func(r ControlRoute) bool { return r.Help == "" })
	WriteControl(w, http.StatusOK, body)
}

// putFaults replaces all rules with the list in the body, or with none of it.
func (c Control) putFaults(w http.ResponseWriter, r *http.Request) {
	c.changeFaults(w, r, c.Faults.Set)
}

func (c Control) postFaults(w http.ResponseWriter, r *http.Request) {
	c.changeFaults(w, r, c.Faults.Add)
}

// changeFaults answers the rules of the body: the other rules may be many, and a client that
// reads slowly would keep all in memory.
func (c Control) changeFaults(w http.ResponseWriter, r *http.Request, change func(...fault.Rule) error) {
	data, err := ReadBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	rules, err := fault.ParseRules(data)
	if err == nil {
		err = change(rules...)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	set := make([]fault.State, len(rules))
	for i, rule := range rules {
		set[i] = fault.State{Rule: rule}
	}
	WriteControl(w, http.StatusOK, ControlBody("rules", set))
}

func (c Control) deleteFaults(w http.ResponseWriter, _ *http.Request) {
	c.Faults.Clear()
	w.WriteHeader(http.StatusNoContent)
}

func (c Control) deleteRequests(w http.ResponseWriter, _ *http.Request) {
	c.Recorder.Reset()
	w.WriteHeader(http.StatusNoContent)
}
