package engine

import (
	"math/bits"
	"slices"
)

// slotsPerBlock is the number of tree slots that are searched together.
const slotsPerBlock = 64

// roomIndex keeps one number per tree slot, the greatest amount of a resource
// class that one provider of the tree could still give, in blocks with their
// maxima, so that trees without enough are passed over 64 at a time. Only the
// blocks between the first and the last one in use are kept.
type roomIndex struct {
	base   int // the number of the first block
	blocks []*roomBlock
}

type roomBlock struct {
	greatest int64
	some     uint64 // the slots with any room
	rooms    [slotsPerBlock]int64
}

// set changes the number of a slot.
func (ix *roomIndex) set(slot int, room int64) {
	block := ix.block(slot/slotsPerBlock, room > 0)
	if block == nil {
		return
	}
	old := block.rooms[slot%slotsPerBlock]
	block.rooms[slot%slotsPerBlock] = room
	if room > 0 {
		block.some |= 1 << (slot % slotsPerBlock)
	} else {
		block.some &^= 1 << (slot % slotsPerBlock)
	}
	switch {
	case room >= block.greatest:
		block.greatest = room
	case old == block.greatest:
		block.greatest = slices.Max(block.rooms[:])
	}
}

// block returns a block, or nil if it is not there and not to be created.
func (ix *roomIndex) block(number int, create bool) *roomBlock {
	if i := number - ix.base; i >= 0 && i < len(ix.blocks) && ix.blocks[i] != nil {
		return ix.blocks[i]
	}
	if !create {
		return nil
	}
	if len(ix.blocks) == 0 {
		ix.base = number
	}
	if number < ix.base {
		ix.blocks = slices.Insert(ix.blocks, 0, slices.Repeat([]*roomBlock{nil}, ix.base-number)...)
		ix.base = number
	}
	for number-ix.base >= len(ix.blocks) {
		ix.blocks = append(ix.blocks, nil)
	}
	block := new(roomBlock)
	ix.blocks[number-ix.base] = block
	return block
}

// enough is the condition that a tree has at least an amount in an index.
type enough struct {
	index  *roomIndex
	amount int64
}

// nextBlock implements condition.
func (e enough) nextBlock(number int) int {
	ix := e.index
	for i := max(number-ix.base, 0); i < len(ix.blocks); i++ {
		if ix.blocks[i] != nil && ix.blocks[i].greatest >= e.amount {
			return ix.base + i
		}
	}
	return -1
}

// mask implements condition.
func (e enough) mask(number int) uint64 {
	if block := e.index.block(number, false); block != nil {
		return block.some
	}
	return 0
}

// refine implements condition.
func (e enough) refine(number int, among uint64) uint64 {
	block := e.index.block(number, false)
	if block == nil {
		return 0
	}
	found := among
	for rest := among; rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros64(rest); block.rooms[i&(slotsPerBlock-1)] < e.amount {
			found &^= 1 << i
		}
	}
	return found
}
