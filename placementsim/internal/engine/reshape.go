package engine

import "slices"

// Reshape moves inventories and allocations in one step.
type Reshape struct {
	Inventories []ReshapeInventory
	Claims      []Claim
}

// ReshapeInventory is the new set of inventories of one provider.
type ReshapeInventory struct {
	Provider    string
	Generation  int
	Inventories map[string]Inventory // by class
}

// reshaped is a provider of a reshape with its inventories in between, the old
// classes and the new ones, and after.
type reshaped struct {
	provider       *provider
	interim, final []inventory
}

// Reshape replaces the inventories of providers and the allocations of
// consumers, all or nothing. The new allocations are checked while the
// providers have their old classes together with the new ones. The error
// matches [ErrNotFound] for a provider of the inventories, [ErrUnknownProvider]
// for one of the allocations, [ErrConcurrentUpdate], [ErrUnknownClass],
// [ErrInventoryInUse] or [ErrConflict].
func (s *State) Reshape(r Reshape, w Writes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkReshaped(r.Inventories); err != nil {
		return err
	}
	pl, err := s.plan(r.Claims, w)
	if err != nil {
		return err
	}
	changes, over, err := s.planInventories(r.Inventories, w)
	if err != nil {
		return err
	}
	if err := pl.check(over); err != nil {
		return err
	}
	for _, change := range changes {
		if err := pl.checkFinal(change); err != nil {
			return err
		}
	}
	for _, change := range changes {
		pl.reshaped = append(pl.reshaped, change.provider)
	}
	defer watch(s, (*State).addPlanRows, pl)()
	for _, change := range changes {
		if len(change.final) > 0 {
			s.replaceInventories(change.provider, change.interim)
			change.provider.bump(w.Now)
		}
	}
	s.apply(pl, w)
	for _, change := range changes {
		s.finish(change)
		change.provider.bump(w.Now)
	}
	return nil
}

// finish sets the new inventories of a provider.
func (s *State) finish(change reshaped) {
	for i := range change.final {
		change.final[i].used = change.provider.inventory(change.final[i].class).used
	}
	s.replaceInventories(change.provider, change.final)
}

// checkReshaped checks the providers of the inventories. As in Placement, it comes before
// the check of the claims, and the classes come after.
func (s *State) checkReshaped(list []ReshapeInventory) error {
	for _, item := range list {
		p := s.providers.Get(item.Provider)
		if p == nil {
			return refuse(ErrNotFound, "Resource provider %s in inventories not found: No resource provider with uuid %s found", item.Provider, item.Provider)
		}
		if p.generation != item.Generation {
			return refuse(ErrConcurrentUpdate, "resource provider generation conflict for provider %s: actual: %d, given: %d", p.uuid, p.generation, item.Generation)
		}
	}
	return nil
}

// planInventories builds what checked providers have in between and after. A
// provider that loses everything keeps what it has in between.
func (s *State) planInventories(list []ReshapeInventory, w Writes) ([]reshaped, overlay, error) {
	over := make(overlay, len(list))
	changes := make([]reshaped, 0, len(list))
	for _, item := range list {
		p := s.providers.Get(item.Provider)
		if slices.ContainsFunc(changes, func(other reshaped) bool { return other.provider == p }) { // in another spelling
			return nil, nil, refuse(ErrConcurrentUpdate, "update conflict: Another thread concurrently updated the resource provider data. Please retry your update")
		}
		final, err := s.newInventories(p, item.Inventories, w.Now)
		if err != nil {
			return nil, nil, err
		}
		interim := slices.Clone(final)
		for _, old := range p.invs {
			if inventoryOf(final, old.class) == nil {
				interim = append(interim, old)
			}
		}
		if len(final) > 0 {
			over[p] = interim
		}
		changes = append(changes, reshaped{p, interim, final})
	}
	return changes, over, nil
}

// checkFinal refuses to remove an inventory that will still have allocations.
func (pl *plan) checkFinal(r reshaped) error {
	var inUse []string
	for _, old := range r.provider.invs {
		if inventoryOf(r.final, old.class) != nil {
			continue
		}
		if ch := pl.changeOf(r.provider, old.class); old.used+ch.taken-ch.freed > 0 {
			inUse = append(inUse, old.class.name)
		}
	}
	if inUse == nil {
		return nil
	}
	return inventoryInUse(ErrInventoryInUse, r.provider, inUse)
}
