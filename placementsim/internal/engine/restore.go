package engine

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/gocyborg/gocyborg/sim"
)

// Restore returns the function that replaces the state with a list of rows, each in the After of
// a change and as a pointer of [NewRow]. The error matches [ErrInvalid] and names the row that is
// wrong, missing or contradictory.
func (s *State) Restore(standardTraits []string, list []sim.RecordChange) (commit func(), err error) {
	sequences, err := sequencesOf(list)
	if err != nil {
		return nil, err
	}
	fresh := New(standardTraits, s.key, sequences.Created)
	for _, step := range []func([]sim.RecordChange, *SequencesRow) error{
		fresh.restoreNames, fresh.restoreProviders, fresh.restoreTrees, fresh.restoreContents, fresh.restoreConsumers,
	} {
		if err := step(list, sequences); err != nil {
			return nil, err
		}
	}
	now := fresh.Rows()
	for _, c := range list {
		if i, ok := slices.BinarySearchFunc(now, c, byPlace); !ok || !reflect.DeepEqual(now[i].After, reflect.ValueOf(c.After).Elem().Interface()) {
			return nil, invalidRow(c, "the key does not belong to the row, or other rows contradict it")
		}
	}
	if len(list) != len(now) {
		return nil, refuse(ErrInvalid, "a row is there twice")
	}
	return func() { s.replace(fresh, now) }, nil
}

// replace makes a state, whose rows are given, the current one.
func (s *State) replace(fresh *State, now []sim.RecordChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening() {
		defer s.publish(s.allRows().changes(now))
	}
	s.providers, s.names, s.order, s.trees = fresh.providers, fresh.names, fresh.order, fresh.trees
	s.classes, s.traits, s.aggregates, s.sharing = fresh.classes, fresh.traits, fresh.aggregates, fresh.sharing
	s.consumers, s.projects, s.users, s.nextSeq, s.created = fresh.consumers, fresh.projects, fresh.users, fresh.nextSeq, fresh.created
}

func invalidRow(c sim.RecordChange, format string, args ...any) error {
	return refuse(ErrInvalid, "%s %s: %s", c.Table, c.Key, fmt.Sprintf(format, args...))
}

// rowsOf iterates over the rows of a table with their changes, ordered by id.
func rowsOf[R any](list []sim.RecordChange, table string, id func(*R) int64) iter.Seq2[sim.RecordChange, *R] {
	return func(yield func(sim.RecordChange, *R) bool) {
		var changes []sim.RecordChange
		for _, c := range list {
			if c.Table == table {
				changes = append(changes, c)
			}
		}
		slices.SortStableFunc(changes, func(a, b sim.RecordChange) int { return cmp.Compare(id(a.After.(*R)), id(b.After.(*R))) })
		for _, c := range changes {
			if !yield(c, c.After.(*R)) {
				return
			}
		}
	}
}

func unordered[R any](*R) int64 { return 0 }

func sequencesOf(list []sim.RecordChange) (*SequencesRow, error) {
	var found *SequencesRow
	for row, r := range rowsOf(list, tableSequences, unordered[SequencesRow]) {
		if found != nil {
			return nil, invalidRow(row, "it is there twice")
		}
		found = r
		for _, last := range []int64{r.Providers, r.Trees, r.Classes, r.Traits} {
			if last < 0 || last > 9_999_999_999 {
				return nil, invalidRow(row, "the number %d is out of range", last)
			}
		}
	}
	if found == nil {
		return nil, refuse(ErrInvalid, "%s %s is missing", tableSequences, sequencesKey)
	}
	found.Created = stamp(found.Created)
	return found, nil
}

// checkID refuses an ID that is not in the range of its sequence.
func checkID(c sim.RecordChange, id, last int64) error {
	if id < 1 || id > last {
		return invalidRow(c, "the number %d is not one of 1 to %d", id, last)
	}
	return nil
}

func (s *State) restoreNames(list []sim.RecordChange, last *SequencesRow) error {
	for row, r := range rowsOf(list, tableClasses, func(r *NameRow) int64 { return r.ID }) {
		r.Created, r.Updated = stamp(r.Created), stamp(r.Updated)
		if err := checkID(row, r.ID, last.Classes); err != nil {
			return err
		}
		if s.classes.byName[r.Name] != nil || r.Name == "" {
			return invalidRow(row, "resource class %q is there twice, or has no name", r.Name)
		}
		c := s.classes.add(r.Name, r.Created)
		c.id, c.updated = len(StandardClasses())+int(r.ID)-1, r.Updated
	}
	s.classes.nextID = len(StandardClasses()) + int(last.Classes)
	for row, r := range rowsOf(list, tableNames, func(r *NameRow) int64 { return r.ID }) {
		r.Created = stamp(r.Created)
		if err := checkID(row, r.ID, last.Traits); err != nil {
			return err
		}
		if s.traits.byName[r.Name] != nil || r.Name == "" {
			return invalidRow(row, "trait %q is there twice, or has no name", r.Name)
		}
		s.traits.add(r.Name, r.Created).seq = s.traits.standard + int(r.ID)
	}
	s.traits.seq = s.traits.standard + int(last.Traits)
	return nil
}

