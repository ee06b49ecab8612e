package simcloud

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

// object is a JSON object of a dump; the services that load it say what must be in it.
type object map[string]any

// put adds a member unless it is empty.
func (o object) put(name, value string) object {
	if value != "" {
		o[name] = value
	}
	return o
}

// placement is the dump of a Placement that holds what is listed.
func (w *imported) placement() object {
	classes, traits := []object{}, []object{}
	for _, name := range without(w.classes(), placementsim.StandardResourceClasses()) {
		classes = append(classes, object{"name": name, "created": w.ReadAt})
	}
	for _, name := range w.customTraits() {
		traits = append(traits, object{"name": name, "created": w.ReadAt})
	}
	roots, providers, consumers := []string{}, []object{}, []object{}
	for _, p := range w.Placement.ResourceProviders {
		if p.Parent == "" {
			roots = append(roots, p.UUID)
		}
		providers = append(providers, w.providerRow(p))
	}
	for _, c := range w.Placement.Consumers {
		consumers = append(consumers, w.consumerRow(c))
	}
	return object{
		"schema_version": 1, "ids": object{"provider": 0, "request": 0}, "created": w.ReadAt, "resource_classes": classes,
		"traits": traits, "roots": roots, "resource_providers": providers, "consumers": consumers,
	}
}

// classes are those that are listed, and then those that inventories have.
func (w *imported) classes() []string {
	names := slices.Clone(w.Placement.ResourceClasses)
	for _, p := range w.Placement.ResourceProviders {
		names = append(names, slices.Sorted(maps.Keys(p.Inventories))...)
	}
	return names
}

// customTraits are the traits that not every Placement has, in an order in which they may
// have been made: Placement lists them by name, but those of a provider by age.
func (w *imported) customTraits() []string {
	names := slices.Clone(w.Placement.Traits)
	for _, p := range w.Placement.ResourceProviders {
		names = append(names, p.Traits...)
	}
	names = without(names, placementsim.StandardTraits())
	older := make(map[string]map[string]bool, len(names)) // by the younger one
	for _, name := range names {
		older[name] = make(map[string]bool)
	}
	for _, p := range w.Placement.ResourceProviders {
		before := ""
		for _, name := range p.Traits {
			if older[name] == nil {
				continue
			}
			if before != "" {
				older[name][before] = true
			}
			before = name
		}
	}
	return oldestFirst(names, older)
}

// oldestFirst puts names behind those that are older, and else leaves them in order. What
// goes round in circles is left in order, too.
func oldestFirst(names []string, older map[string]map[string]bool) []string {
	list := make([]string, 0, len(names))
	placed := make(map[string]bool, len(names)) // or being placed
	var place func(name string)
	place = func(name string) {
		if placed[name] {
			return
		}
		placed[name] = true
		for _, before := range slices.Sorted(maps.Keys(older[name])) {
			place(before)
		}
		list = append(list, name)
	}
	for _, name := range names {
		place(name)
	}
	return list
}

// without are the names that are not among others, each once.
func without(names, others []string) []string {
	seen := make(map[string]bool, len(others))
	for _, name := range others {
		seen[name] = true
	}
	var list []string
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			list = append(list, name)
		}
	}
	return list
}

func (w *imported) providerRow(p ListedProvider) object {
	inventories := []object{}
	for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
		i := p.Inventories[class]
		inventories = append(inventories, object{
			"resource_class": class, "total": i.Total, "reserved": i.Reserved, "min_unit": i.MinUnit, "max_unit": i.MaxUnit,
			"step_size": i.StepSize, "allocation_ratio": i.AllocationRatio, "changed": w.ReadAt,
		})
	}
	return object{
		"uuid": p.UUID, "name": p.Name, "generation": p.Generation, "inventories": inventories,
		"traits": p.Traits, "aggregates": p.Aggregates, "created": w.ReadAt,
	}.put("parent", p.Parent)
}

func (w *imported) consumerRow(c ListedConsumer) object {
	allocations := []object{}
	for _, provider := range slices.Sorted(maps.Keys(c.Allocations)) {
		for _, class := range slices.Sorted(maps.Keys(c.Allocations[provider])) {
			allocations = append(allocations, object{"resource_provider": provider, "resource_class": class, "amount": c.Allocations[provider][class]})
		}
	}
	generation := 1
	if c.Generation != nil {
		generation = *c.Generation
	}
	return object{
		"uuid": c.UUID, "project_id": c.ProjectID, "user_id": c.UserID, "generation": generation, "created": w.ReadAt, "allocations": allocations,
	}.put("consumer_type", c.ConsumerType)
}

