package simcloud

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/strictjson"
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
		"GET /_sim/guests":           simhttp.Show("guests", func() any { return c.Guests() }),
		"GET /_sim/guests/{uuid}":    fallible(c.getGuest),
		"PUT /_sim/guests/{uuid}":    fallible(c.putGuest),
		"DELETE /_sim/guests/{uuid}": fallible(c.deleteGuest),
		"GET /_sim/leaks":            fallible(c.getLeaks),
		"GET /_sim/model":            simhttp.Show("model", func() any { return c.model }),
		"GET /_sim/events":           simhttp.Show("events", func() any { return c.ReceivedEvents() }),
		"POST /_sim/report":          acts(func(ctx context.Context, _ string) error { return c.Cyborg.Report(ctx) }),
		"GET /_sim/explain":          c.Placement.ServeExplain,
		"GET /_sim/clock":            simhttp.Show("clock", c.clockBody),
		"GET /_sim/requests/diagram": c.getDiagram,
		"POST /_sim/clock":           fallible(c.postClock),
		"GET /_sim/state":            fallible(c.getState),
		"PUT /_sim/state":            fallible(c.putState),
		"GET /_sim/unrecognized":     simhttp.Show("unrecognized", func() any { return c.Unrecognized() }),

		"POST /_sim/hosts/{host}/stop":   acts(func(_ context.Context, host string) error { return c.StopHost(host) }),
		"POST /_sim/hosts/{host}/start":  acts(c.StartHost),
		"POST /_sim/hosts/{host}/reboot": acts(c.RebootHost),
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
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("guest", g))
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
	if err := c.DefineGuest(g); err != nil {
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

// clockBody is the time of the cloud, and whether it can be advanced.
func (c *Cloud) clockBody() any {
	body := map[string]any{"now": c.clock.Now().UTC(), "manual": false}
	if manual, ok := c.clock.(*sim.ManualClock); ok {
		body["manual"], body["waiting"] = true, manual.Waiting()
	}
	return body
}

// postClock advances a manual clock: {"advance": "90s"}.
func (c *Cloud) postClock(w http.ResponseWriter, r *http.Request) error {
	manual, ok := c.clock.(*sim.ManualClock)
	if !ok {
		return simhttp.Refuse(http.StatusConflict, "only a manual clock can be advanced (cysim serve --manual-clock)")
	}
	var body struct {
		Advance *duration `json:"advance"`
	}
	if err := readJSON(r, "advance", &body); err != nil {
		return err
	}
	if body.Advance == nil || *body.Advance < 0 {
		return simhttp.Refuse(http.StatusBadRequest, `advance: want a duration that is not negative, such as {"advance": "90s"}`)
	}
	manual.Advance(time.Duration(*body.Advance))
	simhttp.Show("clock", c.clockBody)(w, r)
	return nil
}
