package engine

import (
	"math/rand/v2"
	"slices"
)

// CandidateQuery asks for allocation candidates: ways to satisfy all groups from the providers of
// one tree and the providers that share with it.
//
// Rules, by microversion 1.39:
//
//   - The anchor of a candidate is a root. Its tree's providers take part, and
//     the sharing providers that have an aggregate in common with one of them.
//   - A group with a suffix is served by one provider that satisfies all of it.
//   - In the group without suffix each class may come from another provider.
//     Together these cover the required traits, none has a forbidden one, and
//     each of them or the anchor satisfies all member_of.
//   - With Isolate no two groups with suffix have the same provider.
//   - Among the providers of the groups in one SameSubtree, one is an ancestor of all the others.
//   - The sum of what groups take from one inventory fits.
type CandidateQuery struct {
	Groups      []Group
	Isolate     bool
	Root        TraitRequirement // of the anchor
	SameSubtree [][]string       // suffixes
	// OnePerTree drops candidates that take resources from several providers
	// of one tree (before microversion 1.29).
	OnePerTree bool
	// Most is how many candidates are found before the limit applies, 0 for all of them.
	Most int
	// BreadthFirst: with Most, candidates are taken from the trees round-robin, otherwise tree by tree.
	BreadthFirst bool
	// SumsIgnoreUse: the sum of what groups take from one inventory is compared with its
	// capacity, as if nothing were in use.
	SumsIgnoreUse bool
	// Limit is how many candidates are chosen at random, 0 for all of them. Those in the answer keep
	// their order: the trees by creation, and each tree's candidates as they are found.
	Limit int
	Seed  uint64 // of the choice
}

// Group is a request group. The one without suffix comes first, if there is
// one.
type Group struct {
	Suffix string
	// Place is where the group begins among the keys of the query string: the service looks the names of the groups up in
	// this order.
	Place      int
	Resources  []ClassAmount
	Traits     TraitRequirement
	Aggregates AggregateFilter
	InTree     string
}

// Answer takes the answer to a query: its requests, and then the providers that they name. What
// it is given is overwritten by the next.
type Answer interface {
	Request(*Request)
	Provider(*Summary)
}

// Request is one way to satisfy a query.
type Request struct {
	// Alike: only the names of providers are others than in the request before.
	Alike    bool
	Amounts  []ProviderAmount // summed up, one provider's amounts together
	Mappings []Mapping        // in group order
}

// Mapping names the providers that serve a group.
type Mapping struct {
	Suffix    string
	Providers []string
}

// Summary describes a provider of an answer.
type Summary struct {
	UUID, Parent, Root string
	Resources          []ClassUse
	Traits             []string // in creation order; shared, not to be changed
}

// ClassUse is the capacity and the usage of a resource class of a provider.
type ClassUse struct {
	Class    string
	Capacity float64 // without fraction
	Used     int64
}

// Candidates answers a query, under the lock. The requests are passed on while they are found: what
// the answer has is void after an error, which matches [ErrUnknownClass], [ErrUnknownTrait] or
// [ErrTooMany]. A name that does not exist is not an error if a condition that is looked up before it leaves no candidate.
func (s *State) Candidates(q CandidateQuery, answer Answer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sr, err := s.newSearch(q)
	defer sr.release()
	if err != nil {
		return s.lookUp(q)
	}
	sr.answer = answer
	switch {
	case q.Most > 0:
		err = sr.generate(q)
	case q.Limit > 0:
		err = sr.sample(q.Limit)
	default:
		err = sr.findAll(sr.giveOwn)
	}
	if err != nil {
		return err
	}
	sr.summarizeAll()
	return nil
}

// findAll visits all trees.
func (sr *search) findAll(found finder) error {
	sr.found = found
	for slot := sr.filter.next(); slot >= 0; slot = sr.filter.next() {
		if more, err := sr.visit(sr.state.trees.trees[slot]); err != nil || !more {
			return err
		}
	}
	return nil
}

// maxSteps bounds the work of one query, and maxFound the memory: about the length of its
// candidates in an answer, in bytes.
const (
	maxSteps = 5_000_000
	maxFound = 56 << 20
)

// There are at most largeSearches at once whose candidates are longer than largeFound, in bytes;
// others wait, as they would for a processor.
const (
	largeFound    = 3 << 20
	largeSearches = 2
)

// The lengths of a candidate, a position and an amount in an answer, without the names of suffixes
// and classes: the provider of a position stands among the allocations and among the mappings.
const (
	candidateLength = 40
	positionLength  = 105
	amountLength    = 10
)

// The lengths of a candidate that is kept, and of each of its providers, in memory.
const (
	keptLength    = 48
	pointerLength = 8
)

// search is a query in progress with the memory of its answer. Both are used again.
type search struct {
	state   *State
	groups  []*group
	root    traitFilter
	policy  policy
	large   bool // and counted
	length  int  // of an explanation
	filter  treeFilter
	sharers []*sharer
	steps   int // work done so far
	most    int // the limit of steps
	walk    walk

	found  finder
	kept   []candidate
	chosen []*provider // of the kept candidates
	lots   []lot
	open   []int // the numbers of the lots that may have more candidates
	source rand.PCG
	random *rand.Rand // of the source

	answer  Answer
	given   int     // candidates, to the answer
	request Request // the last one
	shape   shape   // of the last one
	summary Summary // the last one

	sources []*provider    // what summaries are about, see note
	owners  map[string]int // the trees of candidates of sharing providers only
}

