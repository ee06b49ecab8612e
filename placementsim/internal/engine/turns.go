package engine

// generate finds the first candidates by one of the strategies of Placement, as many as the maximum of the
// query, and passes on those that its limit chooses from them.
func (sr *search) generate(q CandidateQuery) error {
	var list []candidate
	var err error
	if q.BreadthFirst {
		list, err = sr.findByTurns(q.Most)
	} else {
		err = sr.findAll(func(c candidate) bool { return !sr.owns(sr.walk.anchor.slot, c.key) || sr.keep(c) < q.Most })
		list = sr.kept
	}
	if err != nil {
		return err
	}
	if q.Limit == 0 {
		q.Limit = len(list)
	}
	sr.giveSome(q.Limit, list)
	return nil
}

// keep keeps a candidate. It returns how many are kept.
func (sr *search) keep(c candidate) int {
	from := len(sr.chosen)
	sr.chosen = append(sr.chosen, c.chosen...)
	c.chosen = sr.chosen[from:]
	sr.kept = append(sr.kept, c)
	return len(sr.kept)
}

// share is what one tree gave: a part of the candidates that are kept.
type share struct{ from, to int }

// findByTurns finds one candidate of each tree, then a second one of each, up to the maximum; trees
// without further candidates drop out. As in the breadth-first generation of Placement, a candidate that
// another tree gave before takes a turn and does not count.
//
// Each tree is searched up to a level at a time. Most maxima are reached with one candidate of
// each tree; else the next level is what the trees have to give on average, then twice that.
func (sr *search) findByTurns(most int) ([]candidate, error) {
	for level := 1; ; {
		shares, all, err := sr.visitUpTo(level, most)
		if err != nil {
			return nil, err
		}
		if list := sr.takeTurns(shares, most); all || len(list) >= most {
			return list, nil
		}
		level = max(2*level, (most+len(shares)-1)/len(shares))
	}
}

// visitUpTo finds up to some candidates of each tree. It reports whether no tree has more. The
// first of so many trees that these reach the maximum are enough.
func (sr *search) visitUpTo(level, most int) (shares []share, all bool, err error) {
	sr.filter.rewind()
	sr.kept, sr.chosen, all = sr.kept[:0], sr.chosen[:0], true
	distinct, own := make(map[string]struct{}), 0
	for slot := sr.filter.next(); slot >= 0; slot = sr.filter.next() {
		from := len(sr.kept)
		sr.found = func(c candidate) bool { return sr.keep(c) < from+level }
		more, err := sr.visit(sr.state.trees.trees[slot])
		if err != nil {
			return nil, false, err
		}
		all = all && more
		if len(sr.kept) == from {
			continue
		}
		shares = append(shares, share{from, len(sr.kept)})
		if key := sr.kept[from].key; key != "" {
			distinct[key] = struct{}{}
		} else {
			own++
		}
		if own+len(distinct) >= most {
			return shares, false, nil
		}
	}
	return shares, all, nil
}

// takeTurns lists the candidates in the order of the turns.
func (sr *search) takeTurns(shares []share, most int) (list []candidate) {
	sr.owners = nil
	for round, some := 0, true; some; round++ {
		some = false
		for tree, s := range shares {
			if s.from+round >= s.to {
				continue
			}
			some = true
			if c := sr.kept[s.from+round]; sr.owns(tree, c.key) {
				list = append(list, c)
			}
			if len(list) >= most {
				return list
			}
		}
	}
	return list
}
