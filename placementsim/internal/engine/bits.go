package engine

// bitset is a set of small integers. As a condition it is one of tree slots.
type bitset []uint64

var _ condition = bitset(nil)

func (b bitset) has(i int) bool {
	word := i >> 6
	return word < len(b) && b[word]&(1<<(i&63)) != 0
}

func (b *bitset) set(i int) {
	for i>>6 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

func (b bitset) clear(i int) {
	if i>>6 < len(b) {
		b[i>>6] &^= 1 << (i & 63)
	}
}

// nextBlock implements condition.
func (b bitset) nextBlock(number int) int {
	for ; number < len(b); number++ {
		if b[number] != 0 {
			return number
		}
	}
	return -1
}

// mask implements condition.
func (b bitset) mask(number int) uint64 {
	if number >= len(b) {
		return 0
	}
	return b[number]
}

// refine implements condition.
func (b bitset) refine(number int, among uint64) uint64 { return among & b.mask(number) }
