package simhttp

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"

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
	// Routes are those of all services.
	Routes []sim.Route
	// More are further routes, by method and path: "GET /_sim/guests".
	More map[string]http.HandlerFunc
}

// Handler returns the routes as a handler.
func (c Control) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range c.Patterns() {
		mux.HandleFunc(pattern, handler)
	}
	return lingering(mux)
}

// Patterns are the routes by method and path: those that every simulator has, and More.
func (c Control) Patterns() map[string]http.HandlerFunc {
	patterns := map[string]http.HandlerFunc{
		"GET /_sim/health":      Show("status", func() any { return "ok" }),
		"GET /_sim/routes":      c.getRoutes,
		"GET /_sim/faults":      Show("rules", c.rules),
		"PUT /_sim/faults":      c.putFaults,
		"DELETE /_sim/faults":   c.deleteFaults,
		"GET /_sim/requests":    c.getRequests,
		"DELETE /_sim/requests": c.deleteRequests,
	}
	maps.Copy(patterns, c.More)
	return patterns
}

// ControlBody is a body under /_sim/ with its schema version.
func ControlBody(key string, value any) map[string]any {
	return map[string]any{"schema_version": controlSchema, key: value}
}

// Show is the handler of a route that answers a value, under a key beside the schema version.
func Show(key string, value func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, ControlBody(key, value()))
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
func writeExchanges(w http.ResponseWriter, list iter.Seq[sim.Exchange], older uint64) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w) // whose errors are those of a caller that is gone
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = out.WriteByte('{')
	if older > 0 {
		fmt.Fprintf(out, `"older":%d,`, older)
	}
	separator := `"requests":[`
	for e := range list {
		_, _ = out.WriteString(separator)
		if encoder.Encode(e) != nil {
			return
		}
		separator = ","
	}
	if separator != "," {
		_, _ = out.WriteString(separator)
	}
	fmt.Fprintf(out, `],"schema_version":%d}`, controlSchema)
	_ = out.Flush()
}

// getRoutes lists what the services answer, and all that fault rules can act on.
func (c Control) getRoutes(w http.ResponseWriter, _ *http.Request) {
	list := append([]sim.Route{}, c.Routes...)
	slices.SortStableFunc(list, func(a, b sim.Route) int { return cmp.Compare(a.Service, b.Service) })
	body := ControlBody("routes", list)
	body["operations"] = c.Faults.Describe()
	WriteJSON(w, http.StatusOK, body)
}

func (c Control) rules() any { return c.Faults.Rules() }

// putFaults replaces all rules with the list in the body, or with none of it.
func (c Control) putFaults(w http.ResponseWriter, r *http.Request) {
	data, err := ReadBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	rules, err := fault.ParseRules(data)
	if err == nil {
		err = c.Faults.Set(rules...)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	Show("rules", c.rules)(w, r)
}

func (c Control) deleteFaults(w http.ResponseWriter, _ *http.Request) {
	c.Faults.Clear()
	w.WriteHeader(http.StatusNoContent)
}

func (c Control) deleteRequests(w http.ResponseWriter, _ *http.Request) {
	c.Recorder.Reset()
	w.WriteHeader(http.StatusNoContent)
}
