package engine

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// Inspection is a provider with all it has.
type Inspection struct {
	Provider
	Inventories []ClassInventory // in class order
	Traits      []string         // in creation order, the standard ones first
	NewestTrait time.Time        // when the newest of the traits was created
	Aggregates  []string         // in the order they were set
}

func (p *provider) inspect() Inspection {
	view := Inspection{
		Provider: p.view(), Inventories: make([]ClassInventory, 0, len(p.invs)),
		Traits: slices.Clone(p.traits.names), Aggregates: p.aggregateUUIDs(),
	}
	for i := range p.invs {
		view.Inventories = append(view.Inventories, p.invs[i].view())
	}
	for _, tr := range p.traits.traits {
		if tr.created.After(view.NewestTrait) {
			view.NewestTrait = tr.created
		}
	}
	return view
}

// Inspect returns one provider with all it has, or an error that matches
// [ErrNotFound].
func (s *State) Inspect(uuid string) (Inspection, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, err := s.find(uuid)
	if err != nil {
		return Inspection{}, err
	}
	return p.inspect(), nil
}

// InspectAll returns all providers with all they have, in creation order.
func (s *State) InspectAll() []Inspection {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Inspection, 0, len(s.order))
	for _, p := range s.order {
		list = append(list, p.inspect())
	}
	return list
}

// Trees returns trees in creation order, each with its providers in creation order: those
// with a provider whose name or uuid contains a text, without the first skip of them and at
// most limit. Matching is how many there are in all.
func (s *State) Trees(text string, skip, limit int) (trees [][]Inspection, matching int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for t := range s.treesWith(text) {
		matching++
		if matching <= skip || len(trees) == limit {
			continue
		}
		tree := make([]Inspection, 0, len(t.members))
		for _, p := range t.members {
			tree = append(tree, p.inspect())
		}
		trees = append(trees, tree)
	}
	return trees, matching
}

// treesWith yields the trees that have a provider whose name or uuid contains a text.
func (s *State) treesWith(text string) iter.Seq[*tree] {
	named := func(p *provider) bool { return strings.Contains(p.name, text) || strings.Contains(p.uuid, text) }
	return func(yield func(*tree) bool) {
		for _, t := range s.trees.trees {
			if t != nil && (text == "" || slices.ContainsFunc(t.members, named)) && !yield(t) {
				return
			}
		}
	}
}

// Totals adds up, by class, the totals, the reserved and the used units of the trees that [State.Trees] finds.
func (s *State) Totals(text string) map[string]ClassInventory {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sums := make(map[*class]ClassInventory)
	for t := range s.treesWith(text) {
		for _, p := range t.members {
			for i := range p.invs {
				inv := &p.invs[i]
				sum := sums[inv.class]
				sum.Total, sum.Reserved, sum.Used = sum.Total+inv.Total, sum.Reserved+inv.Reserved, sum.Used+inv.used
				sums[inv.class] = sum
			}
		}
	}
	totals := make(map[string]ClassInventory, len(sums))
	for c, sum := range sums {
		sum.Class = c.name
		totals[c.name] = sum
	}
	return totals
}

// change changes one provider and returns the result. A change that returns an error must not
// have changed anything. The error matches [ErrNotFound], or is the error of the change.
func (s *State) change(uuid string, change func(*provider) error) (Inspection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(uuid)
	if err != nil {
		return Inspection{}, err
	}
	defer watch(s, (*State).addProviderRows, uuid)()
	if err := change(p); err != nil {
		return Inspection{}, err
	}
	return p.inspect(), nil
}

// expect refuses a generation that is given and not the present one.
func (p *provider) expect(generation *int, text string) error {
	if generation != nil && *generation != p.generation {
		return refuse(ErrConcurrentUpdate, "%s", text)
	}
	return nil
}
