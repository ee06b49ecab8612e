package engine

// separable reports whether the groups with suffix can have pairwise different
// providers at all. Without it, a tree with one device less than there are
// groups would be searched in every order before it is given up. It looks for
// a matching between groups and providers that leaves no group out, one
// augmenting path after the other.
func (w *walk) separable() bool {
	owner := make(map[*provider]int, len(w.positions))
	for i := range w.positions {
		if w.suffixed(i) && !w.augment(i, owner, make(map[*provider]bool)) {
			return false
		}
	}
	return true
}

func (w *walk) suffixed(i int) bool {
	return w.search.groups[w.positions[i].group].suffix != ""
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
