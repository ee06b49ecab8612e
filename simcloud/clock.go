package simcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// ManualClock is a Clock that stands still until it is advanced. It is for programs that
// cannot live in a bubble of testing/synctest, such as clients in other processes. It is
// safe for parallel use.
type ManualClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []*waiter // ordered by when they are due
}

type waiter struct {
	due  time.Time
	done chan struct{}
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
func (c *ManualClock) Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	w := c.add(d)
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		c.drop(w)
		return ctx.Err()
	}
}

func (c *ManualClock) add(d time.Duration) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &waiter{due: c.now.Add(d), done: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(c.waiting, w, func(a, b *waiter) int {
		if a.due.After(b.due) {
			return 1
		}
		return -1 // behind those that are due at the same time
	})
	c.waiting = slices.Insert(c.waiting, at, w)
	return w
}

func (c *ManualClock) drop(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(other *waiter) bool { return other == w })
}

// Waiting is how many callers wait at present.
func (c *ManualClock) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// Advance lets time pass. Whoever waits is woken in the order of when it is due, and
// sees that time unless it looks later. What is woken runs beside the caller: to see
// each of several periods of a loop, advance by no more than one period at a time. A
// negative duration changes nothing.
func (c *ManualClock) Advance(d time.Duration) {
	if d < 0 {
		return
	}
	end := c.Now().Add(d)
	for c.wakeNext(end) {
		for range 100 {
			runtime.Gosched() // a loop that waits again may still be due
		}
	}
}

// wakeNext moves on to when the next waiter is due, if that is not after the end, and
// else to the end.
func (c *ManualClock) wakeNext(end time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 || c.waiting[0].due.After(end) {
		if end.After(c.now) {
			c.now = end
		}
		return false
	}
	next := c.waiting[0]
	if next.due.After(c.now) {
		c.now = next.due
	}
	c.waiting = c.waiting[1:]
	close(next.done)
	return true
}

// getClock tells the time of the cloud, and whether it can be advanced.
func (c *Cloud) getClock(w http.ResponseWriter, _ *http.Request) {
	body := map[string]any{"now": c.clock.Now().UTC(), "manual": false}
	if manual, ok := c.clock.(*ManualClock); ok {
		body["manual"], body["waiting"] = true, manual.Waiting()
	}
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("clock", body))
}

// postClock advances a manual clock: {"advance": "90s"}.
func (c *Cloud) postClock(w http.ResponseWriter, r *http.Request) {
	manual, ok := c.clock.(*ManualClock)
	if !ok {
		http.Error(w, "the clock is the machine's: it cannot be advanced (serve with --manual-clock)", http.StatusConflict)
		return
	}
	data, err := simhttp.ReadBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	d, err := advance(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	manual.Advance(d)
	c.getClock(w, r)
}

// advance reads how far to go.
func advance(data []byte) (time.Duration, error) {
	var body struct {
		Advance *Duration `json:"advance"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		return 0, fmt.Errorf("advance: %w", err)
	}
	switch {
	case body.Advance == nil:
		return 0, errors.New(`advance: missing, such as {"advance": "90s"}`)
	case *body.Advance < 0:
		return 0, fmt.Errorf("advance: %s is negative: no time goes back", body.Advance)
	}
	return time.Duration(*body.Advance), nil
}
