package engine

import (
	"slices"
	"time"
)

// ProviderAggregates are the aggregates of a provider, in the order they were
// set.
type ProviderAggregates struct {
	Generation int
	UUIDs      []string
}

func (p *provider) aggregatesView() ProviderAggregates {
	view := ProviderAggregates{Generation: p.generation, UUIDs: make([]string, 0, len(p.aggregates))}
	for _, agg := range p.aggregates {
		view.UUIDs = append(view.UUIDs, agg.uuid)
	}
	return view
}

func (p *provider) inAggregate(a *aggregate) bool {
	return a != nil && slices.Contains(p.aggregates, a)
}

// ProviderAggregates returns the aggregates of a provider, or an error that
// matches [ErrNotFound].
func (s *State) ProviderAggregates(uuid string) (ProviderAggregates, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, err := s.find(uuid)
	if err != nil {
		return ProviderAggregates{}, err
	}
	return p.aggregatesView(), nil
}

// SetAggregates replaces the aggregates of a provider. With a generation it
// must be the present one, and it grows. The error matches [ErrNotFound] or
// [ErrConcurrentUpdate].
func (s *State) SetAggregates(uuid string, generation *int, uuids []string, now time.Time) (ProviderAggregates, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(uuid)
	if err != nil {
		return ProviderAggregates{}, err
	}
	if generation != nil && *generation != p.generation {
		return ProviderAggregates{}, refuse(ErrConcurrentUpdate, "%s", generationChanged)
	}
	defer s.watchProvider(p)()
	s.leaveAggregates(p)
	for _, name := range uuids {
		s.join(p, name)
	}
	if generation != nil {
		p.bump(now)
	}
	return p.aggregatesView(), nil
}

func (s *State) join(p *provider, name string) {
	agg := s.aggregates[name]
	if agg == nil {
		agg = &aggregate{uuid: name, members: make(map[*provider]struct{}), trees: make(map[*tree]int)}
		s.aggregates[name] = agg
	}
	if _, member := agg.members[p]; member {
		return
	}
	agg.members[p] = struct{}{}
	agg.enter(p.tree)
	p.aggregates = append(p.aggregates, agg)
}

func (s *State) leaveAggregates(p *provider) {
	for _, agg := range p.aggregates {
		delete(agg.members, p)
		agg.leave(p.tree)
		if len(agg.members) == 0 {
			delete(s.aggregates, agg.uuid)
		}
	}
	p.aggregates = nil
}
