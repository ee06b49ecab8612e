package engine

import "slices"

// lookUp looks up the names of a query in the order of the service: root_required, then group by group in the order of the query
// string. At least one does not exist. It returns the error about the first, or nil where a condition before it leaves no
// candidate: then the service answers without an error.
func (s *State) lookUp(q CandidateQuery) error {
	if err := s.firstUnknownTrait(TraitRequirement{Required: [][]string{slices.Concat(q.Root.Required...)}, Forbidden: q.Root.Forbidden}); err != nil {
		return err
	}
	root := s.traitFilter(q.Root, new([]string))
	if filtered := len(root.required)+len(root.forbidden) > 0; filtered && !slices.ContainsFunc(s.order, func(p *provider) bool { return p.parent == nil && root.accepts(p.traits) }) {
		return nil
	}
	groups := slices.SortedStableFunc(slices.Values(q.Groups), func(a, b Group) int { return a.Place - b.Place })
	for _, g := range groups {
		if _, err := s.amounts(g.Resources); err != nil {
			return err
		}
		if !s.anyMember(g.Aggregates.MemberOf) {
			return nil
		}
		if err := s.firstUnknownTrait(g.Traits); err != nil {
			return err
		}
		if found, err := s.hasCandidate(g, q.Root); err != nil || !found {
			return err
		}
	}
	return nil
}

// lookUpFilter is lookUp for a filter of the provider list.
func (s *State) lookUpFilter(f ProviderFilter) error {
	if f.InTree != "" && s.providers.Get(f.InTree) == nil {
		return nil
	}
	if err := s.firstUnknownTrait(TraitRequirement{Required: f.Traits.Required}); err != nil {
		return err
	}
	required := s.traitFilter(TraitRequirement{Required: f.Traits.Required}, new([]string))
	if filtered := len(required.required) > 0; filtered && !slices.ContainsFunc(s.order, func(p *provider) bool { return required.accepts(p.traits) }) {
		return nil
	}
	if err := s.firstUnknownTrait(f.Traits); err != nil {
		return err
	}
	if !s.anyMember(f.Aggregates.MemberOf) {
		return nil
	}
	_, err := s.amounts(f.Resources)
	return err
}

// firstUnknownTrait is the error about the first trait that does not exist: the service looks them up one by one.
func (s *State) firstUnknownTrait(r TraitRequirement) error {
	var unknown []string
	s.traitFilter(r, &unknown)
	if unknown == nil {
		return nil
	}
	return unknownTraits(unknown[:1])
}

// anyMember reports whether a provider itself satisfies each member_of.
func (s *State) anyMember(memberOf [][]string) bool {
	g := group{memberOf: s.aggregateSets(memberOf)}
	return len(memberOf) == 0 || slices.ContainsFunc(s.order, g.memberOfAll)
}

// hasCandidate reports whether a group alone has candidates.
func (s *State) hasCandidate(g Group, root TraitRequirement) (found bool, err error) {
	sr, err := s.newSearch(CandidateQuery{Groups: []Group{g}, Root: root})
	defer sr.release()
	if err != nil {
		return false, err
	}
	err = sr.findAll(func(candidate) bool {
		found = true
		return false
	})
	return found, err
}
