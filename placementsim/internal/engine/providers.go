package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Provider is a resource provider.
type Provider struct {
	UUID, Name string
	Generation int
	Parent     string // empty for a root
	Root       string // of a root: itself
	Created    time.Time
	Updated    time.Time // zero if never
}

// Changed is when the provider was updated, else created.
func (p Provider) Changed() time.Time {
	if p.Updated.IsZero() {
		return p.Created
	}
	return p.Updated
}

func (p *provider) view() Provider {
	view := Provider{
		UUID: p.uuid, Name: p.name, Generation: p.generation,
		Root: p.root().uuid, Created: p.created, Updated: p.updated,
	}
	if p.parent != nil {
		view.Parent = p.parent.uuid
	}
	return view
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

// NewProvider describes a provider to be created.
type NewProvider struct {
	UUID, Name string
	Parent     string // empty for a root
}

// CreateProvider adds a provider. The error matches [ErrInvalid] for a bad
// parent, or [ErrDuplicateName].
func (s *State) CreateProvider(n NewProvider, now time.Time) (Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Name == "" {
		return Provider{}, refuse(ErrInvalid, "Object action create failed because: name is required")
	}
	var parent *provider
	if n.Parent != "" {
		parent = s.providers.Get(n.Parent)
		switch {
		case n.Parent == n.UUID:
			return Provider{}, refuse(ErrInvalid, "Object action create failed because: parent provider UUID cannot be same as UUID. Please set parent provider UUID to None if there is no parent.")
		case parent == nil:
			return Provider{}, refuse(ErrInvalid, "Object action create failed because: parent provider UUID does not exist.")
		}
	}
	if s.providers.Get(n.UUID) != nil {
		return Provider{}, refuse(ErrDuplicateName, "Conflicting resource provider uuid: %s already exists.", n.UUID)
	}
	if s.names.Get(n.Name) != nil {
		return Provider{}, refuse(ErrDuplicateName, "Conflicting resource provider name: %s already exists.", n.Name)
	}
	defer watch(s, (*State).addProviderRows, n.UUID)()
	return s.addProvider(n, parent, now).view(), nil
}

func (s *State) addProvider(n NewProvider, parent *provider, now time.Time) *provider {
	s.nextSeq++
	texts := n.UUID + n.Name // one object for the garbage collector
	p := &provider{uuid: texts[:len(n.UUID)], name: texts[len(n.UUID):], seq: s.nextSeq, parent: parent, traits: s.traits.none, created: now}
	s.traits.none.users++
	s.providers.Set(p.uuid, p)
	s.names.Set(p.name, p)
	s.order = append(s.order, p)
	if parent == nil {
		s.attach(p, s.newTree(p))
	} else {
		parent.children++
		s.attach(p, parent.tree)
	}
	return p
}

// ProviderUpdate describes a change of a provider.
type ProviderUpdate struct {
	Name      string
	SetParent bool   // Parent is set
	Parent    string // empty: none
	Reparent  bool   // a parent may be changed or taken away (from microversion 1.37)
}

// UpdateProvider changes the name and the parent of a provider. The provider's
// generation does not change. The error matches [ErrNotFound], [ErrInvalid] for
// a bad parent, or [ErrDuplicateName].
func (s *State) UpdateProvider(uuid string, u ProviderUpdate, now time.Time) (Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(uuid)
	if err != nil {
		return Provider{}, err
	}
	parent := p.parent
	if u.SetParent {
		if parent, err = s.newParent(p, u); err != nil {
			return Provider{}, err
		}
	}
	if other := s.names.Get(u.Name); other != nil && other != p {
		return Provider{}, refuse(ErrDuplicateName, "Conflicting resource provider %s already exists.", u.Name)
	}
	touched := []*provider{p}
	if parent != p.parent { // all below it may get another root
		touched = p.branch()
	}
	defer watch(s, (*State).addBranchRows, touched)()
	if p.name != u.Name || p.parent != parent { // what stays the same is no update to the service
		p.updated = now
	}
	s.names.Delete(p.name)
	p.name = u.Name
	s.names.Set(p.name, p)
	if parent != p.parent {
		s.move(p, parent, now)
	}
	return p.view(), nil
}

// branch returns a provider and all below it, in creation order.
func (p *provider) branch() []*provider {
	var branch []*provider
	for _, member := range p.tree.members {
		if p.isAncestorOf(member) {
			branch = append(branch, member)
		}
	}
	return branch
}

// newParent checks a change of parent and returns the new one.
func (s *State) newParent(p *provider, u ProviderUpdate) (*provider, error) {
	if u.Parent == "" {
		if p.parent != nil && !u.Reparent {
			return nil, refuse(ErrInvalid, "Object action update failed because: un-parenting a provider is not currently allowed.")
		}
		return nil, nil
	}
	parent := s.providers.Get(u.Parent)
	if parent == nil {
		return nil, refuse(ErrInvalid, "Object action create failed because: parent provider UUID does not exist.")
	}
	if p.parent != nil && p.parent != parent && !u.Reparent {
		return nil, refuse(ErrInvalid, "Object action update failed because: re-parenting a provider is not currently allowed.")
	}
	if p.isAncestorOf(parent) {
		return nil, refuse(ErrInvalid, "Object action update failed because: creating loop in the provider tree is not allowed.")
	}
	return parent, nil
}

// move puts a provider and everything below it under another parent, or makes
// it a root. Those that get another root count as updated.
func (s *State) move(p, parent *provider, now time.Time) {
	from := p.tree
	branch := p.branch()
	if p.parent != nil {
		p.parent.children--
	}
	p.parent = parent
	var to *tree
	if parent != nil {
		parent.children++
		to = parent.tree
	}
	for _, member := range branch {
		s.detach(member)
	}
	if to == nil {
		to = s.newTree(p)
	}
	for _, member := range branch {
		if to != from {
			member.updated = now
		}
		s.attach(member, to)
	}
}

// DeleteProvider removes a provider. The error matches [ErrNotFound],
// [ErrParentInUse] or [ErrProviderInUse].
func (s *State) DeleteProvider(uuid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.providers.Get(uuid)
	switch {
	case p == nil:
		return refuse(ErrNotFound, "No resource provider with uuid %s found for delete", uuid)
	case p.children > 0:
		return refuse(ErrParentInUse, "Unable to delete parent resource provider %s: It has child resource providers.", uuid)
	case len(p.consumers) > 0:
		return refuse(ErrProviderInUse, "Unable to delete resource provider %s: Resource provider has allocations.", uuid)
	}
	defer watch(s, (*State).addProviderRows, uuid)()
	s.replaceInventories(p, nil)
	s.changeTraits(p, s.traits.none)
	s.leaveSet(s.traits.none)
	s.leaveAggregates(p)
	s.detach(p)
	if p.parent != nil {
		p.parent.children--
	}
	s.providers.Delete(p.uuid)
	s.names.Delete(p.name)
	s.forget(p)
	return nil
}

// forget takes a provider out of the creation order.
func (s *State) forget(p *provider) {
	i, _ := slices.BinarySearchFunc(s.order, p, bySeq)
	s.order = slices.Delete(s.order, i, i+1)
}

// ProviderFilter selects providers; the zero value selects all. The group's InTree
// selects all providers of a tree; its other conditions are about the provider itself.
type ProviderFilter struct {
	Name, UUID string
	Group
}

// ClassAmount is an amount of a resource class.
type ClassAmount struct {
	Class  string
	Amount int64
}

// AggregateFilter selects providers by membership.
type AggregateFilter struct {
	MemberOf  [][]string // at least one of each
	Forbidden []string   // none of these
}

// TraitRequirement selects providers by traits.
type TraitRequirement struct {
	Required  [][]string // at least one of each
	Forbidden []string   // none of these
}

// Providers lists the providers that pass the filter in creation order. The
// error matches [ErrUnknownClass] or [ErrUnknownTrait]; a name that does not exist is not an error if a condition that is
// looked up before it leaves no provider.
func (s *State) Providers(f ProviderFilter) ([]Provider, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var unknown []string // traits
	group, err := s.newGroup(f.Group, &unknown)
	if err != nil || unknown != nil {
		return nil, s.lookUpFilter(f)
	}
	views := []Provider{}
	for _, p := range s.preselect(f) {
		if (f.Name == "" || s.key.Equal(p.name, f.Name)) && group.accepts(p) {
			views = append(views, p.view())
		}
	}
	return views, nil
}

// preselect returns the few providers that a uuid, a name or a tree leaves, or
// all of them.
func (s *State) preselect(f ProviderFilter) []*provider {
	chosen := s.order
	if f.InTree != "" {
		chosen = nil
		if p := s.providers.Get(f.InTree); p != nil {
			chosen = p.tree.members
		}
	}
	if f.UUID == "" && f.Name == "" {
		return chosen
	}
	p := s.providers.Get(f.UUID)
	if f.UUID == "" {
		p = s.names.Get(f.Name)
	}
	if p == nil || (f.InTree != "" && !slices.Contains(chosen, p)) {
		return nil
	}
	return []*provider{p}
}
