package engine

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/internal/collation"
)

// consumer is an owner of allocations. It exists while it has some, and longer where
// Placement leaves one behind (see [Writes.KeepLeftovers]).
type consumer struct {
	uuid          string
	project, user *owner // nil until it is stored
	kind          string // consumer type; empty: none
	generation    int
	allocs        []allocation // in the order in which they were made
	written       int64        // which of all writes made them
	created       time.Time    // of its allocations
}

// owner is a project or a user of consumers. Its id is shown as it was written first.
type owner struct {
	id        string
	consumers int // it exists while it has some
}

// owners are the projects, or the users.
type owners struct{ collation.Map[*owner] }

// add counts a consumer more of an owner.
func (o owners) add(id string) *owner {
	known := o.Get(id)
	if known == nil {
		known = &owner{id: id}
		o.Set(id, known)
	}
	known.consumers++
	return known
}

// remove counts a consumer less of an owner.
func (o owners) remove(known *owner) {
	if known.consumers--; known.consumers == 0 {
		o.Delete(known.id)
	}
}

// keep stores a consumer.
func (s *State) keep(c *consumer, project, user string) {
	s.consumers.Set(c.uuid, c)
	before := *c
	c.project, c.user = s.projects.add(project), s.users.add(user)
	if before.project != nil {
		s.projects.remove(before.project)
		s.users.remove(before.user)
	}
}

// drop removes a consumer that keep has stored.
func (s *State) drop(c *consumer) {
	s.consumers.Delete(c.uuid)
	s.projects.remove(c.project)
	s.users.remove(c.user)
}

type allocation struct {
	provider *provider
	class    *class
	amount   int64
}

// Allocation is an amount of a resource class that a consumer has from a
// provider.
type Allocation struct {
	Consumer, Provider, Class string
	Amount                    int64
}

// Consumer is an owner of allocations.
type Consumer struct {
	UUID, Project, User string
	Type                string // empty: none
	Generation          int
	Created             time.Time // when its allocations were written
	Allocations         []Allocation
}

func (c *consumer) view() Consumer {
	view := Consumer{
		UUID: c.uuid, Project: c.project.id, User: c.user.id, Type: c.kind, Generation: c.generation,
		Created: c.created, Allocations: make([]Allocation, 0, len(c.allocs)),
	}
	for _, a := range c.allocs {
		view.Allocations = append(view.Allocations, Allocation{c.uuid, a.provider.uuid, a.class.name, a.amount})
	}
	return view
}

// ConsumerAllocations returns the allocations of a consumer and the present
// generations of the providers they are on. It reports false for a consumer
// without allocations.
func (s *State) ConsumerAllocations(uuid string) (c Consumer, generations map[string]int, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := s.consumers.Get(uuid)
	if found == nil || len(found.allocs) == 0 {
		return Consumer{}, nil, false
	}
	generations = make(map[string]int, 1)
	for _, a := range found.allocs {
		generations[a.provider.uuid] = a.provider.generation
	}
	return found.view(), generations, true
}

// ConsumerProject is the project of a consumer with allocations, "" for any other.
func (s *State) ConsumerProject(uuid string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.consumers.Get(uuid); c != nil && len(c.allocs) > 0 {
		return c.project.id
	}
	return ""
}

// ProviderAllocations lists the consumers with allocations on a provider, each with its
// allocations on this provider only, and the provider's generation. The order follows the
// service's index: by class and amount, then by creation. The error matches [ErrNotFound].
func (s *State) ProviderAllocations(uuid string) (generation int, consumers []Consumer, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, err := s.find(uuid)
	if err != nil {
		return 0, nil, err
	}
	type share struct {
		consumer *consumer
		allocation
	}
	var shares []share
	for c := range p.consumers {
		for _, a := range c.allocs {
			if a.provider == p {
				shares = append(shares, share{c, a})
			}
		}
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(a.class.id-b.class.id, cmp.Compare(a.amount, b.amount), cmp.Compare(a.consumer.written, b.consumer.written))
	})
	index := make(map[*consumer]int, len(p.consumers))
	for _, a := range shares {
		i, known := index[a.consumer]
		if !known {
			i = len(consumers)
			index[a.consumer] = i
			view := a.consumer.view()
			view.Allocations = nil
			consumers = append(consumers, view)
		}
		consumers[i].Allocations = append(consumers[i].Allocations, Allocation{a.consumer.uuid, p.uuid, a.class.name, a.amount})
	}
	return p.generation, consumers, nil
}

