package engine

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// SharingTrait marks a provider that serves the trees with which it has an
// aggregate in common.
const SharingTrait = "MISC_SHARES_VIA_AGGREGATE"

// trait is a name that providers may have.
type trait struct {
	name      string
	id        int // index in bit sets; used again after a deletion
	seq       int // creation order
	standard  bool
	created   time.Time
	providers int    // how many carry it
	trees     bitset // slots of the trees that have a provider with it
}

type traitTable struct {
	byName   map[string]*trait
	seq      int
	standard int   // how many are standard
	free     []int // ids of deleted traits
	sets     map[string]*traitSet
	none     *traitSet
}

// traitSet is an immutable set of traits. Equal sets are one value, since most
// providers of a cloud carry one of a few sets.
type traitSet struct {
	key    string
	bits   bitset
	traits []*trait // in creation order, the standard ones first
	names  []string // the same
	shares bool     // has SharingTrait
	users  int
}

func (ts *traitSet) has(t *trait) bool { return ts.bits.has(t.id) }

func (ts *traitSet) hasAny(traits []*trait) bool {
	for _, t := range traits {
		if ts.has(t) {
			return true
		}
	}
	return false
}

func newTraitTable(standard []string, now time.Time) traitTable {
	t := traitTable{byName: make(map[string]*trait), sets: make(map[string]*traitSet), none: &traitSet{users: 1}}
	t.sets[""] = t.none
	for _, name := range standard {
		t.add(name, now).standard = true
	}
	t.standard = t.seq
	return t
}

func (t *traitTable) add(name string, now time.Time) *trait {
	t.seq++
	tr := &trait{name: name, id: len(t.byName), seq: t.seq, created: now}
	if n := len(t.free); n > 0 {
		tr.id, t.free = t.free[n-1], t.free[:n-1]
	}
	t.byName[name] = tr
	return tr
}

func unknownTraits(names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	return &Error{Kind: ErrUnknownTrait, Text: "No such trait(s): " + strings.Join(names, ", ") + ".", Names: names}
}

// set returns the one set with these traits.
func (t *traitTable) set(traits []*trait) *traitSet {
	slices.SortFunc(traits, func(a, b *trait) int { return a.seq - b.seq })
	traits = slices.Compact(traits)
	names := make([]string, 0, len(traits))
	for _, tr := range traits {
		names = append(names, tr.name)
	}
	key := strings.Join(names, ",")
	if ts := t.sets[key]; ts != nil {
		return ts
	}
	ts := &traitSet{key: key, traits: traits, names: names, shares: slices.Contains(names, SharingTrait)}
	for _, tr := range traits {
		ts.bits.set(tr.id)
	}
	t.sets[key] = ts
	return ts
}

// leaveSet counts a provider less with a set. A set without providers is
// removed.
func (s *State) leaveSet(ts *traitSet) {
	if ts.users--; ts.users > 0 {
		return
	}
	delete(s.traits.sets, ts.key)
	for _, c := range s.classes.byName {
		delete(c.kinds, ts)
	}
}

// Trait is the name of a trait and when it was created.
type Trait struct {
	Name    string
	Created time.Time
}

// TraitFilter selects traits; the zero value selects all. Only here the names of traits are compared in SQL.
type TraitFilter struct {
	Names      []string // only these, unless nil
	Prefix     string
	Like       *regexp.Regexp // that the name matches, unless nil
	Associated *bool          // only those that a provider carries, or none does
}

// Traits lists the traits that pass the filter, sorted by name.
func (s *State) Traits(f TraitFilter) []Trait {
	s.mu.RLock()
	defer s.mu.RUnlock()
	wanted := make(map[string]bool, len(f.Names))
	for _, name := range f.Names {
		wanted[s.key(name)] = true
	}
	var list []Trait
	for name, tr := range s.traits.byName {
		if (f.Names == nil || wanted[s.key(name)]) && s.key.HasPrefix(name, f.Prefix) && (f.Like == nil || f.Like.MatchString(name)) &&
			(f.Associated == nil || *f.Associated == (tr.providers > 0)) {
			list = append(list, Trait{name, tr.created})
		}
	}
	slices.SortFunc(list, func(a, b Trait) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Trait returns one trait, or an error that matches [ErrNotFound].
func (s *State) Trait(name string) (Trait, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	tr := s.traits.byName[name]
	if tr == nil {
		return Trait{}, refuse(ErrNotFound, "No such trait(s): %s.", name)
	}
	return Trait{name, tr.created}, nil
}

// EnsureTrait adds a custom trait unless it exists, and reports whether it did.
func (s *State) EnsureTrait(name string, now time.Time) (t Trait, created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tr := s.traits.byName[name]
	if tr == nil {
		defer watch(s, (*State).addNameRows, name)()
		tr, created = s.traits.add(name, now), true
	}
	return Trait{name, tr.created}, created
}

// DeleteTrait removes a custom trait. The error matches [ErrNotFound],
// [ErrInvalid] for a standard trait, or [ErrConflict] when a provider carries
// it.
func (s *State) DeleteTrait(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tr := s.traits.byName[name]
	switch {
	case tr == nil:
		return refuse(ErrNotFound, "No such trait(s): %s.", name)
	case tr.standard:
		return refuse(ErrInvalid, "Cannot delete standard trait %s.", name)
	case tr.providers > 0:
		return refuse(ErrConflict, "The trait %s is in use by a resource provider.", name)
	}
	defer watch(s, (*State).addNameRows, name)()
	delete(s.traits.byName, name)
	s.traits.free = append(s.traits.free, tr.id)
	return nil
}

const generationChanged = "Resource provider's generation already changed. Please update the generation and try again."

// SetProviderTraits replaces the traits of a provider. With a generation it
// must be the present one. The provider's generation grows only if the set
// changes. The error matches [ErrNotFound], [ErrConcurrentUpdate] or
// [ErrUnknownTrait].
func (s *State) SetProviderTraits(uuid string, generation *int, names []string, now time.Time) (Inspection, error) {
	return s.change(uuid, func(p *provider) error {
		if err := p.expect(generation, generationChanged); err != nil {
			return err
		}
		traits, err := s.lookupTraits(names)
		if err != nil {
			return err
		}
		if set := s.traits.set(traits); set != p.traits {
			s.changeTraits(p, set)
			p.bump(now)
		}
		return nil
	})
}

// changeTraits gives a provider another set and updates the indexes.
func (s *State) changeTraits(p *provider, set *traitSet) {
	old := p.traits
	p.traits = set
	set.users++
	for _, tr := range set.traits {
		tr.providers++
		tr.trees.set(p.tree.slot)
	}
	for _, tr := range old.traits {
		tr.providers--
		if !set.has(tr) && !p.tree.hasTrait(tr) {
			tr.trees.clear(p.tree.slot)
		}
	}
	for i := range p.invs {
		s.updateRoom(p.tree, p.invs[i].class, old)
		s.updateRoom(p.tree, p.invs[i].class, set)
	}
	s.leaveSet(old)
	s.updateSharing(p)
}

// updateSharing updates the list of sharing providers.
func (s *State) updateSharing(p *provider) {
	i, listed := slices.BinarySearchFunc(s.sharing, p, bySeq)
	switch shares := p.shares(); {
	case shares && !listed:
		s.sharing = slices.Insert(s.sharing, i, p)
	case !shares && listed:
		s.sharing = slices.Delete(s.sharing, i, i+1)
	}
}

// shares reports whether the provider serves other trees.
func (p *provider) shares() bool { return p.traits.shares }
