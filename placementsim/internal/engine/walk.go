package engine

import (
	"slices"
	"strings"
)

// walk goes through all ways to serve the groups in one tree, depth first. A
// position is one class of the group without suffix, or one group with suffix;
// each has a list of providers to choose from.
type walk struct {
	search    *search
	positions []position
	first     []int         // per group: its first position
	options   [][]*provider // per position
	chosen    []*provider   // per position
	taken     []taken       // sums so far, in the order of first use
	anchor    *tree

	// later has, per position of the group without suffix, the bit set of its required
	// sets of traits that a provider of a later position can cover.
	later []uint64
	// after has, per position, an earlier one whose group is alike and whose provider comes first among the options, or -1:
	// of candidates that take the same, the walk finds one.
	after []int
	// totals are the sums that the groups take of classes that several ask for.
	totals []total
	// alike are the groups that differ in nothing but their suffix.
	alike []demand
	// length is the approximate length of a candidate in an answer.
	length int
	// apart counts the groups that must have different providers.
	apart int
}

// position is a choice of one provider.
type position struct {
	group   int
	of      *group // the same
	amounts []classAmount
	// lastOfGroup marks the position after which the group is complete.
	lastOfGroup bool
}

// taken is the sum of what a candidate takes from one inventory.
type taken struct {
	provider *provider
	class    *class
	amount   int64
}

// begin lists the positions of a search.
func (w *walk) begin(sr *search) {
	w.search, w.apart, w.length = sr, 0, candidateLength
	w.positions, w.first = w.positions[:0], w.first[:0]
	w.totals, w.alike = w.totals[:0], w.alike[:0]
	for i, g := range sr.groups {
		w.first = append(w.first, len(w.positions))
		for _, a := range g.amounts {
			w.length += amountLength + len(a.class.name)
		}
		if g.suffix != "" {
			w.positions = append(w.positions, position{i, g, g.amounts, true})
			continue
		}
		for k := range g.amounts {
			w.positions = append(w.positions, position{i, g, g.amounts[k : k+1], k == len(g.amounts)-1})
		}
	}
	for i := range w.positions {
		w.length += positionLength + len(w.positions[i].of.suffix)
	}
	n := len(w.positions)
	w.options = slices.Grow(w.options[:0], n)[:n]
	w.chosen = slices.Grow(w.chosen[:0], n)[:n]
	w.later = slices.Grow(w.later[:0], n)[:n]
	clear(w.later)
	w.after = slices.Repeat([]int{-1}, n)
	w.countDemands()
}

// prepare lists the options in a tree. It reports false when the tree cannot have a
// candidate: the sums of several positions are checked before the walk, which would try
// every combination.
func (w *walk) prepare(t *tree) bool {
	w.anchor = t
	w.taken = w.taken[:0]
	sharers := w.sharersOf(t)
	return w.listOptions(t, sharers) && w.coverable() && w.ample(t, sharers) && (w.apart < 2 || w.separable())
}

func (w *walk) listOptions(t *tree, sharers []*sharer) bool {
	for i := range w.positions {
		pos := &w.positions[i]
		options := w.options[i][:0]
		for _, p := range t.members {
			if w.usable(pos, p) {
				options = append(options, p)
			}
		}
		for _, sh := range sharers {
			if sh.groups[pos.group] && w.usable(pos, sh.provider) {
				options = append(options, sh.provider)
			}
		}
		if w.options[i] = options; len(options) == 0 {
			return false
		}
	}
	return true
}

// sharersOf lists the sharing providers that have the tree's root as anchor
// without being part of the tree.
func (w *walk) sharersOf(t *tree) []*sharer {
	var list []*sharer
	for _, sh := range w.search.sharers {
		if sh.provider.tree != t && sh.provider.sharesWith(t) {
			list = append(list, sh)
		}
	}
	return list
}

// usable reports whether a provider can take a position in the tree.
func (w *walk) usable(pos *position, p *provider) bool {
	g := pos.of
	if g.inTree != nil && p.tree != g.inTree {
		return false
	}
	if g.suffix != "" {
		return g.accepts(p)
	}
	if !p.fits(pos.amounts[0]) || p.traits.hasAny(g.traits.forbidden) {
		return false
	}
	if g.memberOf == nil && g.noAggregates == nil {
		return true
	}
	member, excluded := w.membership(g, p)
	return member && !excluded
}

// membership reports whether a provider satisfies the aggregates of the group without
// suffix and whether they exclude it: membership of the root counts for its whole tree,
// though not for sharing providers of other trees, and exclusion of the root counts for
// all.
func (w *walk) membership(g *group, p *provider) (member, excluded bool) {
	root := w.anchor.root
	member = g.memberOfAll(p) || (p.tree == w.anchor && g.memberOfAll(root))
	return member, g.memberOfForbidden(p) || g.memberOfForbidden(root)
}

