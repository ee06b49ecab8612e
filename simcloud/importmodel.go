package simcloud

import (
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// traitShares is on providers that serve others of their aggregates.
const traitShares = "MISC_SHARES_VIA_AGGREGATE"

// isHost tells whether a provider is that of a compute host: a root that serves nobody
// beside and whose name can be a host's, or one of those that Cyborg has.
func (p ListedProvider) isHost(hostnames map[string]bool) bool {
	return p.Parent == "" && (hostnames[p.Name] || !slices.Contains(p.Traits, traitShares) && isHostName(p.Name))
}

// findHosts lists the roots, and the hosts of Cyborg's that Placement does not have.
func (w *imported) findHosts() {
	known := make(map[string]bool)
	for _, p := range w.Placement.ResourceProviders {
		if p.isHost(w.hostnames) {
			known[p.Name] = true
			w.hosts = append(w.hosts, importedHost{p.Name, &p})
		}
	}
	for _, d := range w.devices {
		if !known[d.Hostname] {
			known[d.Hostname] = true
			w.hosts = append(w.hosts, importedHost{d.Hostname, nil})
		}
	}
}

// model describes the cloud, as near as a model can.
func (w *imported) model() Model {
	m := Model{
		Seed: w.seed, Region: w.Region, Hosts: []Host{}, DeviceProfiles: []DeviceProfile{}, Flavors: nil,
		Cyborg: fakecyborg.Config{PlacementMode: w.mode},
	}
	for _, h := range w.hosts {
		m.Hosts = append(m.Hosts, w.modelHost(h))
	}
	if w.Accelerator == nil {
		m.Flavors = []Flavor{}
		return m
	}
	if minor, ok := strings.CutPrefix(w.Accelerator.MaxVersion, "2."); ok && (minor == "0" || minor == "1" || minor == "2") {
		m.Cyborg.Release = fakecyborg.ReleaseZed
	}
	for _, p := range w.Accelerator.DeviceProfiles {
		m.DeviceProfiles = append(m.DeviceProfiles, DeviceProfile{Name: p.Name, Description: p.Description, Groups: p.Groups})
	}
	return m
}

func (w *imported) modelHost(h importedHost) Host {
	host := Host{Name: h.name, Traits: []string{}}
	if h.root != nil {
		host.ProviderUUID = h.root.UUID
		host.VCPUs = h.root.Inventories["VCPU"].Total
		host.MemoryMB = h.root.Inventories["MEMORY_MB"].Total
		host.DiskGB = h.root.Inventories["DISK_GB"].Total
		host.Traits = append(host.Traits, h.root.Traits...)
		host.Providers = w.novasProviders(*h.root)
	}
	for _, d := range w.devices {
		if d.Hostname == h.name {
			host.Devices = append(host.Devices, d.report(w))
		}
	}
	return host
}

// novasProviders are those right below a host that are not Cyborg's.
func (w *imported) novasProviders(root ListedProvider) []Provider {
	var list []Provider
	for _, p := range w.Placement.ResourceProviders {
		if p.Parent != root.UUID || w.cyborgs[p.UUID] {
			continue
		}
		one := Provider{Name: p.Name, Inventory: make(map[string]int), Traits: p.Traits}
		for class, i := range p.Inventories {
			if driver.CheckResourceClass(class) == nil {
				one.Inventory[class] = i.Total
			}
		}
		list = append(list, one)
	}
	return list
}

// report is the device as its driver reports it.
func (d *importedDevice) report(w *imported) driver.Device {
	out := d.head(w)
	out.Deployables = []driver.Deployable{}
	for _, part := range d.parts {
		one := driver.Deployable{Name: part.Name, NumAccelerators: part.NumAccelerators, DriverName: part.DriverName, Resources: part.memory}
		for _, a := range part.attributes {
			if !a.byUser {
				one.Attributes = append(one.Attributes, driver.Attribute{Key: a.Key, Value: a.Value})
			}
		}
		for _, h := range part.handles {
			one.AttachHandles = append(one.AttachHandles, h.AttachHandle)
		}
		out.Deployables = append(out.Deployables, one)
	}
	return out
}

// head is the device without its deployables.
func (d *importedDevice) head(w *imported) driver.Device {
	out := driver.Device{
		Vendor: d.Vendor, Model: d.Model, Type: d.Type, StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo, ControlPath: d.path,
	}
	if !d.nested(w) {
		return out
	}
	above := w.providers[w.providers[d.parts[0].ProviderUUID].Parent]
	for class, i := range above.Inventories {
		if out.Resources == nil {
			out.Resources = make(map[string]int)
		}
		out.Resources[class] = i.Total
	}
	return out
}

// nested tells whether the device has a provider of its own.
func (d *importedDevice) nested(w *imported) bool {
	return w.mode == fakecyborg.ModeNested && d.Type == driver.TypeFPGA && len(d.parts) > 1
}
