package layout

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// In the flat layout the classes and traits of all devices of a host are on the provider of the host, which is Nova's: only what
// was added here is changed or removed, one inventory at a time, so that everything else on the provider stays as it is (Rocky
// specification of Nova's interaction with Cyborg, "Representation").

// convergeHost writes the difference of Cyborg's share of the provider of a host.
func (m *Mirror) convergeHost(ctx context.Context, p provider) error {
	row, known := m.row(p.UUID)
	if !known {
		row = p.Provider
	}
	for _, want := range p.want.Inventories {
		if err := m.putInventory(ctx, &row, want, p.want.Traits); err != nil {
			return err
		}
	}
	gone := without(classesOf(mayHave(row).Inventories), classesOf(p.want.Inventories))
	slices.Sort(gone)
	for _, class := range gone {
		if err := m.deleteInventory(ctx, &row, class); err != nil {
			return err
		}
	}
	if err := m.putTraits(ctx, &row, p.want.Traits); err != nil {
		return err
	}
	if mayHave(row).IsZero() {
		m.change(ctx, func(tx store.Tx) { tx.DeleteProvider(row.UUID) })
	}
	return nil
}

// putInventory writes one inventory and touches no other.
func (m *Mirror) putInventory(ctx context.Context, row *store.Provider, want store.Inventory, traits []string) error {
	there := slices.Contains(classesOf(mayHave(*row).Inventories), want.Class)
	if !there {
		taken, err := m.takeOver(ctx, row, want, traits)
		if err != nil {
			return err
		}
		there = taken
	}
	if slices.Contains(row.Applied.Inventories, want) {
		return nil
	}
	if slices.Contains(classesOf(row.Pending.Inventories), want.Class) {
		found, err := m.client.inventory(ctx, row.UUID, want.Class)
		if err != nil {
			return err
		}
		there = found != nil
	}
	reserved, others := ownReservation(*row), exceptClass(row.Applied.Inventories, want.Class)
	if there {
		*row = begin(*row, store.Contents{Inventories: append(others, want), Traits: row.Applied.Traits})
		m.save(ctx, *row)
	}
	if err := m.client.putInventory(ctx, row.UUID, want, there, reserved); err != nil {
		if !there && m.mayHaveMade(ctx, row.UUID, want) {
			row.Pending.Inventories = without(append(row.Pending.Inventories, want), nil)
			m.save(ctx, *row)
		}
		return err
	}
	row.Applied.Inventories, row.Pending.Inventories = append(others, want), exceptClass(row.Pending.Inventories, want.Class)
	m.save(ctx, *row)
	return nil
}

// takeOver adopts an existing inventory of the class from an earlier Cyborg, if it has the same total, with its
// custom traits. Any other inventory does not belong to Cyborg. VGPU is never adopted, because Nova has it on its own
// providers.
func (m *Mirror) takeOver(ctx context.Context, row *store.Provider, want store.Inventory, traits []string) (bool, error) {
	if err := m.client.ensureClasses(ctx, want.Class); err != nil {
		return false, err
	}
	there, err := m.client.inventory(ctx, row.UUID, want.Class)
	if err != nil || there == nil {
		return false, err
	}
	if want.Class == "VGPU" || there.Total != want.Total || there.MaxUnit != there.Total {
		return false, &TakenError{want.Class, fmt.Errorf(
			"resource provider %s has an inventory of %s that this Cyborg did not create; if an earlier one did, unflatten removes it", row.UUID, want.Class)}
	}
	if err := m.client.checkUnused(ctx, row.UUID, want.Class); err != nil {
		return false, &TakenError{want.Class, err}
	}
	custom := slices.DeleteFunc(slices.Clone(traits), isStandard)
	row.Applied.Inventories = append(row.Applied.Inventories, store.Inventory{Class: want.Class, Total: there.Total, MaxUnit: there.MaxUnit})
	row.Pending.Traits = without(slices.Concat(row.Pending.Traits, custom), row.Applied.Traits)
	m.save(ctx, *row)
	return true, nil
}

