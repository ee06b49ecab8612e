package fakecyborg

import (
	"cmp"
	"context"
	"slices"

	"github.com/gocyborg/gocyborg/sim"
)

// The forms of the event that tells Nova of resolved requests (Config.EventForm).
const (
	// EventFormShipped is what Cyborg sends and Nova takes: one event
	// accelerator-request-bound for each request, all of a PATCH in one POST once
	// the last is resolved. It is the default.
	EventFormShipped = "shipped"
	// EventFormTrain is the form of the Train specification: an event arq_resolved
	// of status ok or failed for each request, in a POST of its own, as soon as the
	// request is resolved.
	EventFormTrain = "train"
	// EventFormUssuri is the form of the Ussuri specification: one event
	// accelerator-requests-bound for an instance once all requests of a PATCH are
	// resolved, with the name of the device profile as its tag. It has failed if
	// one request has.
	EventFormUssuri = "ussuri"
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

// resolution is a request that has come to the end of its bind.
type resolution struct {
	server, arq, profile string
	bound                bool
}

func (b bound) resolution() resolution {
	return resolution{server: b.job.server, arq: b.job.uuid, profile: b.job.profile, bound: b.state == StateBound}
}

func (r resolution) status(completed string) string {
	if r.bound {
		return completed
	}
	return eventFailed
}

// eventsFor puts resolutions into the form of the configuration.
func (s *Server) eventsFor(list []resolution) []sim.Event {
	var events []sim.Event
	for _, r := range list {
		e := sim.Event{Name: eventName, ServerUUID: r.server, Tag: &r.arq, Status: r.status(eventCompleted)}
		switch s.cfg.EventForm {
		case EventFormTrain:
			e.Name, e.Status = eventNameTrain, r.status(eventOK)
		case EventFormUssuri:
			e.Name, e.Tag = eventNameUssuri, &r.profile
			same := slices.IndexFunc(events, func(o sim.Event) bool { return o.ServerUUID == e.ServerUUID && *o.Tag == *e.Tag })
			if same >= 0 {
				if !r.bound {
					events[same].Status = eventFailed
				}
				continue
			}
		}
		events = append(events, e)
	}
	return events
}

// telling collects what Nova is to be told of one PATCH, or of one instance.
type telling struct {
	s     *Server
	first string // the instance that was resolved first
	list  []resolution
	held  [][]sim.Event // of the POSTs that a fault rule puts last
	err   error         // of the first POST that went wrong
}

// resolved tells Nova at once if the form is that of Train, else at the end.
// Upstream gives all events of a PATCH the instance of the first.
func (t *telling) resolved(ctx context.Context, r resolution) {
	t.first = cmp.Or(t.first, r.server)
	if t.s.cfg.UpstreamQuirks {
		r.server = t.first
	}
	t.list = append(t.list, r)
	if t.s.cfg.EventForm == EventFormTrain {
		t.send(ctx)
	}
}

// end tells Nova what it was not told yet; what was put last comes in reverse.
func (t *telling) end(ctx context.Context) error {
	t.send(ctx)
	for _, events := range slices.Backward(t.held) {
		slices.Reverse(events)
		t.note(t.s.postEvents(ctx, events))
	}
	t.held = nil
	return t.err
}

func (t *telling) send(ctx context.Context) {
	events := t.s.eventsFor(t.list)
	held, err := t.s.sendEvents(ctx, events)
	if held {
		t.held = append(t.held, events)
	}
	t.note(err)
	t.list = nil
}

// note keeps the first error.
func (t *telling) note(err error) {
	if t.err == nil {
		t.err = err
	}
}
