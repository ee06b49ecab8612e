package engine

// Restore makes the state what a snapshot says. The error matches [ErrInvalid] and names
// what cannot be; the state is then as it was.
func (s *State) Restore(standardTraits []string, snap Snapshot) error {
	fresh := New(standardTraits, snap.Created)
	for _, step := range []func(Snapshot) error{fresh.restoreNames, fresh.restoreProviders, fresh.restoreTrees, fresh.restoreContents, fresh.restoreConsumers} {
		if err := step(snap); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.providers, s.names, s.order, s.trees = fresh.providers, fresh.names, fresh.order, fresh.trees
	s.classes, s.traits, s.aggregates, s.sharing = fresh.classes, fresh.traits, fresh.aggregates, fresh.sharing
	s.consumers, s.nextSeq = fresh.consumers, fresh.nextSeq
	return nil
}

func (s *State) restoreNames(snap Snapshot) error {
	for _, r := range snap.Classes {
		if s.classes.byName[r.Name] != nil || r.Name == "" {
			return refuse(ErrInvalid, "resource class %q is there twice, or has no name", r.Name)
		}
		s.classes.add(r.Name, r.Created).updated = r.Updated
	}
	for _, r := range snap.Traits {
		if s.traits.byName[r.Name] != nil || r.Name == "" {
			return refuse(ErrInvalid, "trait %q is there twice, or has no name", r.Name)
		}
		s.traits.add(r.Name, r.Created)
	}
	return nil
}

// restoreProviders makes the providers without what they have.
func (s *State) restoreProviders(snap Snapshot) error {
	for _, r := range snap.Providers {
		if r.UUID == "" || r.Name == "" || s.providers[r.UUID] != nil || s.names[r.Name] != nil {
			return refuse(ErrInvalid, "resource provider %q %q is there twice, or has no name", r.UUID, r.Name)
		}
		s.nextSeq++
		p := &provider{uuid: r.UUID, name: r.Name, generation: r.Generation, seq: s.nextSeq, traits: s.traits.none, created: r.Created, updated: r.Updated}
		s.traits.none.users++
		s.providers[p.uuid], s.names[p.name] = p, p
		s.order = append(s.order, p)
	}
	return nil
}

// restoreTrees joins the providers.
func (s *State) restoreTrees(snap Snapshot) error {
	roots := 0
	for i, r := range snap.Providers {
		if r.Parent == "" {
			roots++
			continue
		}
		p, parent := s.order[i], s.providers[r.Parent]
		if parent == nil || p.isAncestorOf(parent) {
			return refuse(ErrInvalid, "resource provider %s has the parent %s, which is not there or below it", r.UUID, r.Parent)
		}
		p.parent = parent
		parent.children++
	}
	trees := make(map[*provider]*tree, roots)
	for _, uuid := range snap.Roots {
		root := s.providers[uuid]
		if root == nil || root.parent != nil || trees[root] != nil {
			return refuse(ErrInvalid, "%s is no root, or is there twice", uuid)
		}
		trees[root] = s.plant(root)
	}
	if len(trees) != roots {
		return refuse(ErrInvalid, "%d roots are listed, %d there", len(trees), roots)
	}
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
func (s *State) restoreContents(snap Snapshot) error {
	for i, r := range snap.Providers {
		p := s.order[i]
		traits, err := s.traits.lookup(r.Traits)
		if err != nil {
			return refuse(ErrInvalid, "resource provider %s: %v", r.UUID, err)
		}
		invs := make([]inventory, 0, len(r.Inventories))
		for _, inv := range r.Inventories {
			c := s.classes.byName[inv.Class]
			if c == nil {
				return refuse(ErrInvalid, "resource provider %s: no resource class %q", r.UUID, inv.Class)
			}
			for _, other := range invs {
				if other.class == c {
					return refuse(ErrInvalid, "resource provider %s has two inventories of %s", r.UUID, inv.Class)
				}
			}
			invs = append(invs, newInventory(c, inv.Inventory, 0, inv.Changed))
		}
		s.replaceInventories(p, invs)
		s.changeTraits(p, s.traits.set(traits))
		for _, name := range r.Aggregates {
			s.join(p, name)
		}
	}
	return nil
}

func (s *State) restoreConsumers(snap Snapshot) error {
	for _, r := range snap.Consumers {
		if r.UUID == "" || s.consumers[r.UUID] != nil {
			return refuse(ErrInvalid, "consumer %q is there twice, or has no uuid", r.UUID)
		}
		c := &consumer{uuid: r.UUID, project: r.Project, user: r.User, kind: r.Type, generation: r.Generation, created: r.Created}
		s.consumers[c.uuid] = c
		if err := s.restoreAllocations(c, r.Allocations); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) restoreAllocations(c *consumer, amounts []ProviderAmount) error {
	for _, r := range amounts {
		p, class := s.providers[r.Provider], s.classes.byName[r.Class]
		if p == nil || class == nil || p.inventory(class) == nil || r.Amount < 1 {
			return refuse(ErrInvalid, "consumer %s: an allocation of %s:%d on %s, which has none", c.uuid, r.Class, r.Amount, r.Provider)
		}
		c.allocs = append(c.allocs, allocation{p, class, r.Amount})
		p.inventory(class).used += r.Amount
		if p.consumers == nil {
			p.consumers = make(map[*consumer]struct{}, 1)
		}
		p.consumers[c] = struct{}{}
		s.reroom(p.tree, class, p.traits)
	}
	return nil
}