// TakenError is the error for a resource class on a flat host that does not belong to Cyborg.
type TakenError struct {
	Class string
	error
}

// Unwrap returns the cause.
func (e *TakenError) Unwrap() error { return e.error }

// mayHaveMade reports whether an inventory that did not exist before may come from a request whose response was lost.
func (m *Mirror) mayHaveMade(ctx context.Context, provider string, want store.Inventory) bool {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer end()
	there, err := m.client.inventory(ctx, provider, want.Class)
	return err != nil || there != nil && there.Total == want.Total && there.MaxUnit == want.MaxUnit
}

func (m *Mirror) deleteInventory(ctx context.Context, row *store.Provider, class string) error {
	others := exceptClass(row.Applied.Inventories, class)
	*row = begin(*row, store.Contents{Inventories: others, Traits: row.Applied.Traits})
	m.save(ctx, *row)
	if _, err := m.client.Must(ctx, http.MethodDelete, InventoryPath(row.UUID, class), "1.26", nil, http.StatusNotFound); err != nil {
		return err
	}
	row.Pending.Inventories = exceptClass(row.Pending.Inventories, class)
	m.save(ctx, *row)
	m.client.DropClasses(ctx, class)
	return nil
}

// putTraits adds missing traits and removes traits that were added here and are no longer wanted.
func (m *Mirror) putTraits(ctx context.Context, row *store.Provider, traits []string) error {
	missing, drop := without(traits, row.Applied.Traits), without(mayHave(*row).Traits, traits)
	if len(missing)+len(drop) == 0 {
		return nil
	}
	// of the traits that are there, those are Cyborg's that it may have added
	maybe, kept := row.Pending.Traits, without(row.Applied.Traits, drop)
	own := func(added []string) []string { return both(missing, slices.Concat(added, maybe)) }
	begin := func(added []string) {
		row.Applied.Traits, row.Pending.Traits = kept, without(slices.Concat(maybe, own(added), drop), nil)
		m.save(ctx, *row)
	}
	added, err := m.client.changeTraits(ctx, existing(row.UUID), traitsChange{missing, drop, begin})
	if err != nil {
		return err
	}
	row.Applied.Traits, row.Pending.Traits = slices.Concat(kept, own(added)), nil
	m.save(ctx, *row)
	m.client.DropTraits(ctx, drop...)
	return nil
}

// checkLost returns an error if a deployable would lose a class from which resources are allocated, as Placement does
// for a provider of its own. On the shared provider only a part of the total would be removed, and the same
// accelerators would be offered as another class.
func (m *Mirror) checkLost(ctx context.Context, p Part) error {
	if m.rules.Layout != store.LayoutFlat || !p.Deployable.InPlacement() {
		return nil
	}
	before, held := p, false
	m.db.View(func(tx store.Tx) {
		before.Spec = tx.Reported(p.Deployable)
		for h := range tx.Handles(p.Deployable.UUID) {
			held = held || h.InUse()
		}
	})
	lost := without(classesOf(m.rules.inventories(before)), classesOf(m.rules.inventories(p)))
	if len(lost) == 0 {
		return nil
	}
	uuid := p.Deployable.Provider
	used, err := m.client.usages(ctx, uuid)
	if err != nil {
		return err
	}
	left := make(map[string]int)
	for _, other := range m.withOthers([]Part{p}) {
		if other.Deployable.UUID == p.Deployable.UUID {
			continue
		}
		for _, i := range m.rules.inventories(other) {
			left[i.Class] += i.Total
		}
	}
	for _, class := range lost {
		if n := used[class]; n > left[class] || n > 0 && held {
			return fmt.Errorf("%d %s of resource provider %s are in use, and the device would lose its part of them", n, class, uuid)
		}
	}
	return nil
}

func exceptClass(list []store.Inventory, class string) []store.Inventory {
	return slices.DeleteFunc(slices.Clone(list), func(i store.Inventory) bool { return i.Class == class })
}
