package nova

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// putOff is when an event is to be passed on.
type putOff struct {
	due time.Time
	// started is set when somebody waits for it; not yet after a load.
	started bool
}

// putOff passes an event on when it is due. It does not, once the server is closed.
func (s *Server) putOff(number int, due time.Time) {
	s.mu.Lock()
	s.delayed[number] = &putOff{due, true}
	s.mu.Unlock()
	s.passOnAt(due, number)
}

// passOnAt passes events on one after the other when a time has come.
func (s *Server) passOnAt(due time.Time, numbers ...int) {
	started := s.later.start(func(ctx context.Context) {
		defer s.forgetDelayed(numbers...)
		if s.clock.Wait(ctx, due.Sub(s.clock.Now())) != nil {
			return
		}
		for _, number := range numbers {
			s.deliver(ctx, []int{number}, nil)
			s.forgetDelayed(number)
		}
	})
	if !started {
		s.forgetDelayed(numbers...)
	}
}

func (s *Server) forgetDelayed(numbers ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range numbers {
		delete(s.delayed, number)
	}
}

// Resume goes on with the events of a loaded dump that were put off: it passes on those
// that are overdue, in the order in which they were due, and the others when they are.
// It is called once the handler and the URLs are set, and returns at once. Without a load
// before it nothing happens.
func (s *Server) Resume() {
	now := s.clock.Now()
	var overdue []int
	resting := s.startResting()
	for _, e := range resting {
		if !e.due.After(now) {
			overdue = append(overdue, e.number)
		}
	}
	if len(overdue) > 0 {
		s.passOnAt(now, overdue...)
	}
	for _, e := range resting[len(overdue):] {
		s.passOnAt(e.due, e.number)
	}
}

// resting is an event that was put off, and that nobody waits for yet.
type resting struct {
	number int
	due    time.Time
}

// startResting marks all such events and returns them in the order in which they are due.
func (s *Server) startResting() []resting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []resting
	for number, d := range s.delayed {
		if !d.started {
			d.started = true
			list = append(list, resting{number, d.due})
		}
	}
	slices.SortFunc(list, func(a, b resting) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.number, b.number)) })
	return list
}
