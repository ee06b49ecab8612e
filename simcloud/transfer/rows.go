package transfer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	placement, err := w.placement()
	if err != nil {
		return nil, err
	}
	for _, r := range placement {
		if err := enc.Encode(r); err != nil {
			return nil, err
		}
	}
	for dec.More() {
		var r sim.Record
		err := dec.Decode(&r)
		switch {
		case r.Table == "sim.clock", strings.HasPrefix(r.Table, "placement."):
			continue
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

// placement are the records of a Placement that holds what is listed. It shows the traits of
// a provider by age, which is not listed; they are made in the order in which providers show
// them.
func (w *imported) placement() (records []sim.Record, err error) {
	add := func(table, key string, row object) {
		data, failed := json.Marshal(row)
		records, err = append(records, sim.Record{Table: "placement." + table, Key: key, Row: data}), cmp.Or(err, failed)
	}
	names := func(table string, standard, names []string) map[string]int {
		ids := make(map[string]int)
		for i, name := range standard {
			ids[name] = i
		}
		for _, name := range names {
			if _, known := ids[name]; !known {
				ids[name] = len(ids)
				id := len(ids) - len(standard)
				add(table, fmt.Sprintf("%010d", id), object{"id": id, "name": name, "created_at": w.ReadAt})
			}
		}
		return ids
	}
	classes, traits := slices.Clone(w.Placement.ResourceClasses), []string{}
	for _, p := range w.Placement.ResourceProviders {
		classes, traits = append(classes, slices.Sorted(maps.Keys(p.Inventories))...), append(traits, p.Traits...)
	}
	classIDs := names("resource_classes", placementsim.StandardResourceClasses(), classes)
	traitIDs := names("traits", placementsim.StandardTraits(), append(traits, w.Placement.Traits...))
	providers, trees := make(map[string]string), 0
	for i, p := range w.Placement.ResourceProviders {
		key := fmt.Sprintf("%010d", i+1)
		providers[p.UUID] = key
		row := object{"id": i + 1, "uuid": p.UUID, "name": p.Name, "parent_provider_uuid": p.Parent, "generation": p.Generation, "created_at": w.ReadAt}
		if p.Parent == "" {
			trees++
			row["tree"] = trees
		}
		add("resource_providers", key, row)
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			i := p.Inventories[class]
			add("inventories", fmt.Sprintf("%s.%06d", key, classIDs[class]), object{
				"resource_provider": p.UUID, "resource_class": class, "total": i.Total, "reserved": i.Reserved, "min_unit": i.MinUnit, "max_unit": i.MaxUnit,
				"step_size": i.StepSize, "allocation_ratio": i.AllocationRatio, "updated_at": w.ReadAt,
			})
		}
		if len(p.Traits) > 0 {
			add("provider_traits", key, object{"resource_provider": p.UUID, "traits": p.Traits})
		}
		if len(p.Aggregates) > 0 {
			add("provider_aggregates", key, object{"resource_provider": p.UUID, "aggregates": p.Aggregates})
		}
	}
	for _, c := range w.Placement.Consumers {
		generation := 1
		if c.Generation != nil {
			generation = *c.Generation
		}
		add("consumers", c.UUID, object{
			"uuid": c.UUID, "project_id": c.ProjectID, "user_id": c.UserID, "consumer_type": c.ConsumerType, "generation": generation, "created_at": w.ReadAt,
		})
		for provider, amounts := range c.Allocations {
			for class, amount := range amounts {
				add("allocations", fmt.Sprintf("%s.%s.%06d", c.UUID, providers[provider], classIDs[class]), object{
					"consumer": c.UUID, "resource_provider": provider, "resource_class": class, "used": amount,
				})
			}
		}
	}
	add("sequences", "ids", object{"name": "ids"})
	add("sequences", "placement", object{
		"name": "placement", "resource_providers": len(providers), "trees": trees, "created_at": w.ReadAt,
		"resource_classes": len(classIDs) - len(placementsim.StandardResourceClasses()), "traits": len(traitIDs) - len(placementsim.StandardTraits()),
	})
	return records, err
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