// release lets the memory be used again.
func (sr *search) release() {
	if sr.large {
		<-sr.state.large // its memory is not kept
		return
	}
	sr.groups, sr.sharers = reused(sr.groups), reused(sr.sharers)
	sr.sources, sr.lots, sr.open = reused(sr.sources), reused(sr.lots), reused(sr.open)
	sr.kept, sr.chosen = reused(sr.kept), reused(sr.chosen)
	sr.found, sr.steps, sr.length, sr.given, sr.answer, sr.owners = nil, 0, 0, 0, nil, nil
	sr.shape.reset()
	sr.filter.reset()
	sr.state.searches.Put(sr)
}

// finder is called with each candidate that is found. It reports whether the search goes on. What the
// candidate consists of is overwritten by the next one.
type finder func(candidate) bool

// candidate is a way to serve all groups.
type candidate struct {
	key    string      // see owns
	chosen []*provider // per position
	given  int         // how many that take the same are in the answer, see sameTaken
}

// policy holds the constraints between groups.
type policy struct {
	isolate       bool
	onePerTree    bool
	sumsIgnoreUse bool
	// subtrees lists the sets of groups that are in one same_subtree, by the
	// last group of the set.
	subtrees map[int][][]int
}

// sharer is a sharing provider with the groups that it can serve in other trees.
type sharer struct {
	provider *provider
	groups   []bool // per group: may take part in it
}

// grow waits for the turn of a search that has become large.
func (sr *search) grow() {
	sr.state.large <- struct{}{}
	sr.large = true
}

// newSearch resolves the names of a query. The search is there to be released in any case. The error is about names that do
// not exist.
func (s *State) newSearch(q CandidateQuery) (*search, error) {
	sr, _ := s.searches.Get().(*search)
	if sr == nil {
		sr = new(search)
		sr.random = rand.New(&sr.source)
	}
	sr.state, sr.most = s, maxSteps
	sr.source.Seed(q.Seed, 0)
	sr.policy.isolate, sr.policy.onePerTree, sr.policy.sumsIgnoreUse = q.Isolate, q.OnePerTree, q.SumsIgnoreUse
	var unknown []string // traits
	for _, wanted := range q.Groups {
		g, err := s.newGroup(wanted, &unknown)
		if err != nil {
			return sr, err
		}
		sr.groups = append(sr.groups, g)
	}
	sr.root = s.traitFilter(q.Root, &unknown)
	if unknown != nil {
		return sr, unknownTraits(unknown)
	}
	sr.policy.subtrees = subtrees(q)
	sr.findSharers()
	sr.filter.begin(sr)
	sr.walk.begin(sr)
	return sr, nil
}

// subtrees resolves the suffixes of same_subtree; unknown ones stay out.
func subtrees(q CandidateQuery) map[int][][]int {
	if len(q.SameSubtree) == 0 {
		return nil
	}
	byLast := make(map[int][][]int)
	for _, suffixes := range q.SameSubtree {
		var members []int
		for _, suffix := range suffixes {
			if i := slices.IndexFunc(q.Groups, func(g Group) bool { return g.Suffix == suffix }); i >= 0 {
				members = append(members, i)
			}
		}
		if len(members) > 1 { // one provider is always above itself
			last := slices.Max(members)
			byLast[last] = append(byLast[last], members)
		}
	}
	return byLast
}

// findSharers lists the sharing providers that can serve a group.
func (sr *search) findSharers() {
	for _, p := range sr.state.sharing {
		sh := &sharer{provider: p, groups: make([]bool, len(sr.groups))}
		for i, g := range sr.groups {
			sh.groups[i] = g.reaches(p)
		}
		if slices.Contains(sh.groups, true) {
			sr.sharers = append(sr.sharers, sh)
		}
	}
}

// reaches reports whether a sharing provider may serve the group in a tree that
// is not its own.
func (g *group) reaches(p *provider) bool {
	if g.suffix != "" {
		return (g.inTree == nil || g.inTree == p.tree) && g.accepts(p)
	}
	if g.inTree != nil || p.traits.hasAny(g.traits.forbidden) || g.memberOfForbidden(p) || !g.memberOfAll(p) {
		return false
	}
	return slices.ContainsFunc(g.amounts, p.fits)
}

// sharesWith reports whether the provider has an aggregate in common with a
// provider of the tree.
func (p *provider) sharesWith(t *tree) bool {
	return slices.ContainsFunc(p.aggregates, func(a *aggregate) bool { return a.trees[t] > 0 })
}

// visit looks for candidates anchored at the tree's root. It reports whether
// the search goes on.
func (sr *search) visit(t *tree) (more bool, err error) {
	if !sr.root.accepts(t.root.traits) {
		return true, nil
	}
	// Preparing a tree counts an eighth of a step for each member.
	if sr.steps += len(sr.walk.positions) * (1 + len(t.members)/8); sr.steps > sr.most {
		return false, errTooMany()
	}
	if !sr.walk.prepare(t) {
		return true, nil
	}
	return sr.walk.descend(0)
}
