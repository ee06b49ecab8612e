package layout

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// nested is tree, but a device with regions has a provider of its own between the host and its
// regions, with the traits of the device: type and family. The regions carry these and their own:
// region, function, CUSTOM_PROGRAMMABLE, functionality. A device without partial reconfiguration is
// one region and has no provider above it (Rocky specification of Nova's interaction with Cyborg,
// "Representation").
type nested struct {
	tree
	db *store.Store
}

// isRegional reports whether a trait belongs to a region and not to its device.
func isRegional(trait string) bool {
	switch trait {
	case driver.TraitProgrammable, "CUSTOM_FPGA_COMPUTE", "CUSTOM_FPGA_NETWORK", "CUSTOM_FPGA_STORAGE":
		return true
	}
	return driver.IsRegionTrait(trait) || driver.IsFunctionTrait(trait)
}

// Add adds the provider of a region, and before it that of its device.
func (n nested) Add(ctx context.Context, want Want) (made bool, err error) {
	if want.Device == "" {
		return n.tree.Add(ctx, want)
	}
	n.putRegion(want)
	made, err = n.addRegion(ctx, want)
	if err != nil && !made {
		n.deleteRegion(want)
	}
	return made, err
}

// addRegion creates the provider of a device, if it is missing, and adds that of the region.
func (n nested) addRegion(ctx context.Context, want Want) (made bool, err error) {
	// the provider of the device has no inventory but the memory that its regions share
	_, made, err = n.client.ensureProvider(ctx, Want{UUID: want.Parent, Name: want.Device, Parent: want.Root})
	if err == nil {
		err = n.syncDevice(ctx, want)
	}
	if err != nil {
		return made, err
	}
	madeRegion, err := n.client.add(ctx, want)
	return made || madeRegion, err
}

func (n nested) putRegion(want Want) {
	n.db.Update(nil, func(tx store.Tx) {
		tx.PutRegion(store.Region{Name: want.Name, Device: want.Device, Traits: want.Traits})
	})
}

// deleteRegion deletes the row of a region and reports whether it was the last of its device.
func (n nested) deleteRegion(want Want) (last bool) {
	n.db.Update(nil, func(tx store.Tx) {
		tx.DeleteRegion(want.Name)
		last = true
		for range tx.Regions(want.Device) {
			last = false
		}
	})
	return last
}

// Forget forgets a region. The provider of its device may be there or not, with what was written to it.
func (n nested) Forget(want Want) {
	if want.Device == "" {
		return
	}
	n.db.Update(nil, func(tx store.Tx) { tx.DeleteRegion(want.Name) })
	n.update(want.Device, func(p *store.DeviceProvider) {
		p.Traits, p.Unsure = nil, without(slices.Concat(p.Traits, p.Unsure), nil)
		inventories := make(map[string]store.Inventory, len(p.Inventories))
		for class, amount := range p.Inventories {
			inventories[class] = eitherOf(amount, store.Inventory{})
		}
		p.Inventories = inventories
	})
}

// Change changes the provider of a region and what its device has of it.
func (n nested) Change(ctx context.Context, c Change) error {
	if err := n.tree.Change(ctx, c); err != nil || c.New.Device == "" {
		return err
	}
	n.putRegion(c.New)
	return n.syncDevice(ctx, c.New)
}

// syncDevice gives the provider of a device the memory that its regions share, and their traits of
// the device.
func (n nested) syncDevice(ctx context.Context, want Want) error {
	var wanted []string
	var written store.DeviceProvider
	n.db.View(func(tx store.Tx) {
		written = tx.DeviceProvider(want.Device)
		for region := range tx.Regions(want.Device) {
			wanted = append(wanted, slices.DeleteFunc(slices.Clone(region.Traits), isRegional)...)
		}
	})
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if err := n.syncMemory(ctx, want); err != nil {
		return err
	}
	missing, drop := without(wanted, written.Traits), without(slices.Concat(written.Traits, written.Unsure), wanted)
	if len(missing)+len(drop) == 0 {
		return nil
	}
	n.update(want.Device, func(p *store.DeviceProvider) {
		p.Traits, p.Unsure = without(p.Traits, drop), without(slices.Concat(p.Unsure, missing, drop), nil)
	})
	if err := n.client.ChangeTraits(ctx, want.Parent, missing, drop); err != nil {
		return err
	}
	n.update(want.Device, func(p *store.DeviceProvider) { p.Traits, p.Unsure = wanted, nil })
	n.client.DropTraits(ctx, drop...)
	return nil
}

func (n nested) update(name string, change func(*store.DeviceProvider)) {
	n.db.Update(nil, func(tx store.Tx) {
		p := tx.DeviceProvider(name)
		change(&p)
		tx.PutDeviceProvider(p)
	})
}

// syncMemory gives the provider of a device the memory that its regions share.
func (n nested) syncMemory(ctx context.Context, want Want) error {
	written := store.Read(n.db, func(tx store.Tx) store.DeviceProvider { return tx.DeviceProvider(want.Device) }).Inventories
	amounts := memoryAmounts(want.Shared, want.Reserved > 0)
	if maps.Equal(written, amounts) && !want.Frees {
		return nil
	}
	if err := n.client.ensureClasses(ctx, slices.Sorted(maps.Keys(amounts))...); err != nil {
		return err
	}
	either := make(map[string]store.Inventory, len(amounts))
	for _, class := range slices.Concat(slices.Collect(maps.Keys(written)), slices.Collect(maps.Keys(amounts))) {
		either[class] = eitherOf(written[class], amounts[class])
	}
	n.update(want.Device, func(p *store.DeviceProvider) { p.Inventories = either })
	if err := n.client.putInventories(ctx, existing(want.Parent), amounts, ownReservation(want.Frees, written), ""); err != nil {
		return err
	}
	n.update(want.Device, func(p *store.DeviceProvider) { p.Inventories = amounts })
	n.client.DropClasses(ctx, without(slices.Sorted(maps.Keys(written)), slices.Collect(maps.Keys(amounts)))...)
	return nil
}

// Remove deletes the provider of a region, and that of its device with the last one.
func (n nested) Remove(ctx context.Context, want Want) error {
	if err := n.tree.Remove(ctx, want); err != nil || want.Device == "" {
		return err
	}
	if !n.deleteRegion(want) {
		return n.syncDevice(ctx, want)
	}
	if _, err := n.client.Must(ctx, http.MethodDelete, ProviderPath(want.Parent), "", nil, http.StatusNotFound); err != nil {
		return err
	}
	var written store.DeviceProvider
	n.db.Update(nil, func(tx store.Tx) {
		written = tx.DeviceProvider(want.Device)
		tx.DeleteDeviceProvider(want.Device)
	})
	n.client.DropTraits(ctx, without(slices.Concat(written.Traits, written.Unsure), nil)...)
	n.client.DropClasses(ctx, slices.Sorted(maps.Keys(written.Inventories))...)
	return nil
}

// Reserve writes the inventories of a region and of its device.
func (n nested) Reserve(ctx context.Context, want Want) error {
	if err := n.tree.Reserve(ctx, want); err != nil || want.Device == "" {
		return err
	}
	return n.syncMemory(ctx, want)
}
