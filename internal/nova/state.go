package nova

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/sim"
)

// eventRow is a received event by its number.
type eventRow struct {
	Number int64 `json:"number"`
	sim.ReceivedEvent
	// ForwardAt is when the event is to be forwarded, if that was delayed and is not done.
	ForwardAt time.Time `json:"forward_at,omitzero"`
	// Fault is how a rule has the event arrive: as failed (status), or twice (duplicate).
	Fault fault.Action `json:"fault,omitempty"`
	// Tries are how often a post to a URL failed that is repeated then.
	Tries map[string]int `json:"tries,omitempty"`
}

// check looks at an event alone. Its name is not checked: that depends on the
// configuration that it was received with.
func (e eventRow) check() error {
	switch {
	case !uuids.Like(e.ServerUUID):
		return fmt.Errorf("server_uuid %q is not a UUID", e.ServerUUID)
	case e.Name == "" || e.Status == "":
		return errors.New("name or status is missing")
	case e.Code != 200 && !isRefusal(e.Code):
		return fmt.Errorf("code %d is neither 200 nor 300 to 599", e.Code)
	case !slices.Contains([]fault.Action{"", fault.Status, fault.Duplicate}, e.Fault):
		return fmt.Errorf("fault %q is not possible for an event that arrives", e.Fault)
	case e.ForwardAt.IsZero():
		return simhttp.CheckTime("at", e.At)
	case e.Code != 200 && len(e.Tries) == 0:
		return errors.New("it was refused and is to be forwarded")
	}
	return errors.Join(simhttp.CheckTime("at", e.At), simhttp.CheckTime("forward_at", e.ForwardAt))
}

// isRefusal reports whether a code of an answer refuses an event.
func isRefusal(code int) bool { return code >= 300 && code <= 599 }

func (e eventRow) label() string {
	text := fmt.Sprintf("%s %s for instance %s", e.Name, e.Status, e.ServerUUID)
	if e.Tag != nil {
		text += ", tag " + *e.Tag
	}
	return text
}

// state is the tables of the service. The receivers that events are forwarded to are the
// process's.
type state struct {
	db           *tables.DB
	guests       *tables.Table[string, guestRow]
	guestsByHost tables.Index[string, guestRow]
	events       *tables.Table[int64, eventRow]
	delayed      tables.Index[int64, eventRow]
	lost         tables.Index[int64, eventRow]
	eventNumbers tables.Sequence
}

func newState() state {
	db := tables.New("compute")
	s := state{db: db}
	s.guests = tables.Add(db, tables.Spec[string, guestRow]{
		Name: "guests", Key: func(g guestRow) string { return g.UUID }, Check: guestRow.check,
	})
	s.guestsByHost = s.guests.Index(func(g guestRow) string { return g.Host })
	s.events = tables.Add(db, tables.Spec[int64, eventRow]{
		Name: "events", Kind: "event", Key: func(e eventRow) int64 { return e.Number },
		ID: func(e eventRow) string { return strconv.FormatInt(e.Number, 10) }, Label: eventRow.label, Check: eventRow.check,
	})
	s.delayed = s.events.Index(func(e eventRow) string {
		if e.ForwardAt.IsZero() {
			return ""
		}
		return "delayed"
	})
	s.lost = s.events.Index(func(e eventRow) string {
		if len(e.Problems) == 0 {
			return ""
		}
		return "lost"
	})
	s.eventNumbers = tables.KeySequence(s.events)
	return s
}

// State is the guests, the newest 10000 events received, and when the delayed ones among
// them are to be forwarded. Once it was replaced, these wait for [Server.Resume]. No delayed
// event of the old state is forwarded in the new one.
func (s *Server) State() sim.Recorded {
	return simhttp.Recorded{Recorded: s.state.db, Service: s.Service, Before: s.deliveries.stop}
}
