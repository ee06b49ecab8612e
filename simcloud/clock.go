package simcloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// getClock tells the time of the cloud, and whether it can be advanced.
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
		http.Error(w, "the clock is the machine's: it cannot be advanced (serve with --manual-clock)", http.StatusConflict)
		return
	}
	data, err := simhttp.ReadBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	d, err := advance(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	manual.Advance(d)
	c.getClock(w, r)
}

// advance reads how far to go.
func advance(data []byte) (time.Duration, error) {
	var body struct {
		Advance *Duration `json:"advance"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		return 0, fmt.Errorf("advance: %w", err)
	}
	switch {
	case body.Advance == nil:
		return 0, errors.New(`advance: missing, such as {"advance": "90s"}`)
	case *body.Advance < 0:
		return 0, fmt.Errorf("advance: %s is negative: no time goes back", body.Advance)
	}
	return time.Duration(*body.Advance), nil
}
