package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// traitOwnerNova is on the providers that Nova creates for its own devices.
const traitOwnerNova = "OWNER_NOVA"

// claimsPeriod is how often Nova's providers are read for known devices.
const claimsPeriod = 10 * reportPeriod

// ErrOwnerConflict is public in fakecyborg.
var ErrOwnerConflict = errors.New("the device is offered by Nova, too")

// refuseClaimed removes devices that Nova also offers from a discovery, since both would assign them. Nova's settings
// are checked for every device. Its providers, which may be created later, are read every ten minutes, for new
// devices, and until no device is refused, so most reports without changes need only one call. Upstream reports such
// a device.
func (r *report) refuseClaimed(ctx context.Context, seen *discovery, stored []storedDevice) {
	if r.c.cfg.Quirks {
		return
	}
	var providers []string // names of Nova's providers
	if r.asksForClaims(seen, stored) {
		providers = r.novaProviders(ctx)
	}
	seen.devices = slices.DeleteFunc(seen.devices, func(f found) bool {
		by := ""
		if r.host.NovaClaims != nil {
			by = r.host.NovaClaims(f.Device.Clone())
		}
		if by == "" {
			by = claimedBy(providers, f.Device)
		}
		if by == "" {
			return false
		}
		delete(seen.present, f.key)
		r.fail(f.key, "take what driver "+f.source+" reports", fmt.Errorf("%w: %s", ErrOwnerConflict, by))
		r.addConflict(f, by)
		return true
	})
}

// asksForClaims reports whether Nova's providers must be read.
func (r *report) asksForClaims(seen *discovery, stored []storedDevice) bool {
	isNew := func(f found) bool { return !isStored(stored, f) }
	due := !r.c.now().Before(seen.before.ClaimsReadAt.Add(claimsPeriod))
	return r.c.cfg.Placement != nil && len(seen.devices) > 0 && (due || contested(seen.before) || slices.ContainsFunc(seen.devices, isNew))
}

// contested reports whether a report has conflicts.
func contested(report store.HostReport) bool {
	return slices.ContainsFunc(report.Drivers, func(d store.DriverReport) bool { return len(d.Conflicts) > 0 })
}

// addConflict moves a device to the conflicts in the report of its driver.
func (r *report) addConflict(f found, reason string) {
	r.c.db.Update(nil, func(tx store.Tx) {
		tx.ChangeReport(r.name, f.source, func(report *store.DriverReport) {
			report.Devices--
			report.Conflicts = append(slices.Clone(report.Conflicts), driver.Notice{
				Address: f.ControlPath.Address().String(), Driver: f.source, Reason: reason,
			})
		})
	})
}

// novaProviders are the names of Nova's providers below the host.
func (r *report) novaProviders(ctx context.Context) (names []string) {
	list, err := r.c.cfg.Placement.List(ctx, "in_tree="+r.parent+"&required="+traitOwnerNova, "1.18")
	r.fail("", "look for devices of Nova's", err)
	if err == nil {
		r.c.db.Update(nil, func(tx store.Tx) { tx.ClaimsRead(r.name, r.c.now()) })
	}
	for _, p := range list {
		if p.UUID != r.parent {
			names = append(names, p.Name)
		}
	}
	return names
}

// claimedBy returns the name of Nova's provider for a device, or "".
func claimedBy(providers []string, d driver.Device) string {
	for _, at := range d.Addresses() {
		for _, name := range providers {
			if at.Kind == driver.ControlPathPCI && namesAddress(name, at.PCI) {
				return "resource provider " + name + " carries " + traitOwnerNova
			}
		}
	}
	return ""
}

// nodeDevice writes an address as libvirt does in the names of node devices.
var nodeDevice = strings.NewReplacer(":", "_", ".", "_")

// namesAddress reports whether the name of a Nova provider ends with an address: HOST_0000:3b:00.0 for PCI devices,
// HOST_pci_0000_3b_00_0 for cards divided into vGPUs (nova/compute/pci_placement_translator.py,
// nova/virt/libvirt/driver.py).
func namesAddress(name string, address driver.PCIAddress) bool {
	text := address.String()
	return strings.HasSuffix(name, "_"+text) ||
		strings.HasSuffix(name, "pci_"+nodeDevice.Replace(text))
}
