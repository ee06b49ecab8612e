package engine

import "slices"

// Copied is a copy of the answer to a query.
type Copied struct {
	Requests  []Request
	Providers []Summary
}

// Request implements Answer.
func (c *Copied) Request(request *Request) {
	r := *request
	r.Amounts, r.Mappings = slices.Clone(r.Amounts), slices.Clone(r.Mappings)
	for i := range r.Mappings {
		r.Mappings[i].Providers = slices.Clone(r.Mappings[i].Providers)
	}
	c.Requests = append(c.Requests, r)
}

// Provider implements Answer.
func (c *Copied) Provider(summary *Summary) {
	s := *summary
	s.Resources = slices.Clone(s.Resources)
	c.Providers = append(c.Providers, s)
}

// Answer answers a query.
func (s *State) Answer(q CandidateQuery) (c Copied, err error) {
	err = s.Candidates(q, &c)
	return c, err
}