// restoreProviders makes the providers without what they have.
func (s *State) restoreProviders(list []sim.RecordChange, last *SequencesRow) error {
	for row, r := range rowsOf(list, tableProviders, func(r *ProviderRow) int64 { return r.ID }) {
		r.Created, r.Updated = stamp(r.Created), stamp(r.Updated)
		if err := checkID(row, r.ID, last.Providers); err != nil {
			return err
		}
		if r.UUID == "" || s.providers.Get(r.UUID) != nil || s.names.Get(r.Name) != nil { // PUT takes an empty name
			return invalidRow(row, "resource provider %q %q is there twice, or has no uuid", r.UUID, r.Name)
		}
		p := &provider{uuid: r.UUID, name: r.Name, generation: r.Generation, seq: r.ID, traits: s.traits.none, created: r.Created, updated: r.Updated}
		s.traits.none.users++
		s.providers.Set(p.uuid, p)
		s.names.Set(p.name, p)
		s.order = append(s.order, p)
	}
	s.nextSeq = last.Providers
	return nil
}

// restoreTrees joins the providers.
func (s *State) restoreTrees(list []sim.RecordChange, last *SequencesRow) error {
	for row, r := range rowsOf(list, tableProviders, func(r *ProviderRow) int64 { return r.ID }) {
		if r.Parent == "" {
			continue
		}
		p, parent := s.providers.Get(r.UUID), s.providers.Get(r.Parent)
		if parent == nil || p.isAncestorOf(parent) {
			return invalidRow(row, "the parent %s does not exist or is below the provider", r.Parent)
		}
		p.parent = parent
		parent.children++
	}
	trees := make(map[*provider]*tree)
	for row, r := range rowsOf(list, tableProviders, func(r *ProviderRow) int64 { return r.Tree }) {
		if r.Parent != "" {
			continue
		}
		if err := checkID(row, r.Tree, last.Trees); err != nil {
			return err
		}
		if r.Tree == s.trees.newest {
			return invalidRow(row, "tree %d has two roots", r.Tree)
		}
		s.trees.newest = r.Tree - 1
		trees[s.providers.Get(r.UUID)] = s.newTree(s.providers.Get(r.UUID))
	}
	s.trees.newest = last.Trees
	for _, p := range s.order {
		root := p
		for root.parent != nil {
			root = root.parent
		}
		s.attach(p, trees[root])
	}
	return nil
}

// restoreContents gives the providers what they have.
func (s *State) restoreContents(list []sim.RecordChange, _ *SequencesRow) error {
	inventories := make(map[*provider][]inventory)
	for row, r := range rowsOf(list, tableInventories, unordered[InventoryRow]) {
		r.Updated = stamp(r.Updated)
		p, c := s.providers.Get(r.Provider), s.classes.byName[r.Class]
		if p == nil || c == nil {
			return invalidRow(row, "there is no resource provider %q or no resource class %q", r.Provider, r.Class)
		}
		if inventoryOf(inventories[p], c) != nil {
			return invalidRow(row, "there are two inventories of %s", r.Class)
		}
		spec := Inventory{r.Total, r.Reserved, r.MinUnit, r.MaxUnit, r.StepSize, r.AllocationRatio}
		inventories[p] = append(inventories[p], newInventory(c, spec, 0, r.Updated))
	}
	for p, invs := range inventories {
		s.replaceInventories(p, invs)
	}
	for row, r := range rowsOf(list, tableTraits, unordered[TraitsRow]) {
		p := s.providers.Get(r.Provider)
		named, err := s.lookupTraits(r.Traits)
		if p == nil || err != nil {
			return invalidRow(row, "there is no resource provider %q or none of the traits %q", r.Provider, r.Traits)
		}
		if s.changeTraits(p, s.traits.set(named)); len(p.traits.names) == len(r.Traits) {
			r.Traits = p.traits.names // in the engine's order
		}
	}
	for row, r := range rowsOf(list, tableAggregates, unordered[AggregatesRow]) {
		p := s.providers.Get(r.Provider)
		if p == nil || len(p.aggregates) > 0 {
			return invalidRow(row, "there is no resource provider %q, or two rows", r.Provider)
		}
		for _, name := range r.Aggregates {
			s.join(p, name)
		}
		if len(p.aggregates) == len(r.Aggregates) {
			r.Aggregates = p.aggregateUUIDs() // as they were written first
		}
	}
	return nil
}

func (s *State) restoreConsumers(list []sim.RecordChange, _ *SequencesRow) error {
	for row, r := range rowsOf(list, tableConsumers, unordered[ConsumerRow]) {
		r.Created = stamp(r.Created)
		if r.UUID == "" || s.consumers.Get(r.UUID) != nil {
			return invalidRow(row, "consumer %q is there twice, or has no uuid", r.UUID)
		}
		c := &consumer{uuid: r.UUID, kind: r.Type, generation: r.Generation, created: r.Created}
		s.keep(c, r.Project, r.User)
		r.Project, r.User = c.project.id, c.user.id
	}
	for row, r := range rowsOf(list, tableAllocations, func(r *AllocationRow) int64 { return r.Position }) {
		c, p, class := s.consumers.Get(r.Consumer), s.providers.Get(r.Provider), s.classes.byName[r.Class]
		if c == nil || p == nil || class == nil || p.inventory(class) == nil || r.Amount < 1 {
			return invalidRow(row, "%s has %s:%d of %s: there is no such consumer or inventory", r.Consumer, r.Class, r.Amount, r.Provider)
		}
		a := allocation{p, class, r.Amount}
		r.Position = int64(len(c.allocs)) // listings of other clouds and older states have none
		c.allocs = append(c.allocs, a)
		a.serve(c)
		s.updateRoom(p.tree, class, p.traits)
	}
	s.countWrites()
	return nil
}

// countWrites orders the writes of allocations by their times.
func (s *State) countWrites() {
	consumers := slices.SortedFunc(s.consumers.Values(), func(a, b *consumer) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.uuid, b.uuid))
	})
	for _, c := range consumers {
		s.writes++
		c.written = s.writes
	}
}
