package simcloud

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/sim"
)

// control serves /_sim/: the routes of every simulator and of the whole cloud.
func (c *Cloud) control() simhttp.Control {
	more := c.ownRoutes()
	for pattern, handler := range c.page.Routes() {
		more = append(more, simhttp.ControlRoute{Pattern: pattern, Query: []string{"*"}, Handler: handler})
	}
	return simhttp.Control{
		Faults: c.faults, Recorder: c.recorder,
		Routes: slices.Concat(c.Cyborg.Routes(), c.Placement.Routes(), c.identity.Routes(), c.compute.Routes(), c.images.Routes()),
		More:   more,
	}
}

// ownRoutes are the routes of a whole cloud.
func (c *Cloud) ownRoutes() []simhttp.ControlRoute {
	return []simhttp.ControlRoute{
		{Pattern: "GET /_sim/guests", Answer: "guests", Help: "Lists the registered guests.", Handler: simhttp.Show("guests", func() any { return c.Guests() })},
		{Pattern: "GET /_sim/guests/{uuid}", Answer: "guest", Help: "Shows one.", Handler: fallible(c.getGuest)},
		{Pattern: "PUT /_sim/guests/{uuid}", Body: "host, domain", Answer: "guest", Help: "Registers a running instance: the name of its host, 404 if the cloud does not have it, and its libvirt domain (XML). The leak check compares it with the accelerators.", Handler: fallible(c.putGuest)},
		{Pattern: "DELETE /_sim/guests/{uuid}", Help: "Removes one, as if the instance was deleted.", Handler: fallible(c.deleteGuest)},
		{Pattern: "GET /_sim/leaks", Query: []string{"guests_from"}, Answer: "leaks", Help: "Lists leaked resources: kind, subject, text, and arq where it is about an accelerator request. With guests_from=nova the servers of the Nova in the catalog are the living instances.", Handler: fallible(c.getLeaks)},
		{Pattern: "GET /_sim/model", Answer: "model", Help: "Shows the model of the cloud with all defaults.", Handler: simhttp.Show("model", func() any { return c.model })},
		{Pattern: "GET /_sim/events", Answer: "events", Help: "Lists the events that Nova got from Cyborg with the code that it answered, and why it refused one.", Handler: simhttp.Show("events", func() any { return c.ReceivedEvents() })},
		{Pattern: "POST /_sim/report", Help: "Makes the agents of all hosts report now.", Handler: acts(func(ctx context.Context, _ string) error { return c.Cyborg.Report(ctx) })},
		{Pattern: "GET /_sim/explain", Query: []string{"*"}, Answer: "explanation", Help: "Explains for each host why it is not a candidate. Takes the query of GET /allocation_candidates.", Handler: c.Placement.ServeExplain},
		{Pattern: "GET /_sim/clock", Answer: "clock", Help: "Shows the time of the cloud, and whether it can be changed.", Handler: c.showClock()},
		{Pattern: "POST /_sim/clock", Body: "advance, now", Answer: "clock", Help: `Advances a manual clock, {"advance": "90s"}, or sets it, {"now": "2026-01-01T00:00:00Z"}.`, Handler: fallible(c.postClock)},
		{Pattern: "GET /_sim/requests/diagram", Answer: "text", Help: "Draws the last requests as a sequence diagram of Mermaid.", Handler: c.getDiagram},
		{Pattern: "GET /_sim/state", Answer: "JSON lines", Help: "The whole cloud as a state, as docs/state.md describes it.", Handler: fallible(c.getState)},
		{Pattern: "PUT /_sim/state", Body: "JSON lines", Help: "Replaces the state of the cloud by one of the same model.", Handler: fallible(c.putState)},
		{Pattern: "GET /_sim/unrecognized", Answer: "unrecognized", Help: "Counts the query keys and body fields of clients that no service recognizes.", Handler: simhttp.Show("unrecognized", func() any { return c.Unrecognized() })},

		{Pattern: "POST /_sim/hosts/{host}/stop", Help: "Stops a host: its agent falls silent.", Handler: acts(func(_ context.Context, host string) error { return c.StopHost(host) })},
		{Pattern: "POST /_sim/hosts/{host}/start", Help: "Starts it again.", Handler: acts(c.StartHost)},
		{Pattern: "GET /_sim/hosts/{host}/mdevs", Answer: "mdevs, defined", Help: "Lists its mediated devices, and the ones defined in its libvirt.", Handler: fallible(c.getMdevs)},
		{Pattern: "PUT /_sim/hosts/{host}/mdevs/{uuid}", Body: "parent, type, lifetime", Help: "Creates a mediated device, as nova-compute does where Cyborg's agent does not: the parent is a PCI address such as 0000:84:00.0. With the lifetime autostart it is defined, too, and created again when the host starts; the default is transient.", Handler: fallible(c.putMdev)},
		{Pattern: "DELETE /_sim/hosts/{host}/mdevs/{uuid}", Help: "Removes one, and its definition. Cyborg's agent removes the device when the request is unbound, and leaves the definition.", Handler: fallible(c.deleteMdev)},
		{Pattern: "POST /_sim/hosts/{host}/reboot", Help: "Stops and starts it, which removes its mediated devices.", Handler: acts(c.RebootHost)},
	}
}

