package externalevent

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrTimeout reports that an expected event did not come in time.
	ErrTimeout = errors.New("timed out")
	// ErrFailed reports an event with a status other than completed.
	ErrFailed = errors.New("instance event failed")
	// ErrClosed reports the use of a closed registry or waiter.
	ErrClosed = errors.New("closed")
	// ErrInvalid reports an event or call that is refused before anything is sent
	// or registered.
	ErrInvalid = errors.New("invalid event")
	// ErrDelivery reports events that Nova did not accept. Every [*DeliveryError]
	// matches it.
	ErrDelivery = errors.New("events not delivered")
)

// WaitError is the error of [Waiter.Wait]. It has the state of each event, and
// matches [ErrTimeout], [ErrFailed], [ErrClosed] or the context's error.
type WaitError struct {
	Instance string
	Events   []EventState // all events of the waiter, in the order prepared
	Err      error        // the cause
}

// Error returns the instance, the cause, and the state of each event in Nova's words.
func (e *WaitError) Error() string {
	states := make([]string, len(e.Events))
	for i, s := range e.Events {
		states[i] = s.String()
	}
	return fmt.Sprintf("externalevent: wait for events of instance %s: %v (%s)",
		e.Instance, e.Err, strings.Join(states, "; "))
}

// Unwrap returns the cause.
func (e *WaitError) Unwrap() error { return e.Err }

// DeliveryError reports that the events of one call were not delivered to Nova. It
// matches [ErrDelivery] and its cause.
type DeliveryError struct {
	Status int     // HTTP status of the answer, 0 when there was none
	Events []Event // with the codes of the answer; as sent when Nova answered none
	Err    error   // the cause, unless the codes show it

	message string // of Nova's answer, instead of its whole body
}

// Error returns the HTTP status, the cause and each event with its code.
func (e *DeliveryError) Error() string {
	text := "externalevent: send"
	if e.Status != 0 {
		text += fmt.Sprintf(": HTTP status %d", e.Status)
	}
	text += ": " + ErrDelivery.Error()
	if e.message != "" {
		text += ": " + e.message
	} else if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	events := make([]string, len(e.Events))
	for i, ev := range e.Events {
		events[i] = fmt.Sprintf("%s-%s of instance %s", ev.Name, ev.Tag, ev.ServerUUID)
		if ev.Code != 0 {
			events[i] += fmt.Sprintf(": code %d", ev.Code)
		}
	}
	return text + " (" + strings.Join(events, "; ") + ")"
}

// Unwrap returns [ErrDelivery] and the cause.
func (e *DeliveryError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrDelivery}
	}
	return []error{ErrDelivery, e.Err}
}
