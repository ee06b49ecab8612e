package engine

// lot is a tree from which candidates are drawn.
type lot struct {
	slot  int
	share     // of the candidates that are kept; empty before the tree is searched
	drawn int // how many candidates were drawn
}

const (
	// lotsPerCandidate is how many trees are drawn from for each candidate of the limit: a small limit does
	// not list all trees of a large cloud.
	lotsPerCandidate = 32
	// firstLevel is how many candidates of a tree are searched for at first.
	firstLevel = 16
	// trials is how many trees are searched before a candidate is drawn, to see how many candidates a tree has.
	trials = 8
)

// sample passes on as many candidates as the limit says, each with the same chance. Placement finds all candidates and takes the
// first ones in the order of the hashes of what they take, so that those that take the same come together. Here a tree is
// searched when one of its candidates is drawn, up to a level, and up to a higher level if these do not reach the limit.
func (sr *search) sample(limit int) error {
	sr.walk.findOneOfAlike()
	for level := firstLevel; ; level *= 4 {
		enough, err := sr.draw(limit, level)
		if err != nil {
			return err
		}
		if enough {
			break
		}
	}
	for _, l := range sr.lots {
		for _, c := range sr.kept[l.from:l.to] {
			for range sr.walk.sameTaken(c.chosen, c.given) {
				sr.give(c)
			}
		}
	}
	return nil
}

// draw decides which candidates each tree gives. It reports false if these are fewer than the limit and a tree may have more than
// the level.
//
// First a tree is drawn, and then a number. The numbers end where the tree with most candidates ends: the tree that is drawn gives
// its candidate with this number, or none.
func (sr *search) draw(limit, level int) (enough bool, err error) {
	sr.filter.rewind()
	sr.lots, sr.open, sr.kept, sr.chosen, sr.owners = sr.lots[:0], sr.open[:0], sr.kept[:0], sr.chosen[:0], nil
	var l *lot
	sr.found = func(c candidate) bool { return !sr.owns(l.slot, c.key) || sr.keep(c) < l.from+level }
	most := 1
	enough = true
	for trial := 0; limit > 0; trial++ {
		if len(sr.open) == 0 && !sr.addLots(limit) {
			return enough, nil
		}
		i := sr.random.IntN(len(sr.open))
		if l = &sr.lots[sr.open[i]]; l.to == 0 {
			l.from = len(sr.kept)
			all, err := sr.visit(sr.state.trees.trees[l.slot])
			if err != nil {
				return false, err
			}
			l.to = len(sr.kept)
			most, enough = max(most, l.to-l.from), enough && all
		}
		k := l.from + sr.random.IntN(most)
		if trial >= trials && k < l.to && sr.kept[k].given == 0 {
			l.drawn++
			for range sr.walk.sameTaken(sr.kept[k].chosen, limit) {
				sr.kept[k].given++
				limit--
			}
		}
		if l.drawn == l.to-l.from {
			last := len(sr.open) - 1
			sr.open[i], sr.open = sr.open[last], sr.open[:last]
		}
	}
	return true, nil
}

// addLots adds the next trees. It reports whether there are any.
func (sr *search) addLots(limit int) bool {
	for len(sr.open)/lotsPerCandidate < limit {
		slot := sr.filter.next()
		if slot < 0 {
			break
		}
		sr.open = append(sr.open, len(sr.lots))
		sr.lots = append(sr.lots, lot{slot: slot})
	}
	return len(sr.open) > 0
}

// chance reports true n times of m, at random.
func (sr *search) chance(n, m int) bool { return sr.random.IntN(m) < n }
