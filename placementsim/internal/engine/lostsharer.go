package engine

import "slices"

// LostSharer reports whether the service fails to answer a query, and for which provider, by its number in the order of creation.
// It looks for the providers of the group without suffix in the trees of the options that this group and those before it have,
// and a sharing provider below a root may be in another tree.
func (s *State) LostSharer(q CandidateQuery) (number int64, lost bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	groups := slices.SortedStableFunc(slices.Values(q.Groups), func(a, b Group) int { return a.Place - b.Place })
	last := slices.IndexFunc(groups, func(g Group) bool { return g.Suffix == "" })
	if last < 0 || !slices.ContainsFunc(s.sharing, func(p *provider) bool { return p.parent != nil }) {
		return 0, false
	}
	q.Groups = groups[:last+1]
	if sr, err := s.newSearch(q); err != nil { // the service does not come that far
		sr.release()
		return 0, false
	} else {
		sr.release()
	}
	loaded := make(map[*tree]bool)
	for _, wanted := range groups[:last] {
		if found, err := s.hasCandidate(wanted, q.Root); err != nil || !found {
			return 0, false
		}
		s.load(wanted, loaded)
	}
	options := s.optionsOf(groups[last], s.traitFilter(q.Root, nil))
	for _, o := range options {
		loaded[o.anchor] = true
		if o.provider.parent == nil {
			loaded[o.provider.tree] = true
		}
	}
	for _, o := range options {
		if !loaded[o.provider.tree] && (!lost || o.provider.seq < number) {
			number, lost = o.provider.seq, true
		}
	}
	return number, lost
}

// load adds the trees of the providers that serve a group with a suffix.
func (s *State) load(wanted Group, loaded map[*tree]bool) {
	g, _ := s.newGroup(wanted, nil) // its names were looked up
	for _, p := range s.order {
		if (g.inTree == nil || g.inTree == p.tree) && g.accepts(p) {
			loaded[p.tree] = true
		}
	}
}

// option is a provider that may serve a class of the group without suffix in a tree.
type option struct {
	provider *provider
	anchor   *tree
}

// optionsOf lists the options of the group without suffix as the service finds them before it combines them, in the trees that
// have an option for each class. Without sharing providers it lists none.
func (s *State) optionsOf(wanted Group, root traitFilter) []option {
	g, _ := s.newGroup(wanted, nil) // its names were looked up
	filter := classOptions{group: g, root: root, sharing: slices.Clone(s.sharing)}
	if len(g.memberOf) > 0 {
		filter.sharing = slices.DeleteFunc(filter.sharing, func(p *provider) bool { return !g.memberOfAll(p) })
	}
	required := slices.Concat(g.traits.required...)
	if g.nowhere || len(filter.sharing) == 0 || len(required) > 0 && !slices.ContainsFunc(s.order, func(p *provider) bool { return p.traits.hasAny(required) }) {
		return nil
	}
	var options []option
	for i, a := range g.amounts {
		found := filter.of(s.order, a)
		trees := make(map[*tree]int)
		for _, o := range options {
			trees[o.anchor] |= 1
		}
		for _, o := range found {
			trees[o.anchor] |= 2
		}
		options = append(options, found...)
		if i > 0 {
			options = slices.DeleteFunc(options, func(o option) bool { return trees[o.anchor] != 3 })
		}
		if len(options) == 0 {
			return nil
		}
	}
	return options
}

// classOptions finds the options for a class.
type classOptions struct {
	group   *group
	root    traitFilter
	sharing []*provider
}

func (c classOptions) of(providers []*provider, a classAmount) []option {
	var found []option
	for _, p := range providers {
		if !p.fits(a) || c.group.inTree != nil && c.group.inTree != p.tree {
			continue
		}
		found = append(found, option{p, p.tree})
		if c.group.inTree != nil || !slices.Contains(c.sharing, p) {
			continue
		}
		for _, agg := range p.aggregates {
			for t := range agg.trees {
				found = append(found, option{p, t})
			}
		}
	}
	return slices.DeleteFunc(found, func(o option) bool { return !c.allows(o) })
}

// allows reports whether the anchor is admitted, and the aggregates of the provider and of the anchor are.
func (c classOptions) allows(o option) bool {
	g, root := c.group, o.anchor.root
	return c.root.accepts(root.traits) && (g.memberOfAll(o.provider) || g.memberOfAll(root)) &&
		!g.memberOfForbidden(o.provider) && !g.memberOfForbidden(root)
}
