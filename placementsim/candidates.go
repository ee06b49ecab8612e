package placementsim

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceNestedCandidates is the microversion from which a candidate may use
// several providers of one tree.
const sinceNestedCandidates version = 29

// maxKeptBuffer is the longest answer whose memory is reused, in bytes.
const maxKeptBuffer = 4 << 20

func listCandidates(c *call) error {
	query, err := c.candidateQuery(parseQuery(c.URL.RawQuery))
	if err != nil {
		return err
	}
	buffer, _ := c.server.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	body, err := c.searchCandidates((*buffer)[:0], query)
	if err != nil {
		return prefixed(err, engine.ErrUnknownClass, "Invalid resource class in resources parameter: ")
	}
	c.modified()
	simhttp.WriteBody(c.W, http.StatusOK, "application/json", body)
	if cap(body) <= maxKeptBuffer {
		*buffer = body
		c.server.buffers.Put(buffer)
	}
	return nil
}

// searchCandidates appends the answer to a query.
func (c *call) searchCandidates(b []byte, query engine.CandidateQuery) ([]byte, error) {
	found, err := c.server.state.Candidates(query)
	if err != nil {
		return nil, err
	}
	defer found.Release()
	size := 256 + 384*len(found.Requests) + 384*len(found.Providers) // a guess that spares most copies
	return c.appendCandidates(slices.Grow(b, size), query, found), nil
}

// appendCandidates writes the answer. Its names need no escaping, because they were
// checked on input.
func (c *call) appendCandidates(b []byte, query engine.CandidateQuery, found engine.Candidates) []byte {
	b = append(b, `{"allocation_requests": [`...)
	for i, request := range found.Requests {
		b = comma(b, i)
		b = c.appendRequest(b, request)
	}
	b = append(b, `], "provider_summaries": {`...)
	var only []string
	if c.version < 27 {
		only = requestedClasses(query)
	}
	for i, summary := range found.Providers {
		b = comma(b, i)
		b = c.appendSummary(b, summary, only)
	}
	return append(b, "}}"...)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ", "...)
	}
	return b
}

func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

func requestedClasses(query engine.CandidateQuery) []string {
	classes := []string{}
	for _, g := range query.Groups {
		for _, a := range g.Resources {
			classes = append(classes, a.Class)
		}
	}
	return classes
}

// appendRequest writes one candidate: a map by provider from microversion 1.12
// on, a list before.
func (c *call) appendRequest(b []byte, request engine.Request) []byte {
	asMap := c.version >= 12
	open, perProvider, end := `{"allocations": [`, `{"resource_provider": {"uuid": `, `]`
	if asMap {
		open, perProvider, end = `{"allocations": {`, "", `}`
	}
	b = append(b, open...)
	amounts := request.Amounts
	for first := 0; first < len(amounts); {
		next := first
		b = comma(b, first)
		b = append(b, perProvider...)
		b = appendName(b, amounts[first].Provider)
		if asMap {
			b = append(b, `: {"resources": {`...)
		} else {
			b = append(b, `}, "resources": {`...)
		}
		for ; next < len(amounts) && amounts[next].Provider == amounts[first].Provider; next++ {
			b = comma(b, next-first)
			b = appendName(b, amounts[next].Class)
			b = append(b, ": "...)
			b = strconv.AppendInt(b, amounts[next].Amount, 10)
		}
		b = append(b, "}}"...)
		first = next
	}
	b = append(b, end...)
	if c.version >= 34 {
		b = appendMappings(b, request.Mappings)
	}
	return append(b, '}')
}

func appendMappings(b []byte, mappings []engine.Mapping) []byte {
	b = append(b, `, "mappings": {`...)
	for i, m := range mappings {
		b = comma(b, i)
		b = appendName(b, m.Suffix)
		b = append(b, ": ["...)
		for k, uuid := range m.Providers {
			b = comma(b, k)
			b = appendName(b, uuid)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendSummary writes a provider; only, if not nil, lists the classes shown.
func (c *call) appendSummary(b []byte, s engine.Summary, only []string) []byte {
	b = appendName(b, s.UUID)
	b = append(b, `: {"resources": {`...)
	shown := 0
	for _, r := range s.Resources {
		if only != nil && !slices.Contains(only, r.Class) {
			continue
		}
		b = comma(b, shown)
		shown++
		b = appendName(b, r.Class)
		b = append(b, `: {"capacity": `...)
		b = strconv.AppendFloat(b, r.Capacity, 'f', 0, 64)
		b = append(b, `, "used": `...)
		b = strconv.AppendInt(b, r.Used, 10)
		b = append(b, '}')
	}
	b = append(b, '}')
	if c.version >= 17 {
		b = append(b, `, "traits": [`...)
		for i, name := range s.Traits {
			b = comma(b, i)
			b = appendName(b, name)
		}
		b = append(b, ']')
	}
	if c.version >= sinceNestedCandidates {
		b = append(b, `, "parent_provider_uuid": `...)
		if s.Parent == "" {
			b = append(b, "null"...)
		} else {
			b = appendName(b, s.Parent)
		}
		b = append(b, `, "root_provider_uuid": `...)
		b = appendName(b, s.Root)
	}
	return append(b, '}')
}
