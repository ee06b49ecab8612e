package nova

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrURL is returned for a URL that events cannot be sent to.
var ErrURL = errors.New("nova: bad URL for events")

// inProcess is the name of the Go handler among the receivers.
const inProcess = "in process"

// HandleEvents sets the handler that accepted events are forwarded to, as a POST of the
// same form that Nova receives; nil for none.
func (s *Server) HandleEvents(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = nil
	if h != nil {
		s.handler = &http.Client{Transport: simhttp.NewTransport(h)}
	}
}

// ForwardTo sets the URLs that accepted events are posted to, for listeners in other
// processes. ErrURL for one that is not absolute http or https; then nothing changes.
func (s *Server) ForwardTo(urls ...string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%w: %q", ErrURL, text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urls = slices.Clone(urls)
	return nil
}

// forward forwards events by their numbers together, except those that a fault rule
// drops, delays or moves behind the others.
func (s *Server) forward(ctx context.Context, numbers []int64) {
	var now, last []int64
	failed := map[int64]bool{}
	for _, number := range numbers {
		event, _ := s.eventOf(number)
		rule, _ := s.Faults.Decide(fault.ExternalEventForward, tagOf(event))
		switch rule.Action {
		case "":
			now = append(now, number)
		case fault.Delay:
			due := s.Clock.Now().Add(rule.Delay).UTC()
			s.update(number, func(e *eventRow) { e.ForwardAt = due })
			s.forwardAt(due, number)
		case fault.Reorder:
			last = append(last, number)
		case fault.Duplicate:
			now = append(now, number, number)
		case fault.Status:
			failed[number] = true
			now = append(now, number)
		default:
			s.update(number, func(e *eventRow) { e.Problems = append(slices.Clone(e.Problems), "lost on purpose") })
		}
	}
	if len(now) > 0 {
		s.deliver(ctx, now, failed)
	}
	for _, number := range slices.Backward(last) {
		s.deliver(ctx, []int64{number}, nil)
	}
}

// eventOf returns what is kept of an event, if it still is.
func (s *Server) eventOf(number int64) (event sim.Event, kept bool) {
	s.state.db.View(func(tx *tables.Tx) {
		var e eventRow
		e, kept = s.state.events.Get(tx, number)
		event = e.Event
	})
	return event, kept
}

// target is a place to pass events on to.
type target struct {
	name, url string
	client    *http.Client
}

func (s *Server) targets() []target {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []target
	if s.handler != nil {
		list = append(list, target{inProcess, "http://nova-compute.invalid/os-server-external-events", s.handler})
	}
	for _, u := range s.urls {
		list = append(list, target{u, u, s.urlClient})
	}
	return list
}

// deliver posts the events to every target. Trouble is kept with the events: as Nova
// casts them to the host, the sender never learns of it.
func (s *Server) deliver(ctx context.Context, numbers []int64, failed map[int64]bool) {
	events := make([]sim.Event, 0, len(numbers))
	for _, number := range numbers {
		event, kept := s.eventOf(number)
		if !kept {
			continue // dropped for newer ones since it was delayed
		}
		if failed[number] {
			event.Status = statusFailed
		}
		events = append(events, event)
	}
	if len(events) == 0 {
		return
	}
	for _, to := range s.targets() {
		err := s.post(ctx, to, events)
		for _, number := range numbers {
			s.update(number, func(e *eventRow) {
				if err != nil {
					e.Problems = append(slices.Clone(e.Problems), to.name+": "+err.Error())
				} else {
					e.Forwarded = append(slices.Clone(e.Forwarded), to.name)
				}
			})
		}
	}
}

func (s *Server) post(ctx context.Context, to target, events []sim.Event) error {
	body, err := json.Marshal(map[string]any{"events": events})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	v := versionText(minorAccelerator)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(headerVersion, "compute "+v)
	req.Header.Set(headerLegacyVersion, v)
	if s.cfg.Token != nil {
		token, err := s.cfg.Token(ctx)
		if err != nil {
			return err
		}
		req.Header.Set("X-Auth-Token", token)
	}
	client := httpbounds.Client(*to.client, simhttp.MaxBody)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", res.Status)
	}
	return nil
}
