package layout

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// flat puts the classes and traits of all devices of a host on the provider of the host,
// which is Nova's: only what was added here is changed or removed, one inventory at a time, so that
// everything else on the provider stays as it is (Rocky specification of Nova's interaction with
// Cyborg, "Representation").
type flat struct {
	client *Client
	db     *store.Store
	mu     sync.Mutex
	// expected are the totals of reports in progress, by provider and class. An inventory of an
	// earlier Cyborg has that total, and is adopted.
	expected map[string]map[string]int
}

// BeginReport implements Layout.
func (f *flat) BeginReport(provider string, expected map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected[provider] = expected
}

func (f *flat) expects(provider, class string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.expected[provider][class]
}

// EndReport removes what was adopted and not reported.
func (f *flat) EndReport(ctx context.Context, provider string) error {
	f.mu.Lock()
	delete(f.expected, provider)
	f.mu.Unlock()
	return f.sync(ctx, provider, f.share(provider).Deployables)
}

// Add adds the share of a deployable. Remove undoes it, also after an error.
func (f *flat) Add(ctx context.Context, want Want) (made bool, err error) {
	return true, f.Reserve(ctx, want)
}

// Change replaces the share of a deployable.
func (f *flat) Change(ctx context.Context, c Change) error {
	if c.Empty() {
		return nil
	}
	if err := f.checkLost(ctx, c); err != nil {
		return err
	}
	return f.Reserve(ctx, c.New)
}

// checkLost refuses that a deployable loses a class of which something is in use, as Placement does on a provider of its own. On
// the shared one it would take a part of the total, and offer the same accelerators as another class.
func (f *flat) checkLost(ctx context.Context, c Change) error {
	var lost []string
	for _, share := range f.share(c.New.UUID).Deployables {
		if share.Name == c.New.Name {
			lost = without(append(slices.Sorted(maps.Keys(share.Memory)), share.Class), c.New.classes())
		}
	}
	if len(lost) == 0 {
		return nil
	}
	used, err := f.client.usages(ctx, c.New.UUID)
	if err != nil {
		return err
	}
	left, _ := flatTotal(f.sharesBeside(c.New))
	for _, class := range lost {
		if n := used[class]; n > left[class].Total || n > 0 && c.Held {
			return fmt.Errorf("%d %s of resource provider %s are in use, and the device would lose its part of them", n, class, c.New.UUID)
		}
	}
	return nil
}

// Reserve replaces the share of a deployable, reserved or not.
func (f *flat) Reserve(ctx context.Context, want Want) error {
	others := f.sharesBeside(want)
	at, _ := slices.BinarySearchFunc(others, want.Name, func(s store.FlatShare, name string) int { return strings.Compare(s.Name, name) })
	return f.sync(ctx, want.UUID, slices.Insert(others, at, store.FlatShare{
		Name: want.Name, Class: want.Class, Total: want.Total, Reserved: want.Reserved, Memory: want.Memory, Traits: want.Traits,
	}))
}

// Remove removes the share of a deployable.
func (f *flat) Remove(ctx context.Context, want Want) error {
	return f.sync(ctx, want.UUID, f.sharesBeside(want))
}

// Has implements Layout.
func (f *flat) Has(ctx context.Context, provider string) (bool, error) {
	written := f.share(provider).Inventories
	var body struct {
		Inventories map[string]store.Inventory `json:"inventories"`
	}
	if err := f.client.Get(ctx, ProviderPath(provider)+"/inventories", "", &body); err != nil {
		return false, err
	}
	for class := range written {
		if _, there := body.Inventories[class]; there {
			return true, nil
		}
	}
	return len(written) == 0, nil
}

// Forget forgets all that is on the provider, which the deployables of a host share.
func (f *flat) Forget(want Want) {
	f.db.Update(nil, func(tx store.Tx) { tx.DeleteComputeShare(want.UUID) })
}

func (f *flat) share(provider string) store.ComputeShare {
	return store.Read(f.db, func(tx store.Tx) store.ComputeShare { return tx.ComputeShare(provider) })
}

