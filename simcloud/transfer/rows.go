package transfer

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// object is a JSON object of a state; the services that load it check it.
type object map[string]any

// put returns the state of a cloud with the model and the rows of the listing in place of
// its own.
func (w *imported) put(state []byte, m simcloud.Model) ([]byte, error) {
	var document, accelerator map[string]any
	if err := json.Unmarshal(state, &document); err != nil {
		return nil, err
	}
	accelerator, _ = document["accelerator"].(map[string]any)
	delete(document, "clock")
	maps.Copy(accelerator, w.accelerator())
	document["model"], document["placement"] = m, w.placement()
	hosts, _ := document["hosts"].(map[string]any)
	for _, h := range m.Hosts {
		drivers := hosts[h.Name].(map[string]any)["drivers"].(map[string]any)
		if len(h.Devices) > 0 && drivers["verbatim"] == nil {
			drivers["verbatim"] = object{"schema_version": 1, "mdevs": []object{}, "images": []object{}}
		}
	}
	return json.Marshal(document)
}

// placement are the rows of a Placement that holds what is listed. It shows the traits of a
// provider by age, which is not listed; they are made in the order in which providers show
// them.
func (w *imported) placement() object {
	classes, traits := slices.Clone(w.Placement.ResourceClasses), []string{}
	roots, providers, consumers := []string{}, []object{}, []object{}
	for _, p := range w.Placement.ResourceProviders {
		if p.Parent == "" {
			roots = append(roots, p.UUID)
		}
		classes, traits = append(classes, slices.Sorted(maps.Keys(p.Inventories))...), append(traits, p.Traits...)
		inventories := []object{}
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			i := p.Inventories[class]
			inventories = append(inventories, object{
				"resource_class": class, "total": i.Total, "reserved": i.Reserved, "min_unit": i.MinUnit, "max_unit": i.MaxUnit,
				"step_size": i.StepSize, "allocation_ratio": i.AllocationRatio, "changed": w.ReadAt,
			})
		}
		providers = append(providers, object{
			"uuid": p.UUID, "name": p.Name, "parent": p.Parent, "generation": p.Generation, "inventories": inventories,
			"traits": p.Traits, "aggregates": p.Aggregates, "created": w.ReadAt,
		})
	}
	for _, c := range w.Placement.Consumers {
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
		consumers = append(consumers, object{
			"uuid": c.UUID, "project_id": c.ProjectID, "user_id": c.UserID, "consumer_type": c.ConsumerType, "generation": generation,
			"created": w.ReadAt, "allocations": allocations,
		})
	}
	return object{
		"schema_version": 1, "ids": object{"provider": 0, "request": 0}, "created": w.ReadAt, "roots": roots, "resource_providers": providers, "consumers": consumers,
		"resource_classes": w.names(classes, placementsim.StandardResourceClasses()), "traits": w.names(append(traits, w.Placement.Traits...), placementsim.StandardTraits()),
	}
}

// names are the rows of names that not every Placement has.
func (w *imported) names(names, standard []string) []object {
	known := make(map[string]bool)
	for _, name := range standard {
		known[name] = true
	}
	list := []object{}
	for _, name := range names {
		if !known[name] {
			known[name] = true
			list = append(list, object{"name": name, "created": w.ReadAt})
		}
	}
	return list
}

// row is a row of Cyborg's without empty texts. A time that is not shown is that of the
// reading.
func (w *imported) row(id int, uuid string, t ListedTimes, more object) object {
	o := object{"id": id, "uuid": uuid, "created_at": cmp.Or(t.CreatedAt, w.ReadAt).UTC()}
	if !t.UpdatedAt.IsZero() {
		o["updated_at"] = t.UpdatedAt.UTC()
	}
	for name, value := range more {
		if value != "" {
			o[name] = value
		}
	}
	return o
}

// accelerator are the rows of a Cyborg that knows what is listed.
func (w *imported) accelerator() object {
	listing := cmp.Or(w.Accelerator, &AcceleratorListing{})
	profiles, devices, deployables, attributes, handles, arqs := []object{}, []object{}, []object{}, []object{}, []object{}, []object{}
	last := map[string]int{"device_profiles": len(listing.DeviceProfiles), "attributes": len(w.attributes), "accelerator_requests": len(listing.ARQs)}
	profileIDs, held := make(map[string]string), make(map[string]string)
	for i, p := range listing.DeviceProfiles {
		profileIDs[p.Name] = p.UUID
		profiles = append(profiles, w.row(i+1, p.UUID, p.ListedTimes, object{"name": p.Name, "groups": p.Groups, "description": p.Description}))
	}
	for _, d := range w.devices {
		last["devices"] = d.id
		devices = append(devices, w.row(d.id, d.UUID, d.ListedTimes, object{
			"hostname": d.Hostname, "driver": "verbatim", "status": cmp.Or(d.Status, fakecyborg.StatusEnabled), "vendor": d.Vendor, "model": d.Model, "type": d.Type,
			"std_board_info": d.StdBoardInfo, "vendor_board_info": d.VendorBoardInfo, "controlpath_id": d.path, "nested": w.nested(d), "resources": w.shared(d),
		}))
	}
	for _, d := range w.deployables {
		_, offered := w.providers[d.ProviderUUID]
		last["deployables"] = d.id
		deployables = append(deployables, w.row(d.id, d.UUID, d.ListedTimes, object{
			"device": d.device.UUID, "name": d.Name, "rp_uuid": d.ProviderUUID, "num_accelerators": d.NumAccelerators, "driver_name": d.DriverName,
			"offered": offered, "resources": w.memory(d), "bitstream_id": d.BitstreamID,
		}))
		for _, h := range d.handles {
			held[h.arq] = h.uuid
			handles = append(handles, w.row(len(handles)+1, h.uuid, ListedTimes{CreatedAt: d.CreatedAt}, object{
				"deployable": d.UUID, "attach_type": h.Type, "attach_info": h.Info, "in_use": h.arq != "",
			}))
		}
	}
	last["attach_handles"] = len(handles)
	for i, a := range w.attributes {
		attributes = append(attributes, w.row(i+1, a.UUID, a.ListedTimes, object{"deployable": a.deployable.UUID, "key": a.Key, "value": a.Value, "by_user": a.byUser}))
	}
	for i, a := range listing.ARQs {
		arqs = append(arqs, w.row(i+1, a.UUID, a.ListedTimes, object{
			"state": a.State, "device_profile": profileIDs[a.ProfileName], "device_profile_group_id": a.Group, "hostname": a.Hostname,
			"device_rp_uuid": a.ProviderUUID, "instance_uuid": a.InstanceUUID, "project_id": a.ProjectID, "attach_handle_uuid": held[a.UUID],
		}))
	}
	return object{
		"device_profiles": profiles, "devices": devices, "deployables": deployables, "attributes": attributes, "attach_handles": handles,
		"accelerator_requests": arqs, "ids": object{"request": 0, "named": object{}, "last": last},
	}
}
