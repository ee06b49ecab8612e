package matching

import (
	"cmp"
	"slices"
)

// Candidate is one allocation candidate: an allocation request together with
// the host that its tree belongs to.
type Candidate struct {
	// Allocations are amounts by provider UUID and resource class.
	Allocations map[string]map[string]int
	// Mappings tell which providers serve each group.
	Mappings Mappings
	// Host is the UUID of the root provider, the compute node.
	Host string
}

// Weigher scores a candidate, the higher the better, and says why in words.
type Weigher func(Candidate) (score float64, reason string)

// Weighed is a candidate with its score.
type Weighed struct {
	Candidate
	// Score and Reason are what the [Weigher] answered.
	Score  float64
	Reason string
}

// Weigh orders candidates by score, best first. Equal scores keep Placement's
// order, as Nova claims the first candidate of a host; a score that is not a
// number comes last. Without a weigher all scores are zero.
func Weigh(candidates []Candidate, weigh Weigher) []Weighed {
	weighed := make([]Weighed, 0, len(candidates))
	for _, c := range candidates {
		w := Weighed{Candidate: c}
		if weigh != nil {
			w.Score, w.Reason = weigh(c)
		}
		weighed = append(weighed, w)
	}
	// cmp.Compare puts NaN before every number, so last when turned round.
	slices.SortStableFunc(weighed, func(a, b Weighed) int { return cmp.Compare(b.Score, a.Score) })
	return weighed
}