// sharesBeside are the shares of the other deployables on a provider.
func (f *flat) sharesBeside(want Want) []store.FlatShare {
	return slices.DeleteFunc(slices.Clone(f.share(want.UUID).Deployables), func(s store.FlatShare) bool { return s.Name == want.Name })
}

// update stores what was written.
func (f *flat) update(provider string, change func(*store.ComputeShare)) {
	f.db.Update(nil, func(tx store.Tx) {
		old := tx.ComputeShare(provider)
		share := old
		share.Inventories = maps.Clone(old.Inventories)
		change(&share)
		if !reflect.DeepEqual(share, old) {
			tx.PutComputeShare(share)
		}
	})
}

// sync makes Cyborg's share of the provider that of the deployables. Each step is stored, so that
// after a failure it can be continued or undone.
func (f *flat) sync(ctx context.Context, provider string, deployables []store.FlatShare) error {
	classes, traits := flatTotal(deployables)
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if err := f.putClass(ctx, provider, class, classes[class]); err != nil {
			return err
		}
	}
	for _, class := range slices.Sorted(maps.Keys(f.share(provider).Inventories)) {
		if _, wanted := classes[class]; wanted {
			continue
		}
		f.update(provider, func(s *store.ComputeShare) { s.Inventories[class] = eitherOf(s.Inventories[class], store.Inventory{}) })
		if _, err := f.client.Must(ctx, http.MethodDelete, InventoryPath(provider, class), "1.26", nil, http.StatusNotFound); err != nil {
			return err
		}
		f.update(provider, func(s *store.ComputeShare) { delete(s.Inventories, class) })
		f.client.DropClasses(ctx, class)
	}
	if err := f.putTraits(ctx, provider, traits); err != nil {
		return err
	}
	f.update(provider, func(s *store.ComputeShare) { s.Deployables = deployables })
	return nil
}

// flatTotal adds up the shares of the deployables of a host. The provider stays Nova's, so that the
// trait OWNER_CYBORG is left out.
func flatTotal(deployables []store.FlatShare) (classes map[string]store.Inventory, traits []string) {
	classes = make(map[string]store.Inventory)
	add := func(class string, amount store.Inventory) {
		sum := classes[class]
		sum.Total += amount.Total
		sum.MaxUnit += amount.MaxUnit
		sum.Reserved += amount.Reserved
		classes[class] = sum
	}
	for _, d := range deployables {
		add(d.Class, store.Inventory{Total: d.Total, MaxUnit: d.Total, Reserved: d.Reserved})
		for class, amount := range memoryAmounts(d.Memory, d.Reserved > 0) {
			add(class, amount)
		}
		traits = append(traits, FlatTraits(d.Traits)...)
	}
	slices.Sort(traits)
	return classes, slices.Compact(traits)
}

// FlatTraits are the traits of a deployable that go to the provider of the host.
func FlatTraits(traits []string) []string {
	kept := slices.DeleteFunc(slices.Clone(traits), func(t string) bool { return t == driver.TraitOwnerCyborg })
	slices.Sort(kept)
	return slices.Compact(kept)
}

// InventoryPath is the path of one inventory of a resource provider.
func InventoryPath(uuid, class string) string { return ProviderPath(uuid) + "/inventories/" + class }

// putClass writes one inventory and touches no other.
func (f *flat) putClass(ctx context.Context, provider, class string, amount store.Inventory) error {
	written, ours := f.share(provider).Inventories[class]
	if ours && (written == amount || f.expects(provider, class) == written.Total && amount.Total < written.Total) {
		return nil // or the rest of what was adopted is still to be reported
	}
	if !ours {
		taken, err := f.takeOver(ctx, provider, class)
		if err != nil {
			return err
		}
		if taken {
			return f.putClass(ctx, provider, class, amount)
		}
	} else if written.MaxUnit == 0 { // see eitherOf
		var err error
		if _, ours, err = f.inventory(ctx, provider, class); err != nil {
			return err
		}
	}
	method, path := http.MethodPut, "/inventories/"+class
	if ours {
		f.setInventory(provider, class, eitherOf(written, amount), false)
	} else {
		method, path = http.MethodPost, "/inventories"
	}
	t := existing(provider)
	err := f.client.write(ctx, t, providerWrite{method: method, path: path, version: "1.26", body: func() (writeBody, error) {
		kept := map[string]store.Inventory{class: amount}
		var err error
		if ours {
			kept, err = f.client.keepReserved(ctx, t, kept, ownReservation(false, map[string]store.Inventory{class: written}))
		}
		body := writeBody{oneInventory: &oneInventory{Total: amount.Total, MaxUnit: amount.MaxUnit, Reserved: kept[class].Reserved}}
		if !ours {
			body.Class = class
		}
		return body, err
	}})
	switch {
	case err == nil:
		f.setInventory(provider, class, amount, false)
	case !ours && f.mayHaveMade(ctx, provider, class, amount):
		f.setInventory(provider, class, eitherOf(written, amount), false)
	}
	return err
}

