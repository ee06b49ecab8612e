package engine

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/gocyborg/gocyborg/sim"
)

// Restore makes the state that of a list of rows, each in the After of a change and as a
// pointer of [NewRow]. The error matches [ErrInvalid] and names a row that is wrong, missing
// or in a contradiction; the state is then as it was.
func (s *State) Restore(standardTraits []string, list []sim.RecordChange) error {
	sequences, err := theSequences(list)
	if err != nil {
		return err
	}
	fresh := New(standardTraits, sequences.Created)
	for _, step := range []func([]sim.RecordChange, *SequencesRow) error{
		fresh.restoreNames, fresh.restoreProviders, fresh.restoreTrees, fresh.restoreContents, fresh.restoreConsumers,
	} {
		if err := step(list, sequences); err != nil {
			return err
		}
	}
	now := fresh.allRows()
	for _, c := range list {
		if made, ok := now[rowPlace{c.Table, c.Key}]; !ok || !reflect.DeepEqual(made.After, reflect.ValueOf(c.After).Elem().Interface()) {
			return wrong(c, "the key does not belong to the row, or other rows contradict it")
		}
	}
	if len(list) != len(now) {
		return refuse(ErrInvalid, "a row is there twice")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening() {
		defer s.publish(s.allRows().changes(now))
	}
	s.providers, s.names, s.order, s.trees = fresh.providers, fresh.names, fresh.order, fresh.trees
	s.classes, s.traits, s.aggregates, s.sharing = fresh.classes, fresh.traits, fresh.aggregates, fresh.sharing
	s.consumers, s.nextSeq, s.created = fresh.consumers, fresh.nextSeq, fresh.created
	return nil
}

func wrong(c sim.RecordChange, format string, args ...any) error {
	return refuse(ErrInvalid, "%s %s: %s", c.Table, c.Key, fmt.Sprintf(format, args...))
}

// rowsOf returns the rows of a type with their changes, ordered by id.
func rowsOf[R any](list []sim.RecordChange, table string, id func(*R) int64) (changes []sim.RecordChange, found []*R) {
	for _, c := range list {
		if c.Table == table {
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b sim.RecordChange) int { return cmp.Compare(id(a.After.(*R)), id(b.After.(*R))) })
	for _, c := range changes {
		found = append(found, c.After.(*R))
	}
	return changes, found
}

func unordered[R any](*R) int64 { return 0 }

func theSequences(list []sim.RecordChange) (*SequencesRow, error) {
	_, found := rowsOf(list, tableSequences, unordered[SequencesRow])
	if len(found) != 1 {
		return nil, refuse(ErrInvalid, "%s %s is missing or there twice", tableSequences, sequencesKey)
	}
	for _, last := range []int64{found[0].Providers, found[0].Trees, found[0].Classes, found[0].Traits} {
		if last < 0 || last > 9_999_999_999 {
			return nil, refuse(ErrInvalid, "%s %s: the number %d is out of range", tableSequences, sequencesKey, last)
		}
	}
	found[0].Created = stamp(found[0].Created)
	return found[0], nil
}

// outside refuses an ID that its sequence has not given.
func outside(c sim.RecordChange, id, last int64) error {
	if id < 1 || id > last {
		return wrong(c, "the number %d is not one of 1 to %d", id, last)
	}
	return nil
}

func (s *State) restoreNames(list []sim.RecordChange, last *SequencesRow) error {
	changes, classes := rowsOf(list, tableClasses, func(r *NameRow) int64 { return r.ID })
	for i, r := range classes {
		r.Created, r.Updated = stamp(r.Created), stamp(r.Updated)
		if err := outside(changes[i], r.ID, last.Classes); err != nil {
			return err
		}
		if s.classes.byName[r.Name] != nil || r.Name == "" {
			return wrong(changes[i], "resource class %q is there twice, or has no name", r.Name)
		}
		c := s.classes.add(r.Name, r.Created)
		c.id, c.updated = len(StandardClasses())+int(r.ID)-1, r.Updated
	}
	s.classes.nextID = len(StandardClasses()) + int(last.Classes)
	changes, traits := rowsOf(list, tableNames, func(r *NameRow) int64 { return r.ID })
	for i, r := range traits {
		r.Created = stamp(r.Created)
		if err := outside(changes[i], r.ID, last.Traits); err != nil {
			return err
		}
		if s.traits.byName[r.Name] != nil || r.Name == "" {
			return wrong(changes[i], "trait %q is there twice, or has no name", r.Name)
		}
		s.traits.add(r.Name, r.Created).seq = s.traits.standard + int(r.ID)
	}
	s.traits.seq = s.traits.standard + int(last.Traits)
	return nil
}

// restoreProviders makes the providers without what they have.
func (s *State) restoreProviders(list []sim.RecordChange, last *SequencesRow) error {
	changes, rows := rowsOf(list, tableProviders, func(r *ProviderRow) int64 { return r.ID })
	for i, r := range rows {
		r.Created, r.Updated = stamp(r.Created), stamp(r.Updated)
		if err := outside(changes[i], r.ID, last.Providers); err != nil {
			return err
		}
		if r.UUID == "" || r.Name == "" || s.providers[r.UUID] != nil || s.names[r.Name] != nil {
			return wrong(changes[i], "resource provider %q %q is there twice, or has no name", r.UUID, r.Name)
		}
		p := &provider{uuid: r.UUID, name: r.Name, generation: r.Generation, seq: r.ID, traits: s.traits.none, created: r.Created, updated: r.Updated}
		s.traits.none.users++
		s.providers[p.uuid], s.names[p.name] = p, p
		s.order = append(s.order, p)
	}
	s.nextSeq = last.Providers
	return nil
}

// restoreTrees joins the providers.
func (s *State) restoreTrees(list []sim.RecordChange, last *SequencesRow) error {
	changes, rows := rowsOf(list, tableProviders, func(r *ProviderRow) int64 { return r.ID })
	for i, r := range rows {
		if r.Parent == "" {
			continue
		}
		p, parent := s.providers[r.UUID], s.providers[r.Parent]
		if parent == nil || p.isAncestorOf(parent) {
			return wrong(changes[i], "the parent %s does not exist or is below the provider", r.Parent)
		}
		p.parent = parent
		parent.children++
	}
	changes, rows = rowsOf(list, tableProviders, func(r *ProviderRow) int64 { return r.Tree })
	trees := make(map[*provider]*tree)
	for i, r := range rows {
		if r.Parent != "" {
			continue
		}
		if err := outside(changes[i], r.Tree, last.Trees); err != nil {
			return err
		}
		if r.Tree == s.trees.planted {
			return wrong(changes[i], "tree %d has two roots", r.Tree)
		}
		s.trees.planted = r.Tree - 1
		trees[s.providers[r.UUID]] = s.newTree(s.providers[r.UUID])
	}
	s.trees.planted = last.Trees
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
	changes, rows := rowsOf(list, tableInventories, unordered[InventoryRow])
	for i, r := range rows {
		r.Updated = stamp(r.Updated)
		p, c := s.providers[r.Provider], s.classes.byName[r.Class]
		if p == nil || c == nil {
			return wrong(changes[i], "there is no resource provider %q or no resource class %q", r.Provider, r.Class)
		}
		if hasClass(inventories[p], c) {
			return wrong(changes[i], "there are two inventories of %s", r.Class)
		}
		spec := Inventory{r.Total, r.Reserved, r.MinUnit, r.MaxUnit, r.StepSize, r.AllocationRatio}
		inventories[p] = append(inventories[p], newInventory(c, spec, 0, r.Updated))
	}
	for p, invs := range inventories {
		s.replaceInventories(p, invs)
	}
	changes, traits := rowsOf(list, tableTraits, unordered[TraitsRow])
	for i, r := range traits {
		p := s.providers[r.Provider]
		named, err := s.traits.lookup(r.Traits)
		if p == nil || err != nil {
			return wrong(changes[i], "there is no resource provider %q or none of the traits %q", r.Provider, r.Traits)
		}
		if s.changeTraits(p, s.traits.set(named)); len(p.traits.names) == len(r.Traits) {
			r.Traits = p.traits.names // in the engine's order
		}
	}
	changes, aggregates := rowsOf(list, tableAggregates, unordered[AggregatesRow])
	for i, r := range aggregates {
		p := s.providers[r.Provider]
		if p == nil || len(p.aggregates) > 0 {
			return wrong(changes[i], "there is no resource provider %q, or two rows", r.Provider)
		}
		for _, name := range r.Aggregates {
			s.join(p, name)
		}
	}
	return nil
}

func (s *State) restoreConsumers(list []sim.RecordChange, _ *SequencesRow) error {
	changes, rows := rowsOf(list, tableConsumers, unordered[ConsumerRow])
	for i, r := range rows {
		r.Created = stamp(r.Created)
		if r.UUID == "" || s.consumers[r.UUID] != nil {
			return wrong(changes[i], "consumer %q is there twice, or has no uuid", r.UUID)
		}
		s.consumers[r.UUID] = &consumer{uuid: r.UUID, project: r.Project, user: r.User, kind: r.Type, generation: r.Generation, created: r.Created}
	}
	changes, allocations := rowsOf(list, tableAllocations, unordered[AllocationRow])
	for i, r := range allocations {
		c, p, class := s.consumers[r.Consumer], s.providers[r.Provider], s.classes.byName[r.Class]
		if c == nil || p == nil || class == nil || p.inventory(class) == nil || r.Amount < 1 {
			return wrong(changes[i], "%s has %s:%d of %s: there is no such consumer or inventory", r.Consumer, r.Class, r.Amount, r.Provider)
		}
		c.allocs = append(c.allocs, allocation{p, class, r.Amount})
		p.inventory(class).used += r.Amount
		if p.consumers == nil {
			p.consumers = make(map[*consumer]struct{}, 1)
		}
		p.consumers[c] = struct{}{}
		s.updateRoom(p.tree, class, p.traits)
	}
	for _, c := range s.consumers {
		sortAllocations(c.allocs)
	}
	return nil
}
