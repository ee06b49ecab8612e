package fakecyborg

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
)

// flatShape puts the classes and traits of all devices of a host on the
// provider of the host, which is Nova's: only what was added here is ever
// changed or taken away again, one inventory at a time, so that everything else
// on the provider stays as it is (Rocky specification of Nova's interaction
// with Cyborg, "Representation").
type flatShape struct {
	client *placementClient
	mu     sync.Mutex
	hosts  map[string]*flatHost // by the provider of the host
}

// flatHost is what Cyborg has on one provider. Reports of a host and changes of
// its devices follow each other, so only a dump is in their way, see keep.
type flatHost struct {
	parts   map[string]providerWant // by name: what is to be there
	classes map[string]inventory    // what was written
	traits  []string                // what was added
	// expected is what the report in progress will come to, by class. An inventory
	// that an earlier life of Cyborg left is that large, and is taken over.
	expected map[string]int
	adopted  bool // a class was taken over
}

func (f *flatShape) host(uuid string) *flatHost {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.hosts[uuid]
	if !ok {
		h = &flatHost{parts: make(map[string]providerWant), classes: make(map[string]inventory)}
		f.hosts[uuid] = h
	}
	return h
}

// keep stores what was written; a dump may be under way.
func (f *flatShape) keep(store func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	store()
}

// add counts a deployable in. Whatever fails, remove undoes it.
func (f *flatShape) add(ctx context.Context, want providerWant) (made bool, err error) {
	return true, f.put(ctx, want)
}

func (f *flatShape) change(ctx context.Context, c partChange) error {
	if !c.class && !c.amount && len(c.add)+len(c.drop) == 0 {
		return nil
	}
	return f.put(ctx, c.fresh)
}

func (f *flatShape) reserve(ctx context.Context, want providerWant) error { return f.put(ctx, want) }

func (f *flatShape) put(ctx context.Context, want providerWant) error {
	h := f.host(want.uuid)
	parts := maps.Clone(h.parts)
	parts[want.name] = want
	return f.sync(ctx, want.uuid, h, parts)
}

// remove counts a deployable out.
func (f *flatShape) remove(ctx context.Context, want providerWant) error {
	h := f.host(want.uuid)
	parts := maps.Clone(h.parts)
	delete(parts, want.name)
	return f.sync(ctx, want.uuid, h, parts)
}

// sync makes Cyborg's share of the provider that of the parts. What was written
// is kept step by step, so that a failure in between can be continued or undone.
func (f *flatShape) sync(ctx context.Context, uuid string, h *flatHost, parts map[string]providerWant) error {
	classes, traits := flatShare(parts)
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if err := f.putClass(ctx, uuid, h, class, classes[class]); err != nil {
			return err
		}
	}
	for _, class := range slices.Sorted(maps.Keys(h.classes)) {
		if _, wanted := classes[class]; wanted {
			continue
		}
		if _, err := f.client.must(ctx, http.MethodDelete, inventoryPath(uuid, class), "1.26", nil, http.StatusNotFound); err != nil {
			return err
		}
		f.keep(func() { delete(h.classes, class) })
		f.client.dropClass(ctx, class)
	}
	if err := f.putTraits(ctx, uuid, h, traits); err != nil {
		return err
	}
	f.keep(func() { h.parts = parts })
	return nil
}

// flatShare adds up what the deployables of a host bring to its provider. The
// provider stays Nova's, so no trait says that Cyborg owns it.
func flatShare(parts map[string]providerWant) (classes map[string]inventory, traits []string) {
	classes = make(map[string]inventory)
	for _, p := range parts {
		sum := classes[p.class]
		sum.Total += p.total
		sum.MaxUnit += p.total
		sum.Reserved += p.reserved
		classes[p.class] = sum
		for class, amount := range memoryAmounts(p.memory, p.reserved > 0) {
			sum := classes[class]
			sum.Total += amount.Total
			sum.MaxUnit += amount.MaxUnit
			sum.Reserved += amount.Reserved
			classes[class] = sum
		}
		traits = append(traits, flatTraits(p.traits)...)
	}
	slices.Sort(traits)
	return classes, slices.Compact(traits)
}

