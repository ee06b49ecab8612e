package placementsim

import (
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceNestedCandidates is the microversion from which a candidate may use
// several providers of one tree.
const sinceNestedCandidates version = 29

// sinceMappings is the microversion from which a candidate maps groups to providers.
const sinceMappings version = 34

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
	query.SumsIgnoreUse, query.Seed = cfg.OptimizeForWideProviderTrees, cfg.Seed
	if cfg.UpstreamQuirks {
		var err error
		if query, err = c.misread(query); err != nil {
			return b, err
		}
	}
	w := newAnswerWriter(b, c.version, query)
	err := c.server.state.Candidates(query, w)
	return w.end(), err
}

// answerWriter writes an answer. Its names need no escaping, because they were checked on input.
type answerWriter struct {
	b         []byte
	requests  requestWriter
	summaries summaryWriter
}

func newAnswerWriter(b []byte, v version, query engine.CandidateQuery) *answerWriter {
	w := &answerWriter{b: append(b, `{"allocation_requests": [`...), requests: requestWriter{version: v, names: make([]nameAt, 0, 16)}, summaries: summaryWriter{version: v}}
	if v < 27 {
		w.summaries.only = requestedClasses(query)
	}
	return w
}

// Request implements engine.Answer.
func (w *answerWriter) Request(request *engine.Request) {
	w.grow()
	w.b = w.requests.append(w.b, request)
}

// Provider implements engine.Answer.
func (w *answerWriter) Provider(s *engine.Summary) {
	w.grow()
	w.b = w.summaries.append(w.b, s)
}

// From longAnswer bytes on an answer doubles when it has less than spare bytes left. The steps of append, a quarter each,
// would leave five times its length behind.
const (
	longAnswer = 1 << 20
	spare      = 16 << 10
)

func (w *answerWriter) grow() {
	if len(w.b) > longAnswer && cap(w.b)-len(w.b) < spare {
		w.b = append(make([]byte, 0, 2*cap(w.b)), w.b...)
	}
}

func (w *answerWriter) end() []byte { return append(w.summaries.begin(w.b), "}}"...) }

func requestedClasses(query engine.CandidateQuery) []string {
	classes := []string{}
	for _, g := range query.Groups {
		for _, a := range g.Resources {
			classes = append(classes, a.Class)
		}
	}
	return classes
}

// requestWriter writes allocation requests. Most differ from the one before in the names of
// their providers alone: these are replaced in a copy of it.
type requestWriter struct {
	version    version
	count      int
	start, end int      // of the one before
	names      []nameAt // in it, in their order
}

// nameAt is the place of a provider's name in a request.
type nameAt struct{ start, length int }

func (w *requestWriter) append(b []byte, request *engine.Request) []byte {
	b = comma(b, w.count)
	w.count++
	start := len(b)
	if !request.Alike {
		b = w.write(b, request)
	} else if b = append(b, b[w.start:w.end]...); !w.rename(b[start:], request) {
		b = w.write(b[:start], request)
	}
	w.start, w.end = start, len(b)
	return b
}

// rename replaces the names of the providers. It reports false where they have other lengths.
func (w *requestWriter) rename(text []byte, request *engine.Request) bool {
	i := 0
	for name := range w.providers(request) {
		at := w.names[i]
		if len(name) != at.length {
			return false
		}
		copy(text[at.start:], name)
		i++
	}
	return true
}

// providers are the names of providers in a request, in the order in which they are written.
func (w *requestWriter) providers(request *engine.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range request.Amounts {
			if a := &request.Amounts[i]; (i == 0 || a.Provider != request.Amounts[i-1].Provider) && !yield(a.Provider) {
				return
			}
		}
		if w.version < sinceMappings {
			return
		}
		for i := range request.Mappings {
			for _, name := range request.Mappings[i].Providers {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// write writes a request in full: a map by provider from microversion 1.12 on, a list before.
func (w *requestWriter) write(b []byte, request *engine.Request) []byte {
	open, perProvider, resources, end := `{"allocations": {"`, `"`, `": {"resources": {`, `}`
	if w.version < 12 {
		open, perProvider, resources, end = `{"allocations": [{"resource_provider": {"uuid": "`, `{"resource_provider": {"uuid": "`, `"}, "resources": {`, `]`
	}
	w.start, w.names = len(b), w.names[:0]
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
		b = w.name(b, a.Provider)
		b = append(b, resources...)
		b = appendAmount(b, a)
	}
	b = append(b, "}}"...)
	b = append(b, end...)
	if w.version >= sinceMappings {
		b = w.mappings(b, request.Mappings)
	}
	return append(b, '}')
}

// name writes the name of a provider and records its place.
func (w *requestWriter) name(b []byte, name string) []byte {
	w.names = append(w.names, nameAt{len(b) - w.start, len(name)})
	return append(b, name...)
}

func appendAmount(b []byte, a *engine.ProviderAmount) []byte {
	return strconv.AppendInt(appendName(b, a.Class, `": `), a.Amount, 10)
}

func (w *requestWriter) mappings(b []byte, mappings []engine.Mapping) []byte {
	b = append(b, `, "mappings": {`...)
	for i := range mappings {
		b = comma(b, i)
		b = appendName(b, mappings[i].Suffix, `": [`)
		for k, name := range mappings[i].Providers {
			b = append(comma(b, k), '"')
			b = append(w.name(b, name), '"')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// summaryWriter writes the providers of an answer.
type summaryWriter struct {
	version version
	count   int
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

// begin ends the requests before the first summary.
func (w *summaryWriter) begin(b []byte) []byte {
	if w.count == 0 {
		b = append(b, `], "provider_summaries": {`...)
	}
	return b
}

func (w *summaryWriter) append(b []byte, s *engine.Summary) []byte {
	b = comma(w.begin(b), w.count)
	w.count++
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