func (f *flat) setInventory(provider, class string, amount store.Inventory, adopted bool) {
	f.update(provider, func(s *store.ComputeShare) {
		if s.Inventories == nil {
			s.Inventories = make(map[string]store.Inventory)
		}
		s.Inventories[class], s.Adopted = amount, s.Adopted || adopted
	})
}

// takeOver adopts an existing inventory of the class, if its total is that of the report: then an
// earlier Cyborg made it. Any other is not Cyborg's, nor may be one of VGPU, which Nova has on its
// own providers.
func (f *flat) takeOver(ctx context.Context, provider, class string) (bool, error) {
	if err := f.client.ensureClasses(ctx, class); err != nil {
		return false, err
	}
	there, found, err := f.inventory(ctx, provider, class)
	if err != nil || !found {
		return false, err
	}
	if class == "VGPU" || there.Total != f.expects(provider, class) || there.MaxUnit != there.Total {
		return false, fmt.Errorf("resource provider %s has an inventory of %s that this Cyborg did not create; if an earlier one did, unflatten removes it", provider, class)
	}
	if !f.client.Quirks {
		if err := f.client.checkUnused(ctx, provider, class); err != nil {
			return false, err
		}
	}
	f.setInventory(provider, class, there, true)
	return true, nil
}

// inventory reads an inventory of a provider, if it is there.
func (f *flat) inventory(ctx context.Context, provider, class string) (there store.Inventory, found bool, err error) {
	got, err := f.client.Must(ctx, http.MethodGet, InventoryPath(provider, class), "1.26", nil, http.StatusNotFound)
	if err != nil || !got.OK() {
		return there, false, err
	}
	return there, true, got.Decode(&there)
}

// mayHaveMade reports whether a request with a lost answer may have made an inventory, which was not there before.
func (f *flat) mayHaveMade(ctx context.Context, provider, class string, amount store.Inventory) bool {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer end()
	there, found, err := f.inventory(ctx, provider, class)
	return err != nil || found && there.Total == amount.Total && there.MaxUnit == amount.MaxUnit
}

// putTraits adds missing traits and removes those that were added here and are no longer wanted.
func (f *flat) putTraits(ctx context.Context, provider string, traits []string) error {
	share := f.share(provider)
	missing, drop := without(traits, share.Traits), without(slices.Concat(share.Traits, share.Unsure), traits)
	if len(missing)+len(drop) == 0 {
		return nil
	}
	// of the traits that are there, those are Cyborg's that it may have added; and the custom ones, if an inventory of an
	// earlier Cyborg was adopted
	own := func(added []string) []string {
		return slices.DeleteFunc(slices.Clone(missing), func(trait string) bool {
			return !slices.Contains(added, trait) && !slices.Contains(share.Unsure, trait) && !(share.Adopted && strings.HasPrefix(trait, "CUSTOM_"))
		})
	}
	begin := func(added []string) {
		f.update(provider, func(s *store.ComputeShare) {
			s.Traits, s.Unsure = without(s.Traits, drop), without(slices.Concat(share.Unsure, own(added), drop), nil)
		})
	}
	added, err := f.client.changeTraits(ctx, existing(provider), traitsChange{missing, drop, begin})
	if err != nil {
		return err
	}
	f.update(provider, func(s *store.ComputeShare) {
		s.Traits, s.Unsure = slices.Concat(without(s.Traits, drop), own(added)), nil
	})
	f.client.DropTraits(ctx, drop...)
	return nil
}
