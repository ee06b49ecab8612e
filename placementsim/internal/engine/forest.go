package engine

import (
	"cmp"
	"slices"
)

// tree is a root provider and everything below it.
type tree struct {
	slot    int   // its place in the forest and in the indexes
	number  int64 // never used again
	root    *provider
	members []*provider // in creation order
}

// forest holds the trees in the order of creation. A slot is an index into it; the slots
// of removed trees are empty until the rest is compacted.
type forest struct {
	trees  []*tree
	newest int64  // the number of the newest tree
	alive  bitset // the slots in use
	gone   int
}

func (t *tree) hasTrait(tr *trait) bool {
	return slices.ContainsFunc(t.members, func(p *provider) bool { return p.traits.has(tr) })
}

// newTree makes the provider the root of a new tree that has no members yet.
func (s *State) newTree(root *provider) *tree {
	s.trees.newest++
	t := &tree{slot: len(s.trees.trees), number: s.trees.newest, root: root}
	s.trees.trees = append(s.trees.trees, t)
	s.trees.alive.set(t.slot)
	return t
}

// attach makes a provider a member of the tree and enters it in the indexes.
func (s *State) attach(p *provider, t *tree) {
	i, _ := slices.BinarySearchFunc(t.members, p, bySeq)
	t.members = slices.Insert(t.members, i, p)
	p.tree = t
	for _, inv := range p.invs {
		s.updateRoom(t, inv.class, p.traits)
	}
	for _, tr := range p.traits.traits {
		tr.trees.set(t.slot)
	}
	for _, agg := range p.aggregates {
		agg.enter(t)
	}
}

// detach takes a provider out of its tree and out of the indexes. A tree
// without members is removed.
func (s *State) detach(p *provider) {
	t := p.tree
	i, _ := slices.BinarySearchFunc(t.members, p, bySeq)
	t.members = slices.Delete(t.members, i, i+1)
	for _, inv := range p.invs {
		s.updateRoom(t, inv.class, p.traits)
	}
	for _, tr := range p.traits.traits {
		if !t.hasTrait(tr) {
			tr.trees.clear(t.slot)
		}
	}
	for _, agg := range p.aggregates {
		agg.leave(t)
	}
	if len(t.members) == 0 {
		s.removeTree(t)
	}
}

func bySeq(a, b *provider) int { return cmp.Compare(a.seq, b.seq) }

// removeTree removes an empty tree.
func (s *State) removeTree(t *tree) {
	s.trees.trees[t.slot] = nil
	s.trees.alive.clear(t.slot)
	s.trees.gone++
	if s.trees.gone > 64 && s.trees.gone > len(s.trees.trees)/2 {
		s.compactSlots()
	}
}

// compactSlots renumbers the slots without gaps and rebuilds the indexes.
func (s *State) compactSlots() {
	kept := make([]*tree, 0, len(s.trees.trees)-s.trees.gone)
	for _, t := range s.trees.trees {
		if t != nil {
			t.slot = len(kept)
			kept = append(kept, t)
		}
	}
	s.trees = forest{trees: kept, newest: s.trees.newest}
	for _, c := range s.classes.byName {
		c.room, c.kinds = roomIndex{}, nil
	}
	for _, tr := range s.traits.byName {
		tr.trees = nil
	}
	for agg := range s.aggregates.Values() {
		agg.slots = nil
		for t := range agg.trees {
			agg.slots.set(t.slot)
		}
	}
	for _, t := range kept {
		s.trees.alive.set(t.slot)
		for _, p := range t.members {
			for _, inv := range p.invs {
				s.updateRoom(t, inv.class, p.traits)
			}
			for _, tr := range p.traits.traits {
				tr.trees.set(t.slot)
			}
		}
	}
}

// updateRoom computes how much of a class one provider of the tree can give, and
// one with the given traits.
func (s *State) updateRoom(t *tree, c *class, traits *traitSet) {
	var room, kind int64
	for _, p := range t.members {
		inv := p.inventory(c)
		if inv == nil {
			continue
		}
		room = max(room, inv.room())
		if p.traits == traits {
			kind = max(kind, inv.room())
		}
	}
	c.room.set(t.slot, room)
	c.kind(traits).set(t.slot, kind)
}

// enter counts a member more in a tree.
func (a *aggregate) enter(t *tree) {
	a.trees[t]++
	a.slots.set(t.slot)
}

// leave counts a member less in a tree.
func (a *aggregate) leave(t *tree) {
	if a.trees[t]--; a.trees[t] == 0 {
		delete(a.trees, t)
		a.slots.clear(t.slot)
	}
}
