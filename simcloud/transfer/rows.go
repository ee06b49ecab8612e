package transfer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// object is a JSON object of a state; the services that load it check it.
type object map[string]any

// put returns the state of a cloud with the model and the rows of the listing in place of
// its own, and without a clock.
func (w *imported) put(state []byte, m simcloud.Model) ([]byte, error) {
	var out bytes.Buffer
	var header, accelerator object
	enc, dec := json.NewEncoder(&out), json.NewDecoder(bytes.NewReader(state))
	if err := dec.Decode(&header); err != nil {
		return nil, err
	}
	header["model"] = m
	if err := enc.Encode(header); err != nil {
		return nil, err
	}
	for dec.More() {
		var r sim.Record
		err := dec.Decode(&r)
		switch {
		case r.Table == "sim.clock":
			continue
		case r.Table == "placement.dump":
			r.Row, err = json.Marshal(w.placement())
		case r.Table == "accelerator.dump":
			if err = json.Unmarshal(r.Row, &accelerator); err == nil {
				maps.Copy(accelerator, w.accelerator())
				r.Row, err = json.Marshal(accelerator)
			}
		}
		if err == nil {
			err = enc.Encode(r)
		}
		if err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
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

// row is a row of Cyborg's: the members of the listed one, but more replace or, if nil,
// remove some. A time that is not shown is that of the reading.
func (w *imported) row(id int, listed any, more object) object {
	row := object{}
	data, _ := json.Marshal(listed) // of strings, numbers and times
	_ = json.Unmarshal(data, &row)
	row["id"] = id
	row["created_at"] = cmp.Or(row["created_at"], any(w.ReadAt))
	for name, value := range more {
		if row[name] = value; value == nil {
			delete(row, name)
		}
	}
	return row
}

// accelerator are the rows of a Cyborg that knows what is listed, by table.
func (w *imported) accelerator() object {
	l := cmp.Or(w.Accelerator, &AcceleratorListing{})
	tables, last := make(map[string][]object), make(map[string]int)
	add := func(table string, id int, listed any, more object) {
		tables[table], last[table] = append(tables[table], w.row(id, listed, more)), id
	}
	profiles, held := make(map[string]string), make(map[string]string)
	for i, p := range l.DeviceProfiles {
		profiles[p.Name] = p.UUID
		add("device_profiles", i+1, p, nil)
	}
	for _, d := range w.devices {
		add("devices", d.id, d.ListedDevice, object{
			"driver": "verbatim", "status": cmp.Or(d.Status, fakecyborg.StatusEnabled), "controlpath_id": d.reported.ControlPath, "nested": d.nested, "resources": d.reported.Resources,
		})
	}
	for _, d := range w.deployables {
		_, offered := w.providers[d.ProviderUUID]
		add("deployables", d.id, d.ListedDeployable, object{
			"device": d.device.UUID, "offered": offered, "resources": d.reported.Resources, "device_id": nil, "attributes": nil,
		})
		for i, h := range d.reported.AttachHandles {
			id := w.id("attach handle", d.UUID, i)
			if i < len(d.arqs) {
				id = cmp.Or(d.arqs[i].AttachHandleUUID, id) // Zed shows none
				held[d.arqs[i].UUID] = id
			}
			add("attach_handles", last["attach_handles"]+1, ListedTimes{CreatedAt: d.CreatedAt}, object{
				"uuid": id, "deployable": d.UUID, "attach_type": h.Type, "attach_info": h.Info, "in_use": i < len(d.arqs),
			})
		}
	}
	for i, a := range w.attributes {
		add("attributes", i+1, a.ListedAttribute, object{"deployable": a.deployable.UUID, "by_user": a.byUser, "deployable_id": nil})
	}
	for i, a := range l.ARQs {
		add("accelerator_requests", i+1, a, object{
			"device_profile": profiles[a.ProfileName], "attach_handle_uuid": held[a.UUID],
			"device_profile_name": nil, "attach_handle_type": nil, "attach_handle_info": nil,
		})
	}
	out := object{"ids": object{"request": 0, "named": object{}, "last": last}}
	for _, table := range []string{"device_profiles", "devices", "deployables", "attributes", "attach_handles", "accelerator_requests"} {
		out[table] = tables[table]
	}
	return out
}
