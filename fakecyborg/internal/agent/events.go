package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// The forms of the event that notifies Nova of resolved requests.
const (
	EventFormShipped = "shipped"
	EventFormTrain   = "train"
	EventFormUssuri  = "ussuri"
)

// The names of the events. Nova knows the shipped one only.
const (
	eventName       = "accelerator-request-bound"
	eventNameTrain  = "arq_resolved"
	eventNameUssuri = "accelerator-requests-bound"
)

// The statuses of an event.
const (
	eventCompleted = "completed"
	eventFailed    = "failed"
	eventOK        = "ok" // completed, in the words of the Train specification
)

// computeVersion is the microversion that knows the event.
const computeVersion = "2.82"

// eventsFor returns the events for binds that have ended.
func eventsFor(form string, binds []store.Bind) []sim.Event {
	var events []sim.Event
	for _, b := range binds {
		status := eventFailed
		if b.Result == store.Bound {
			status = eventCompleted
		}
		e := sim.Event{Name: eventName, ServerUUID: b.Instance, Tag: &b.ARQ, Status: status}
		switch form {
		case EventFormTrain:
			e.Name = eventNameTrain
			if status == eventCompleted {
				e.Status = eventOK
			}
		case EventFormUssuri:
			e.Name, e.Tag = eventNameUssuri, &b.Profile
			same := slices.IndexFunc(events, func(o sim.Event) bool { return o.ServerUUID == e.ServerUUID && *o.Tag == *e.Tag })
			if same >= 0 {
				if status == eventFailed {
					events[same].Status = eventFailed
				}
				continue
			}
		}
		events = append(events, e)
	}
	return events
}

// eventBatch is the events of one PATCH, or of one instance. In every form they are one POST.
type eventBatch struct {
	c     *Conductor
	first string // the instance that was resolved first
	binds []store.Bind
}

// add adds a bind that has ended. Upstream gives all events of a PATCH the instance of the first.
func (e *eventBatch) add(b store.Bind, result string) {
	b.Result = result
	e.first = cmp.Or(e.first, b.Instance)
	if e.c.cfg.Quirks {
		b.Instance = e.first
	}
	e.binds = append(e.binds, b)
}

// send posts the events of all binds.
func (e *eventBatch) send(ctx context.Context) error {
	return e.c.sendEvents(ctx, eventsFor(e.c.cfg.EventForm, e.binds))
}

// sendEvents posts the events of one PATCH to Nova, in one request and without a second try, as
// upstream does. The error is the refusal for a client that waits for the bind.
func (c *Conductor) sendEvents(ctx context.Context, events []sim.Event) error {
	if len(events) == 0 || c.replaced(ctx) {
		return nil
	}
	c.change(ctx, func(tx store.Tx) { tx.AddEvents(events) })
	rule, _ := c.cfg.Faults.Decide(fault.EventSend, events[0].ServerUUID)
	switch {
	case rule.Action == fault.Reorder:
		slices.Reverse(events)
		return c.postEvents(ctx, events)
	case rule.Action == fault.Delay:
		if err := c.cfg.Clock.Wait(ctx, rule.Delay); err != nil {
			return novaRefusal(err.Error())
		}
	case rule.Action == fault.Duplicate:
		err := c.postEvents(ctx, events)
		_ = c.postEvents(ctx, events) // as if Nova had got it twice
		return err
	case rule.Action != "" && !rule.Applied():
		return eventFault(rule)
	}
	err := c.postEvents(ctx, events)
	if rule.Action != "" && rule.Applied() && rule.Action != fault.Delay {
		return eventFault(rule)
	}
	return err
}

// eventFault returns the result of a send with an injected fault: nil for a dropped event, a bad response from Nova
// otherwise.
func eventFault(rule fault.Rule) error {
	if rule.Action == fault.Drop {
		return nil
	}
	return novaRefusal(fmt.Sprintf("injected status %d", rule.Status))
}

func novaRefusal(details string) error {
	return store.Refuse(store.Invalid, "Bad API response from Nova for os-server-external-events API. Details: %s", details)
}

// postEvents sends events, if Nova is configured. Events of a state that was replaced are not sent.
func (c *Conductor) postEvents(ctx context.Context, events []sim.Event) error {
	if c.cfg.Nova == nil || c.replaced(ctx) {
		return nil
	}
	got, err := c.cfg.Nova.Do(ctx, simhttp.PeerCall{
		Method: http.MethodPost, Path: "/os-server-external-events",
		Version: "compute " + computeVersion, Header: map[string]string{"X-OpenStack-Nova-API-Version": computeVersion},
		Body: map[string]any{"events": events},
	})
	if err != nil {
		return novaRefusal(err.Error())
	}
	return checkEventsAnswer(got)
}

// checkEventsAnswer applies upstream's delivery rules (cyborg/common/nova_client.py): 200 is fine;
// a 207 in which every event was refused with 422 is ignored, because the instance has no host yet;
// everything else is an error.
func checkEventsAnswer(got simhttp.Answer) error {
	switch got.Status {
	case http.StatusOK:
		return nil
	case http.StatusMultiStatus:
		var body struct {
			Events []struct {
				Code int `json:"code"`
			} `json:"events"`
		}
		if err := got.Decode(&body); err != nil {
			return novaRefusal(err.Error())
		}
		for _, event := range body.Events {
			if event.Code != http.StatusUnprocessableEntity {
				return novaRefusal(fmt.Sprintf("an event was answered %d", event.Code))
			}
		}
		return nil
	}
	return novaRefusal(fmt.Sprintf("status %d", got.Status))
}

// notifyRestored notifies Nova of the requests of a restarted host, one instance after the other.
func (c *Conductor) notifyRestored(ctx context.Context, binds []store.Bind) error {
	var errs []error
	for len(binds) > 0 {
		batch := &eventBatch{c: c}
		var later []store.Bind
		for _, b := range binds {
			if b.Instance == binds[0].Instance {
				batch.add(b, b.Result)
			} else {
				later = append(later, b)
			}
		}
		errs = append(errs, batch.send(ctx))
		binds = later
	}
	return errors.Join(errs...)
}
