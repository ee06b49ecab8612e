package simcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// control serves /_sim/: what every simulator has, and what only a whole cloud knows.
func (c *Cloud) control() http.Handler { return c.controls().Handler() }

func (c *Cloud) controls() simhttp.Control {
	more := c.page.Routes()
	maps.Copy(more, c.ownRoutes())
	return simhttp.Control{
		Faults: c.faults, Recorder: c.recorder, Others: c.otherRoutes(),
		Services: []*simhttp.Service{c.identity.Service(), c.compute.Service(), c.images.Service()},
		More:     more,
	}
}

// ownRoutes are those that only a whole cloud has.
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

		"POST /_sim/hosts/{host}/stop":   c.ofHost(func(_ context.Context, host string) error { return c.StopHost(host) }),
		"POST /_sim/hosts/{host}/start":  c.ofHost(c.StartHost),
		"POST /_sim/hosts/{host}/reboot": c.ofHost(c.RebootHost),
	}
}

// otherRoutes are those of the simulators that are public packages of their own.
func (c *Cloud) otherRoutes() []sim.Route {
	return append(c.Cyborg.Routes(), c.Placement.Routes()...)
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
	data, err := simhttp.ReadBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	id := r.PathValue("uuid")
	g := sim.Guest{UUID: id}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err = dec.Decode(&g)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the JSON value")
		}
	}
	if err == nil && g.UUID != id {
		err = errors.New("the uuid differs from that in the path")
	}
	if err == nil {
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
	leaks := append([]Leak{}, c.Leaks()...) // a list, also when there are none
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("leaks", leaks))
}

func (c *Cloud) getModel(w http.ResponseWriter, _ *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("model", c.model))
}

func (c *Cloud) getEvents(w http.ResponseWriter, _ *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("events", c.ReceivedEvents()))
}

// ofHost is a route that does something to one host.
func (c *Cloud) ofHost(do func(ctx context.Context, host string) error) http.HandlerFunc {
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

// postReport lets every agent report now.
func (c *Cloud) postReport(w http.ResponseWriter, r *http.Request) {
	if err := c.Cyborg.Report(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
