package layout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// Mirror makes the resource providers in Placement match the desired state. It is the only writer. For each provider
// it stores what Placement has confirmed and what is pending, so that a later call finishes an interrupted one. Calls
// for one host are sequential. Without a client it does nothing.
type Mirror struct {
	client *Client
	db     *store.Store
	change func(context.Context, func(store.Tx))
	rules  Rules
}

// NewMirror returns the mirror of a database, which change writes. The client may be nil.
func NewMirror(client *Client, db *store.Store, change func(context.Context, func(store.Tx)), rules Rules) *Mirror {
	return &Mirror{client, db, change, rules}
}

// Put writes parts of one device, or of one host in the flat layout. Made reports whether a provider or an inventory
// may be new.
func (m *Mirror) Put(ctx context.Context, parts ...Part) (made bool, err error) {
	if m.client == nil {
		return false, nil
	}
	for _, p := range parts {
		if err := m.checkLost(ctx, p); err != nil {
			return false, err
		}
	}
	for _, p := range m.desired(parts) {
		created, err := m.converge(ctx, p)
		made = made || created
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

// Remove removes a part, and with the last region the provider of its device. A missing part is not an error.
// Placement refuses to delete a provider with children, which Cyborg did not create.
func (m *Mirror) Remove(ctx context.Context, p Part) error {
	if m.client == nil {
		return nil
	}
	others := slices.DeleteFunc(m.withOthers([]Part{p}), func(other Part) bool { return other.Deployable.UUID == p.Deployable.UUID })
	if m.rules.Layout == store.LayoutFlat {
		_, err := m.converge(ctx, m.rules.host(p, others))
		return err
	}
	list := m.rules.desired([]Part{p})
	own := list[len(list)-1]
	if _, err := m.client.Must(ctx, http.MethodGet, "/resource_providers?in_tree="+own.UUID, "1.14", nil); err != nil {
		return err
	}
	if err := m.delete(ctx, own); err != nil || !p.Device.Nested {
		return err
	}
	device := list[0]
	switch hasRegions := store.Read(m.db, func(tx store.Tx) bool { return tx.HasChildren(device.UUID) }); {
	case !hasRegions:
		return m.delete(ctx, device)
	case len(others) > 0:
		_, err := m.converge(ctx, m.rules.device(others))
		return err
	}
	return nil // the last of these regions removes it
}

// clear removes what Cyborg has on a provider.
func (m *Mirror) clear(ctx context.Context, p provider) error {
	if m.rules.Layout == store.LayoutFlat {
		return m.convergeHost(ctx, p)
	}
	return m.delete(ctx, p)
}

// delete deletes a provider, and then its traits and classes that are not used elsewhere.
func (m *Mirror) delete(ctx context.Context, p provider) error {
	if _, err := m.client.Must(ctx, http.MethodDelete, ProviderPath(p.UUID), "", nil, http.StatusNotFound); err != nil {
		return err
	}
	had := p.want
	if row, known := m.row(p.UUID); known {
		had = mayHave(row)
	}
	m.change(ctx, func(tx store.Tx) { tx.DeleteProvider(p.UUID) })
	m.client.DropTraits(ctx, had.Traits...)
	m.client.DropClasses(ctx, classesOf(had.Inventories)...)
	return nil
}

// Forget deletes the stored providers of a host that Placement has lost, that is, those not in its tree, and returns
// the others. The provider of a flat host belongs to Nova. If it has none of Cyborg's inventories, it was created
// anew, and is also lost.
func (m *Mirror) Forget(ctx context.Context, host, root string, tree []Provider) (known map[string]bool, err error) {
	if m.client == nil {
		return nil, nil
	}
	there := make(map[string]bool, len(tree))
	for _, p := range tree {
		there[p.UUID] = true
	}
	known = make(map[string]bool)
	var lost []string
	for uuid, row := range m.rows(host) {
		if known[uuid] = there[uuid]; known[uuid] && uuid == root {
			if known[uuid], err = m.client.hasSome(ctx, root, classesOf(row.Applied.Inventories)); err != nil {
				return nil, err
			}
		}
		if !known[uuid] {
			lost = append(lost, uuid)
		}
	}
	slices.Sort(lost)
	if len(lost) > 0 {
		m.change(ctx, func(tx store.Tx) {
			for _, uuid := range lost {
				tx.DeleteProvider(uuid)
			}
		})
	}
	return known, nil
}

// rows are the ones on a host, by UUID.
func (m *Mirror) rows(host string) map[string]store.Provider {
	rows := make(map[string]store.Provider)
	m.db.View(func(tx store.Tx) {
		for row := range tx.HostProviders(host) {
			rows[row.UUID] = row
		}
	})
	return rows
}

// Settle finishes interrupted calls: it makes the providers of a host match these parts, which are all desired parts
// of the host, and deletes other providers that an earlier call has created.
func (m *Mirror) Settle(ctx context.Context, host string, parts []Part) (errs []error) {
	if m.client == nil {
		return nil
	}
	rows := m.rows(host)
	for _, p := range m.rules.all(parts) {
		if row, known := rows[p.UUID]; known && !converged(row, p.want) {
			_, err := m.converge(ctx, p)
			errs = append(errs, err)
		}
		delete(rows, p.UUID)
	}
	isDevice := make(map[string]int, len(rows)) // 1 for the provider of a device with regions
	m.db.View(func(tx store.Tx) {
		for uuid := range rows {
			if tx.HasChildren(uuid) {
				isDevice[uuid] = 1
			}
		}
	})
	others := slices.SortedFunc(maps.Values(rows), func(a, b store.Provider) int { // regions before their device
		return cmp.Or(isDevice[a.UUID]-isDevice[b.UUID], strings.Compare(a.UUID, b.UUID))
	})
	for _, row := range others {
		errs = append(errs, m.clear(ctx, provider{Provider: row}))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// Assume stores that Placement has the desired providers of a host's parts, if nothing is stored about them: in a
// state that was created from listings.
func (m *Mirror) Assume(parts []Part) {
	if m.client == nil {
		return
	}
	var missing []store.Provider
	m.db.View(func(tx store.Tx) {
		for _, p := range m.rules.all(parts) {
			if _, known := tx.Provider(p.UUID); !known {
				p.Applied = p.want
				p.Applied.Inventories = exceptClass(p.want.Inventories, "")
				missing = append(missing, p.Provider)
			}
		}
	})
	if len(missing) == 0 {
		return
	}
	m.db.Update(nil, func(tx store.Tx) {
		for _, row := range missing {
			tx.PutProvider(row)
		}
	})
}

// Doubt stores that the inventories of parts may be as they are, or as these parts are.
func (m *Mirror) Doubt(ctx context.Context, parts ...Part) {
	if m.client == nil {
		return
	}
	for _, p := range m.desired(parts) {
		if row, known := m.row(p.UUID); known && p.check() == nil {
			p.want.Traits = row.Applied.Traits
			m.save(ctx, begin(row, p.want))
		}
	}
}

// desired returns the providers for parts, including the other parts in Placement that share these providers.
func (m *Mirror) desired(parts []Part) []provider {
	if len(parts) == 0 {
		return nil
	}
	return slices.DeleteFunc(m.rules.desired(m.withOthers(parts)), func(p provider) bool {
		return !slices.ContainsFunc(parts, func(part Part) bool { return slices.Contains(m.rules.providers(part), p.UUID) })
	})
}

// withOthers adds the parts in Placement that share a provider with some.
func (m *Mirror) withOthers(parts []Part) (all []Part) {
	first := parts[0]
	if m.rules.Layout != store.LayoutFlat && !first.Device.Nested {
		return slices.Clone(parts)
	}
	m.db.View(func(tx store.Tx) {
		add := func(device store.Device) {
			for _, d := range tx.DeviceDeployables(device.UUID) {
				if n := slices.IndexFunc(parts, func(p Part) bool { return p.Deployable.UUID == d.UUID }); n >= 0 {
					all = append(all, parts[n])
				} else if d.InPlacement() {
					all = append(all, Part{Device: device, Deployable: d, Spec: tx.Reported(d), Root: first.Root})
				}
			}
		}
		if first.Device.Nested {
			add(first.Device)
			return
		}
		for device := range tx.HostDevices(first.Device.Host) {
			add(device)
		}
	})
	return all
}

func (m *Mirror) row(uuid string) (row store.Provider, known bool) {
	m.db.View(func(tx store.Tx) { row, known = tx.Provider(uuid) })
	return row, known
}

func (m *Mirror) save(ctx context.Context, row store.Provider) {
	m.change(ctx, func(tx store.Tx) { tx.PutProvider(row) })
}

// converge writes the difference of a provider in upstream's order: the provider, inventories and classes, removed
// traits, added traits.
func (m *Mirror) converge(ctx context.Context, p provider) (made bool, err error) {
	if err := p.check(); err != nil {
		return false, err
	}
	if m.rules.Layout == store.LayoutFlat {
		return true, m.convergeHost(ctx, p)
	}
	row, known := m.row(p.UUID)
	t := existing(p.UUID)
	if !known {
		if t, made, err = m.create(ctx, p); err != nil {
			return made, err
		}
		row = p.Provider
	}
	err = m.write(ctx, t, row, p.want)
	if err != nil && !known && !made {
		m.change(ctx, func(tx store.Tx) { tx.DeleteProvider(p.UUID) })
	}
	return made, err
}

// create creates a provider, or takes one over.
func (m *Mirror) create(ctx context.Context, p provider) (t *target, made bool, err error) {
	if p.Parent == "" {
		return nil, false, fmt.Errorf("resource provider %s is not known to be in Placement; the next report creates it", p.UUID)
	}
	if m.client.Quirks {
		if err := m.client.ensureClasses(ctx, classesOf(p.want.Inventories)...); err != nil {
			return nil, false, err
		}
	}
	t, made, err = m.client.ensureProvider(ctx, p)
	if made || err == nil {
		m.save(ctx, p.Provider)
	}
	return t, made, err
}

// write writes the contents of a provider. With the defects of upstream it does not know which of its writes have succeeded.
func (m *Mirror) write(ctx context.Context, t *target, row store.Provider, want store.Contents) error {
	if converged(row, want) {
		return nil
	}
	client, had := m.client, mayHave(row)
	reserved := ownReservation(row)
	add, drop := without(want.Traits, row.Applied.Traits), without(had.Traits, want.Traits)
	inventories := !same(row.Applied.Inventories, want.Inventories) || len(row.Pending.Inventories) > 0
	missing := without(classesOf(want.Inventories), classesOf(row.Applied.Inventories))
	step := func() {
		if !client.Quirks {
			m.save(ctx, row)
		}
	}
	row = begin(row, want)
	step()
	if t.source != created && (!client.Quirks || len(had.Inventories) > 0) {
		if err := client.ensureClasses(ctx, missing...); err != nil {
			return err
		}
	}
	if inventories {
		if err := client.putInventories(ctx, t, want.Inventories, reserved); err != nil {
			return err
		}
		row.Applied.Inventories, row.Pending.Inventories = want.Inventories, nil
		step()
		client.DropClasses(ctx, without(classesOf(had.Inventories), classesOf(want.Inventories))...)
	}
	if len(drop) > 0 {
		if _, err := client.changeTraits(ctx, t, traitsChange{drop: drop}); err != nil {
			return err
		}
		row.Pending.Traits = without(row.Pending.Traits, drop)
		step()
		client.DropTraits(ctx, drop...)
	}
	if _, err := client.changeTraits(ctx, t, traitsChange{add: add}); err != nil {
		return err
	}
	row.Applied, row.Pending = want, store.Contents{}
	m.save(ctx, row)
	return nil
}

// What a row says of its provider.

// converged reports whether a provider certainly has these contents.
func converged(row store.Provider, want store.Contents) bool {
	return row.Pending.IsZero() && same(row.Applied.Inventories, want.Inventories) && same(row.Applied.Traits, want.Traits)
}

// mayHave are the contents that a provider may have. A class may be there with several amounts.
func mayHave(row store.Provider) store.Contents {
	return store.Contents{
		Inventories: slices.Concat(row.Applied.Inventories, row.Pending.Inventories), Traits: slices.Concat(row.Applied.Traits, row.Pending.Traits),
	}
}

// begin returns the row of a provider while contents are written: differences are pending until a response confirms
// them.
func begin(row store.Provider, want store.Contents) store.Provider {
	had := mayHave(row)
	row.Applied = store.Contents{Inventories: both(row.Applied.Inventories, want.Inventories), Traits: both(row.Applied.Traits, want.Traits)}
	row.Pending = store.Contents{
		Inventories: without(slices.Concat(had.Inventories, want.Inventories), row.Applied.Inventories),
		Traits:      without(slices.Concat(had.Traits, want.Traits), row.Applied.Traits),
	}
	return row
}

// reservation is how much Cyborg has reserved of an inventory that has some reserved.
type reservation func(class string, reserved int) int

// ownReservation is the largest amount that Cyborg may have written and that is reserved.
func ownReservation(row store.Provider) reservation {
	return func(class string, reserved int) int {
		var own []int
		for _, i := range mayHave(row).Inventories {
			if i.Class == class {
				own = append(own, i.Reserved)
			}
		}
		if len(own) == 0 {
			return 0
		}
		slices.Sort(own)
		for _, amount := range slices.Backward(own) {
			if amount <= reserved {
				return amount
			}
		}
		return reserved // another client has lowered it
	}
}

func classesOf(list []store.Inventory) (classes []string) {
	for _, i := range list {
		if !slices.Contains(classes, i.Class) {
			classes = append(classes, i.Class)
		}
	}
	return classes
}

// both are the elements of a list that are also in another.
func both[T comparable](list, other []T) []T { return without(list, without(list, other)) }

// without are the elements of a list that are not in others, each once.
func without[T comparable](list, others []T) (rest []T) {
	for _, x := range list {
		if !slices.Contains(others, x) && !slices.Contains(rest, x) {
			rest = append(rest, x)
		}
	}
	return rest
}

// same reports whether two lists have the same elements.
func same[T comparable](a, b []T) bool {
	return slices.Equal(a, b) || len(without(a, b))+len(without(b, a)) == 0
}