// fallible is the handler of a route that may end with an error.
func fallible(do func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			http.Error(w, err.Error(), statusOf(err)) // without effect where the answer has begun
		}
	}
}

// acts is the handler of a route that does something with a host, or with all of them.
func acts(do func(ctx context.Context, host string) error) http.HandlerFunc {
	return fallible(func(w http.ResponseWriter, r *http.Request) error {
		if err := do(r.Context(), r.PathValue("host")); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// statusOf is the status of an answer about an error.
func statusOf(err error) int {
	switch {
	case errors.Is(err, driver.ErrHandle):
		return http.StatusBadRequest
	case errors.Is(err, ErrHost):
		return http.StatusNotFound
	case errors.Is(err, ErrDirectory), errors.Is(err, ErrNoState):
		return http.StatusConflict
	case errors.Is(err, ErrState):
		return http.StatusBadRequest
	}
	return simhttp.AsError(err).Status
}

// readJSON decodes the body of a request. The error begins with the name.
func readJSON(r *http.Request, name string, into any) error {
	data, err := simhttp.ReadBody(r)
	if err != nil {
		return simhttp.Refuse(http.StatusRequestEntityTooLarge, "%v", err)
	}
	if err := strictjson.Decode(data, into); err != nil {
		return simhttp.Refuse(http.StatusBadRequest, "%s: %v", name, err)
	}
	return nil
}

func (c *Cloud) getGuest(w http.ResponseWriter, r *http.Request) error {
	g, ok := c.compute.Guest(r.PathValue("uuid"))
	if !ok {
		return simhttp.Refuse(http.StatusNotFound, "no such guest")
	}
	simhttp.WriteControl(w, http.StatusOK, simhttp.ControlBody("guest", g))
	return nil
}

// putGuest defines a guest; the body has host and domain, and may repeat the uuid.
func (c *Cloud) putGuest(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("uuid")
	g := sim.Guest{UUID: id}
	if err := readJSON(r, "guest", &g); err != nil {
		return err
	}
	if g.UUID != id {
		return simhttp.Refuse(http.StatusBadRequest, "the uuid differs from that in the path")
	}
	switch err := c.DefineGuest(g); {
	case errors.Is(err, ErrHost):
		return err
	case err != nil:
		return simhttp.Refuse(http.StatusBadRequest, "%v", err)
	}
	return c.getGuest(w, r)
}

func (c *Cloud) deleteGuest(w http.ResponseWriter, r *http.Request) error {
	if !c.compute.RemoveGuest(r.PathValue("uuid")) {
		return simhttp.Refuse(http.StatusNotFound, "no such guest")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *Cloud) getMdevs(w http.ResponseWriter, r *http.Request) error {
	host := r.PathValue("host")
	mdevs, err := c.Mdevs(host)
	if err != nil {
		return err
	}
	defined, err := c.DefinedMdevs(host)
	if err != nil {
		return err
	}
	body := simhttp.ControlBody("mdevs", append([]driver.Mdev{}, mdevs...))
	body["defined"] = append([]driver.Mdev{}, defined...)
	simhttp.WriteControl(w, http.StatusOK, body)
	return nil
}

// putMdev creates a mediated device; the body has parent, type and lifetime.
func (c *Cloud) putMdev(w http.ResponseWriter, r *http.Request) error {
	body := struct {
		Parent   string `json:"parent"`
		Type     string `json:"type"`
		Lifetime string `json:"lifetime"`
	}{Lifetime: "transient"}
	if err := readJSON(r, "mediated device", &body); err != nil {
		return err
	}
	create := c.CreateMdev
	switch body.Lifetime {
	case "transient":
	case "autostart":
		create = c.DefineMdev
	default:
		return simhttp.Refuse(http.StatusBadRequest, "lifetime %q is neither transient nor autostart", body.Lifetime)
	}
	host, m := r.PathValue("host"), driver.Mdev{UUID: r.PathValue("uuid"), Parent: body.Parent, Type: body.Type}
	switch err := create(r.Context(), host, m); {
	case errors.Is(err, ErrHost), errors.Is(err, driver.ErrHandle):
		return err
	case err != nil:
		return simhttp.Refuse(http.StatusConflict, "%v", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *Cloud) deleteMdev(w http.ResponseWriter, r *http.Request) error {
	if err := c.RemoveMdev(r.Context(), r.PathValue("host"), r.PathValue("uuid")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *Cloud) showClock() http.HandlerFunc {
	return simhttp.Show("clock", func() any { return describeClock(c.clock) })
}

func (c *Cloud) postClock(w http.ResponseWriter, r *http.Request) error {
	var change clockChange
	if err := readJSON(r, "clock", &change); err != nil {
		return err
	}
	if err := change.apply(r.Context(), c.clock); err != nil {
		return err
	}
	c.showClock()(w, r)
	return nil
}
