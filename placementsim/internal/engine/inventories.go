package engine

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Inventory is how much of a resource class a provider has.
type Inventory struct {
	Total, Reserved            int
	MinUnit, MaxUnit, StepSize int
	AllocationRatio            float64
}

// Capacity is the allocatable amount, (total - reserved) * allocation_ratio
// without its fraction.
func (i Inventory) Capacity() float64 {
	return math.Trunc(i.real()) + 0 // no negative zero
}

// real is the capacity with its fraction.
func (i Inventory) real() float64 {
	return float64(i.Total-i.Reserved) * i.AllocationRatio
}

// inventory is an Inventory in its place.
type inventory struct {
	Inventory
	class   *class
	used    int64
	limit   int64 // the greatest sum of amounts that fits
	changed time.Time
}

// maxLimit keeps sums of amounts far from overflow.
const maxLimit = math.MaxInt64 / 4

func newInventory(c *class, spec Inventory, used int64, now time.Time) inventory {
	limit := int64(-maxLimit)
	switch capacity := math.Floor(spec.real()); {
	case capacity >= maxLimit:
		limit = maxLimit
	case capacity > -maxLimit:
		limit = int64(capacity)
	}
	return inventory{Inventory: spec, class: c, used: used, limit: limit, changed: now}
}

// allowed reports whether the amount respects the units.
func (i *inventory) allowed(n int64) bool {
	return n >= int64(i.MinUnit) && n <= int64(i.MaxUnit) && n%int64(max(i.StepSize, 1)) == 0
}

// fits reports whether the amount can be allocated now.
func (i *inventory) fits(n int64) bool {
	return i.allowed(n) && i.used+n <= i.limit
}

// room is the greatest amount that might fit.
func (i *inventory) room() int64 {
	room := min(i.limit-i.used, int64(i.MaxUnit))
	if room < int64(i.MinUnit) {
		return 0
	}
	return max(room, 0)
}

// inventory returns the provider's inventory of a class, or nil.
func (p *provider) inventory(c *class) *inventory { return inventoryOf(p.invs, c) }

func inventoryOf(invs []inventory, c *class) *inventory {
	for i := range invs {
		if invs[i].class == c {
			return &invs[i]
		}
	}
	return nil
}

// fits reports whether the provider can give the amount now.
func (p *provider) fits(a classAmount) bool {
	inv := p.inventory(a.class)
	return inv != nil && inv.fits(a.amount)
}

// ClassInventory is an inventory with its class.
type ClassInventory struct {
	Class string
	Inventory
	Used    int64
	Changed time.Time // when it was last written
}

func (i *inventory) view() ClassInventory {
	return ClassInventory{i.class.name, i.Inventory, i.used, i.changed}
}

// InventoryWrite are the options of a write of inventories.
type InventoryWrite struct {
	AllowFull bool // reserved may equal total (from microversion 1.26)
	Now       time.Time
}

// check refuses an inventory without capacity.
func (w InventoryWrite) check(uuid, className string, spec Inventory) error {
	switch capacity := spec.Capacity(); {
	case w.AllowFull && capacity < 0:
		return refuse(ErrCapacity, "Invalid inventory for '%s' on resource provider '%s'. The reserved value is greater than total.", className, uuid)
	case !w.AllowFull && capacity <= 0:
		return refuse(ErrCapacity, "Invalid inventory for '%s' on resource provider '%s'. The reserved value is greater than or equal to total.", className, uuid)
	}
	return nil
}

// AddInventory gives a provider an inventory of one more class. The error matches
// [ErrNotFound], [ErrCapacity], [ErrUnknownClass], or [ErrConcurrentUpdate] when it
// has one of the class.
func (s *State) AddInventory(uuid, className string, spec Inventory, w InventoryWrite) (Inspection, error) {
	return s.change(uuid, func(p *provider) error {
		if err := w.check(uuid, className, spec); err != nil {
			return err
		}
		c, err := s.classes.lookup(className)
		if err != nil {
			return err
		}
		if p.inventory(c) != nil {
			return refuse(ErrConcurrentUpdate, "Update conflict: resource provider %s already has an inventory of %s", uuid, className)
		}
		s.replaceInventories(p, append(slices.Clone(p.invs), newInventory(c, spec, 0, w.Now)))
		p.bump(w.Now)
		return nil
	})
}

const inventoriesChanged = "resource provider generation conflict"

