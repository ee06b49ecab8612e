package matching

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
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
	// Providers tells what is known of providers, by UUID: of those of the
	// candidate and of those above them, at least. Weighers that want to know more
	// than is there score 0 and say so.
	Providers map[string]Provider
}

// Provider is what weighers may know of a resource provider; it is Placement's
// provider summary.
type Provider struct {
	// Parent is the UUID of the provider above; empty for the root.
	Parent string
	Traits []string
	// Capacity and Used are amounts by resource class, before the candidate is claimed.
	Capacity, Used map[string]int
}

// Weigher scores a candidate, the higher the better, and says why in words.
type Weigher func(Candidate) (score float64, reason string)

// Weighed is a candidate with its scores.
type Weighed struct {
	Candidate
	// Index is the candidate's place in the list that was weighed.
	Index int
	// Score is what the first [Weigher] answered, and Reason what all of them did,
	// joined by "; ".
	Score  float64
	Reason string
	// Scores and Reasons are the answers of each of the weighers, in their order.
	Scores  []float64
	Reasons []string
}

// Weigh orders candidates, best first. The first weigher decides; where it scores
// equal the second does, and so on. What is equal for all keeps Placement's order,
// as Nova claims the first candidate of a host; a score that is not a number comes
// last. A nil weigher scores everything 0, without a reason.
//
// To let weighers outvote each other rather than yield to the one before, sum
// them up with [Sum].
func Weigh(candidates []Candidate, weighers ...Weigher) []Weighed {
	weighed := make([]Weighed, 0, len(candidates))
	for i, c := range candidates {
		w := c.weigh(weighers)
		w.Index = i
		weighed = append(weighed, w)
	}
	slices.SortStableFunc(weighed, func(a, b Weighed) int {
		// cmp.Compare puts NaN before every number, so last when turned round.
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
	w.Reason = joinReasons(w.Reasons)
	return w
}

func joinReasons(reasons []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(reasons), func(r string) bool { return r == "" }), "; ")
}

// Part is a weigher with its weight in a [Sum].
type Part struct {
	Factor float64
	Weigh  Weigher
}

// Sum is a weigher that adds up others, each times its factor, as the
// multipliers of Nova's weighers do; a negative factor turns one round. Nova
// scales the answers of each weigher to 0..1 first; these are taken as they are.
// Its reason is all of theirs, each with what it contributed.
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
