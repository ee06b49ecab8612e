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
	required  []bitset // at least one of each
	anyOf     [][]*trait
	forbidden bitset
	banned    []*trait // the same
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
		if !anyOf.intersects(ts.bits) {
			return false
		}
	}
	return !f.forbidden.intersects(ts.bits)
}

// traitFilter resolves names and adds the unknown ones to a list.
func (s *State) traitFilter(r TraitRequirement, unknown *[]string) (f traitFilter) {
	lookup := func(names []string) (set bitset, traits []*trait) {
		for _, name := range names {
			tr := s.traits.byName[name]
			if tr == nil {
				*unknown = append(*unknown, name)
				continue
			}
			set.set(tr.id)
			traits = append(traits, tr)
		}
		return set, traits
	}
	for _, anyOf := range r.Required {
		set, traits := lookup(anyOf)
		f.required, f.anyOf = append(f.required, set), append(f.anyOf, traits)
	}
	f.forbidden, f.banned = lookup(r.Forbidden)
	return f
}

// aggregateSets resolves uuids; unknown ones have no members and stay out.
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
		if agg := s.aggregates[name]; agg != nil {
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
