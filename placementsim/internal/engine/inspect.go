package engine

// Inspection is a provider with all it has.
type Inspection struct {
	Provider
	Inventories []ClassInventory
	Traits      []string // in creation order, the standard ones first
	Aggregates  []string
}

func (p *provider) inspect() Inspection {
	return Inspection{
		Provider: p.view(), Inventories: p.inventoriesView().Inventories,
		Traits: p.traitsView().Names, Aggregates: p.aggregatesView().UUIDs,
	}
}

// Inspect returns one provider with all it has, or an error that matches
// [ErrNotFound].
func (s *State) Inspect(uuid string) (Inspection, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, err := s.find(uuid)
	if err != nil {
		return Inspection{}, err
	}
	return p.inspect(), nil
}

// InspectAll returns all providers with all they have, in creation order.
func (s *State) InspectAll() []Inspection {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Inspection, 0, len(s.order))
	for _, p := range s.order {
		list = append(list, p.inspect())
	}
	return list
}

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
