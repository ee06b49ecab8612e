package engine

import (
	"iter"
	"slices"
)

// findOneOfAlike makes the walk find one of the candidates that take the same: those in which groups with the same conditions
// have changed places. The groups of a same_subtree stay where they are.
func (w *walk) findOneOfAlike() {
	if w.search.policy.subtrees != nil {
		return
	}
	for i := range w.positions {
		for k := i - 1; k >= 0 && w.after[i] < 0; k-- {
			if g, h := w.positions[i].of, w.positions[k].of; g.suffix != "" && h.suffix != "" && slices.Equal(g.amounts, h.amounts) && g.isLike(h) {
				w.after[i] = k
			}
		}
	}
}

// sameTaken iterates over the candidates that take the same as a candidate of the walk, which comes first, up to a maximum. The
// providers change places in the list.
func (w *walk) sameTaken(chosen []*provider, most int) iter.Seq[int] {
	return func(yield func(int) bool) {
		number := 0
		w.changePlaces(chosen, 0, func() bool {
			number++
			return number <= most && yield(number)
		})
	}
}

// changePlaces calls a function with each order of the providers from a position on, as long as it reports true.
func (w *walk) changePlaces(chosen []*provider, depth int, each func() bool) (more bool) {
	if depth == len(chosen) {
		return each()
	}
	more = true
	for k := depth; k < len(chosen) && more; k++ {
		if !w.alikeAt(depth, k) || w.cameBefore(chosen, depth, k) {
			continue
		}
		chosen[depth], chosen[k] = chosen[k], chosen[depth]
		more = w.changePlaces(chosen, depth+1, each)
		chosen[depth], chosen[k] = chosen[k], chosen[depth]
	}
	return more
}

// cameBefore reports whether a position that may change places with the first one, before the second one, has the same provider
// as the second one.
func (w *walk) cameBefore(chosen []*provider, first, second int) bool {
	for k := first; k < second; k++ {
		if chosen[k] == chosen[second] && w.alikeAt(first, k) {
			return true
		}
	}
	return false
}

// alikeAt reports whether the groups of two positions may change places.
func (w *walk) alikeAt(first, second int) bool {
	for second > first {
		second = w.after[second]
	}
	return second == first
}
