package placementsim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// Explanation tells for every host, that is every root provider, whether a
// candidate query has candidates there, and if not, why.
type Explanation struct {
	Hosts []HostExplanation `json:"hosts"` // in creation order
}

// HostExplanation is about one host.
type HostExplanation struct {
	UUID      string `json:"uuid"`
	Name      string `json:"name"`
	Candidate bool   `json:"candidate"`
	// Reason is set when the root itself is refused, or when each group alone
	// could be served but not all of them together.
	Reason *Reason            `json:"reason,omitempty"`
	Groups []GroupExplanation `json:"groups,omitempty"`
	// Words says the same in sentences, one for each reason; none for a
	// candidate.
	Words []string `json:"words,omitempty"`
}

// GroupExplanation is about one request group of a query on one host.
type GroupExplanation struct {
	// Group is the suffix, empty for the group without one.
	Group string `json:"group"`
	// Served tells that the group alone could be served.
	Served bool    `json:"served"`
	Reason *Reason `json:"reason,omitempty"`
	// Providers are those that have a resource of the group, each with the
	// first reason why it does not serve the group; none if it is served.
	Providers []ProviderExplanation `json:"providers,omitempty"`
}

// ProviderExplanation is the first reason why a provider does not serve a
// group.
type ProviderExplanation struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Reason Reason `json:"reason"`
}

// Reason is a rule that is broken, with words for an operator.
type Reason struct {
	// Kind is class (no inventory of a resource class), trait, aggregate
	// (member_of), tree (in_tree), units (min_unit, max_unit, step_size),
	// capacity (not enough left), root (root_required), isolation
	// (group_policy), subtree (same_subtree), sum (the groups together take
	// too much) or too_large (not decided within the limit of a search).
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Explain tells why hosts are not among the answers of GET
// /allocation_candidates with the same query string at the newest microversion;
// a limit has no effect. Each provider is judged in the order class, traits,
// aggregates, units, room, and the first reason is given. The error matches
// [ErrInvalid] for a query that Placement would refuse with 400.
func (s *Server) Explain(query string) (Explanation, error) {
	c := &call{server: s, version: maxVersion}
	q, err := c.candidateQuery(parseQuery(query))
	if err != nil {
		return Explanation{}, fmt.Errorf("%w: explain: %w", ErrInvalid, err)
	}
	verdicts, err := s.state.Explain(q)
	if err != nil {
		return Explanation{}, fmt.Errorf("%w: explain: %w", ErrInvalid, err)
	}
	e := Explanation{Hosts: make([]HostExplanation, 0, len(verdicts))}
	for _, v := range verdicts {
		e.Hosts = append(e.Hosts, newHostExplanation(v))
	}
	return e, nil
}

// String puts all words together, one host and reason per line.
func (e Explanation) String() string {
	var b strings.Builder
	for _, h := range e.Hosts {
		if h.Candidate {
			fmt.Fprintf(&b, "host %s: candidate\n", h.Name)
		}
		for _, line := range h.Words {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func newHostExplanation(v engine.HostVerdict) HostExplanation {
	h := HostExplanation{UUID: v.UUID, Name: v.Name, Candidate: v.Candidate, Reason: newReason(v.Reason)}
	if h.Reason != nil {
		h.Words = append(h.Words, "host "+h.Name+": "+h.Reason.Text)
	}
	for _, g := range v.Groups {
		group := GroupExplanation{Group: g.Suffix, Served: g.Served, Reason: newReason(g.Reason)}
		for _, p := range g.Providers {
			group.Providers = append(group.Providers, ProviderExplanation{p.UUID, p.Name, *newReason(p.Reason)})
		}
		h.Groups = append(h.Groups, group)
		if group.Reason != nil {
			h.Words = append(h.Words, "host "+h.Name+": "+groupWords(g.Suffix)+": "+group.Reason.Text)
		}
	}
	return h
}

func groupWords(suffix string) string {
	if suffix == "" {
		return "the group without suffix"
	}
	return "group " + suffix
}

func newReason(r engine.Reason) *Reason {
	if r.Kind == "" {
		return nil
	}
	return &Reason{string(r.Kind), r.Text}
}

// ServeExplain answers GET /_sim/explain?QUERY, where QUERY is that of GET
// /allocation_candidates: 200 with the [Explanation], or 400 with a text. It
// asks for no token, as everything below /_sim/.
func (s *Server) ServeExplain(w http.ResponseWriter, r *http.Request) {
	e, err := s.Explain(r.URL.RawQuery)
	switch {
	case errors.Is(err, ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("explanation", e))
	}
}
