package layout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// Part is the desired state in Placement of a deployable.
type Part struct {
	Device     store.Device
	Deployable store.Deployable
	Spec       driver.Deployable
	// Root is the provider of the host, which is needed to create providers.
	Root string
}

// provider is the desired state of a resource provider.
type provider struct {
	store.Provider
	want store.Contents
	// presence says whether its deployable, if it has one, was ever in Placement. No request holds any of a Stored one, and an allocation comes from an earlier
	// Cyborg.
	presence store.Presence
}

// check returns an error if the resource class of a deployable is not known: a user may delete the attribute, and the next report
// adds it again.
func (p provider) check() error {
	if slices.Contains(classesOf(p.want.Inventories), "") {
		return fmt.Errorf("resource provider %s: a deployable has no attribute rc, which the next report adds", p.UUID)
	}
	return nil
}

// Rules are the part of the configuration that determines how devices are written to Placement.
type Rules struct {
	Layout string
	// Quirks sends all requests that upstream sends for a new provider: it is read before it is created and before each write, and each
	// of its classes and traits is ensured.
	Quirks bool
	// StandardTraits selects how the release treats traits that Placement defines.
	StandardTraits StandardTraits
}

// desired returns the providers for parts of one device, or of one host in the flat layout, which shares its provider
// with Nova. The provider of a device comes before the providers of its regions.
func (r Rules) desired(parts []Part) (list []provider) {
	if len(parts) == 0 {
		return nil
	}
	if r.Layout == store.LayoutFlat {
		return []provider{r.host(parts[0], parts)}
	}
	if parts[0].Device.Nested {
		list = append(list, r.device(parts))
	}
	for _, p := range parts {
		own := p.provider(p.Deployable.Provider, p.Deployable.Name, p.Root)
		if p.Device.Nested {
			own.Parent = list[0].UUID
		}
		own.presence = p.Deployable.Presence
		own.want = store.Contents{Inventories: r.inventories(p), Traits: r.traits(p)}
		list = append(list, own)
	}
	return list
}

// all are the providers of the parts of a host, device by device.
func (r Rules) all(parts []Part) (list []provider) {
	if r.Layout == store.LayoutFlat {
		return r.desired(parts)
	}
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].Device.UUID == parts[0].Device.UUID {
			n++
		}
		list = append(list, r.desired(parts[:n])...)
		parts = parts[n:]
	}
	return list
}

func (p Part) provider(uuid, name, parent string) provider {
	return provider{presence: store.Offered, Provider: store.Provider{UUID: uuid, Host: p.Device.Host, Name: name, Parent: parent}}
}

// host returns Cyborg's share of the provider of a host. The provider belongs to Nova, so the trait OWNER_CYBORG is
// omitted.
func (r Rules) host(on Part, parts []Part) provider {
	host := on.provider(on.Deployable.Provider, "", "")
	sum := make(map[string]store.Inventory)
	for _, p := range parts {
		for _, i := range r.inventories(p) {
			total := sum[i.Class]
			sum[i.Class] = store.Inventory{Class: i.Class, Total: total.Total + i.Total, MaxUnit: total.MaxUnit + i.MaxUnit, Reserved: total.Reserved + i.Reserved}
		}
		host.want.Traits = append(host.want.Traits, FlatTraits(r.traits(p))...)
	}
	for _, class := range slices.Sorted(maps.Keys(sum)) {
		host.want.Inventories = append(host.want.Inventories, sum[class])
	}
	slices.Sort(host.want.Traits)
	host.want.Traits = slices.Compact(host.want.Traits)
	return host
}

// FlatTraits are the traits of a deployable that the provider of its host has.
func FlatTraits(traits []string) []string {
	kept := slices.DeleteFunc(slices.Clone(traits), func(t string) bool { return t == driver.TraitOwnerCyborg })
	slices.Sort(kept)
	return slices.Compact(kept)
}

// device is the provider of a device with regions, between the host and these. It has the memory that they share, and the traits of
// the device: type and family. The regions carry these and their own: region, function, CUSTOM_PROGRAMMABLE, functionality. A
// device without partial reconfiguration is one region and has no provider above it (Rocky specification of Nova's interaction
// with Cyborg, "Representation").
func (r Rules) device(parts []Part) provider {
	name := deviceProviderName(parts[0].Device)
	device := parts[0].provider(driver.ProviderUUID(name), name, parts[0].Root)
	for _, p := range parts {
		device.want.Traits = append(device.want.Traits, slices.DeleteFunc(slices.Clone(r.traits(p)), isRegional)...)
	}
	slices.Sort(device.want.Traits)
	device.want.Traits = slices.Compact(device.want.Traits)
	device.want.Inventories = r.memory(parts[0], parts[0].Device.Resources)
	return device
}

