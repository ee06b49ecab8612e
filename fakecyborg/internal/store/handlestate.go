package store

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// HandleState says whether an attach handle can be given to a request. A handle is Free, Held while a request or a mediated device
// that waits for its removal uses it, and Withdrawn if a driver stops reporting it in that time. A Free handle that a driver stops
// reporting is deleted, as is a Withdrawn one that is released.
type HandleState uint8

// The states of attach handles.
const (
	Free HandleState = iota
	Held
	Withdrawn
)

var handleStates = []string{Free: "free", Held: "held", Withdrawn: "withdrawn"}

// String is the name of the state.
func (s HandleState) String() string { return handleStates[s] }

// MarshalText implements encoding.TextMarshaler.
func (s HandleState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *HandleState) UnmarshalText(text []byte) error {
	n := slices.Index(handleStates, string(text))
	if n < 0 {
		return fmt.Errorf("%q is not a state of attach handles", text)
	}
	*s = HandleState(n)
	return nil
}

// InUse reports whether a request, or a mediated device that waits for its removal, uses a handle.
func (h Handle) InUse() bool { return h.State != Free }

// orphaned reports whether no request holds a handle in use: its mediated device could not be removed when the request was deleted.
func (h Handle) orphaned() bool { return h.InUse() && h.HeldBy == "" }

// give makes a request hold a free handle.
func (t Tx) give(h Handle, a *ARQ) {
	h.State, h.HeldBy, a.Handle = Held, a.UUID, h.UUID
	t.s.handles.Put(t.tx, h)
}

// release ends the use of a handle.
func (t Tx) release(h Handle) {
	t.unlink(h)
	if d, _ := t.Deployable(h.Deployable); h.State == Withdrawn || d.Presence == Vanished {
		t.s.handles.Delete(t.tx, h.ID)
		return
	}
	h.State, h.HeldBy = Free, ""
	t.s.handles.Put(t.tx, h)
}

// releaseHandle releases a handle that may be deleted already.
func (t Tx) releaseHandle(uuid string) {
	if h, there := t.Handle(uuid); there {
		t.release(h)
	}
}

// withdraw stores that a driver does not report a handle any longer.
func (t Tx) withdraw(h Handle) {
	if h.State == Free {
		t.s.handles.Delete(t.tx, h.ID)
		return
	}
	t.keep(h, Withdrawn)
}

// find stores what a driver reports of a handle.
func (t Tx) find(h Handle, reported driver.AttachHandle) {
	found := h
	if found.Functions = t.functionsOf(reported); h.State == Free {
		found.Type = reported.Type
	} else {
		found.State = Held
	}
	if found != h {
		t.s.handles.Put(t.tx, found)
	}
}

func (t Tx) keep(h Handle, state HandleState) {
	if h.State != state {
		h.State = state
		t.s.handles.Put(t.tx, h)
	}
}
