//go:build differential

package differential_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
)

// draws draws what requests consist of.
type draws struct{ *rand.Rand }

func newDraws(seed uint64, world int) draws {
	return draws{rand.New(rand.NewPCG(seed, uint64(world)))}
}

func (d draws) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d draws, from ...T) T { return from[d.IntN(len(from))] }

// weighted is something with how often it is drawn.
type weighted[T any] struct {
	weight int
	what   T
}

func pickWeighted[T any](d draws, from []weighted[T]) T {
	total := 0
	for _, w := range from {
		total += w.weight
	}
	n := d.IntN(total)
	i := slices.IndexFunc(from, func(w weighted[T]) bool { n -= w.weight; return n < 0 })
	return from[i].what
}

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // values of the generators
	}
	return string(data)
}
