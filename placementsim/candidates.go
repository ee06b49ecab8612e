package placementsim

import (
	"math"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceNestedCandidates is the microversion from which a candidate may use
// several providers of one tree.
const sinceNestedCandidates version = 29

func listCandidates(c *call) error {
	query, err := c.knownQuery(c.URL.RawQuery)
	if err != nil {
		return err
	}
	return c.written(func(b []byte) ([]byte, error) {
		b, err := c.searchCandidates(b, query)
		if err != nil {
			return b, prefixed(err, engine.ErrUnknownClass, "Invalid resource class in resources parameter: ")
		}
		c.modified()
		return b, nil
	})
}

// A scheduler sends the same query strings again, one for each flavor. The parsed ones are kept,
// up to a number and a length.
const (
	maxKnownQueries    = 256
	maxKnownQueryBytes = 4 << 10
)

// queryString is a query string at a microversion.
type queryString struct {
	version version
	raw     string
}

// knownQuery parses a query string that was not parsed before.
func (c *call) knownQuery(raw string) (engine.CandidateQuery, error) {
	queries := &c.server.queries
	key := queryString{c.version, raw}
	if known, ok := queries.parsed.Load(key); ok {
		return *known.(*engine.CandidateQuery), nil
	}
	query, err := c.candidateQuery(parseQuery(raw))
	if err != nil || len(raw) > maxKnownQueryBytes {
		return query, err
	}
	if queries.count.Add(1) > maxKnownQueries {
		queries.parsed.Clear()
		queries.count.Store(1)
	}
	queries.parsed.Store(key, &query)
	return query, nil
}

// searchCandidates appends the answer to a query.
func (c *call) searchCandidates(b []byte, query engine.CandidateQuery) ([]byte, error) {
	cfg := c.server.config
	query.Most, query.BreadthFirst = cfg.MaxAllocationCandidates, cfg.GenerationStrategy == StrategyBreadthFirst
	query.SumsIgnoreUse = cfg.OptimizeForWideProviderTrees
	err := c.server.state.Candidates(query, func(found engine.Candidates) { b = c.appendCandidates(b, query, found) })
	return b, err
}

// appendCandidates writes the answer. Its names need no escaping, because they were
// checked on input.
func (c *call) appendCandidates(b []byte, query engine.CandidateQuery, found engine.Candidates) []byte {
	b = append(b, `{"allocation_requests": [`...)
	i := 0
	for request := range found.Requests {
		b = c.appendRequest(comma(b, i), request)
		i++
	}
	b = append(b, `], "provider_summaries": {`...)
	summaries := summaryWriter{version: c.version}
	if c.version < 27 {
		summaries.only = requestedClasses(query)
	}
	i = 0
	for s := range found.Providers {
		b = summaries.append(comma(b, i), s)
		i++
	}
	return append(b, "}}"...)
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
func (c *call) appendRequest(b []byte, request *engine.Request) []byte {
	open, perProvider, resources, end := `{"allocations": {"`, `"`, `": {"resources": {`, `}`
	if c.version < 12 {
		open, perProvider, resources, end = `{"allocations": [{"resource_provider": {"uuid": "`, `{"resource_provider": {"uuid": "`, `"}, "resources": {`, `]`
	}
	amounts := request.Amounts
	for i := range amounts {
		a := &amounts[i]
		switch {
		case i == 0:
			b = append(b, open...)
		case a.Provider == amounts[i-1].Provider:
			b = append(b, ", "...)
			b = appendAmount(b, a)
			continue
		default:
			b = append(b, "}}, "...)
			b = append(b, perProvider...)
		}
		b = append(b, a.Provider...)
		b = append(b, resources...)
		b = appendAmount(b, a)
	}
	b = append(b, "}}"...)
	b = append(b, end...)
	if c.version >= 34 {
		b = appendMappings(b, request.Mappings)
	}
	return append(b, '}')
}

func appendAmount(b []byte, a *engine.ProviderAmount) []byte {
	return strconv.AppendInt(appendName(b, a.Class, `": `), a.Amount, 10)
}

func appendMappings(b []byte, mappings []engine.Mapping) []byte {
	b = append(b, `, "mappings": {`...)
	for i := range mappings {
		b = comma(b, i)
		b = appendName(b, mappings[i].Suffix, `": [`)
		for k, uuid := range mappings[i].Providers {
			b = comma(b, k)
			b = appendName(b, uuid, `"`)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// summaryWriter writes the providers of an answer.
type summaryWriter struct {
	version version
	only    []string // classes; nil: all
	// lists are the lists of traits written last: the providers of a cloud have few
	// different ones.
	lists [4]traitList
	next  int // the one to be forgotten
}

// traitList is where in the answer a list of traits is written.
type traitList struct {
	first *string // nil: none
	count int
	place [2]int
}

func (w *summaryWriter) append(b []byte, s *engine.Summary) []byte {
	b = appendName(b, s.UUID, `": {"resources": {`)
	shown := 0
	for i := range s.Resources {
		r := &s.Resources[i]
		if w.only != nil && !slices.Contains(w.only, r.Class) {
			continue
		}
		b = comma(b, shown)
		shown++
		b = appendName(b, r.Class, `": {"capacity": `)
		b = appendCapacity(b, r.Capacity)
		b = append(b, `, "used": `...)
		b = strconv.AppendInt(b, r.Used, 10)
		b = append(b, '}')
	}
	b = append(b, '}')
	if w.version >= 17 {
		b = append(b, `, "traits": [`...)
		b = w.appendTraits(b, s.Traits)
		b = append(b, ']')
	}
	if w.version >= sinceNestedCandidates {
		if s.Parent == "" {
			b = append(b, `, "parent_provider_uuid": null, "root_provider_uuid": `...)
		} else {
			b = append(b, `, "parent_provider_uuid": `...)
			b = appendName(b, s.Parent, `", "root_provider_uuid": `)
		}
		b = appendName(b, s.Root, `"`)
	}
	return append(b, '}')
}

// appendTraits writes a list of traits, or repeats what it wrote for the same one.
func (w *summaryWriter) appendTraits(b []byte, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	for i := range w.lists {
		if l := &w.lists[i]; l.first == &names[0] && l.count == len(names) {
			return append(b, b[l.place[0]:l.place[1]]...)
		}
	}
	start := len(b)
	for i, name := range names {
		b = comma(b, i)
		b = appendName(b, name, `"`)
	}
	w.lists[w.next] = traitList{&names[0], len(names), [2]int{start, len(b)}}
	w.next = (w.next + 1) % len(w.lists)
	return b
}

// appendCapacity writes a capacity, which has no fraction.
func appendCapacity(b []byte, capacity float64) []byte {
	if math.Abs(capacity) < 1<<53 {
		return strconv.AppendInt(b, int64(capacity), 10)
	}
	return strconv.AppendFloat(b, capacity, 'f', 0, 64)
}