// flatTraits are the traits that go to the provider of the host.
func flatTraits(traits []string) []string {
	kept := slices.DeleteFunc(slices.Clone(traits), func(t string) bool { return t == driver.TraitOwnerCyborg })
	slices.Sort(kept)
	return slices.Compact(kept)
}

func inventoryPath(uuid, class string) string {
	return providerPath(uuid) + "/inventories/" + class
}

// putClass writes one inventory and touches no other.
func (f *flatShape) putClass(ctx context.Context, uuid string, h *flatHost, class string, amount inventory) error {
	written, ours := h.classes[class]
	if ours && (written == amount || h.expected[class] == written.Total && amount.Total < written.Total) {
		return nil // or it is still to be reported what was taken over
	}
	method, path := http.MethodPut, inventoryPath(uuid, class)
	if !ours {
		taken, err := f.takeOver(ctx, uuid, h, class)
		if err != nil {
			return err
		}
		if taken {
			return f.putClass(ctx, uuid, h, class, amount)
		}
		method, path = http.MethodPost, providerPath(uuid)+"/inventories"
	}
	err := f.client.write(ctx, uuid, func(generation int) (answer, error) {
		body := map[string]any{
			"total": amount.Total, "max_unit": amount.MaxUnit, "reserved": amount.Reserved,
			"resource_provider_generation": generation,
		}
		if !ours {
			body["resource_class"] = class
		}
		return f.client.send(ctx, method, path, "1.26", body)
	})
	if err == nil {
		f.keep(func() { h.classes[class] = amount })
	}
	return err
}

// takeOver looks for an inventory of the class that is there. One that is just
// what will be reported was left by an earlier life of this Cyborg. Any other is
// somebody else's, and so may be one of VGPU, which Nova has on its own
// providers.
func (f *flatShape) takeOver(ctx context.Context, uuid string, h *flatHost, class string) (bool, error) {
	if err := f.client.ensureClass(ctx, class); err != nil {
		return false, err
	}
	got, err := f.client.must(ctx, http.MethodGet, inventoryPath(uuid, class), "1.26", nil, http.StatusNotFound)
	if err != nil || !got.ok() {
		return false, err
	}
	var there inventory
	if err := got.decode(&there); err != nil {
		return false, err
	}
	if class == "VGPU" || there.Total != h.expected[class] || there.MaxUnit != there.Total {
		return false, fmt.Errorf("resource provider %s has an inventory of %s that this Cyborg did not make; if an earlier one did, unflatten removes it", uuid, class)
	}
	f.keep(func() { h.classes[class], h.adopted = there, true })
	return true, nil
}

// expect tells what the report that begins will come to on a host.
func (f *flatShape) expect(uuid string, devices []found) {
	h := f.host(uuid)
	h.expected = make(map[string]int)
	for _, d := range devices {
		for _, part := range d.device.Deployables {
			h.expected[part.ResourceClass()] += part.NumAccelerators
			for class, mib := range part.Resources {
				h.expected[class] += mib
			}
		}
	}
}

// settle ends a report: what was taken over and has not been reported goes.
func (f *flatShape) settle(ctx context.Context, uuid string) error {
	h := f.host(uuid)
	h.expected = nil
	return f.sync(ctx, uuid, h, h.parts)
}