// accelerator is the dump of a Cyborg that knows what is listed.
func (w *imported) accelerator(m Model) object {
	rows := &rows{w: w, profiles: make(map[string]string), held: make(map[string]string)}
	d := object{
		"schema_version": 1, "placement_mode": cmp.Or(w.mode, fakecyborg.ModeTree), "device_profiles": rows.ofProfiles(),
		"devices": rows.ofDevices(), "deployables": rows.ofParts(), "attributes": rows.ofAttributes(), "attach_handles": rows.ofHandles(),
		"accelerator_requests": rows.ofARQs(), "binds": []object{}, "agents": rows.ofAgents(m), "driver_reports": []object{}, "events": []object{},
		"ids": object{"request": 0, "named": object{}, "last": rows.last},
	}
	if shares := w.shares(); shares != nil {
		d["placement"] = shares
	}
	return d
}

// rows writes the tables and counts what it writes.
type rows struct {
	w        *imported
	profiles map[string]string // uuid by name
	held     map[string]string // attach handle by request
	last     struct {
		Profiles    int `json:"device_profiles"`
		Devices     int `json:"devices"`
		Deployables int `json:"deployables"`
		Attributes  int `json:"attributes"`
		Handles     int `json:"attach_handles"`
		ARQs        int `json:"accelerator_requests"`
	}
}

// row begins a row. A time that the cloud did not tell is that of the reading.
func (r *rows) row(id int, uuid string, t ListedTimes) object {
	created := t.CreatedAt
	if created.IsZero() {
		created = r.w.ReadAt
	}
	o := object{"id": id, "uuid": uuid, "created_at": created.UTC()}
	if !t.UpdatedAt.IsZero() {
		o["updated_at"] = t.UpdatedAt.UTC()
	}
	return o
}

func (r *rows) accelerator() AcceleratorListing {
	if r.w.Accelerator == nil {
		return AcceleratorListing{}
	}
	return *r.w.Accelerator
}

func (r *rows) ofProfiles() []object {
	list := []object{}
	for _, p := range r.accelerator().DeviceProfiles {
		r.last.Profiles++
		r.profiles[p.Name] = p.UUID
		row := r.row(r.last.Profiles, p.UUID, p.ListedTimes)
		row["name"], row["groups"] = p.Name, p.Groups
		list = append(list, row.put("description", p.Description))
	}
	return list
}

func (r *rows) ofDevices() []object {
	list := []object{}
	for _, d := range r.w.devices {
		r.last.Devices = max(r.last.Devices, d.id)
		row := r.row(d.id, d.UUID, d.ListedTimes)
		maps.Copy(row, object{
			"hostname": d.Hostname, "driver": "verbatim", "status": cmp.Or(d.Status, fakecyborg.StatusEnabled), "vendor": d.Vendor,
			"model": d.Model, "type": d.Type, "controlpath_id": d.path,
		})
		row.put("std_board_info", d.StdBoardInfo).put("vendor_board_info", d.VendorBoardInfo)
		if d.nested(r.w) {
			row["nested"] = true
		}
		if shared := d.head(r.w).Resources; shared != nil {
			row["resources"] = shared
		}
		list = append(list, row)
	}
	return list
}

func (r *rows) ofParts() []object {
	list := []object{}
	for _, part := range r.w.parts {
		r.last.Deployables = max(r.last.Deployables, part.id)
		row := r.row(part.id, part.UUID, part.ListedTimes)
		_, offered := r.w.providers[part.ProviderUUID]
		maps.Copy(row, object{
			"device": part.device.UUID, "name": part.Name, "rp_uuid": part.ProviderUUID,
			"num_accelerators": part.NumAccelerators, "driver_name": part.DriverName, "offered": offered,
		})
		if part.memory != nil {
			row["resources"] = part.memory
		}
		list = append(list, row.put("bitstream_id", part.BitstreamID))
	}
	return list
}

// ofAttributes writes the attributes in their own order, which is that of their numbers.
func (r *rows) ofAttributes() []object {
	type attribute struct {
		importedAttribute
		part *importedPart
	}
	var all []attribute
	for _, part := range r.w.parts {
		for _, a := range part.attributes {
			all = append(all, attribute{a, part})
		}
	}
	slices.SortStableFunc(all, func(a, b attribute) int { return cmp.Compare(a.order, b.order) })
	list := []object{}
	for _, a := range all {
		r.last.Attributes++
		row := r.row(r.last.Attributes, a.UUID, a.ListedTimes)
		maps.Copy(row, object{"deployable": a.part.UUID, "key": a.Key, "value": a.Value})
		if a.byUser {
			row["by_user"] = true
		}
		list = append(list, row)
	}
	return list
}

