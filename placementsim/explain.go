package placementsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// Explanation reports for every host (root provider) whether a candidate query
// has candidates there, and if not, why. Its JSON form is the
// answer of GET /_sim/explain (docs/placement-api.md).
type Explanation struct{ hosts []engine.HostVerdict }

// MarshalJSON returns an object with the hosts in creation order.
func (e Explanation) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string][]engine.HostVerdict{"hosts": append([]engine.HostVerdict{}, e.hosts...)})
}

// String returns all reasons as sentences, one host and reason per line.
func (e Explanation) String() string {
	var b strings.Builder
	for _, h := range e.hosts {
		if h.Candidate {
			fmt.Fprintf(&b, "host %s: candidate\n", h.Name)
		}
		for _, line := range h.Words {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Explain returns why hosts are not among the candidates of GET
// /allocation_candidates with the same query string at the newest microversion;
// a limit has no effect. Each provider is checked in the order class, traits,
// aggregates, units, capacity, and the first reason is reported. The error matches
// [ErrInvalid] for a query that Placement would refuse with 400, and for an explanation of more than about 64 MiB.
func (s *Server) Explain(query string) (Explanation, error) {
	c := &call{server: s, version: maxVersion}
	q, err := c.candidateQuery(parseQuery(query))
	if err != nil {
		return Explanation{}, fmt.Errorf("%w: Placement refuses the query: %w", ErrInvalid, err)
	}
	hosts, err := s.state.Explain(q)
	if err != nil {
		return Explanation{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return Explanation{hosts}, nil
}

// ServeExplain answers GET /_sim/explain?QUERY, where QUERY is that of GET
// /allocation_candidates: 200 with the [Explanation], or 400 with a text. It
// asks for no token, as everything below /_sim/.
func (s *Server) ServeExplain(w http.ResponseWriter, r *http.Request) {
	e, err := s.Explain(r.URL.RawQuery)
	switch {
	case errors.Is(err, ErrInvalid):
		http.Error(w, strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": "), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		simhttp.WriteControl(w, http.StatusOK, simhttp.ControlBody("explanation", e))
	}
}