// putTraits adds what is missing and takes away what was added here and is no
// longer wanted. A trait that somebody else put there stays somebody else's.
func (f *flatShape) putTraits(ctx context.Context, uuid string, h *flatHost, traits []string) error {
	missing := slices.DeleteFunc(slices.Clone(traits), func(t string) bool { return slices.Contains(h.traits, t) })
	drop := slices.DeleteFunc(slices.Clone(h.traits), func(t string) bool { return slices.Contains(traits, t) })
	if len(missing)+len(drop) == 0 {
		return nil
	}
	there, err := f.client.traits(ctx, uuid)
	if err != nil {
		return err
	}
	add := slices.DeleteFunc(slices.Clone(missing), func(t string) bool { return slices.Contains(there, t) })
	if err := f.client.changeTraits(ctx, uuid, add, drop); err != nil {
		return err
	}
	if h.adopted { // with the classes of an earlier life come its traits
		add = missing
	}
	kept := slices.DeleteFunc(slices.Clone(h.traits), func(t string) bool { return slices.Contains(drop, t) })
	f.keep(func() { h.traits = slices.Concat(kept, add) })
	f.client.dropTraits(ctx, drop)
	return nil
}

// alike takes those devices out of a sighting that cannot stand beside the
// others: on a flat host all must have the same traits, since Placement could
// not tell them apart. The first device that is known already counts, or else
// the first.
func (r *reporting) alike(seen *sighting) {
	flat, ok := r.s.shape.(*flatShape)
	if !ok || len(seen.devices) == 0 {
		return
	}
	r.s.mu.RLock()
	var model driver.Deployable
	for _, f := range seen.devices {
		known := r.s.state.deviceOf(r.host, f.device.ControlPath.Key()) != nil
		if len(f.device.Deployables) > 0 && (model.Name == "" || known) {
			model = f.device.Deployables[0]
		}
		if known && model.Name != "" {
			break
		}
	}
	r.s.mu.RUnlock()
	want := flatTraits(model.Traits())
	seen.devices = slices.DeleteFunc(seen.devices, func(f found) bool {
		for _, part := range f.device.Deployables {
			if got := flatTraits(part.Traits()); !slices.Equal(got, want) {
				key := f.device.ControlPath.Key()
				delete(seen.present, key)
				r.fail(key, "put the device on the provider of its host", fmt.Errorf(
					"deployable %s has the traits [%s] and %s has [%s]; on a flat host all devices need the same",
					part.Name, strings.Join(got, " "), model.Name, strings.Join(want, " ")))
				return true
			}
		}
		return false
	})
	if r.s.placement != nil {
		flat.expect(r.parent, seen.devices)
	}
}

// settle ends a report of a flat host.
func (r *reporting) settle(ctx context.Context) {
	if flat, ok := r.s.shape.(*flatShape); ok && r.s.placement != nil {
		r.fail("", "put its devices on the provider of the host", flat.settle(ctx, r.parent))
	}
}

// placePart gives a deployable its provider: one of its own, or that of the
// host.
func (st *state) placePart(part *deployableRow, parent string) {
	if st.mode != ModeFlat {
		st.byProvider[part.provider] = part
		return
	}
	if part.provider = parent; parent == "" { // no Placement
		part.provider = driver.ProviderUUID(part.device.host)
	}
	st.sharing[part.provider] = append(st.sharing[part.provider], part)
}

func (st *state) unplacePart(part *deployableRow) {
	if st.mode != ModeFlat {
		delete(st.byProvider, part.provider)
		return
	}
	st.sharing[part.provider] = slices.DeleteFunc(st.sharing[part.provider], func(other *deployableRow) bool { return other == part })
}

// partFor is the deployable that a request is bound to on a provider. Where
// several share it, that is the first enabled one of the request's class that
// has a free handle.
func (st *state) partFor(provider string, a *arqRow) (*deployableRow, bool) {
	if st.mode != ModeFlat {
		part, ok := st.byProvider[provider]
		return part, ok
	}
	var full *deployableRow
	for _, part := range st.sharing[provider] {
		_, fits := a.profile.groups[a.group].get(prefixResources + part.reportedSpec().ResourceClass())
		switch {
		case !fits || !part.offered || part.device.status == StatusMaintaining:
		case part.freeHandle() != nil:
			return part, true
		case full == nil:
			full = part
		}
	}
	return full, full != nil
}