// Consumers lists the consumers with allocations, sorted by uuid.
func (s *State) Consumers() []Consumer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Consumer, 0, s.consumers.Len())
	for c := range s.consumers.Values() {
		if len(c.allocs) > 0 {
			list = append(list, c.view())
		}
	}
	slices.SortFunc(list, func(a, b Consumer) int { return cmp.Compare(a.UUID, b.UUID) })
	return list
}

// UsageGroup sums up what consumers of one type have.
type UsageGroup struct {
	Type      string // empty: without a type
	Consumers int
	Amounts   map[string]int64 // by class
}

// Usages sums up what a project has, or one of its users, per consumer type,
// sorted by type.
func (s *State) Usages(project, user string) []UsageGroup {
	s.mu.RLock()
	defer s.mu.RUnlock()
	groups := make(map[string]*UsageGroup)
	ofProject, ofUser := s.projects.Get(project), s.users.Get(user)
	for c := range s.consumers.Values() {
		if len(c.allocs) == 0 || c.project != ofProject || (user != "" && c.user != ofUser) {
			continue
		}
		g := groups[c.kind]
		if g == nil {
			g = &UsageGroup{Type: c.kind, Amounts: make(map[string]int64)}
			groups[c.kind] = g
		}
		g.Consumers++
		for _, a := range c.allocs {
			g.Amounts[a.class.name] += a.amount
		}
	}
	list := make([]UsageGroup, 0, len(groups))
	for _, kind := range sortedKeys(groups) {
		list = append(list, *groups[kind])
	}
	return list
}

// Claim replaces all allocations of one consumer.
type Claim struct {
	Consumer, Project, User string
	SetType                 bool // Type is set (from microversion 1.38)
	Type                    string
	// CheckGeneration compares Generation (from microversion 1.28); nil means a new consumer.
	CheckGeneration bool
	Generation      *int
	Allocations     []ProviderAmount // none: remove everything
}

// ProviderAmount is an amount of a resource class of one provider.
type ProviderAmount struct {
	Provider, Class string
	Amount          int64
}

// Writes are the options of a write of allocations.
type Writes struct {
	Now time.Time
	// KeepLeftovers imitates the service: a first write that names an unknown
	// provider, or that is empty, leaves a consumer with generation 0.
	KeepLeftovers bool
	// Capacity is how the use of an inventory is compared with its capacity.
	Capacity Capacity
}

// Capacity is how a write of allocations compares the use of an inventory with its capacity.
type Capacity int

const (
	// CapacityNotExceeded refuses a use beyond the capacity, unless the write lowers it.
	CapacityNotExceeded Capacity = iota
	// CapacityKept refuses any use beyond the capacity, also a lower one than before.
	CapacityKept
	// CapacityChecked refuses none: [State.Fits] compared it before.
	CapacityChecked
)

// exceeded reports whether an inventory has no room for a change.
func (c Capacity) exceeded(inv *inventory, ch change) bool {
	return c != CapacityChecked && inv.used-ch.freed+ch.taken > inv.limit && (c == CapacityKept || ch.taken > ch.freed)
}

// generation is the claim's generation as texts name it.
func (c Claim) generation() string {
	if c.Generation == nil {
		return "None"
	}
	return strconv.Itoa(*c.Generation)
}

// checkGeneration refuses a claim whose consumer generation is not the present one.
func (s *State) checkGeneration(claim Claim) error {
	if !claim.CheckGeneration {
		return nil
	}
	known, given := s.consumers.Get(claim.Consumer), claim.generation()
	switch {
	case known == nil && claim.Generation != nil:
		return refuse(ErrConcurrentUpdate, "consumer generation conflict - expected null but got %s", given)
	case known != nil && (claim.Generation == nil || *claim.Generation != known.generation):
		return refuse(ErrConcurrentUpdate, "consumer generation conflict - expected %d but got %s", known.generation, given)
	}
	return nil
}
