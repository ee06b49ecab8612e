package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Clock is the one notion of time of a simulated cloud.
type Clock interface {
	// Now is the present time.
	Now() time.Time
	// Wait returns after d, or earlier with the context's error.
	Wait(ctx context.Context, d time.Duration) error
}

// ManualClock is a Clock that stands still until it is advanced. It is for programs that
// cannot run in a bubble of testing/synctest, such as clients in other processes. It is
// safe for parallel use.
type ManualClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []*waiter       // ordered by due time
	added   chan<- struct{} // receives when a waiter is added; nil unless Advance listens

	advancing chan struct{} // one Advance follows the other, and begins where that one ended; see turns

	listeners []func([]RecordChange)
}

type waiter struct {
	due   time.Time
	again bool // see WaitAgain
	done  chan struct{}
}

var _ Clock = (*ManualClock)(nil)

// NewManualClock returns a clock that shows the given time.
func NewManualClock(now time.Time) *ManualClock { return &ManualClock{now: now} }

// Now implements Clock.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Wait implements Clock.
func (c *ManualClock) Wait(ctx context.Context, d time.Duration) error { return c.wait(ctx, d, false) }

// WaitAgain is Wait of a loop that waits again after its work. A [ManualClock] that is advanced
// by several periods lets it do the work of each.
func WaitAgain(ctx context.Context, c Clock, d time.Duration) error {
	if manual, ok := c.(*ManualClock); ok {
		return manual.wait(ctx, d, true)
	}
	return c.Wait(ctx, d)
}

func (c *ManualClock) wait(ctx context.Context, d time.Duration, again bool) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	w := c.add(d, again)
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		c.drop(w)
		return ctx.Err()
	}
}

func (c *ManualClock) add(d time.Duration, again bool) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &waiter{due: c.now.Add(d), again: again, done: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(c.waiting, w, func(a, b *waiter) int {
		if a.due.After(b.due) {
			return 1
		}
		return -1 // behind those that are due at the same time
	})
	c.waiting = slices.Insert(c.waiting, at, w)
	select {
	case c.added <- struct{}{}:
	default:
	}
	return w
}

func (c *ManualClock) drop(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(other *waiter) bool { return other == w })
}

// Waiting is the number of callers in Wait.
func (c *ManualClock) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// Set changes the time, back as well as forward. Callers of Wait keep waiting for as long as before. The error is for a
// time before the year 1970 or after 9998, which changes nothing.
func (c *ManualClock) Set(now time.Time) error {
	if err := checkManual(now); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jump(now)
	return nil
}

// jump is called under the lock.
func (c *ManualClock) jump(now time.Time) {
	left := make([]time.Duration, 0, len(c.waiting))
	for _, w := range c.waiting {
		left = append(left, w.due.Sub(c.now))
	}
	for i, w := range c.waiting {
		w.due = now.Add(left[i]) // not due + (now - c.now), which may be more than a Duration holds
	}
	c.setNow(now)
}

// lastManualYear is the last year of a manual clock. What expires a year later can still be written as JSON, which has
// the years up to 9999.
const lastManualYear = 9998

// checkManual refuses a time that a manual clock does not show.
func checkManual(now time.Time) error {
	if year := now.UTC().Year(); year < 1970 || year > lastManualYear {
		return fmt.Errorf("the time is in the year %d, want 1970 to %d", year, lastManualYear)
	}
	return nil
}

// Advance lets a woken caller run for so long before time goes on, unless a caller waits
// before: graceAgain for one of WaitAgain, which has work to do before that.
const (
	grace      = time.Millisecond
	graceAgain = 10 * time.Second
)

// Advance moves the clock on and wakes waiting callers in the order of their due times.
// Between two due times a loop of [WaitAgain] has 10 s of real time for its work; it is woken
// once more if its next period ends within d. Other callers have a moment in which they may
// wait again. Other work of a woken caller runs concurrently with Advance. A negative duration
// changes nothing. A duration that ends after the year 9998 is an error and changes nothing.
func (c *ManualClock) Advance(d time.Duration) error {
	return c.AdvanceContext(context.Background(), d)
}

// AdvanceContext is Advance that ends with the context, and with its error. The clock then keeps
// the time that it has reached.
func (c *ManualClock) AdvanceContext(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return nil
	}
	turns := c.turns()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	end := c.Now().Add(d)
	if err := checkManual(end); err != nil {
		return err
	}
	for added, patience := c.wakeNext(end); added != nil; added, patience = c.wakeNext(end) {
		timer := time.NewTimer(patience)
		select {
		case <-added:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// turns has room for the one Advance that may go on.
func (c *ManualClock) turns() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.advancing == nil {
		c.advancing = make(chan struct{}, 1)
	}
	return c.advancing
}

// wakeNext moves on to the next due time and wakes its waiter. It returns a channel that
// receives when the next waiter is added, and for how long that is waited for. If none is due
// before the end, it moves on to the end and returns nil.
func (c *ManualClock) wakeNext(end time.Time) (<-chan struct{}, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added = nil
	for len(c.waiting) > 0 && !c.waiting[0].due.After(end) {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		close(next.done)
		if next.due.After(c.now) {
			c.setNow(next.due)
		}
		if c.now.Before(end) {
			added := make(chan struct{}, 1)
			c.added = added
			if next.again {
				return added, graceAgain
			}
			return added, grace
		}
	}
	if end.After(c.now) {
		c.setNow(end)
	}
	return nil, 0
}
