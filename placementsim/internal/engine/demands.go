package engine

import "slices"

// countDemands finds out what the positions need together, apart from any tree.
func (w *walk) countDemands() {
	for _, pos := range w.positions {
		for _, a := range pos.amounts {
			w.addTotal(a)
		}
		if w.search.policy.isolate && w.search.groups[pos.group].suffix != "" {
			w.apart++
		}
	}
	w.totals = slices.DeleteFunc(w.totals, func(t total) bool { return t.demands < 2 })
	if len(w.totals) > 0 {
		w.countAlike()
	}
}

func (w *walk) addTotal(a classAmount) {
	for i := range w.totals {
		if t := &w.totals[i]; t.class == a.class {
			t.amount, t.demands = min(t.amount+a.amount, maxLimit), t.demands+1
			return
		}
	}
	w.totals = append(w.totals, total{a, 1})
}

// total is the sum of what positions take of one class.
type total struct {
	classAmount
	demands int // how many positions take some
}

// demand is the demand of several groups with the same conditions: each takes the same amount of
// one class from one provider.
type demand struct {
	classAmount
	at    int // the first of their positions; all have the same options
	count int
}

func (w *walk) countAlike() {
	for i, pos := range w.positions {
		g := w.search.groups[pos.group]
		if g.suffix == "" || len(g.amounts) != 1 {
			continue
		}
		known := slices.IndexFunc(w.alike, func(d demand) bool {
			return d.classAmount == g.amounts[0] && g.isLike(w.search.groups[w.positions[d.at].group])
		})
		if known < 0 {
			w.alike = append(w.alike, demand{g.amounts[0], i, 1})
		} else {
			w.alike[known].count++
		}
	}
	w.alike = slices.DeleteFunc(w.alike, func(d demand) bool { return d.count < 2 })
}

// isLike reports whether the groups have the same conditions, their amounts
// aside.
func (g *group) isLike(h *group) bool {
	return slices.EqualFunc(g.traits.required, h.traits.required, slices.Equal[[]*trait]) && slices.Equal(g.traits.forbidden, h.traits.forbidden) &&
		slices.EqualFunc(g.memberOf, h.memberOf, slices.Equal[[]*aggregate]) && slices.Equal(g.noAggregates, h.noAggregates) &&
		g.inTree == h.inTree
}

// missing returns the first of the demands that its options cannot meet, with
// how many of the groups they can serve.
func (w *walk) missing() (d demand, served int64, found bool) {
	for _, d := range w.alike {
		served := int64(0)
		for _, p := range w.options[d.at] {
			served = min(served+w.search.policy.room(p.inventory(d.class))/d.amount, maxLimit)
		}
		if served < int64(d.count) {
			return d, served, true
		}
	}
	return demand{}, 0, false
}

// room is how much of an inventory groups can take together.
func (p *policy) room(inv *inventory) int64 {
	if p.sumsIgnoreUse {
		return min(inv.limit, int64(inv.MaxUnit))
	}
	return inv.room()
}

// ample reports whether all providers together have what the groups take
// together.
func (w *walk) ample(t *tree, sharers []*sharer) bool {
	if slices.ContainsFunc(w.totals, func(total total) bool { return w.left(total.class, t, sharers) < total.amount }) {
		return false
	}
	_, _, found := w.missing()
	return !found
}

// left is how much of a class all providers together can give.
func (w *walk) left(c *class, t *tree, sharers []*sharer) int64 {
	var sum int64
	give := func(p *provider) {
		if inv := p.inventory(c); inv != nil {
			sum = min(sum+w.search.policy.room(inv), maxLimit)
		}
	}
	for _, p := range t.members {
		give(p)
	}
	for _, sh := range sharers {
		give(sh.provider)
	}
	return sum
}

// coverable reports whether the options of the group without suffix have its
// required traits, and notes where.
func (w *walk) coverable() bool {
	for i, g := range w.search.groups {
		if g.suffix != "" || len(g.traits.required) == 0 || len(g.amounts) == 0 {
			continue
		}
		var seen uint64
		first := w.first[i]
		for at := first + len(g.amounts) - 1; at >= first; at-- {
			w.later[at] = seen
			for _, p := range w.options[at] {
				seen |= g.traits.covers(p.traits)
			}
		}
		if seen != uint64(1)<<min(len(g.traits.required), 64)-1 {
			return false
		}
	}
	return true
}

// covers returns the numbers of the required sets, of the first 64, that the
// traits are in.
func (f *traitFilter) covers(ts *traitSet) uint64 {
	var covered uint64
	for k, anyOf := range f.required[:min(len(f.required), 64)] {
		if ts.hasAny(anyOf) {
			covered |= 1 << k
		}
	}
	return covered
}

// depth is how many providers are above this one.
func (p *provider) depth() int {
	n := 0
	for p = p.parent; p != nil; p = p.parent {
		n++
	}
	return n
}
