package fakecyborg

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// computeVersion is the microversion that knows the event.
const computeVersion = "2.82"

// maxEvents is how many events Server.Events remembers.
const maxEvents = 10000

// recordEvents keeps the newest events.
func (s *Server) recordEvents(events []sim.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) >= 2*maxEvents {
		s.events = slices.Delete(s.events, 0, len(s.events)-maxEvents)
	}
	s.events = append(s.events, events...)
}

// Events returns the newest events that the server had for Nova, oldest first,
// whether or not a Nova is there and took them.
func (s *Server) Events() []sim.Event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.newestEvents()
}

// sendEvents posts the events of one PATCH to Nova, in one request and without
// a second try, as upstream does. The error is the refusal that a client waiting
// for the bind gets. With held a rule wants the events to come after all others of
// the PATCH; then they were not sent.
func (s *Server) sendEvents(ctx context.Context, events []sim.Event) (held bool, err error) {
	if len(events) == 0 {
		return false, nil
	}
	s.recordEvents(events)
	rule, _ := s.faults.Decide(eventOperation, events[0].ServerUUID)
	switch {
	case rule.Action == fault.Reorder:
		return true, nil
	case rule.Action == fault.Delay:
		if err := s.clock.Wait(ctx, rule.Delay); err != nil {
			return false, novaRefusal(err.Error())
		}
	case rule.Action == fault.Duplicate:
		err := s.postEvents(ctx, events)
		_ = s.postEvents(ctx, events) // upstream knows of one
		return false, err
	case rule.Action != "" && !rule.Applied():
		return false, eventFault(rule)
	}
	err = s.postEvents(ctx, events)
	if rule.Action != "" && rule.Applied() && rule.Action != fault.Delay {
		return false, eventFault(rule)
	}
	return false, err
}

// eventFault is what a rule makes of a send: a dropped event is lost without
// anybody noticing, all else is Nova's bad answer.
func eventFault(rule fault.Rule) error {
	if rule.Action == fault.Drop {
		return nil
	}
	return novaRefusal(fmt.Sprintf("injected status %d", rule.Status))
}

func novaRefusal(details string) error {
	return refuse(kindInvalid, "Bad API response from Nova for os-server-external-events API. Details: %s", details)
}

// postEvents sends events, if there is a Nova to send them to.
func (s *Server) postEvents(ctx context.Context, events []sim.Event) error {
	if s.nova == nil {
		return nil
	}
	got, err := s.nova.do(ctx, call{
		method: http.MethodPost, path: "/os-server-external-events",
		header: map[string]string{
			"OpenStack-API-Version":        "compute " + computeVersion,
			"X-OpenStack-Nova-API-Version": computeVersion,
		},
		body: map[string]any{"events": events},
	})
	if err != nil {
		return novaRefusal(err.Error())
	}
	return judgeEvents(got)
}

// judgeEvents applies upstream's delivery rules (cyborg/common/nova_client.py):
// 200 is fine; a 207 in which every event was refused with 422 is ignored,
// because the instance merely has no host yet; everything else is an error.
func judgeEvents(got answer) error {
	switch got.status {
	case http.StatusOK:
		return nil
	case http.StatusMultiStatus:
		var body struct {
			Events []struct {
				Code int `json:"code"`
			} `json:"events"`
		}
		if err := got.decode(&body); err != nil {
			return novaRefusal(err.Error())
		}
		for _, event := range body.Events {
			if event.Code != http.StatusUnprocessableEntity {
				return novaRefusal(fmt.Sprintf("an event was answered %d", event.Code))
			}
		}
		return nil
	}
	return novaRefusal(fmt.Sprintf("status %d", got.status))
}
