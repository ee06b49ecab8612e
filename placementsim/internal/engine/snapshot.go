package engine

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is everything that a State knows, as values: what is standard is left out.
type Snapshot struct {
	Created   time.Time // of what is standard
	Classes   []ClassRecord
	Traits    []Trait // in creation order
	Roots     []string
	Providers []ProviderRecord
	Consumers []ConsumerRecord
}

// ClassRecord is a custom resource class. Updated is zero until it was renamed.
type ClassRecord struct {
	Name             string
	Created, Updated time.Time
}

// ProviderRecord is a provider, in creation order in a snapshot. Roots, beside, has the
// roots in the order in which their trees came to be.
type ProviderRecord struct {
	UUID, Name, Parent string
	Generation         int
	Inventories        []InventoryRecord
	Traits, Aggregates []string
	Created, Updated   time.Time
}

// InventoryRecord is an inventory and when it was written.
type InventoryRecord struct {
	Class string
	Inventory
	Changed time.Time
}

// ConsumerRecord is a consumer; one that the service left behind has no allocations.
type ConsumerRecord struct {
	UUID, Project, User, Type string
	Generation                int
	Created                   time.Time
	Allocations               []ProviderAmount
}

// Snapshot returns what the state knows now. Two snapshots of one state are equal, and so
// are those of a state and of one restored from its snapshot.
func (s *State) Snapshot() Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap := Snapshot{}
	classes := sortedBy(s.classes.byName, func(a, b *class) int { return cmp.Compare(a.id, b.id) })
	for _, c := range classes {
		if c.standard {
			snap.Created = c.created
			continue
		}
		snap.Classes = append(snap.Classes, ClassRecord{c.name, c.created, c.updated})
	}
	for _, tr := range sortedBy(s.traits.byName, func(a, b *trait) int { return cmp.Compare(a.seq, b.seq) }) {
		if !tr.standard {
			snap.Traits = append(snap.Traits, Trait{tr.name, tr.created})
		}
	}
	for _, t := range s.trees.trees {
		if t != nil {
			snap.Roots = append(snap.Roots, t.root.uuid)
		}
	}
	for _, p := range s.order {
		snap.Providers = append(snap.Providers, p.record())
	}
	for _, uuid := range sortedKeys(s.consumers) {
		snap.Consumers = append(snap.Consumers, s.consumers[uuid].record())
	}
	return snap
}

func sortedBy[T any](values map[string]T, compare func(a, b T) int) []T {
	list := make([]T, 0, len(values))
	for _, v := range values {
		list = append(list, v)
	}
	slices.SortFunc(list, compare)
	return list
}

func (p *provider) record() ProviderRecord {
	r := ProviderRecord{
		UUID: p.uuid, Name: p.name, Generation: p.generation,
		Traits: slices.Clone(p.traits.names), Aggregates: p.aggregatesView().UUIDs, Created: p.created, Updated: p.updated,
	}
	if p.parent != nil {
		r.Parent = p.parent.uuid
	}
	for _, inv := range p.invs {
		r.Inventories = append(r.Inventories, InventoryRecord{inv.class.name, inv.Inventory, inv.changed})
	}
	return r
}

func (c *consumer) record() ConsumerRecord {
	r := ConsumerRecord{UUID: c.uuid, Project: c.project, User: c.user, Type: c.kind, Generation: c.generation, Created: c.created}
	for _, a := range c.allocs {
		r.Allocations = append(r.Allocations, ProviderAmount{Provider: a.provider.uuid, Class: a.class.name, Amount: a.amount})
	}
	return r
}
