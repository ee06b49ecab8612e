package engine

import "math/bits"

// bitset is a set of small integers.
type bitset []uint64

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

// intersects reports whether the sets have a member in common.
func (b bitset) intersects(c bitset) bool {
	for i := range min(len(b), len(c)) {
		if b[i]&c[i] != 0 {
			return true
		}
	}
	return false
}

// next returns the smallest member that is at least i, or -1.
func (b bitset) next(i int) int {
	word := i >> 6
	if word >= len(b) {
		return -1
	}
	rest := b[word] >> (i & 63) << (i & 63)
	for rest == 0 {
		if word++; word == len(b) {
			return -1
		}
		rest = b[word]
	}
	return word<<6 + bits.TrailingZeros64(rest)
}
