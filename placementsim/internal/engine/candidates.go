package engine

import (
	"slices"
)

// CandidateQuery asks for allocation candidates: ways to satisfy all groups
// from the providers of one tree and those that share with it.
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
//   - Of the providers of the groups in one SameSubtree, one is at or above all
//     the others.
//   - The sum of what groups take from one inventory fits.
type CandidateQuery struct {
	Groups      []Group
	Isolate     bool
	Root        TraitRequirement // of the anchor
	SameSubtree [][]string       // suffixes
	// OnePerTree drops candidates that take resources from several providers
	// of one tree (before microversion 1.29).
	OnePerTree bool
	Limit      int // 0: none
}

// Group is a request group. The one without suffix comes first, if there is
// one.
type Group struct {
	Suffix     string
	Resources  []ClassAmount
	Traits     TraitRequirement
	Aggregates AggregateFilter
	InTree     string
}

// Candidates are the answer to a query.
type Candidates struct {
	Requests []Request
	// Providers are those of every tree that supplies something, or with
	// OnePerTree only those that supply, in the order they appear.
	Providers []Summary

	state  *State
	memory *answer // nil: nothing to release
}

// Request is one way to satisfy a query.
type Request struct {
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

// Candidates answers a query. The error matches [ErrUnknownClass],
// [ErrUnknownTrait] or [ErrTooMany].
func (s *State) Candidates(q CandidateQuery) (Candidates, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sr, err := s.newSearch(q)
	if err != nil {
		return Candidates{}, err
	}
	for slot := sr.filter.next(); slot >= 0; slot = sr.filter.next() {
		if more, err := sr.visit(s.trees.trees[slot]); err != nil {
			return Candidates{}, err
		} else if !more {
			break
		}
	}
	return Candidates{sr.found, sr.summarizeAll(), s, sr.answer}, nil
}

// maxSteps bounds the work of one query, and maxFound the memory: the number of
// candidates times what each of them consists of.
const (
	maxSteps = 5_000_000
	maxFound = 1_000_000
)

// search is a query in progress.
type search struct {
	state   *State
	groups  []*group
	root    traitFilter
	policy  policy
	limit   int
	filter  treeFilter
	sharers []*sharer
	steps   int // work done so far
	most    int // the limit of steps

	*answer
	latest *provider           // the last one noted
	shared map[string]struct{} // candidates of sharing providers only

	walk walk
}

// policy is what holds between groups.
type policy struct {
	isolate    bool
	onePerTree bool
	// subtrees lists the sets of groups that are in one same_subtree, by the
	// last group of the set.
	subtrees map[int][][]int
}

// sharer is a sharing provider with the groups that it can serve in other trees.
type sharer struct {
	provider *provider
	groups   []bool // per group: may take part in it
}

func (s *State) newSearch(q CandidateQuery) (*search, error) {
	sr := &search{state: s, limit: q.Limit, most: maxSteps, answer: s.newAnswer()}
	sr.policy.isolate, sr.policy.onePerTree = q.Isolate, q.OnePerTree
	var unknown []string // traits
	index := make(map[string]int, len(q.Groups))
	for i, wanted := range q.Groups {
		g, err := s.newGroup(wanted, &unknown)
		if err != nil {
			return nil, err
		}
		index[g.suffix] = i
		sr.groups = append(sr.groups, g)
	}
	sr.root = s.traitFilter(q.Root, &unknown)
	if unknown != nil {
		return nil, unknownTraits(unknown)
	}
	sr.policy.subtrees = subtrees(q.SameSubtree, index)
	sr.findSharers()
	sr.filter = sr.newTreeFilter()
	sr.walk = newWalk(sr)
	return sr, nil
}

// subtrees resolves the suffixes of same_subtree; unknown ones stay out.
func subtrees(sameSubtree [][]string, index map[string]int) map[int][][]int {
	byLast := make(map[int][][]int)
	for _, suffixes := range sameSubtree {
		var members []int
		for _, suffix := range suffixes {
			if i, ok := index[suffix]; ok {
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

// newGroup resolves the names of a group and adds unknown traits to a list.
func (s *State) newGroup(wanted Group, unknown *[]string) (*group, error) {
	g := &group{
		suffix: wanted.Suffix, memberOf: s.aggregateSets(wanted.Aggregates.MemberOf),
		noAggregates: s.aggregateSet(wanted.Aggregates.Forbidden), traits: s.traitFilter(wanted.Traits, unknown),
	}
	if wanted.InTree != "" {
		if p := s.providers[wanted.InTree]; p != nil {
			g.inTree = p.tree
		} else {
			g.nowhere = true
		}
	}
	var err error
	g.amounts, err = s.amounts(wanted.Resources)
	return g, err
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
	if g.inTree != nil || g.traits.forbidden.intersects(p.traits.bits) || g.memberOfForbidden(p) || !g.memberOfAll(p) {
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

// full reports whether the limit is reached.
func (sr *search) full() bool { return sr.limit > 0 && len(sr.found) >= sr.limit }
