package nova

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/internal/tables"
)

// deliveries are the goroutines that forward delayed events.
type deliveries struct {
	mu      sync.Mutex
	closed  bool
	waiting map[int64]*context.CancelFunc // by the numbers of their events
	group   sync.WaitGroup
}

// start runs f for the numbers, unless the server is closed.
func (d *deliveries) start(numbers []int64, f func(context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, number := range numbers {
		d.waiting[number] = &cancel
	}
	d.group.Go(func() {
		defer cancel()
		f(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, number := range numbers {
			if d.waiting[number] == &cancel { // it is not waited for again
				delete(d.waiting, number)
			}
		}
	})
}

// has reports whether an event is waited for.
func (d *deliveries) has(number int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[number] != nil
}

// stop ends what runs and waits for it.
func (d *deliveries) stop() {
	d.mu.Lock()
	for _, cancel := range d.waiting {
		(*cancel)()
	}
	d.mu.Unlock()
	d.group.Wait()
}

func (d *deliveries) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
}

// forwardAt forwards delayed events one after the other at a time.
func (s *Server) forwardAt(due time.Time, numbers ...int64) {
	s.deliveries.start(numbers, func(ctx context.Context) {
		if s.Clock.Wait(ctx, due.Sub(s.Clock.Now())) != nil {
			return
		}
		for _, number := range numbers {
			if s.takeDelayed(number, due) {
				s.deliver(ctx, []int64{number})
			}
		}
	})
}

// takeDelayed reports whether an event still is to be forwarded, and ends its delay.
func (s *Server) takeDelayed(number int64, due time.Time) (ok bool) {
	s.state.db.Update(nil, func(tx *tables.Tx) {
		e, exists := s.state.events.Get(tx, number)
		if ok = exists && !e.ForwardAt.IsZero() && !e.ForwardAt.After(due); ok {
			e.ForwardAt = time.Time{}
			s.state.events.Put(tx, e)
		}
	})
	return ok
}

// Resume goes on with the delayed events of a state that was loaded: it forwards the
// overdue ones, in the order of their due times, and the others when they are due. It is
// called once the handler and the URLs are set, and returns at once.
func (s *Server) Resume() {
	var waiting []eventRow
	s.state.db.View(func(tx *tables.Tx) {
		for e := range s.state.delayed.All(tx, "delayed") {
			if !s.deliveries.has(e.Number) {
				waiting = append(waiting, e)
			}
		}
	})
	slices.SortFunc(waiting, func(a, b eventRow) int {
		return cmp.Or(a.ForwardAt.Compare(b.ForwardAt), cmp.Compare(a.Number, b.Number))
	})
	now := s.Clock.Now()
	var overdue []int64
	for _, e := range waiting {
		if !e.ForwardAt.After(now) {
			overdue = append(overdue, e.Number)
		}
	}
	if len(overdue) > 0 {
		s.forwardAt(now, overdue...)
	}
	for _, e := range waiting[len(overdue):] {
		s.forwardAt(e.ForwardAt, e.Number)
	}
}
