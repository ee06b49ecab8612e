package fault

// Observe calls f for each call of Decide, on its goroutine, before a rule applies; nil
// ends that. It lists the places where a flow can fail.
func (s *Set) Observe(f func(operation, subject string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = f
}

// observed calls the observer, without the lock so that it may use the set.
func (s *Set) observed(operation, subject string) {
	s.mu.Lock()
	f := s.observe
	s.mu.Unlock()
	if f != nil {
		f(operation, subject)
	}
}
