package fakecyborg

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// traitOwnerNova is on the providers that Nova makes for its own devices.
const traitOwnerNova = "OWNER_NOVA"

// ownedTraits are the traits of a provider with the one that says whose it is.
// Upstream leaves that to its drivers, of which two add it.
func (st *state) ownedTraits(reported []string) []string {
	if st.quirks || st.mode == ModeFlat || slices.Contains(reported, driver.TraitOwnerCyborg) {
		return reported
	}
	return append([]string{driver.TraitOwnerCyborg}, reported...)
}

// refuseClaimed takes those devices out of a sighting that Nova offers, too: a
// device with two owners is given away twice. Nova's settings are asked about
// every device, its providers about devices that are new, so that a report
// without changes still costs one call. Upstream reports such a device.
func (r *reporting) refuseClaimed(ctx context.Context, a *agent, seen *sighting) {
	if r.s.cfg.UpstreamQuirks {
		return
	}
	claims := claims{r: r, ctx: ctx}
	seen.devices = slices.DeleteFunc(seen.devices, func(f found) bool {
		by := ""
		if a.host.NovaClaims != nil {
			by = a.host.NovaClaims(f.device.Clone())
		}
		if by == "" {
			by = claims.of(f.device)
		}
		if by != "" {
			key := f.device.ControlPath.Key()
			delete(seen.present, key)
			r.fail(key, "take what driver "+f.source+" reports", fmt.Errorf("the device is offered by Nova, too: %s", by))
			r.leaveOut(f, "offered by Nova, too: "+by)
		}
		return by != ""
	})
}

// leaveOut makes it show in what a driver found that a device is not offered.
func (r *reporting) leaveOut(f found, reason string) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	reports := slices.Clone(r.s.reports[r.host]) // readers may have the old list
	for i := range reports {
		if reports[i].Driver == f.source {
			reports[i].Devices--
			reports[i].LeftOut = append(slices.Clone(reports[i].LeftOut), driver.LeftOut{
				Address: f.device.ControlPath.Address().String(), Driver: f.source, Reason: reason,
			})
		}
	}
	r.s.reports[r.host] = reports
}

// claims knows the devices of Nova's providers below a host, once asked for.
type claims struct {
	r         *reporting
	ctx       context.Context
	asked     bool
	providers []string // names
}

// of names the provider of Nova's that stands for a device, or "".
func (c *claims) of(d driver.Device) string {
	c.r.s.mu.RLock()
	known := c.r.s.state.deviceOf(c.r.host, d.ControlPath.Key()) != nil
	c.r.s.mu.RUnlock()
	if known || c.r.s.placement == nil {
		return ""
	}
	if !c.asked {
		c.asked = true
		list, err := c.r.s.placement.list(c.ctx, "in_tree="+c.r.parent+"&required="+traitOwnerNova, "1.18")
		c.r.fail("", "look for devices of Nova's", err)
		for _, p := range list {
			if p.UUID != c.r.parent {
				c.providers = append(c.providers, p.Name)
			}
		}
	}
	for _, address := range addressesOf(d) {
		for _, name := range c.providers {
			if namesAddress(name, address) {
				return "resource provider " + name + " carries " + traitOwnerNova
			}
		}
	}
	return ""
}

// addressesOf lists the PCI functions of a device: where it is reached, and what
// guests get of it.
func addressesOf(d driver.Device) []driver.PCIAddress {
	var list []driver.PCIAddress
	add := func(info driver.Info) {
		if address, err := driver.PCIAddressOf(info); err == nil && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	add(d.ControlPath.Info)
	for _, part := range d.Deployables {
		for _, h := range part.AttachHandles {
			if h.Type != driver.HandleTestPCI { // stands for no function
				add(h.Info)
			}
		}
	}
	return list
}

// namesAddress reports whether the name of a provider of Nova's ends with an
// address: HOST_0000:3b:00.0 for PCI devices, HOST_pci_0000_3b_00_0 for cards
// divided into vGPUs (nova/compute/pci_placement_translator.py,
// nova/virt/libvirt/driver.py).
func namesAddress(name string, address driver.PCIAddress) bool {
	text := address.String()
	return strings.HasSuffix(name, "_"+text) ||
		strings.HasSuffix(name, "pci_"+strings.NewReplacer(":", "_", ".", "_").Replace(text))
}

// checkOwner is upstream's refusal of a group that names the owner of its
// device: only custom traits may be asked for there.
func (in profileInput) checkOwner() error {
	for _, g := range in.groups {
		if _, ok := g.get(prefixTrait + driver.TraitOwnerCyborg); ok {
			return refuse(kindInvalid, "Unsupported trait name format %s, should start with CUSTOM_", driver.TraitOwnerCyborg)
		}
	}
	return nil
}
