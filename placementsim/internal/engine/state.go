package engine

import (
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/sim"
)

// State is the state of one Placement service. Make it with [New].
type State struct {
	*core
	record func([]sim.RecordChange) // nil: see With
}

// core is what all views of a state share.
type core struct {
	mu sync.RWMutex

	key       collation.Key
	providers collation.Map[*provider] // by uuid
	names     collation.Map[*provider] // by name
	order     []*provider              // by creation
	trees     forest

	classes    classTable
	traits     traitTable
	aggregates collation.Map[*aggregate]
	sharing    []*provider // those with the sharing trait, by creation

	consumers collation.Map[*consumer]
	projects  owners
	users     owners
	writes    int64 // of allocations
	nextSeq   int64
	created   time.Time // when what is standard was created
	listeners []func([]sim.RecordChange)

	large    chan struct{} // holds a token for each large search
	searches sync.Pool     // of *search, see search.release
}

// provider is one resource provider. Only the lock's holder touches it.
type provider struct {
	uuid, name string
	generation int
	seq        int64 // creation order
	parent     *provider
	children   int
	tree       *tree

	invs       []inventory // by class
	traits     *traitSet
	aggregates []*aggregate // in the order they were set

	// consumers with allocations on this provider; nil until the first one.
	consumers map[*consumer]struct{}

	created, updated time.Time // updated is zero until the first change
}

func (p *provider) root() *provider { return p.tree.root }

// bump counts a change that others must notice.
func (p *provider) bump(now time.Time) {
	p.generation++
	p.updated = now
}

// isAncestorOf reports whether p is q or above it.
func (p *provider) isAncestorOf(q *provider) bool {
	for ; q != nil; q = q.parent {
		if p == q {
			return true
		}
	}
	return false
}

// aggregate is a named set of providers. It exists while it has members.
type aggregate struct {
	uuid    string
	members map[*provider]struct{}
	trees   map[*tree]int // members per tree
	slots   bitset        // of these trees
}

// New returns the state of a fresh service that knows the standard resource
// classes and the given standard traits. The key compares what Placement compares in SQL: names and uuids of
// providers, aggregates, consumers, projects and users. Traits and classes are compared byte by byte.
func New(standardTraits []string, key collation.Key, now time.Time) *State {
	return &State{core: &core{
		key:        key,
		providers:  collation.NewMap[*provider](key),
		names:      collation.NewMap[*provider](key),
		classes:    newClassTable(now),
		traits:     newTraitTable(standardTraits, now),
		aggregates: collation.NewMap[*aggregate](key),
		consumers:  collation.NewMap[*consumer](key),
		projects:   owners{collation.NewMap[*owner](key)},
		users:      owners{collation.NewMap[*owner](key)},
		created:    now,
		large:      make(chan struct{}, largeSearches),
	}}
}

// find returns the provider that is a request's subject.
func (s *State) find(uuid string) (*provider, error) {
	p := s.providers.Get(uuid)
	if p == nil {
		return nil, refuse(ErrNotFound, "No resource provider with uuid %s found", uuid)
	}
	return p, nil
}

// With returns a view of the same state whose changes of rows are also passed to record,
// under the lock.
func (s *State) With(record func([]sim.RecordChange)) *State {
	return &State{core: s.core, record: record}
}

// OnCommit adds a function that is called with the changes of each transition, in order and
// under the lock.
func (s *State) OnCommit(listener func([]sim.RecordChange)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, listener)
}

// listening reports whether the changes of rows are published to anything.
func (s *State) listening() bool { return s.record != nil || len(s.listeners) > 0 }

// watch returns a function that publishes what has changed since in the rows of a subject,
// which add adds. It allocates nothing when nothing listens.
func watch[T any](s *State, add func(*State, *rows, T), subject T) (end func()) {
	if !s.listening() {
		return func() {}
	}
	const claimed = 8 // rows of a claim of a device
	before, sequences := make(rows, 0, claimed), s.sequences()
	add(s, &before, subject)
	return func() {
		after := make(rows, 0, claimed)
		add(s, &after, subject)
		if now := s.sequences(); now != sequences {
			before.addSequences(sequences)
			after.addSequences(now)
		}
		s.publish(before.changes(after))
	}
}

func (s *State) publish(changes []sim.RecordChange) {
	if len(changes) == 0 {
		return
	}
	for _, listener := range s.listeners {
		listener(changes)
	}
	if s.record != nil {
		s.record(changes)
	}
}
