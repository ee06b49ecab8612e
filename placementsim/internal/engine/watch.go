package engine

import "github.com/gocyborg/gocyborg/sim"

// With returns a view of the same state whose changes of rows are also passed to record,
// under the lock.
func (s *State) With(record func([]sim.RecordChange)) *State {
	return &State{core: s.core, record: record}
}

// OnCommit adds a function that is called with the changes of each transition, in order and
// under the lock.
func (s *State) OnCommit(listener func([]sim.RecordChange)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, listener)
}

// listening reports whether the changes of rows are published to anything.
func (s *State) listening() bool { return s.record != nil || len(s.listeners) > 0 }

// watch returns a function that publishes what has changed since in the rows of a subject,
// which add adds. It allocates nothing when nothing listens.
func watch[T any](s *State, add func(*State, rows, T), subject T) (end func()) {
	if !s.listening() {
		return func() {}
	}
	before := make(rows)
	add(s, before, subject)
	s.addSequences(before)
	return func() {
		after := make(rows)
		add(s, after, subject)
		s.addSequences(after)
		s.publish(before.changes(after))
	}
}

func (s *State) publish(changes []sim.RecordChange) {
	if len(changes) == 0 {
		return
	}
	for _, listener := range s.listeners {
		listener(changes)
	}
	if s.record != nil {
		s.record(changes)
	}
}
