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
	"sync"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrURL is returned for a URL that events cannot be sent to.
var ErrURL = errors.New("nova: bad URL for events")

// inProcess names the Go handler where a place to pass events on to is named.
const inProcess = "in process"

// HandleEvents sets the handler that accepted events are passed on to, as a POST of the
// same form that Nova receives; nil for none.
func (s *Server) HandleEvents(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
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

// forward passes the events of the numbers on together, except those that a fault
// rule loses, puts off or moves behind the others.
func (s *Server) forward(ctx context.Context, numbers []int) {
	var now, last []int
	failed := map[int]bool{}
	for _, number := range numbers {
		event, _ := s.eventOf(number)
		outcome := s.service.Decide(opForward, tagOf(event))
		switch {
		case outcome.Lost:
			s.update(number, func(r *sim.ReceivedEvent) { r.Problems = append(r.Problems, "lost on purpose") })
		case outcome.Delay > 0:
			s.putOff(number, s.clock.Now().Add(outcome.Delay))
		case outcome.Last:
			last = append(last, number)
		case outcome.Twice:
			now = append(now, number, number)
		default:
			failed[number] = outcome.Failed
			now = append(now, number)
		}
	}
	if len(now) > 0 {
		s.deliver(ctx, now, failed)
	}
	for _, number := range slices.Backward(last) {
		s.deliver(ctx, []int{number}, nil)
	}
}

// eventOf returns what is kept of an event, if it still is.
func (s *Server) eventOf(number int) (event sim.Event, kept bool) {
	s.update(number, func(r *sim.ReceivedEvent) { event, kept = r.Event, true })
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
		client := &http.Client{Transport: simhttp.NewTransport(s.handler)}
		list = append(list, target{inProcess, "http://nova-compute.invalid/os-server-external-events", client})
	}
	for _, u := range s.urls {
		list = append(list, target{u, u, s.urlClient})
	}
	return list
}

// deliver posts the events to every target. Trouble is kept with the events: as Nova
// casts them to the host, the sender never learns of it.
func (s *Server) deliver(ctx context.Context, numbers []int, failed map[int]bool) {
	events := make([]sim.Event, 0, len(numbers))
	for _, number := range numbers {
		event, kept := s.eventOf(number)
		if !kept {
			continue // given up for newer ones since it was put off
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
		err := post(ctx, to, events)
		for _, number := range numbers {
			s.update(number, func(r *sim.ReceivedEvent) {
				if err != nil {
					r.Problems = append(r.Problems, to.name+": "+err.Error())
				} else {
					r.Forwarded = append(r.Forwarded, to.name)
				}
			})
		}
	}
}

func post(ctx context.Context, to target, events []sim.Event) error {
	body, err := json.Marshal(map[string]any{"events": events})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	v := version{minorAccelerator}.String()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(headerVersion, "compute "+v)
	req.Header.Set(headerLegacyVersion, v)
	res, err := to.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, simhttp.MaxBody)); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", res.Status)
	}
	return nil
}

// laterGroup runs what was put off, until it is closed.
type laterGroup struct {
	mu      sync.Mutex
	closed  bool
	next    int
	cancels map[int]context.CancelFunc
	wait    sync.WaitGroup
}

// start reports whether f runs: not once the group is closed.
func (g *laterGroup) start(f func(context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	if g.cancels == nil {
		g.cancels = make(map[int]context.CancelFunc)
	}
	g.next++
	number := g.next
	g.cancels[number] = cancel
	g.wait.Go(func() {
		f(ctx)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.cancels, number)
		cancel()
	})
	return true
}

// stop ends what runs and waits for it; what is started meanwhile does not run.
func (g *laterGroup) stop() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	g.close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

func (g *laterGroup) close() {
	g.mu.Lock()
	g.closed = true
	for _, cancel := range g.cancels {
		cancel()
	}
	g.mu.Unlock()
	g.wait.Wait()
}
