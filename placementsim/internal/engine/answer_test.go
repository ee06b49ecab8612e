package engine

import "slices"

// Answer is a copy of the answer to a query.
type Answer struct {
	Requests  []Request
	Providers []Summary
}

// Answer answers a query.
func (s *State) Answer(q CandidateQuery) (a Answer, err error) {
	err = s.Candidates(q, func(found Candidates) {
		for request := range found.Requests {
			r := *request
			r.Amounts, r.Mappings = slices.Clone(r.Amounts), slices.Clone(r.Mappings)
			for i := range r.Mappings {
				r.Mappings[i].Providers = slices.Clone(r.Mappings[i].Providers)
			}
			a.Requests = append(a.Requests, r)
		}
		for summary := range found.Providers {
			copied := *summary
			copied.Resources = slices.Clone(summary.Resources)
			a.Providers = append(a.Providers, copied)
		}
	})
	return a, err
}
