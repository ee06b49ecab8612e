package fault

// Observe has f called for each occurrence that is asked about with Decide, on the
// goroutine that asks, before a rule acts on it; nil ends it. A program that fails a
// flow in every place finds the places this way.
func (s *Set) Observe(f func(operation, subject string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = f
}

// observed tells the observer, outside the lock so that it may look at the set.
func (s *Set) observed(operation, subject string) {
	s.mu.Lock()
	f := s.observe
	s.mu.Unlock()
	if f != nil {
		f(operation, subject)
	}
}
