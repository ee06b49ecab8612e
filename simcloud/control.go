package simcloud

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// control serves /_sim/: the routes of every simulator and those of a whole cloud.
func (c *Cloud) control() simhttp.Control {
	more := c.page.Routes()
	maps.Copy(more, c.ownRoutes())
	return simhttp.Control{
		Faults: c.faults, Recorder: c.recorder,
		Routes: slices.Concat(c.Cyborg.Routes(), c.Placement.Routes(), c.identity.Routes(), c.compute.Routes(), c.images.Routes()),
		More:   more,
	}
}

// ownRoutes are the routes of a whole cloud.
func (c *Cloud) ownRoutes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /_sim/guests":           c.getGuests,
		"GET /_sim/guests/{uuid}":    c.getGuest,
		"PUT /_sim/guests/{uuid}":    c.putGuest,
		"DELETE /_sim/guests/{uuid}": c.deleteGuest,
		"GET /_sim/leaks":            c.getLeaks,
		"GET /_sim/model":            c.getModel,
		"GET /_sim/events":           c.getEvents,
		"POST /_sim/report":          c.postReport,
		"GET /_sim/explain":          c.Placement.ServeExplain,
		"GET /_sim/clock":            c.getClock,
		"GET /_sim/requests/diagram": c.getDiagram,
		"POST /_sim/clock":           c.postClock,
		"GET /_sim/state":            c.getState,
		"PUT /_sim/state":            c.putState,
		"GET /_sim/unrecognized":     c.getUnrecognized,

		"POST /_sim/hosts/{host}/stop":   c.hostRoute(func(_ context.Context, host string) error { return c.StopHost(host) }),
		"POST /_sim/hosts/{host}/start":  c.hostRoute(c.StartHost),
		"POST /_sim/hosts/{host}/reboot": c.hostRoute(c.RebootHost),
	}
}

func (c *Cloud) getGuests(w http.ResponseWriter, _ *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("guests", c.Guests()))
}

func (c *Cloud) getGuest(w http.ResponseWriter, r *http.Request) {
	g, ok := c.compute.Guest(r.PathValue("uuid"))
	if !ok {
		http.Error(w, "no such guest", http.StatusNotFound)
		return
	}
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("guest", g))
}

// putGuest defines a guest; the body has host and domain, and may repeat the uuid.
func (c *Cloud) putGuest(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("uuid")
	g := sim.Guest{UUID: id}
	if !readJSON(w, r, "guest", &g) {
		return
	}
	err := errors.New("the uuid differs from that in the path")
	if g.UUID == id {
		err = c.DefineGuest(g)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.getGuest(w, r)
}

func (c *Cloud) deleteGuest(w http.ResponseWriter, r *http.Request) {
	if !c.compute.RemoveGuest(r.PathValue("uuid")) {
		http.Error(w, "no such guest", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *Cloud) getLeaks(w http.ResponseWriter, _ *http.Request) {
	leaks := append([]Leak{}, c.Leaks()...) // not null
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("leaks", leaks))
}

func (c *Cloud) getModel(w http.ResponseWriter, _ *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("model", c.model))
}

func (c *Cloud) getEvents(w http.ResponseWriter, _ *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("events", c.ReceivedEvents()))
}

// getClock answers the time of the cloud, and whether it can be advanced.
func (c *Cloud) getClock(w http.ResponseWriter, _ *http.Request) {
	body := map[string]any{"now": c.clock.Now().UTC(), "manual": false}
	if manual, ok := c.clock.(*sim.ManualClock); ok {
		body["manual"], body["waiting"] = true, manual.Waiting()
	}
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("clock", body))
}

// postClock advances a manual clock: {"advance": "90s"}.
func (c *Cloud) postClock(w http.ResponseWriter, r *http.Request) {
	manual, ok := c.clock.(*sim.ManualClock)
	if !ok {
		http.Error(w, "only a manual clock can be advanced (cysim serve --manual-clock)", http.StatusConflict)
		return
	}
	var body struct {
		Advance *Duration `json:"advance"`
	}
	if !readJSON(w, r, "advance", &body) {
		return
	}
	if body.Advance == nil || *body.Advance < 0 {
		http.Error(w, `advance: want a duration that is not negative, such as {"advance": "90s"}`, http.StatusBadRequest)
		return
	}
	manual.Advance(time.Duration(*body.Advance))
	c.getClock(w, r)
}

// readJSON decodes the body of a request, or answers an error that begins with the name and
// returns false.
func readJSON(w http.ResponseWriter, r *http.Request, name string, into any) bool {
	data, err := simhttp.ReadBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return false
	}
	err = simhttp.DecodeStrict(data, into)
	if err != nil {
		http.Error(w, name+": "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

// hostRoute is the handler of a route that acts on one host.
func (c *Cloud) hostRoute(do func(ctx context.Context, host string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := do(r.Context(), r.PathValue("host"))
		switch {
		case errors.Is(err, ErrHost):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, ErrDirectory):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

// postReport makes every agent report now.
func (c *Cloud) postReport(w http.ResponseWriter, r *http.Request) {
	if err := c.Cyborg.Report(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