// isRegional reports whether a trait belongs to a region and not to its device.
func isRegional(trait string) bool {
	switch trait {
	case driver.TraitProgrammable, "CUSTOM_FPGA_COMPUTE", "CUSTOM_FPGA_NETWORK", "CUSTOM_FPGA_STORAGE":
		return true
	}
	return driver.IsRegionTrait(trait) || driver.IsFunctionTrait(trait)
}

// inventories returns the inventories of a deployable, beginning with the one for its handles.
func (r Rules) inventories(p Part) []store.Inventory {
	return append([]store.Inventory{r.inventory(p, p.Spec.Class, p.Spec.NumAccelerators)}, r.memory(p, p.Spec.Resources)...)
}

// memory are inventories of local memory, MiB by class.
func (r Rules) memory(p Part, memory map[string]int) (list []store.Inventory) {
	for _, class := range slices.Sorted(maps.Keys(memory)) {
		list = append(list, r.inventory(p, class, memory[class]))
	}
	return list
}

// inventory returns one inventory of a part. It is reserved as a whole while the device is disabled. Upstream reserves it once, and not
// where it reports a device.
func (r Rules) inventory(p Part, class string, total int) store.Inventory {
	i := store.Inventory{Class: class, Total: total, MaxUnit: total}
	if p.Device.Status == store.StatusMaintaining && (!r.Quirks || r.Layout == store.LayoutFlat) {
		i.Reserved = total
	}
	return i
}

// traits returns the traits of a deployable: the reported ones and up to two others. CUSTOM_PROGRAMMABLE is on every region
// that is not pre-programmed (Rocky specification). OWNER_CYBORG is added if the release can report it. Upstream leaves this to its drivers;
// two of them add it.
func (r Rules) traits(p Part) []string {
	traits := p.Spec.Traits
	if r.Layout == store.LayoutNested && p.Device.Type == driver.TypeFPGA && !p.Deployable.Preprogrammed && !slices.Contains(traits, driver.TraitProgrammable) {
		traits = append(slices.Clone(traits), driver.TraitProgrammable)
	}
	if !r.Quirks && r.StandardTraits != StandardTraitsCreated && r.Layout != store.LayoutFlat && !slices.Contains(traits, driver.TraitOwnerCyborg) {
		traits = append([]string{driver.TraitOwnerCyborg}, traits...)
	}
	return traits
}

// Differs reports whether the desired providers of a part have changed.
func (r Rules) Differs(before, after Part) bool {
	return !slices.EqualFunc(r.desired([]Part{before}), r.desired([]Part{after}), func(a, b provider) bool {
		return same(a.want.Inventories, b.want.Inventories) && same(a.want.Traits, b.want.Traits)
	})
}

// Has reports whether a part has an inventory of a class.
func (p Part) Has(class string) bool {
	_, memory := p.Spec.Resources[class]
	return memory || p.Spec.Class == class
}

// providers are the UUIDs of the providers that a part has something of.
func (r Rules) providers(p Part) (list []string) {
	for _, own := range r.desired([]Part{p}) {
		list = append(list, own.UUID)
	}
	return list
}

// Nests reports whether a device gets a provider of its own, above the providers of its regions. An FPGA with one
// deployable and without a region type has no partial reconfiguration, and is its own region.
func (r Rules) Nests(d driver.Device) bool {
	if r.Layout != store.LayoutNested || d.Type != driver.TypeFPGA {
		return false
	}
	return len(d.Deployables) > 1 || len(d.Deployables) == 1 && slices.ContainsFunc(d.Deployables[0].Traits, driver.IsRegionTrait)
}

// PlaceMemory moves the memory that the regions of a device share to the only region, or on a flat host to the first
// one, unless the device has a provider of its own. For several regions without a provider above them the memory is
// omitted, with an error.
func (r Rules) PlaceMemory(d driver.Device) (driver.Device, error) {
	if len(d.Resources) == 0 || r.Nests(d) {
		return d, nil
	}
	shared := d.Resources
	d.Resources = nil
	if len(d.Deployables) == 0 {
		return d, nil
	}
	if len(d.Deployables) > 1 && r.Layout != store.LayoutFlat {
		return d, fmt.Errorf("the %d providers of the device cannot share memory; placement_mode %q gives an FPGA one of its own",
			len(d.Deployables), store.LayoutNested)
	}
	d.Deployables = slices.Clone(d.Deployables)
	first := &d.Deployables[0]
	memory := maps.Clone(shared)
	for class, mib := range first.Resources {
		memory[class] += mib
	}
	first.Resources = memory
	return d, nil
}

// deviceProviderName returns the name of the provider of a device with regions. It contains the type FPGA, even if
// the driver now reports another type and the regions cannot move yet.
func deviceProviderName(d store.Device) string {
	return d.Host + "_" + driver.TypeFPGA + "_" + d.ControlPath.Reported().Address().String()
}
