package fakecyborg

import (
	"maps"
	"slices"
)

// dumpPlacement is what the shapes other than treeShape keep of what they wrote.
type dumpPlacement struct {
	// Hosts are the compute providers of ModeFlat.
	Hosts []dumpFlatHost `json:"compute_providers,omitempty"`
	// Devices are the providers of devices of ModeNested, and Regions what stands
	// below them.
	Devices []dumpNestedDevice `json:"device_providers,omitempty"`
	Regions []dumpRegion       `json:"regions,omitempty"`
}

// dumpFlatHost is Cyborg's share of a compute provider.
type dumpFlatHost struct {
	Provider    string               `json:"uuid"`
	Parts       []dumpFlatPart       `json:"deployables,omitempty"` // what is to be there
	Inventories map[string]inventory `json:"inventories,omitempty"` // what was written
	Traits      []string             `json:"traits,omitempty"`      // what was added
	// Adopted tells that an inventory of an earlier life was taken over.
	Adopted bool `json:"taken_over,omitempty"`
}

type dumpFlatPart struct {
	Name     string         `json:"name"`
	Class    string         `json:"resource_class"`
	Total    int            `json:"total"`
	Reserved int            `json:"reserved,omitempty"`
	Memory   map[string]int `json:"resources,omitempty"`
	Traits   []string       `json:"traits,omitempty"`
}

// dumpNestedDevice is what was written to the provider of a device.
type dumpNestedDevice struct {
	Name        string               `json:"name"`
	Inventories map[string]inventory `json:"inventories,omitempty"`
	Traits      []string             `json:"traits,omitempty"`
}

type dumpRegion struct {
	Name   string   `json:"name"`
	Device string   `json:"device"` // name of the provider above
	Traits []string `json:"traits,omitempty"`
}

// dumpPlacement writes what the shape keeps; a treeShape keeps nothing.
func (s *Server) dumpPlacement() *dumpPlacement {
	switch shape := s.shape.(type) {
	case *flatShape:
		return shape.dump()
	case *nestedShape:
		return shape.dump()
	}
	return nil
}

func (f *flatShape) dump() *dumpPlacement {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := &dumpPlacement{}
	for _, uuid := range slices.Sorted(maps.Keys(f.hosts)) {
		h := f.hosts[uuid]
		host := dumpFlatHost{Provider: uuid, Inventories: maps.Clone(h.classes), Traits: slices.Clone(h.traits), Adopted: h.adopted}
		for _, name := range slices.Sorted(maps.Keys(h.parts)) {
			p := h.parts[name]
			host.Parts = append(host.Parts, dumpFlatPart{
				Name: name, Class: p.class, Total: p.total, Reserved: p.reserved, Memory: maps.Clone(p.memory), Traits: slices.Clone(p.traits),
			})
		}
		if len(host.Parts)+len(host.Inventories)+len(host.Traits) > 0 || host.Adopted {
			d.Hosts = append(d.Hosts, host)
		}
	}
	return d
}

func (n *nestedShape) dump() *dumpPlacement {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := &dumpPlacement{}
	names := append(slices.Collect(maps.Keys(n.traits)), slices.Collect(maps.Keys(n.memory))...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		device := dumpNestedDevice{Name: name, Inventories: maps.Clone(n.memory[name]), Traits: slices.Clone(n.traits[name])}
		if len(device.Inventories)+len(device.Traits) > 0 {
			d.Devices = append(d.Devices, device)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.regions)) {
		region := n.regions[name]
		d.Regions = append(d.Regions, dumpRegion{Name: name, Device: region.device, Traits: slices.Clone(region.traits)})
	}
	return d
}
