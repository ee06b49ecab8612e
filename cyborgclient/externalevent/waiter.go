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

	mu     sync.Mutex // guards the fields of events, and closing
	events []*awaited // in the order prepared; the slice never changes
}

// awaited is an event of a waiter.
type awaited struct {
	key      key
	tag      string // as given to Prepare
	expected *expected
	early    chan struct{} // closed when marked early
	state    WaitState     // StateExpected also once received; see describe
	waited   time.Duration
}

func (w *Waiter) find(k key) *awaited {
	i := slices.IndexFunc(w.events, func(a *awaited) bool { return a.key == k })
	if i < 0 {
		return nil
	}
	return w.events[i]
}

// Early marks events as received early because their accelerator requests are known to be
// resolved. Wait skips them, even if it is waiting for one of them now. Tags of other waiters and
// events that Wait has finished are ignored.
//
// Early does not mean success. As in Nova, the status of a marked event is ignored,
// so the caller has to check the state of the request.
func (w *Waiter) Early(tags ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tag := range tags {
		a := w.find(keyOf(w.instance, tag))
		if a != nil && (a.state == StateExpected || a.state == StateWaiting || a.state == StateTimedOut) {
			a.state = StateEarly
			close(a.early)
		}
	}
}

// Wait waits until every event has arrived with the status completed, for at most
// timeout, in the order of Prepare:
//
//   - An event marked early is skipped.
//   - An event with a status other than completed ends the wait with [ErrFailed]. The event is
//     only a hint: read the state of the request.
//   - When the timeout has expired, the next event ends the wait with [ErrTimeout], even
//     if it has arrived.
//   - Cancelling ctx ends it with the context's error, [Waiter.Close] with
//     [ErrClosed].
//
// Every error is a [*WaitError] with the state of each event. A waiter without
// events does not wait. After an error Wait may be called again and does not wait
// for completed events a second time.
func (w *Waiter) Wait(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for _, a := range w.events {
		if err := w.await(ctx, a, deadline); err != nil {
			return &WaitError{Instance: w.instance, Events: w.States(), Err: err}
		}
	}
	return nil
}

func (w *Waiter) await(ctx context.Context, a *awaited, deadline time.Time) error {
	start := time.Now()
	left := deadline.Sub(start)
	if finished, err := w.enter(a, left); finished || err != nil {
		return err
	}
	err := w.block(ctx, a, left)
	return w.leave(a, time.Since(start), err)
}

// enter begins waiting for an event, unless it was marked early, or received completed
// by an earlier Wait.
func (w *Waiter) enter(a *awaited, left time.Duration) (finished bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	status, _ := a.expected.received()
	switch {
	case a.state == StateEarly || a.state == StateReceived && status == StatusCompleted:
		return true, nil
	case left <= 0:
		return false, fmt.Errorf("%w: no time left for %s", ErrTimeout, a.key)
	}
	a.state = StateWaiting
	return false, nil
}

// leave records how waiting for one event ended. An event that has arrived takes
// precedence over a timeout or a cancelled context, so that the outcome does not
// depend on chance.
func (w *Waiter) leave(a *awaited, waited time.Duration, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.state == StateEarly {
		return nil
	}
	if status, ok := a.expected.received(); ok {
		a.state, a.waited = StateReceived, waited
		switch {
		case a.expected.closed:
			return fmt.Errorf("%w: %s: the registry is %w", ErrFailed, a.key, ErrClosed)
		case status != StatusCompleted:
			return fmt.Errorf("%w: %s has the status %s", ErrFailed, a.key, status)
		}
		return nil
	}
	if errors.Is(err, ErrTimeout) {
		a.state, a.waited = StateTimedOut, waited
		return fmt.Errorf("%w after %s waiting for %s", ErrTimeout, waited, a.key)
	}
	a.state = StateExpected
	return err
}

// block waits for the event, its early mark, or the end of the wait.
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

// Close forgets the events of the waiter that have not arrived, unless another
// waiter expects them too, and ends a running Wait. A second Close does nothing.
func (w *Waiter) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
		return
	default:
	}
	close(w.closed)
	w.registry.release(w.events)
}
