package engine

import (
	"math/bits"
	"slices"
)

// condition is a set of tree slots, in blocks of 64 slots.
type condition interface {
	// nextBlock returns the first block from the given one on that may have a
	// member, or -1.
	nextBlock(number int) int
	// mask returns what may be the members of a block.
	mask(number int) uint64
	// refine returns the members of a block that are also in the mask among.
	refine(number int, among uint64) uint64
}

// anyOf is the union of conditions. Without any it has no member.
type anyOf []condition

// nextBlock implements condition.
func (u anyOf) nextBlock(number int) int {
	nearest := -1
	for _, c := range u {
		if n := c.nextBlock(number); n >= 0 && (nearest < 0 || n < nearest) {
			nearest = n
		}
	}
	return nearest
}

// mask implements condition.
func (u anyOf) mask(number int) uint64 {
	var mask uint64
	for _, c := range u {
		mask |= c.mask(number)
	}
	return mask
}

// refine implements condition.
func (u anyOf) refine(number int, among uint64) uint64 {
	var found uint64
	for _, c := range u {
		found |= c.refine(number, among&^found)
	}
	return found
}

// oneSlot is the set of a single slot.
type oneSlot int

// nextBlock implements condition.
func (s oneSlot) nextBlock(number int) int {
	if own := int(s) / slotsPerBlock; number <= own {
		return own
	}
	return -1
}

// mask implements condition.
func (s oneSlot) mask(number int) uint64 {
	if number != int(s)/slotsPerBlock {
		return 0
	}
	return 1 << (s % slotsPerBlock)
}

// refine implements condition.
func (s oneSlot) refine(number int, among uint64) uint64 { return among & s.mask(number) }

// treeFilter finds the trees that may have candidates, one after the other,
// without visiting those in between. It may let trees through that have none,
// but never the other way round.
type treeFilter struct {
	all   []condition
	block int    // the current block
	rest  uint64 // its slots that were not returned yet

	rooms  arena[enough]
	unions arena[anyOf]
	parts  arena[condition] // of unions
}

// begin sets the conditions of a search.
func (f *treeFilter) begin(sr *search) {
	f.all = append(f.all, &sr.state.trees.alive)
	for i, g := range sr.groups {
		f.addGroup(sr, i, g)
	}
	for _, traits := range sr.root.required {
		f.addTraits(traits)
	}
	f.rewind()
}

// rewind goes back to before the first tree.
func (f *treeFilter) rewind() { f.block, f.rest = -1, 0 }

// reset forgets the conditions.
func (f *treeFilter) reset() {
	f.all = reused(f.all)
	f.rooms.reset()
	f.unions.reset()
	f.parts.reset()
}

// addAny requires one of several conditions.
func (f *treeFilter) addAny(parts []condition) {
	if len(parts) == 1 {
		f.all = append(f.all, parts[0])
	} else {
		f.all = append(f.all, f.unions.hold(parts))
	}
}

// addGroup adds the conditions that no sharing provider can lift.
func (f *treeFilter) addGroup(sr *search, i int, g *group) {
	shared := sr.sharersOf(i)
	if g.nowhere {
		f.addAny(nil)
		return
	}
	for _, a := range g.amounts {
		if !slices.ContainsFunc(shared, func(p *provider) bool { return p.fits(a) }) {
			f.addRoom(g, a)
		}
	}
	for _, traits := range g.traits.required {
		if !slices.ContainsFunc(shared, func(p *provider) bool { return p.traits.hasAny(traits) }) {
			f.addTraits(traits)
		}
	}
	if len(shared) > 0 {
		return
	}
	if g.inTree != nil {
		f.all = append(f.all, oneSlot(g.inTree.slot))
	}
	for _, aggregates := range g.memberOf {
		parts := f.parts.take(len(aggregates))
		for _, agg := range aggregates {
			parts = append(parts, &agg.slots)
		}
		f.addAny(parts)
	}
}

func (f *treeFilter) addTraits(traits []*trait) {
	parts := f.parts.take(len(traits))
	for _, tr := range traits {
		parts = append(parts, &tr.trees)
	}
	f.addAny(parts)
}

// maxKinds is how many indexes one condition looks into before the index of
// the whole class must do.
const maxKinds = 32

// addRoom requires a provider with room. If the group's traits are those of that
// provider, only providers with such traits count: a tree in which one provider has
// the room and another the trait is not enough.
func (f *treeFilter) addRoom(g *group, a classAmount) {
	f.all = append(f.all, f.rooms.hold(enough{&a.class.room, a.amount}))
	traits := g.traits
	if g.suffix == "" && len(g.amounts) > 1 {
		traits.required = nil // another class's provider may have them
	}
	if len(a.class.kinds) > maxKinds || (traits.required == nil && traits.forbidden == nil) {
		return
	}
	parts := f.parts.take(len(a.class.kinds))
	for set, index := range a.class.kinds {
		if traits.accepts(set) {
			parts = append(parts, f.rooms.hold(enough{index, a.amount}))
		}
	}
	f.addAny(parts)
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

// next returns the slot of the next tree that may have candidates, or -1.
func (f *treeFilter) next() int {
	for f.rest == 0 {
		block := f.nextBlock(f.block + 1)
		if block < 0 {
			return -1
		}
		f.block = block
		f.rest = ^uint64(0)
		for _, c := range f.all {
			f.rest &= c.mask(f.block)
		}
		for _, c := range f.all {
			if f.rest != 0 {
				f.rest = c.refine(f.block, f.rest)
			}
		}
	}
	slot := f.block*slotsPerBlock + bits.TrailingZeros64(f.rest)
	f.rest &= f.rest - 1
	return slot
}

// nextBlock returns the first block from the given one on that none of the
// conditions rules out, or -1.
func (f *treeFilter) nextBlock(number int) int {
	for agreed := 0; agreed < len(f.all); {
		agreed = 0
		for _, c := range f.all {
			n := c.nextBlock(number)
			if n < 0 {
				return -1
			}
			if n == number {
				agreed++
			}
			number = n
		}
	}
	return number
}
