package spawn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// choice is a value of an axis, by its position.
type choice struct{ axis, value int }

// pairOf is a pair of choices, ordered by axis.
type pairOf [2]choice

// covering generates combinations with one value of each axis, such that each pair of values of two axes is in one of
// them.
type covering struct {
	random *rand.Rand
	sizes  []int // how many values each axis has
	// excluded reports whether a combination is impossible. It may be incomplete: -1 means no value.
	excluded func(row []int) bool
}

// row returns a combination without values.
func (c covering) row() []int { return slices.Repeat([]int{-1}, len(c.sizes)) }

// with returns a row of two values.
func (c covering) with(p pairOf) []int {
	row := c.row()
	row[p[0].axis], row[p[1].axis] = p[0].value, p[1].value
	return row
}

// pairs lists all pairs to cover.
func (c covering) pairs() (all []pairOf) {
	for first := range c.sizes {
		for second := first + 1; second < len(c.sizes); second++ {
			for a := range c.sizes[first] {
				for b := range c.sizes[second] {
					if p := (pairOf{{first, a}, {second, b}}); !c.excluded(c.with(p)) {
						all = append(all, p)
					}
				}
			}
		}
	}
	return all
}

// combinations returns rows with the position of the value of each axis. It also returns the pairs that no row can
// have, because of exclusions of more than two values.
func (c covering) combinations() (rows [][]int, impossible []pairOf) {
	missing := map[pairOf]bool{}
	all := c.pairs()
	for _, p := range all {
		missing[p] = true
	}
	for _, p := range all {
		if !missing[p] {
			continue
		}
		var best []int
		most := -1
		const tries = 20
		for range tries {
			row := c.with(p)
			if !c.fill(row, c.random.Perm(len(c.sizes)), missing) {
				break
			}
			if n := c.gain(row, missing); n > most {
				best, most = row, n
			}
		}
		if best == nil {
			impossible = append(impossible, p)
			delete(missing, p)
			continue
		}
		rows = append(rows, best)
		c.each(best, func(p pairOf) { delete(missing, p) })
	}
	return rows, impossible
}

// fill chooses values for the axes without one. It tries the values first that cover the most missing pairs, and
// backtracks if all are excluded.
func (c covering) fill(row, order []int, missing map[pairOf]bool) bool {
	for len(order) > 0 && row[order[0]] >= 0 {
		order = order[1:]
	}
	if len(order) == 0 {
		return true
	}
	axis := order[0]
	values := c.random.Perm(c.sizes[axis])
	gains := make([]int, len(values))
	for _, v := range values {
		row[axis] = v
		gains[v] = c.gain(row, missing)
	}
	slices.SortStableFunc(values, func(a, b int) int { return gains[b] - gains[a] })
	for _, v := range values {
		if row[axis] = v; gains[v] >= 0 && c.fill(row, order[1:], missing) {
			return true
		}
	}
	row[axis] = -1
	return false
}

// gain is how many missing pairs a row has, or -1 if it is excluded.
func (c covering) gain(row []int, missing map[pairOf]bool) (n int) {
	if c.excluded(row) {
		return -1
	}
	c.each(row, func(p pairOf) {
		if missing[p] {
			n++
		}
	})
	return n
}

// each calls f for the pairs of a row, which may be incomplete.
func (c covering) each(row []int, f func(pairOf)) {
	for first, a := range row {
		for second := first + 1; second < len(row); second++ {
			if b := row[second]; a >= 0 && b >= 0 {
				f(pairOf{{first, a}, {second, b}})
			}
		}
	}
}

// Each pair is in a combination, is excluded, or cannot be combined with any values of the other axes. A seed always
// generates the same combinations.
func TestEachPairOfValuesIsInACombination(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 4), 2, 5).Draw(t, "sizes")
		seed, rarity := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(2, 9).Draw(t, "rarity")
		var out [][]choice
		isOut := func(row []int) bool {
			return slices.ContainsFunc(out, func(set []choice) bool {
				return !slices.ContainsFunc(set, func(c choice) bool { return row[c.axis] != c.value })
			})
		}
		make := func() covering { return covering{rand.New(rand.NewPCG(seed, 0)), sizes, isOut} }
		for _, p := range make().pairs() {
			if rapid.IntRange(0, rarity).Draw(t, "excluded") > 0 {
				continue
			}
			set := []choice{p[0], p[1]}
			if third := rapid.IntRange(0, len(sizes)-1).Draw(t, "third"); third != p[0].axis && third != p[1].axis {
				set = append(set, choice{third, rapid.IntRange(0, sizes[third]-1).Draw(t, "value")})
			}
			out = append(out, set)
		}
		rows, impossible := make().combinations()
		if again, _ := make().combinations(); fmt.Sprint(again) != fmt.Sprint(rows) {
			t.Error("the same seed makes other combinations")
		}
		covered := map[pairOf]bool{}
		for _, row := range rows {
			make().each(row, func(p pairOf) { covered[p] = true })
		}
		possible := map[pairOf]bool{}
		make().product(func(row []int) { make().each(row, func(p pairOf) { possible[p] = true }) })
		for _, p := range make().pairs() {
			if covered[p] != possible[p] || slices.Contains(impossible, p) == possible[p] {
				t.Errorf("pair %v: covered %t, possible %t, reported impossible %t", p, covered[p], possible[p], slices.Contains(impossible, p))
			}
		}
		for _, row := range rows {
			if isOut(row) {
				t.Errorf("the combination %v is excluded", row)
			}
		}
	})
}

// product calls f for every combination that is not excluded.
func (c covering) product(f func(row []int)) {
	row := make([]int, len(c.sizes))
	for {
		if c.gain(row, nil) >= 0 {
			f(row)
		}
		axis := 0
		for ; axis < len(row); axis++ {
			if row[axis]++; row[axis] < c.sizes[axis] {
				break
			}
			row[axis] = 0
		}
		if axis == len(row) {
			return
		}
	}
}
