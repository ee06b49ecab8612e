package engine

// group is a request group, or the filter of a provider list, with its names
// resolved.
type group struct {
	suffix       string
	amounts      []classAmount
	traits       traitFilter
	memberOf     [][]*aggregate
	noAggregates []*aggregate
	inTree       *tree
	nowhere      bool // in_tree names an unknown provider
}

type classAmount struct {
	class  *class
	amount int64
}

// traitFilter is a TraitRequirement with its names resolved.
type traitFilter struct {
	required  [][]*trait // at least one of each
	forbidden []*trait   // none of these
}

// newGroup resolves the names of a group and adds unknown traits to a list.
func (s *State) newGroup(wanted Group, unknown *[]string) (*group, error) {
	g := &group{
		suffix: wanted.Suffix, memberOf: s.aggregateSets(wanted.Aggregates.MemberOf),
		noAggregates: s.aggregateSet(wanted.Aggregates.Forbidden), traits: s.traitFilter(wanted.Traits, unknown),
	}
	if wanted.InTree != "" {
		if p := s.providers.Get(wanted.InTree); p != nil {
			g.inTree = p.tree
		} else {
			g.nowhere = true
		}
	}
	var err error
	g.amounts, err = s.amounts(wanted.Resources)
	return g, err
}

// accepts reports whether one provider satisfies the whole group, apart from
// in_tree.
func (g *group) accepts(p *provider) bool {
	for _, a := range g.amounts {
		if !p.fits(a) {
			return false
		}
	}
	return g.traits.accepts(p.traits) && g.memberOfAll(p) && !g.memberOfForbidden(p)
}

// memberOfAll reports whether the provider itself satisfies each member_of.
func (g *group) memberOfAll(p *provider) bool {
	for _, anyOf := range g.memberOf {
		if !inAny(p, anyOf) {
			return false
		}
	}
	return true
}

// memberOfForbidden reports whether the provider itself is in an aggregate
// that the group excludes.
func (g *group) memberOfForbidden(p *provider) bool { return inAny(p, g.noAggregates) }

func inAny(p *provider, aggregates []*aggregate) bool {
	for _, agg := range aggregates {
		if p.inAggregate(agg) {
			return true
		}
	}
	return false
}

func (f *traitFilter) accepts(ts *traitSet) bool {
	for _, anyOf := range f.required {
		if !ts.hasAny(anyOf) {
			return false
		}
	}
	return !ts.hasAny(f.forbidden)
}

// traitFilter resolves names and adds the unknown ones to a list.
func (s *State) traitFilter(r TraitRequirement, unknown *[]string) (f traitFilter) {
	if len(r.Required) > 0 {
		f.required = make([][]*trait, 0, len(r.Required))
	}
	for _, anyOf := range r.Required {
		f.required = append(f.required, s.traitsOf(anyOf, unknown))
	}
	f.forbidden = s.traitsOf(r.Forbidden, unknown)
	return f
}

// lookupTraits returns the traits of the names; the error matches ErrUnknownTrait and lists all unknown names in order.
func (s *State) lookupTraits(names []string) ([]*trait, error) {
	var unknown []string
	found := s.traitsOf(names, &unknown)
	if unknown != nil {
		return nil, unknownTraits(unknown)
	}
	return found, nil
}

func (s *State) traitsOf(names []string, unknown *[]string) (list []*trait) {
	for _, name := range names {
		if tr := s.traits.byName[name]; tr != nil {
			list = append(list, tr)
		} else {
			*unknown = append(*unknown, name)
		}
	}
	return list
}

// aggregateSets resolves uuids, which the service compares byte by byte here
// (placement/objects/research_context.py, provider_ids_matching_aggregates); unknown ones have no members and stay out.
func (s *State) aggregateSets(lists [][]string) [][]*aggregate {
	var sets [][]*aggregate
	for _, list := range lists {
		sets = append(sets, s.aggregateSet(list))
	}
	return sets
}

func (s *State) aggregateSet(uuids []string) []*aggregate {
	var set []*aggregate
	for _, name := range uuids {
		if agg := s.aggregates.Get(name); agg != nil && agg.uuid == name {
			set = append(set, agg)
		}
	}
	return set
}

func (s *State) amounts(list []ClassAmount) ([]classAmount, error) {
	amounts := make([]classAmount, 0, len(list))
	for _, item := range list {
		c, err := s.classes.lookup(item.Class)
		if err != nil {
			return nil, err
		}
		amounts = append(amounts, classAmount{c, item.Amount})
	}
	return amounts, nil
}
