package nova

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// maxReceived is how many received events are kept.
const maxReceived = 10000

// eventAnswer echoes an event with its code.
type eventAnswer struct {
	sim.Event
	Code int `json:"code"`
}

const policyEvents = "os_compute_api:os-server-external-events:create"

// postEvents is POST /v2.1/os-server-external-events. As in Nova the body is checked
// before the policy, and an event that is accepted is echoed as completed regardless of its own
// status: that status is the delivery's.
func (s *Server) postEvents(c *simhttp.Call) error {
	events, err := s.readEvents(c)
	if err != nil {
		return err
	}
	if !c.Identity.HasRole("admin", "service") {
		return simhttp.Refuse(http.StatusForbidden, "Policy doesn't allow %s to be performed.", policyEvents)
	}
	status := http.StatusOK
	answers := make([]eventAnswer, 0, len(events))
	var accepted []int64
	for _, event := range events {
		received := sim.ReceivedEvent{Event: event, Code: s.codeOf(event), At: s.Clock.Now().UTC()}
		answer := eventAnswer{event, received.Code}
		if received.Code == http.StatusOK {
			answer.Status = statusCompleted
			accepted = append(accepted, s.receive(c.Log(), received))
		} else {
			answer.Status, status = statusFailed, http.StatusMultiStatus
			err := refused(received.Code)
			received.Problems = []string{err.Error()}
			s.receive(nil, received)
			s.logLost("event refused", event, err)
		}
		answers = append(answers, answer)
	}
	s.forward(c.Context(), accepted)
	return c.JSON(status, map[string]any{"events": answers})
}

// codeOf checks one event in Nova's order.
func (s *Server) codeOf(event sim.Event) int {
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

// refused is why Nova does not take an event. Cyborg never repeats one: an unshelve whose bind ends before the
// instance has a host waits in vain, in the real Nova, too.
func refused(code int) error {
	switch code {
	case http.StatusBadRequest:
		return fmt.Errorf("answered code %d: it has no tag", code)
	case http.StatusNotFound:
		return fmt.Errorf("answered code %d: the instance is unknown", code)
	case http.StatusUnprocessableEntity:
		return fmt.Errorf("answered code %d: the instance has no host yet; this is known, and Cyborg does not send the event again", code)
	}
	return fmt.Errorf("answered code %d", code)
}

// receive stores the event and returns its number, from 0 on. The oldest event goes when
// there are too many.
func (s *Server) receive(log *tables.ChangeLog, event sim.ReceivedEvent) (number int64) {
	s.state.db.Update(log, func(tx *tables.Tx) {
		number = s.state.eventNumbers.Next(tx) - 1
		s.state.events.Put(tx, eventRow{Number: number, ReceivedEvent: event})
	})
	s.state.db.Update(nil, func(tx *tables.Tx) { s.state.events.Delete(tx, number-maxReceived) })
	return number
}

// update changes an event, if it still is there.
func (s *Server) update(number int64, change func(*eventRow)) {
	s.state.db.Update(nil, func(tx *tables.Tx) {
		if e, ok := s.state.events.Get(tx, number); ok {
			change(&e)
			s.state.events.Put(tx, e)
		}
	})
}

// EachLostEvent says of each event that was refused, or that a receiver did not take, which it is and why, until yield returns false: the
// newest first.
func (s *Server) EachLostEvent(yield func(text string) bool) {
	var rows []eventRow
	s.state.db.View(func(tx *tables.Tx) { rows = slices.Collect(s.state.lost.All(tx, "lost")) })
	for _, row := range slices.Backward(rows) {
		if !yield(row.label() + ": " + strings.Join(row.Problems, "; ")) {
			return
		}
	}
}

// Events returns the newest 10000 events received, in order.
func (s *Server) Events() []sim.ReceivedEvent {
	list := []sim.ReceivedEvent{}
	s.state.db.View(func(tx *tables.Tx) {
		for e := range s.state.events.All(tx) {
			list = append(list, e.ReceivedEvent)
		}
	})
	return list
}
