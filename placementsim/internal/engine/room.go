package engine

// roomIndex keeps one number per tree slot, the greatest amount of a resource
// class that one provider of the tree could still give, and finds the next
// tree with enough in logarithmic time. It is a segment tree of maxima.
type roomIndex struct {
	nodes []int64 // a heap: the leaves are the last half
}

func (ix *roomIndex) leaves() int { return len(ix.nodes) / 2 }

// set changes the number of a slot.
func (ix *roomIndex) set(slot int, room int64) {
	if slot >= ix.leaves() {
		if room == 0 {
			return
		}
		ix.grow(slot + 1)
	}
	i := slot + ix.leaves()
	ix.nodes[i] = room
	for i > 1 {
		i /= 2
		ix.nodes[i] = max(ix.nodes[2*i], ix.nodes[2*i+1])
	}
}

func (ix *roomIndex) grow(slots int) {
	leaves := max(ix.leaves(), 8)
	for leaves < slots {
		leaves *= 2
	}
	grown := make([]int64, 2*leaves)
	if old := ix.leaves(); old > 0 {
		copy(grown[leaves:], ix.nodes[old:])
	}
	for i := leaves - 1; i > 0; i-- {
		grown[i] = max(grown[2*i], grown[2*i+1])
	}
	ix.nodes = grown
}

// next returns the first slot from the given one on that has at least n, or
// -1. n must be positive.
func (ix *roomIndex) next(slot int, n int64) int {
	leaves := ix.leaves()
	if slot >= leaves || ix.nodes[1] < n {
		return -1
	}
	i := slot + leaves
	for ix.nodes[i] < n {
		for i&1 == 1 { // climb until there is a sibling to the right
			if i == 1 {
				return -1
			}
			i /= 2
		}
		i++
	}
	for i < leaves {
		if i *= 2; ix.nodes[i] < n {
			i++
		}
	}
	return i - leaves
}