func (r *rows) ofHandles() []object {
	list := []object{}
	for _, part := range r.w.parts {
		for _, h := range part.handles {
			r.last.Handles++
			row := r.row(r.last.Handles, h.uuid, part.ListedTimes)
			maps.Copy(row, object{"deployable": part.UUID, "attach_type": h.Type, "attach_info": h.Info})
			delete(row, "updated_at")
			if h.holder != "" {
				row["in_use"] = true
				r.held[h.holder] = h.uuid
			}
			list = append(list, row)
		}
	}
	return list
}

func (r *rows) ofARQs() []object {
	list := []object{}
	for _, a := range r.accelerator().ARQs {
		r.last.ARQs++
		row := r.row(r.last.ARQs, a.UUID, a.ListedTimes)
		maps.Copy(row, object{"state": a.State, "device_profile": r.profiles[a.ProfileName], "device_profile_group_id": a.Group})
		row.put("hostname", a.Hostname).put("device_rp_uuid", a.ProviderUUID).put("instance_uuid", a.InstanceUUID)
		list = append(list, row.put("project_id", a.ProjectID).put("attach_handle_uuid", r.held[a.UUID]))
	}
	return list
}

func (r *rows) ofAgents(m Model) []object {
	list := []object{}
	for _, h := range m.Hosts {
		list = append(list, object{"host": h.Name, "started_at": r.w.ReadAt.UTC()})
	}
	slices.SortFunc(list, func(a, b object) int { return cmp.Compare(a["host"].(string), b["host"].(string)) })
	return list
}

// shares is what Cyborg wrote to Placement and keeps no row of: on flat hosts, and on the
// providers of devices with regions.
func (w *imported) shares() object {
	switch w.mode {
	case fakecyborg.ModeFlat:
		return object{"compute_providers": w.flatShares()}
	case fakecyborg.ModeNested:
		devices, regions := w.nestedShares()
		return object{"device_providers": devices, "regions": regions}
	}
	return nil
}

// flatShares are the classes and traits of the devices on the providers of their hosts.
func (w *imported) flatShares() []object {
	list := []object{}
	for _, uuid := range slices.Sorted(maps.Keys(w.providers)) {
		parts, inventories, traits := []object{}, object{}, []string{}
		for _, part := range w.parts {
			if part.ProviderUUID != uuid {
				continue
			}
			own := part.ownTraits()
			flat := object{"name": part.Name, "resource_class": part.class(), "total": part.NumAccelerators, "traits": own}
			if part.device.Status == fakecyborg.StatusMaintaining {
				flat["reserved"] = part.NumAccelerators
			}
			parts = append(parts, flat)
			if i, ok := w.providers[uuid].Inventories[part.class()]; ok {
				inventories[part.class()] = writtenInventory(i)
			}
			traits = append(traits, slices.DeleteFunc(slices.Clone(own), func(t string) bool { return t == driver.TraitOwnerCyborg })...)
		}
		if len(parts) > 0 {
			slices.SortFunc(parts, func(a, b object) int { return cmp.Compare(a["name"].(string), b["name"].(string)) })
			slices.Sort(traits)
			list = append(list, object{"uuid": uuid, "deployables": parts, "inventories": inventories, "traits": slices.Compact(traits)})
		}
	}
	return list
}

// writtenInventory is an inventory as Cyborg writes it.
func writtenInventory(i ListedInventory) object {
	o := object{"total": i.Total, "max_unit": i.MaxUnit}
	if i.Reserved > 0 {
		o["reserved"] = i.Reserved
	}
	return o
}

// ownTraits are those that drivers reported of a deployable.
func (part *importedPart) ownTraits() []string {
	traits := []string{}
	for _, a := range part.attributes {
		if strings.HasPrefix(a.Key, "trait") && !a.byUser {
			traits = append(traits, a.Value)
		}
	}
	return traits
}

// nestedShares are the providers of devices and what stands below them.
func (w *imported) nestedShares() (devices, regions []object) {
	devices, regions = []object{}, []object{}
	for _, d := range w.devices {
		if !d.nested(w) {
			continue
		}
		above := w.providers[w.providers[d.parts[0].ProviderUUID].Parent]
		inventories := object{}
		for class, i := range above.Inventories {
			inventories[class] = writtenInventory(i)
		}
		traits := slices.Clone(above.Traits)
		slices.Sort(traits)
		devices = append(devices, object{"name": above.Name, "inventories": inventories, "traits": traits})
		for _, part := range d.parts {
			own := slices.Clone(w.providers[part.ProviderUUID].Traits)
			slices.Sort(own)
			regions = append(regions, object{"name": part.Name, "device": above.Name, "traits": own})
		}
	}
	byName := func(a, b object) int { return cmp.Compare(a["name"].(string), b["name"].(string)) }
	slices.SortFunc(devices, byName)
	slices.SortFunc(regions, byName)
	return devices, regions
}
