package matching

import (
	"cmp"
	"slices"
	"strings"
)

// Candidate is an allocation candidate: an allocation request with its host.
type Candidate struct {
	// Allocations are amounts by provider UUID and resource class.
	Allocations map[string]map[string]int
	// Mappings are the UUIDs of the providers of each group, by requester id.
	Mappings map[string][]string
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
	// Capacity and Used are amounts by resource class, without the candidate. Providers
	// may share them, so that a weigher must not change them.
	Capacity, Used map[string]int
}

// Weigher returns the score of a candidate, higher is better, and the reason.
type Weigher func(Candidate) (score float64, reason string)

// Weighed is a candidate with its scores.
type Weighed struct {
	Candidate
	// Index is the candidate's index in the list that was weighed.
	Index int
	// Scores are the results of the weighers, in their order.
	Scores []float64
	// Reason joins the reasons of all weighers by "; ".
	Reason string
}

// Weigh orders candidates, best first, by the score of the first weigher, then of the
// second, and so on. Equal candidates keep Placement's order, as Nova claims the first
// candidate of a host; NaN comes last. A nil weigher scores 0 without a reason.
func Weigh(candidates []Candidate, weighers ...Weigher) []Weighed {
	weighed := make([]Weighed, 0, len(candidates))
	scores := make([]float64, len(candidates)*len(weighers))
	var reasons []string
	for i, c := range candidates {
		w := Weighed{Candidate: c, Index: i, Scores: scores[:len(weighers):len(weighers)]}
		scores, reasons = scores[len(weighers):], reasons[:0]
		for k, weigh := range weighers {
			if weigh == nil {
				continue
			}
			score, reason := weigh(c)
			w.Scores[k] = score
			if reason != "" {
				reasons = append(reasons, reason)
			}
		}
		w.Reason = strings.Join(reasons, "; ")
		weighed = append(weighed, w)
	}
	slices.SortStableFunc(weighed, func(a, b Weighed) int {
		// cmp.Compare puts NaN before every number, so reversed it is last.
		return slices.CompareFunc(b.Scores, a.Scores, cmp.Compare)
	})
	return weighed
}