// descend finds the candidates of the prepared tree from a position on. It reports
// whether the search goes on.
func (w *walk) descend(depth int) (more bool, err error) {
	if depth == len(w.positions) {
		switch found := w.search.given*w.length + len(w.search.kept)*(keptLength+pointerLength*len(w.positions)); {
		case found > maxFound:
			return false, errTooMany()
		case found > largeFound && !w.search.large:
			w.search.grow()
		}
		return w.search.found(w.candidate()), nil
	}
	options := w.options[depth]
	if k := w.after[depth]; k >= 0 {
		options = options[slices.Index(options, w.chosen[k]):]
	}
	for _, p := range options {
		// A step compares with the positions before it.
		if w.search.steps += 1 + depth/16; w.search.steps > w.search.most {
			return false, errTooMany()
		}
		mark := len(w.taken)
		if !w.place(depth, p) {
			continue
		}
		if more, err = w.descend(depth + 1); err != nil || !more {
			return more, err
		}
		w.giveBack(w.positions[depth].amounts, p, mark)
	}
	return true, nil
}

func errTooMany() error {
	return refuse(ErrTooMany, "The request has too many allocation candidates to go through: make it narrower, or give a smaller limit.")
}

// place puts a provider at a position, or reports false and changes nothing
// when that breaks a rule.
func (w *walk) place(depth int, p *provider) bool {
	pos := &w.positions[depth]
	w.chosen[depth] = p
	if !w.allowed(depth, p) {
		return false
	}
	mark := len(w.taken)
	for k, a := range pos.amounts {
		if !w.take(p, a) {
			w.giveBack(pos.amounts[:k], p, mark)
			return false
		}
	}
	return true
}

// take adds an amount to the sums if the sum fits.
func (w *walk) take(p *provider, a classAmount) bool {
	inv := p.inventory(a.class)
	for i := range w.taken {
		if t := &w.taken[i]; t.provider == p && t.class == a.class {
			sum := t.amount + a.amount
			if sum > w.search.policy.room(inv) {
				return false
			}
			t.amount = sum
			return true
		}
	}
	w.taken = append(w.taken, taken{p, a.class, a.amount})
	return true
}

// giveBack undoes take.
func (w *walk) giveBack(amounts []classAmount, p *provider, mark int) {
	w.taken = w.taken[:mark]
	for _, a := range amounts {
		for i := range w.taken {
			if t := &w.taken[i]; t.provider == p && t.class == a.class {
				t.amount -= a.amount
			}
		}
	}
}

// allowed checks the rules between positions for the provider just chosen.
func (w *walk) allowed(depth int, p *provider) bool {
	pos := &w.positions[depth]
	policy := &w.search.policy
	g := pos.of
	if policy.onePerTree && len(pos.amounts) > 0 && w.usesAnotherOf(p) {
		return false
	}
	if g.suffix == "" {
		return w.covered(g, depth)
	}
	if policy.isolate && w.usedBySuffixed(depth, p) {
		return false
	}
	return w.subtreesHold(depth)
}

// usesAnotherOf reports whether another provider of the same tree supplies
// something already.
func (w *walk) usesAnotherOf(p *provider) bool {
	return slices.ContainsFunc(w.taken, func(t taken) bool { return t.provider != p && t.provider.tree == p.tree })
}

// usedBySuffixed reports whether another group with suffix has the provider.
func (w *walk) usedBySuffixed(depth int, p *provider) bool {
	for i := range depth {
		if w.chosen[i] == p && w.search.groups[w.positions[i].group].suffix != "" {
			return true
		}
	}
	return false
}

// covered reports whether the providers of the group without suffix have the
// required traits together, or may have them when the group is complete.
func (w *walk) covered(g *group, depth int) bool {
	first := w.first[w.positions[depth].group]
	for k, anyOf := range g.traits.required {
		if k < 64 && w.later[depth]&(1<<k) != 0 {
			continue
		}
		if k >= 64 && !w.positions[depth].lastOfGroup {
			continue
		}
		if !slices.ContainsFunc(w.chosen[first:depth+1], func(p *provider) bool { return p.traits.hasAny(anyOf) }) {
			return false
		}
	}
	return true
}

// subtreesHold checks every same_subtree whose groups the last position completes.
func (w *walk) subtreesHold(depth int) bool {
	for _, members := range w.search.policy.subtrees[w.positions[depth].group] {
		w.search.steps += len(members) * (1 + w.chosen[depth].depth()/8)
		if !w.oneAboveAll(members) {
			return false
		}
	}
	return true
}

