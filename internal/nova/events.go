package nova

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// maxReceived limits how many received events are kept.
const maxReceived = 10000

// eventAnswer echoes an event with what became of it.
type eventAnswer struct {
	sim.Event
	Code int `json:"code"`
}

const policyEvents = "os_compute_api:os-server-external-events:create"

// postEvents is POST /v2.1/os-server-external-events. As in Nova the body is judged
// before the policy, and an event that is accepted is echoed as completed whatever its
// own status: that status is the delivery's.
func (s *Server) postEvents(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	events, bad := readEvents(r, c.version, s.cfg.EventForm)
	if bad != nil {
		writeError(w, bad.status, bad.kind, bad.message)
		return
	}
	if !c.id.HasRole("admin", "service") {
		writeError(w, http.StatusForbidden, "forbidden", "Policy doesn't allow "+policyEvents+" to be performed.")
		return
	}
	status := http.StatusOK
	answers := make([]eventAnswer, 0, len(events))
	var accepted []int
	for _, event := range events {
		code := s.judge(event)
		number := s.receive(sim.ReceivedEvent{Event: event, Code: code, At: s.clock.Now()})
		answer := eventAnswer{event, code}
		answer.Status = statusCompleted
		if code == http.StatusOK {
			accepted = append(accepted, number)
			simhttp.Note(r.Context(), eventChange(event, number))
		} else {
			answer.Status, status = statusFailed, http.StatusMultiStatus
		}
		answers = append(answers, answer)
	}
	s.forward(r.Context(), accepted)
	simhttp.WriteJSON(w, status, map[string]any{"events": answers})
}

// change notes an event that was taken by its number among all that came.
func eventChange(e sim.Event, number int) sim.Change {
	what := fmt.Sprintf("%s %s for instance %s", e.Name, e.Status, e.ServerUUID)
	if e.Tag != nil {
		what += ", tag " + *e.Tag
	}
	return sim.Change{Action: sim.Created, Kind: "event", ID: strconv.Itoa(number), What: what}
}

// judge checks one event in Nova's order.
func (s *Server) judge(event sim.Event) int {
	guest, known := s.Guest(event.ServerUUID)
	switch {
	case s.cfg.StrictInstances && !known:
		return http.StatusNotFound
	case needsTag(event.Name) && event.Tag == nil:
		return http.StatusBadRequest
	case s.cfg.StrictInstances && guest.Host == "":
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// receive keeps the event and returns its number; a very old one is given up for it.
func (s *Server) receive(event sim.ReceivedEvent) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.received) >= 2*maxReceived {
		s.dropped += len(s.received) - maxReceived
		s.received = slices.Clone(s.received[len(s.received)-maxReceived:])
	}
	s.received = append(s.received, event)
	return s.dropped + len(s.received) - 1
}

// update changes what is kept of an event, if it still is.
func (s *Server) update(number int, change func(*sim.ReceivedEvent)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := number - s.dropped; i >= 0 && i < len(s.received) {
		change(&s.received[i])
	}
}

// Events returns the events received so far in order, the newest 10000 of them.
func (s *Server) Events() []sim.ReceivedEvent {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := append([]sim.ReceivedEvent{}, s.received[max(0, len(s.received)-maxReceived):]...)
	for i := range list {
		list[i].Forwarded = slices.Clone(list[i].Forwarded)
		list[i].Problems = slices.Clone(list[i].Problems)
	}
	return list
}
