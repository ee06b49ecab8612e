package externalevent

import (
	"fmt"
	"time"
)

// WaitState is the state of an event for a waiter, in Nova's words.
type WaitState string

// States of an event.
const (
	// StateExpected: not received, and Wait has not reached it.
	StateExpected WaitState = "expected but not received"
	// StateWaiting: Wait waits for it now.
	StateWaiting WaitState = "waiting"
	// StateEarly: marked by [Waiter.Early].
	StateEarly WaitState = "received early"
	// StateReceived: received by Wait.
	StateReceived WaitState = "received"
	// StateTimedOut: not received before the timeout.
	StateTimedOut WaitState = "timed out"
	// StateNotProcessed: received, but the wait ended before its turn.
	StateNotProcessed WaitState = "received but not processed"
)

// EventState is the state of one event of a [Waiter].
type EventState struct {
	Name   string
	Tag    string // as given to [Registry.Prepare]
	State  WaitState
	Waited time.Duration // for StateReceived and StateTimedOut
	Status Status        // as received; empty when not received
}

// String returns the text of Nova's log, such as "accelerator-request-bound-<tag>:
// timed out after 300.00 seconds".
func (s EventState) String() string {
	text := s.Name + "-" + s.Tag + ": " + string(s.State)
	switch s.State {
	case StateReceived:
		return fmt.Sprintf("%s after waiting %.2f seconds", text, s.Waited.Seconds())
	case StateTimedOut:
		return fmt.Sprintf("%s after %.2f seconds", text, s.Waited.Seconds())
	}
	return text
}

// States returns the state of each event, in the order of [Registry.Prepare]. Events
// that are delivered together, or end with the registry, change together.
func (w *Waiter) States() []EventState {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	states := make([]EventState, len(w.events))
	for i, a := range w.events {
		states[i] = a.describe()
	}
	return states
}

// describe is called under the waiter's mutex.
func (a *awaited) describe() EventState {
	status, received := a.expected.received()
	s := EventState{Name: ARQBound, Tag: a.tag, State: a.state, Waited: a.waited, Status: status}
	if received && s.State == StateExpected {
		s.State = StateNotProcessed
	}
	return s
}