// SetInventory changes the inventory of a class that the provider has. With a
// generation it must be the present one. The error matches [ErrNotFound] also for an unknown class, [ErrConcurrentUpdate],
// [ErrCapacity], or [ErrInvalid] when the provider has no such inventory.
func (s *State) SetInventory(uuid, className string, generation *int, spec Inventory, w InventoryWrite) (Inspection, error) {
	return s.change(uuid, func(p *provider) error {
		if err := p.expect(generation, inventoriesChanged); err != nil {
			return err
		}
		if err := w.check(uuid, className, spec); err != nil {
			return err
		}
		c := s.classes.byName[className]
		if c == nil {
			return refuse(ErrNotFound, "No such resource class %s.", className)
		}
		inv := p.inventory(c)
		if inv == nil {
			return refuse(ErrInvalid, "No inventory record with resource class for resource provider %s: No inventory of class %s found.", uuid, className)
		}
		*inv = newInventory(c, spec, inv.used, w.Now)
		s.updateRoom(p.tree, c, p.traits)
		p.bump(w.Now)
		return nil
	})
}

// SetInventories replaces all inventories of a provider. With a generation it
// must be the present one. The error matches [ErrNotFound],
// [ErrConcurrentUpdate], [ErrCapacity], [ErrUnknownClass] or
// [ErrInventoryInUse].
func (s *State) SetInventories(uuid string, generation *int, specs map[string]Inventory, w InventoryWrite) (Inspection, error) {
	return s.change(uuid, func(p *provider) error {
		if err := p.expect(generation, inventoriesChanged); err != nil {
			return err
		}
		for _, name := range sortedKeys(specs) {
			if err := w.check(uuid, name, specs[name]); err != nil {
				return err
			}
		}
		invs, err := s.newInventories(p, specs, w.Now)
		if err != nil {
			return err
		}
		if err := p.checkRemoval(invs); err != nil {
			return err
		}
		s.replaceInventories(p, invs)
		p.bump(w.Now)
		return nil
	})
}

// newInventories builds inventories that keep the present use.
func (s *State) newInventories(p *provider, specs map[string]Inventory, now time.Time) ([]inventory, error) {
	invs := make([]inventory, 0, len(specs))
	for _, name := range sortedKeys(specs) {
		c, err := s.classes.lookup(name)
		if err != nil {
			return nil, err
		}
		var used int64
		if old := p.inventory(c); old != nil {
			used = old.used
		}
		invs = append(invs, newInventory(c, specs[name], used, now))
	}
	return invs, nil
}

// checkRemoval refuses to remove an inventory that has allocations.
func (p *provider) checkRemoval(kept []inventory) error {
	var inUse []string
	for i := range p.invs {
		if p.invs[i].used > 0 && inventoryOf(kept, p.invs[i].class) == nil {
			inUse = append(inUse, p.invs[i].class.name)
		}
	}
	if inUse == nil {
		return nil
	}
	return inventoryInUse(ErrInventoryInUse, p, inUse)
}

func inventoryInUse(kind error, p *provider, names []string) error {
	return refuse(kind, "Inventory for '%s' on resource provider '%s' in use.", strings.Join(names, ", "), p.uuid)
}

// replaceInventories stores inventories, sorted, and updates the indexes.
func (s *State) replaceInventories(p *provider, invs []inventory) {
	old := p.invs
	slices.SortFunc(invs, func(a, b inventory) int { return a.class.id - b.class.id })
	p.invs = slices.Clip(invs)
	for i := range old {
		old[i].class.inventories--
		s.updateRoom(p.tree, old[i].class, p.traits)
	}
	for i := range invs {
		invs[i].class.inventories++
		s.updateRoom(p.tree, invs[i].class, p.traits)
	}
}

// DeleteInventories removes all inventories of a provider. The error matches
// [ErrNotFound] or [ErrInventoryInUse].
func (s *State) DeleteInventories(uuid string, now time.Time) error {
	_, err := s.change(uuid, func(p *provider) error {
		if err := p.checkRemoval(nil); err != nil {
			return err
		}
		s.replaceInventories(p, nil)
		p.bump(now)
		return nil
	})
	return err
}

// DeleteInventory removes the inventory of one class. The error matches
// [ErrNotFound], also for a missing inventory, or [ErrConcurrentUpdate] when it
// has allocations: this is the code that the service gives here, though it
// gives another one when all are deleted.
func (s *State) DeleteInventory(uuid, className string, now time.Time) error {
	_, err := s.change(uuid, func(p *provider) error {
		i := slices.IndexFunc(p.invs, func(inv inventory) bool { return inv.class.name == className })
		switch {
		case i < 0:
			cause := "No inventory of class " + className + " found for delete"
			if _, err := s.classes.lookup(className); err != nil {
				cause = err.Error()
			}
			return refuse(ErrNotFound, "No inventory of class %s found for delete: %s", className, cause)
		case p.invs[i].used > 0:
			return inventoryInUse(ErrConcurrentUpdate, p, []string{className})
		}
		s.replaceInventories(p, slices.Delete(slices.Clone(p.invs), i, i+1))
		p.bump(now)
		return nil
	})
	return err
}
