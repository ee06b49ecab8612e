package nova

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrDump is matched by the errors of [Server.Load].
var ErrDump = errors.New("nova: bad dump")

// stateDump is the state of a service as JSON. Where events are passed on to is not in
// it: handlers and URLs are those of the process.
type stateDump struct {
	SchemaVersion int         `json:"schema_version"`
	IDs           dumpIDs     `json:"ids"`
	Guests        []sim.Guest `json:"guests"`
	// Dropped is how many events came before those that are kept.
	Dropped int         `json:"dropped"`
	Events  []dumpEvent `json:"events"`
}

// dumpIDs are positions in the sequences of identifiers.
type dumpIDs struct {
	Request uint64 `json:"request"`
}

type dumpEvent struct {
	sim.Event
	Code int       `json:"code"`
	At   time.Time `json:"at"`
	// PassOnAt is when the event is to be passed on, if that was put off.
	PassOnAt  time.Time `json:"pass_on_at,omitzero"`
	Forwarded []string  `json:"forwarded,omitempty"`
	Problems  []string  `json:"problems,omitempty"`
}

// Dump returns the guests, the events received, the newest 10000 of them, and when those
// that were put off are to be passed on, as one JSON document with the field
// schema_version. The handler and the URLs that events are passed on to are the process's
// and not in it. The same state gives the same bytes, and a service that has loaded a
// dump gives the same dump.
func (s *Server) Dump() ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	older := max(0, len(s.received)-maxReceived)
	d := stateDump{
		SchemaVersion: simhttp.DumpSchema, IDs: dumpIDs{s.service.IDs.Position()},
		Guests: s.sortedGuests(), Dropped: s.dropped + older, Events: []dumpEvent{},
	}
	for i, r := range s.received[older:] {
		event := dumpEvent{Event: r.Event, Code: r.Code, At: r.At.UTC(), Forwarded: r.Forwarded, Problems: r.Problems}
		if later := s.delayed[d.Dropped+i]; later != nil {
			event.PassOnAt = later.due.UTC()
		}
		d.Events = append(d.Events, event)
	}
	return json.MarshalIndent(d, "", "  ")
}

// Load makes the service what a dump says, in place of all it knew. Events that were put
// off wait for [Server.Resume]. A dump of another schema_version, with unknown fields, or that contradicts itself is
// refused; the error matches [ErrDump] and the service is as it was. It is for moments
// when nothing is going on.
func (s *Server) Load(data []byte) error {
	var d stateDump
	if err := simhttp.DecodeDump(data, &d, &d.SchemaVersion); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	guests, err := loadGuests(d.Guests)
	if err == nil {
		err = checkEvents(d)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	s.later.stop()
	s.become(d, guests)
	return nil
}

// become replaces the state.
func (s *Server) become(d stateDump, guests map[string]sim.Guest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guests, s.dropped, s.received, s.delayed = guests, d.Dropped, nil, make(map[int]*putOff)
	for i, e := range d.Events {
		s.received = append(s.received, sim.ReceivedEvent{Event: e.Event, Code: e.Code, At: e.At, Forwarded: e.Forwarded, Problems: e.Problems})
		if !e.PassOnAt.IsZero() {
			s.delayed[d.Dropped+i] = &putOff{due: e.PassOnAt}
		}
	}
	s.service.IDs.Continue(d.IDs.Request)
}

func loadGuests(list []sim.Guest) (map[string]sim.Guest, error) {
	guests := make(map[string]sim.Guest, len(list))
	for i, g := range list {
		g, err := checkedGuest(g)
		if _, twice := guests[g.UUID]; twice {
			err = fmt.Errorf("guest %s is there twice", g.UUID)
		}
		if err != nil {
			return nil, fmt.Errorf("guests[%d]: %w", i, err)
		}
		guests[g.UUID] = g
	}
	return guests, nil
}

// maxDropped is far above what any service has given up, and far below an overflow.
const maxDropped = 1 << 40

func checkEvents(d stateDump) error {
	switch {
	case d.Dropped < 0 || d.Dropped > maxDropped:
		return fmt.Errorf("dropped is %d", d.Dropped)
	case len(d.Events) > maxReceived:
		return fmt.Errorf("there are %d events, and at most %d are kept", len(d.Events), maxReceived)
	}
	for i, e := range d.Events {
		if err := e.checkKept(); err != nil {
			return fmt.Errorf("events[%d] of server %q: %w", i, e.ServerUUID, err)
		}
	}
	return nil
}

// checkKept looks at an event. Its name is not judged: it was, by a configuration that may
// have been another.
func (e dumpEvent) checkKept() error {
	codes := map[int]bool{200: true, 400: true, 404: true, 422: true}
	switch {
	case uuid.Validate(e.ServerUUID) != nil:
		return errors.New("server_uuid is not a UUID")
	case e.Name == "" || e.Status == "":
		return errors.New("name or status is missing")
	case !codes[e.Code]:
		return fmt.Errorf("code %d is none of %v", e.Code, slices.Sorted(maps.Keys(codes)))
	case e.PassOnAt.IsZero():
		return simhttp.CheckTime("at", e.At)
	case e.Code != 200:
		return errors.New("it was refused and is to be passed on")
	}
	return errors.Join(simhttp.CheckTime("at", e.At), simhttp.CheckTime("pass_on_at", e.PassOnAt))
}
