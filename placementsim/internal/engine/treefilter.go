package engine

// treeFilter finds the next tree that may have candidates, without visiting
// the trees in between. It may let trees through that have none, but never the
// other way round.
type treeFilter struct {
	slots  int
	none   bool          // no tree can have a candidate
	only   int           // the one slot left by in_tree, or -1
	rooms  []classAmount // some provider of the tree must have this room
	traits [][]*trait    // some provider of the tree must have one of these
}

func (sr *search) newTreeFilter() treeFilter {
	f := treeFilter{slots: len(sr.state.trees.trees), only: -1}
	for i, g := range sr.groups {
		f.addGroup(sr, i, g)
	}
	f.traits = append(f.traits, sr.root.anyOf...)
	return f
}

// addGroup adds the conditions that no sharing provider can lift.
func (f *treeFilter) addGroup(sr *search, i int, g *group) {
	shared := sr.sharersOf(i)
	if g.nowhere {
		f.none = true
		return
	}
	if g.inTree != nil && len(shared) == 0 {
		if f.only >= 0 && f.only != g.inTree.slot {
			f.none = true
		}
		f.only = g.inTree.slot
	}
	for _, a := range g.amounts {
		if !anySharer(shared, func(p *provider) bool {
			inv := p.inventory(a.class)
			return inv != nil && inv.fits(a.amount)
		}) {
			f.rooms = append(f.rooms, a)
		}
	}
	for k, anyOf := range g.traits.anyOf {
		if !anySharer(shared, func(p *provider) bool { return g.traits.required[k].intersects(p.traits.bits) }) {
			f.traits = append(f.traits, anyOf)
		}
	}
}

func anySharer(sharers []*provider, ok func(*provider) bool) bool {
	for _, p := range sharers {
		if ok(p) {
			return true
		}
	}
	return false
}

// sharersOf lists the sharing providers that can serve a group.
func (sr *search) sharersOf(group int) []*provider {
	var list []*provider
	for _, sh := range sr.sharers {
		if sh.groups[group] {
			list = append(list, sh.provider)
		}
	}
	return list
}

// next returns the first slot from the given one on whose tree may have
// candidates, or -1.
func (sr *search) next(slot int) int {
	f := &sr.filter
	if f.none {
		return -1
	}
	if f.only >= 0 {
		if slot > f.only {
			return -1
		}
		slot = f.only
	}
	for slot >= 0 && slot < f.slots {
		ahead := f.ahead(slot)
		if ahead == slot && sr.state.trees.trees[slot] != nil {
			return slot
		}
		if f.only >= 0 {
			return -1
		}
		if ahead == slot {
			ahead++
		}
		slot = ahead
	}
	return -1
}

// ahead returns a slot, not before the given one, such that no tree in between
// passes all conditions, or -1. The slot itself passes if it is the given one.
func (f *treeFilter) ahead(slot int) int {
	for _, a := range f.rooms {
		if slot = a.class.room.next(slot, a.amount); slot < 0 {
			return -1
		}
	}
	for _, anyOf := range f.traits {
		nearest := -1
		for _, tr := range anyOf {
			if n := tr.trees.next(slot); n >= 0 && (nearest < 0 || n < nearest) {
				nearest = n
			}
		}
		if slot = nearest; slot < 0 {
			return -1
		}
	}
	return slot
}
