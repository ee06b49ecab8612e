package engine

import (
	"slices"
	"time"
)

func (p *provider) aggregateUUIDs() []string {
	uuids := make([]string, 0, len(p.aggregates))
	for _, agg := range p.aggregates {
		uuids = append(uuids, agg.uuid)
	}
	return uuids
}

func (p *provider) inAggregate(a *aggregate) bool {
	return a != nil && slices.Contains(p.aggregates, a)
}

// SetAggregates replaces the aggregates of a provider. With a generation it
// must be the present one, and it grows. The error matches [ErrNotFound] or
// [ErrConcurrentUpdate].
func (s *State) SetAggregates(uuid string, generation *int, uuids []string, now time.Time) (Inspection, error) {
	return s.change(uuid, func(p *provider) error {
		if err := p.expect(generation, generationChanged); err != nil {
			return err
		}
		set := s.newAggregates(p, uuids)
		s.leaveAggregates(p)
		for _, name := range set {
			s.join(p, name)
		}
		if generation != nil {
			p.bump(now)
		}
		return nil
	})
}

// newAggregates are the aggregates that a provider gets, with their uuids as they were written first. The service adds in SQL and
// removes in Python (placement/objects/resource_provider.py, _set_aggregates): an aggregate that the provider has and that is only
// sent in another spelling is removed.
func (s *State) newAggregates(p *provider, uuids []string) (set []string) {
	for _, name := range uuids {
		switch agg := s.aggregates.Get(name); {
		case agg == nil:
			set = append(set, name)
		case agg.uuid == name || !p.inAggregate(agg):
			set = append(set, agg.uuid)
		}
	}
	return set
}

func (s *State) join(p *provider, name string) {
	agg := s.aggregates.Get(name)
	if agg == nil {
		agg = &aggregate{uuid: name, members: make(map[*provider]struct{}), trees: make(map[*tree]int)}
		s.aggregates.Set(name, agg)
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
			s.aggregates.Delete(agg.uuid)
		}
	}
	p.aggregates = nil
}
