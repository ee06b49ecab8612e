package nova

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/gocyborg/gocyborg/fault"
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
// processes. ErrURL for one that is not absolute http or https, or has a user name or password; then nothing changes.
func (s *Server) ForwardTo(urls ...string) error {
	for _, text := range urls {
		if err := simhttp.CheckURL(text); err != nil {
			return fmt.Errorf("%w: %w", ErrURL, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urls = slices.Clone(urls)
	return nil
}

// forward forwards events by their numbers together, except events that a fault rule drops,
// delays or moves behind the others.
func (s *Server) forward(ctx context.Context, numbers []int64) {
	var now, last []int64
	for _, number := range numbers {
		row, _ := s.rowOf(number)
		rule, _ := s.Faults.Decide(fault.ExternalEventForward, tagOf(row.Event))
		switch rule.Action {
		case "":
			now = append(now, number)
		case fault.Delay:
			due := s.Clock.Now().Add(rule.Delay).UTC()
			s.update(number, func(e *eventRow) { e.ForwardAt = due })
			s.forwardAt(due, number)
		case fault.Reorder:
			last = append(last, number)
		case fault.Duplicate, fault.Status:
			s.update(number, func(e *eventRow) { e.Fault = rule.Action })
			now = append(now, number)
		default:
			s.update(number, func(e *eventRow) { e.Problems = append(slices.Clone(e.Problems), "lost on purpose") })
		}
	}
	if len(now) > 0 {
		s.deliver(ctx, now)
	}
	for _, number := range slices.Backward(last) {
		s.deliver(ctx, []int64{number})
	}
}

// rowOf returns what is kept of an event, if it still is.
func (s *Server) rowOf(number int64) (row eventRow, kept bool) {
	s.state.db.View(func(tx *tables.Tx) { row, kept = s.state.events.Get(tx, number) })
	return row, kept
}

// target is a place to pass events on to. Events, answers and logs have its name, which shows no query: that may be a secret.
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
	for i, u := range s.urls {
		name := simhttp.ShownURL(u)
		if slices.ContainsFunc(list, func(t target) bool { return t.name == name }) {
			name = fmt.Sprintf("%s, number %d", name, i+1)
		}
		list = append(list, target{name, u, s.urlClient})
	}
	return list
}

// deliver posts the events to every target, or again to the targets that an event waits for.
// Errors are recorded with the events: Nova casts events to the host, so the sender never sees
// them.
func (s *Server) deliver(ctx context.Context, numbers []int64) {
	rows := make([]eventRow, 0, len(numbers))
	for _, number := range numbers {
		if row, kept := s.rowOf(number); kept { // not dropped for newer ones since it was delayed
			rows = append(rows, row.arriving()...)
		}
	}
	for _, to := range s.targets() {
		var events []sim.Event
		var sent []int64
		for _, row := range rows {
			if len(row.Tries) == 0 || row.Tries[to.name] > 0 {
				events, sent = append(events, row.Event), append(sent, row.Number)
			}
		}
		if len(events) > 0 {
			s.keep(to, sent, s.post(ctx, to, events))
		}
	}
	s.tryAgain(numbers)
}

// arriving returns the copies of an event in a post.
func (e eventRow) arriving() []eventRow {
	switch e.Fault {
	case fault.Status:
		e.Status = statusFailed
	case fault.Duplicate:
		return []eventRow{e, e}
	}
	return []eventRow{e}
}

// outcome is the result of a post: an error for all events, or for some of them.
type outcome struct {
	err       error
	temporary bool
	status    int   // of the answer, if it refuses all events
	codes     []int // of the events, if not all were accepted
}

// code is the code of one of the events in the answer, 200 unless the answer refuses it.
func (o outcome) code(i int) int {
	if i < len(o.codes) {
		return o.codes[i]
	}
	return cmp.Or(o.status, http.StatusOK)
}

// of is the error about one of the events.
func (o outcome) of(i int) error {
	if code := o.code(i); o.err == nil && code != http.StatusOK {
		return refused(code)
	}
	return o.err
}

// keep notes with the events what became of their post.
func (s *Server) keep(to target, numbers []int64, result outcome) {
	for i, number := range numbers {
		if result.err != nil && i > 0 && numbers[i-1] == number {
			continue // a duplicate of a post that failed as a whole
		}
		var lost sim.Event
		err := result.of(i)
		s.update(number, func(e *eventRow) {
			e.Tries = maps.Clone(e.Tries)
			switch {
			case err == nil:
				e.Forwarded = append(slices.Clone(e.Forwarded), to.name)
			case result.temporary && to.name != inProcess && e.Tries[to.name] < maxRepeats:
				e.repeat(to.name, s.Clock.Now().UTC())
				return
			default:
				e.Problems = append(slices.Clone(e.Problems), to.name+": "+err.Error())
				if code := result.code(i); e.Code == http.StatusOK && isRefusal(code) {
					e.Code = code
				}
				lost = e.Event
			}
			delete(e.Tries, to.name)
		})
		if lost.Name != "" {
			s.logLost("event not forwarded", lost, err, "to", to.name)
		}
	}
}

// repeat has the event forwarded again to a target, which has had it in vain.
func (e *eventRow) repeat(target string, now time.Time) {
	if e.Tries == nil {
		e.Tries = make(map[string]int)
	}
	if at := now.Add(firstPause << e.Tries[target]); at.After(e.ForwardAt) {
		e.ForwardAt = at
	}
	e.Tries[target]++
}

func (s *Server) logLost(what string, e sim.Event, err error, args ...any) {
	if s.cfg.Logger != nil {
		s.cfg.Logger.Warn(what, append([]any{"event", e.Name, "instance", e.ServerUUID, "tag", tagOf(e), "error", err}, args...)...)
	}
}

// maxRepeats is how often a post to a URL is repeated, and firstPause the time before the first, which
// doubles with each.
const (
	maxRepeats = 5
	firstPause = time.Second
)

// tryAgain forwards the events later that a target is to have again.
func (s *Server) tryAgain(numbers []int64) {
	due := make(map[time.Time][]int64)
	for _, number := range numbers {
		if row, kept := s.rowOf(number); kept && len(row.Tries) > 0 {
			due[row.ForwardAt] = append(due[row.ForwardAt], number)
		}
	}
	for at, numbers := range due {
		s.forwardAt(at, numbers...)
	}
}

// post sends events to a target. A token that is refused is replaced once. A post to a URL ends with its
// answer or by its time limit, also where the sender or the server does not wait for it.
func (s *Server) post(ctx context.Context, to target, events []sim.Event) outcome {
	if to.name != inProcess {
		ctx = context.WithoutCancel(ctx)
	}
	v := versionText(minorAccelerator)
	peer := simhttp.Peer{Endpoint: sim.Endpoint{URL: to.url, Client: to.client, Token: s.cfg.Token}, Agent: "cyborg-conductor"}
	answer, err := peer.Do(ctx, simhttp.PeerCall{
		Method: http.MethodPost, Body: map[string]any{"events": events},
		Version: "compute " + v, Header: map[string]string{headerLegacyVersion: v},
	})
	if failed := new(url.Error); errors.As(err, &failed) {
		err = failed.Err // the target is named beside it
	}
	switch {
	case err != nil:
		return outcome{err: err, temporary: errors.Is(err, syscall.ECONNREFUSED)}
	case answer.Status == http.StatusMultiStatus:
		var body struct{ Events []eventAnswer }
		if err := answer.Decode(&body); err != nil || len(body.Events) != len(events) {
			return outcome{err: fmt.Errorf("answered 207 without the %d events", len(events))}
		}
		result := outcome{}
		for _, e := range body.Events {
			result.codes = append(result.codes, e.Code)
		}
		return result
	case answer.Status != http.StatusOK:
		temporary := slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, answer.Status)
		return outcome{err: fmt.Errorf("answered %d %s", answer.Status, http.StatusText(answer.Status)), temporary: temporary, status: answer.Status}
	}
	return outcome{}
}
