package engine

import (
	"slices"

	"github.com/gocyborg/gocyborg/sim"
)

// With returns the same state for a caller that wants to know which rows are changed
// through it. The caller's function is called under the lock.
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

func noop() {}

// watch returns a function that publishes what has changed since in the rows that add adds.
func (s *State) watch(add func(to rows)) (end func()) {
	if !s.listening() {
		return noop
	}
	before := make(rows)
	add(before)
	s.addSequences(before)
	return func() {
		after := make(rows)
		add(after)
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

// watchProvider watches the rows of a provider.
func (s *State) watchProvider(p *provider) (end func()) {
	if !s.listening() {
		return noop
	}
	return s.watch(func(to rows) { s.addProviderRows(to, p) })
}

// watchConsumer watches the rows of a consumer that there is or will be.
func (s *State) watchConsumer(uuid string) (end func()) {
	if !s.listening() {
		return noop
	}
	return s.watch(func(to rows) { s.addConsumerRows(to, uuid) })
}

// watchName watches the custom resource class and the custom trait of a name.
func (s *State) watchName(name string) (end func()) {
	if !s.listening() {
		return noop
	}
	return s.watch(func(to rows) {
		if c := s.classes.byName[name]; c != nil {
			s.addClass(to, c)
		}
		if t := s.traits.byName[name]; t != nil {
			s.addTrait(to, t)
		}
	})
}

// watchClass watches a resource class and all rows that name it.
func (s *State) watchClass(c *class) (end func()) {
	if !s.listening() {
		return noop
	}
	return s.watch(func(to rows) {
		s.addClass(to, c)
		for _, p := range s.order {
			if p.inventory(c) != nil {
				s.addProviderRows(to, p)
			}
		}
		for uuid, consumer := range s.consumers {
			if slices.ContainsFunc(consumer.allocs, func(a allocation) bool { return a.class == c }) {
				s.addConsumerRows(to, uuid)
			}
		}
	})
}
