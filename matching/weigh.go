package matching

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Candidate is an allocation candidate: an allocation request with its host.
type Candidate struct {
	// Allocations are amounts by provider UUID and resource class.
	Allocations map[string]map[string]int
	// Mappings are the providers of each group.
	Mappings Mappings
	// Host is the UUID of the root provider, the compute node.
	Host string
	// Providers has at least the providers of the candidate and their ancestors, by
	// UUID. Weighers that need more score 0 and say so.
	Providers map[string]Provider
}

// Provider is Placement's summary of a resource provider.
type Provider struct {
	// Parent is the UUID of the parent provider; empty for the root.
	Parent string
	Traits []string
	// Capacity and Used are amounts by resource class, without the candidate.
	Capacity, Used map[string]int
}

// Weigher returns the score of a candidate, higher is better, and the reason.
type Weigher func(Candidate) (score float64, reason string)

// Weighed is a candidate with its scores.
type Weighed struct {
	Candidate
	// Index is the candidate's index in the list that was weighed.
	Index int
	// Score is that of the first [Weigher], Reason those of all of them, joined by "; ".
	Score  float64
	Reason string
	// Scores and Reasons are those of each weigher, in their order.
	Scores  []float64
	Reasons []string
}

// Weigh orders candidates, best first, by the score of the first weigher, then of the
// second, and so on. Equal candidates keep Placement's order, as Nova claims the first
// candidate of a host; NaN comes last. A nil weigher scores 0 without a reason. [Sum]
// combines weighers into one score.
func Weigh(candidates []Candidate, weighers ...Weigher) []Weighed {
	weighed := make([]Weighed, 0, len(candidates))
	for i, c := range candidates {
		w := c.weigh(weighers)
		w.Index = i
		weighed = append(weighed, w)
	}
	slices.SortStableFunc(weighed, func(a, b Weighed) int {
		// cmp.Compare puts NaN before every number, so reversed it is last.
		return slices.CompareFunc(b.Scores, a.Scores, cmp.Compare)
	})
	return weighed
}

func (c Candidate) weigh(weighers []Weigher) Weighed {
	w := Weighed{Candidate: c, Scores: make([]float64, len(weighers)), Reasons: make([]string, len(weighers))}
	for i, weigh := range weighers {
		if weigh != nil {
			w.Scores[i], w.Reasons[i] = weigh(c)
		}
	}
	if len(weighers) > 0 {
		w.Score = w.Scores[0]
	}
	w.Reason = strings.Join(slices.DeleteFunc(slices.Clone(w.Reasons), func(r string) bool { return r == "" }), "; ")
	return w
}

// Part is a weigher with its weight in a [Sum].
type Part struct {
	Factor float64
	Weigh  Weigher
}

// Sum is a weigher that adds the scores of others, each times its factor, which may be
// negative, like the multipliers of Nova's weighers. Nova scales the scores of each
// weigher to 0..1 first; Sum does not. Its reason is all of theirs, each with its share
// of the score.
func Sum(parts ...Part) Weigher {
	return func(c Candidate) (float64, string) {
		total := 0.0
		reasons := make([]string, 0, len(parts))
		for _, part := range parts {
			if part.Weigh == nil {
				continue
			}
			score, reason := part.Weigh(c)
			total += part.Factor * score
			if reason != "" {
				reasons = append(reasons, reason+" ("+strconv.FormatFloat(part.Factor*score, 'g', 4, 64)+")")
			}
		}
		return total, strings.Join(reasons, "; ")
	}
}
