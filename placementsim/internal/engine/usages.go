package engine

// ProviderUsages lists what is used of each class in a provider's inventories,
// in class order, and the provider's generation. The error matches
// [ErrNotFound].
func (s *State) ProviderUsages(uuid string) (generation int, used []ClassAmount, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, err := s.find(uuid)
	if err != nil {
		return 0, nil, err
	}
	used = make([]ClassAmount, 0, len(p.invs))
	for i := range p.invs {
		used = append(used, ClassAmount{p.invs[i].class.name, p.invs[i].used})
	}
	return p.generation, used, nil
}
