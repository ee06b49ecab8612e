package engine

// turn is a candidate that a tree gives when it is its turn.
type turn struct {
	key    string // see firstTime
	taken  []taken
	chosen []*provider // per position
}

// share is what one tree gave: a part of the turns.
type share struct{ from, to int }

// findByTurns finds one candidate of each tree, then a second one of each, until the limit is
// reached; trees without any more drop out. As in the breadth-first generation of Placement, a
// candidate that another tree gave before takes a turn and does not count.
//
// Each tree is searched up to a level at a time. Most limits are reached with one candidate of
// each tree; else the next level is what the trees have to give on average, then twice that.
func (sr *search) findByTurns() error {
	for level := 1; ; {
		shares, all, err := sr.visitUpTo(level)
		if err != nil {
			return err
		}
		if answer := sr.takeTurns(shares); all || len(answer) >= sr.limit {
			for i := 0; i < len(answer) && sr.give(answer[i]); i++ {
			}
			return nil
		}
		level = max(2*level, (sr.limit+len(shares)-1)/len(shares))
	}
}

// visitUpTo finds up to some candidates of each tree. It reports whether no tree has more. The
// first of so many trees that these reach the limit are enough.
func (sr *search) visitUpTo(level int) (shares []share, all bool, err error) {
	sr.filter.rewind()
	sr.turns, all = sr.turns[:0], true
	distinct, own := make(map[string]struct{}), 0
	for slot := sr.filter.next(); slot >= 0; slot = sr.filter.next() {
		from := len(sr.turns)
		sr.stop = from + level
		more, err := sr.visit(sr.state.trees.trees[slot])
		if err != nil {
			return nil, false, err
		}
		all = all && more
		if len(sr.turns) == from {
			continue
		}
		shares = append(shares, share{from, len(sr.turns)})
		if key := sr.turns[from].key; key != "" {
			distinct[key] = struct{}{}
		} else {
			own++
		}
		if own+len(distinct) >= sr.limit {
			return shares, false, nil
		}
	}
	return shares, all, nil
}

// takeTurns lists the turns in the order of the answer.
func (sr *search) takeTurns(shares []share) (answer []turn) {
	sr.shared = nil
	for round, some := 0, true; some; round++ {
		some = false
		for _, s := range shares {
			if s.from+round >= s.to {
				continue
			}
			some = true
			if t := sr.turns[s.from+round]; sr.firstTime(t.key) {
				answer = append(answer, t)
			}
			if len(answer) >= sr.limit {
				return answer
			}
		}
	}
	return answer
}
