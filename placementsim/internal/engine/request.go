package engine

import "slices"

// shape is shared by allocation requests of one query that assign the same groups to one provider
// each. Such requests differ only in the providers.
type shape struct {
	same    []int    // per position: the first one with the same provider
	amounts []int    // per amount: the position of its provider
	uuids   []string // of the mappings
	chosen  []int    // per UUID of the mappings: its position
}

func (s *shape) reset() { s.same = s.same[:0] }

// has reports whether the providers of a candidate make a request of the shape. If not, it
// begins another one.
func (s *shape) has(chosen []*provider) bool {
	same := len(s.same) == len(chosen)
	s.same = slices.Grow(s.same[:0], len(chosen))[:len(chosen)]
	for i, p := range chosen {
		first := slices.Index(chosen[:i+1], p)
		same = same && s.same[i] == first
		s.same[i] = first
	}
	return same
}

// setRequest makes the request of a candidate of what was made of the one before.
func (sr *search) setRequest(chosen []*provider) {
	s, r := &sr.shape, &sr.request
	if r.Alike = s.has(chosen); !r.Alike {
		sr.setAmounts(chosen)
		sr.setMappings(chosen)
		return
	}
	for i, k := range s.amounts {
		r.Amounts[i].Provider = chosen[k].uuid
	}
	for i, k := range s.chosen {
		s.uuids[i] = chosen[k].uuid
	}
}

// setAmounts lists what is taken, one provider after the other.
func (sr *search) setAmounts(chosen []*provider) {
	list, positions := sr.request.Amounts[:0], sr.shape.amounts[:0]
	for first, p := range chosen {
		if slices.Contains(chosen[:first], p) {
			continue
		}
		from := len(list)
		for k := first; k < len(chosen); k++ {
			if chosen[k] != p {
				continue
			}
			for _, a := range sr.walk.positions[k].amounts {
				i := slices.IndexFunc(list[from:], func(listed ProviderAmount) bool { return listed.Class == a.class.name })
				if i >= 0 {
					list[from+i].Amount += a.amount
					continue
				}
				list, positions = append(list, ProviderAmount{p.uuid, a.class.name, a.amount}), append(positions, k)
			}
		}
	}
	sr.request.Amounts, sr.shape.amounts = list, positions
}

// setMappings lists the providers of every group.
func (sr *search) setMappings(chosen []*provider) {
	w, s := &sr.walk, &sr.shape
	mappings := sr.request.Mappings[:0]
	s.uuids, s.chosen = slices.Grow(s.uuids[:0], len(chosen)), s.chosen[:0]
	for i, g := range sr.groups {
		first, end, from := w.first[i], len(chosen), len(s.uuids)
		if i+1 < len(w.first) {
			end = w.first[i+1]
		}
		for k := first; k < end; k++ {
			if !slices.Contains(chosen[first:k], chosen[k]) {
				s.uuids, s.chosen = append(s.uuids, chosen[k].uuid), append(s.chosen, k)
			}
		}
		mappings = append(mappings, Mapping{g.suffix, s.uuids[from:]})
	}
	sr.request.Mappings = mappings
}
