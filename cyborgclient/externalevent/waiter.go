package externalevent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Waiter waits for the events of one [Registry.Prepare]. Early and Close may be
// called while Wait runs; Wait itself is for one goroutine at a time.
type Waiter struct {
	registry *Registry
	instance string
	closed   chan struct{}

	mu     sync.Mutex // guards what changes in events, and the closing
	events []*awaited // in the order prepared; the slice itself never changes
}

// awaited is what one waiter knows of one of its events.
type awaited struct {
	key      key
	tag      string // as given to Prepare
	expected *expected
	early    chan struct{} // closed when marked early
	phase    phase
	waited   time.Duration
}

// phase is how far a waiter came with an event.
type phase int

const (
	phaseExpected phase = iota
	phaseWaiting
	phaseEarly
	phaseReceived
	phaseTimedOut
)

func (w *Waiter) find(k key) *awaited {
	i := slices.IndexFunc(w.events, func(a *awaited) bool { return a.key == k })
	if i < 0 {
		return nil
	}
	return w.events[i]
}

// Early marks events as received early: the caller has seen by other means that
// these accelerator requests are resolved, and Wait passes over them, also when it
// is waiting for one at the moment. Tags that are not of this waiter are ignored,
// and so are events that Wait is done with.
//
// Early says nothing about success. As in Nova, the status of an event that has
// arrived is not looked at once it is marked, so the caller judges the state of
// the request itself.
func (w *Waiter) Early(tags ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tag := range tags {
		a := w.find(keyOf(ARQBound, tag))
		if a != nil && (a.phase == phaseExpected || a.phase == phaseWaiting) {
			a.phase = phaseEarly
			close(a.early)
		}
	}
}

// Wait waits until every event has arrived with the status completed, for at most
// timeout from now on, in the order of Prepare:
//
//   - An event marked early is passed over.
//   - An event with any other status than completed ends the wait with [ErrFailed].
//   - When no time is left, the next event ends the wait with [ErrTimeout], even
//     if it has arrived.
//   - The end of ctx ends it with the context's error, [Waiter.Close] with
//     [ErrClosed].
//
// Every error is a [*WaitError] with the state of each event. A waiter without
// events does not wait. After an error Wait may be called again: events received
// completed are not waited for a second time.
func (w *Waiter) Wait(ctx context.Context, timeout time.Duration) error {
	return w.WaitFunc(ctx, timeout, nil)
}

// WaitFunc is [Waiter.Wait], but asks failed about each event that arrived with
// another status than completed, as Nova asks an error callback: when it returns
// true the wait goes on, when false it ends at once and without an error. A nil
// function makes it Wait.
func (w *Waiter) WaitFunc(ctx context.Context, timeout time.Duration, failed func(EventState) (goOn bool)) error {
	deadline := time.Now().Add(timeout)
	for i, a := range w.events {
		err := w.await(ctx, a, deadline)
		switch {
		case err == nil:
		case failed == nil || !errors.Is(err, ErrFailed):
			return &WaitError{Instance: w.instance, Events: w.States(), Err: err}
		case !failed(w.States()[i]):
			return nil
		}
	}
	return nil
}

func (w *Waiter) await(ctx context.Context, a *awaited, deadline time.Time) error {
	if w.settled(a) {
		return nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return fmt.Errorf("%w: no time left for %s", ErrTimeout, a.key)
	}
	if !w.enter(a) {
		return nil
	}
	start := time.Now()
	err := w.block(ctx, a, left)
	return w.leave(a, time.Since(start), err)
}

// settled reports whether an event needs no waiting: marked early, or received
// completed by an earlier Wait.
func (w *Waiter) settled(a *awaited) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	status, _ := a.expected.received()
	return a.phase == phaseEarly || a.phase == phaseReceived && status == StatusCompleted
}

// enter turns an event to waiting, unless it was marked early meanwhile.
func (w *Waiter) enter(a *awaited) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.phase == phaseEarly {
		return false
	}
	a.phase = phaseWaiting
	return true
}

// leave records how waiting for one event ended. An event that is there counts
// before a timeout or a cancelled context of the same moment, so that the outcome
// does not depend on chance.
func (w *Waiter) leave(a *awaited, waited time.Duration, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.phase == phaseEarly {
		return nil
	}
	if status, ok := a.expected.received(); ok {
		a.phase, a.waited = phaseReceived, waited
		return failure(a.key, status)
	}
	if errors.Is(err, ErrTimeout) {
		a.phase, a.waited = phaseTimedOut, waited
		return fmt.Errorf("%w after %s waiting for %s", ErrTimeout, waited, a.key)
	}
	a.phase = phaseExpected
	return err
}

// block returns when the event is there, nil, or can no longer be waited for.
func (w *Waiter) block(ctx context.Context, a *awaited, left time.Duration) error {
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-a.expected.done:
		return nil
	case <-a.early:
		return nil
	case <-timer.C:
		return ErrTimeout
	case <-w.closed:
		return ErrClosed
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
			return fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
		return context.Cause(ctx)
	}
}

func failure(k key, s Status) error {
	if s == StatusCompleted {
		return nil
	}
	return fmt.Errorf("%w: %s has the status %s", ErrFailed, k, s)
}

// Close forgets the events of the waiter that have not arrived, unless another
// waiter has prepared for them too, and ends a Wait that is under way. A second
// Close does nothing.
func (w *Waiter) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
		return
	default:
	}
	close(w.closed)
	w.registry.release(w.instance, w.events)
}
