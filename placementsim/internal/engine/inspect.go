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