// oneAboveAll reports whether one of the groups' providers is at or above all
// the others.
func (w *walk) oneAboveAll(groups []int) bool {
	top := w.providerOf(groups[0])
	for _, i := range groups[1:] {
		if p := w.providerOf(i); p.isAncestorOf(top) {
			top = p
		}
	}
	return !slices.ContainsFunc(groups, func(i int) bool { return !top.isAncestorOf(w.providerOf(i)) })
}

// providerOf returns the provider of a group with suffix.
func (w *walk) providerOf(group int) *provider { return w.chosen[w.first[group]] }

// candidate returns the chosen providers as a candidate.
func (w *walk) candidate() candidate {
	if len(w.search.sharers) > 0 && w.onlySharing() {
		return candidate{key: w.key(), chosen: w.chosen}
	}
	return candidate{chosen: w.chosen}
}

// giveOwn passes on a candidate that no other tree owns.
func (sr *search) giveOwn(c candidate) bool {
	if sr.owns(sr.walk.anchor.slot, c.key) {
		sr.give(c)
	}
	return true
}

// give passes a candidate on.
func (sr *search) give(c candidate) {
	sr.given++
	sr.setRequest(c.chosen)
	for _, k := range sr.shape.amounts {
		sr.note(c.chosen[k])
	}
	sr.answer.Request(&sr.request)
}

// giveSome passes on so many of the candidates, each with the same chance. They keep their order.
func (sr *search) giveSome(number int, of []candidate) {
	for i, c := range of {
		if sr.chance(number, len(of)-i) {
			number--
			sr.give(c)
		}
	}
}

// note lists a provider for the summaries: itself where they have only providers that
// supply something, else the root of its tree.
func (sr *search) note(p *provider) {
	if !sr.policy.onePerTree {
		p = p.root()
	}
	if last := len(sr.sources) - 1; last < 0 || sr.sources[last] != p {
		sr.sources = append(sr.sources, p)
	}
}

// onlySharing reports whether all providers of the candidate are sharing ones, so that
// another anchor may have the same candidate.
func (w *walk) onlySharing() bool {
	return !slices.ContainsFunc(w.chosen, func(p *provider) bool { return !p.shares() })
}

// key identifies a candidate that other anchors may have as well.
func (w *walk) key() string {
	var key strings.Builder
	for _, p := range w.chosen {
		key.WriteString(p.uuid)
		key.WriteByte(' ')
	}
	return key.String()
}

// owns reports whether a tree is the first one with a candidate. One without a key is of one tree only.
func (sr *search) owns(tree int, key string) bool {
	if key == "" {
		return true
	}
	if owner, known := sr.owners[key]; known {
		return owner == tree
	}
	if sr.owners == nil {
		sr.owners = make(map[string]int)
	}
	sr.owners[key] = tree
	return true
}

// summarizeAll describes the providers of the answer.
func (sr *search) summarizeAll() {
	if !slices.IsSortedFunc(sr.sources, bySeq) { // some may come again
		slices.SortFunc(sr.sources, bySeq)
		sr.sources = slices.Compact(sr.sources)
	}
	for i, p := range sr.sources {
		members := sr.sources[i : i+1]
		if !sr.policy.onePerTree {
			members = p.tree.members
		}
		for _, p := range members {
			sr.summarize(p)
			sr.answer.Provider(&sr.summary)
		}
	}
}

func (sr *search) summarize(p *provider) {
	s := &sr.summary
	s.UUID, s.Parent, s.Root, s.Traits, s.Resources = p.uuid, "", p.tree.root.uuid, p.traits.names, s.Resources[:0]
	if p.parent != nil {
		s.Parent = p.parent.uuid
	}
	for i := range p.invs {
		inv := &p.invs[i]
		s.Resources = append(s.Resources, ClassUse{inv.class.name, inv.Capacity(), inv.used})
	}
}

// separable reports whether the groups with suffix can have pairwise different
// providers at all. Without it, a tree with one device less than there are
// groups would be searched in every order before it is given up. It looks for
// a matching between groups and providers that leaves no group out, one
// augmenting path after the other.
func (w *walk) separable() bool {
	owner := make(map[*provider]int, len(w.positions))
	for i, pos := range w.positions {
		if w.search.groups[pos.group].suffix != "" && !w.augment(i, owner, make(map[*provider]bool)) {
			return false
		}
	}
	return true
}

// augment gives the position a provider, moving others if need be.
func (w *walk) augment(i int, owner map[*provider]int, tried map[*provider]bool) bool {
	for _, p := range w.options[i] {
		if _, taken := owner[p]; !taken {
			owner[p] = i
			return true
		}
	}
	for _, p := range w.options[i] {
		if tried[p] {
			continue
		}
		tried[p] = true
		if w.augment(owner[p], owner, tried) {
			owner[p] = i
			return true
		}
	}
	return false
}
