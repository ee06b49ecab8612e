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

// record is one row of a state.
type record struct {
	Table string `json:"table"`
	Key   string `json:"key"`
	Row   object `json:"row"`
}

// put returns the state of a cloud with the model and the rows of the listing in place of
// its own, and without a clock.
func (w *imported) put(state []byte, m simcloud.Model) ([]byte, error) {
	var out bytes.Buffer
	var header object
	enc, dec := json.NewEncoder(&out), json.NewDecoder(bytes.NewReader(state))
	if err := dec.Decode(&header); err != nil {
		return nil, err
	}
	header["model"] = m
	if err := enc.Encode(header); err != nil {
		return nil, err
	}
	for _, r := range w.accelerator() {
		if err := enc.Encode(r); err != nil {
			return nil, err
		}
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
		case r.Table == "sim.clock", strings.HasPrefix(r.Table, "placement."),
			slices.Contains(cyborgTables(), strings.TrimPrefix(r.Table, "accelerator.")),
			r.Table == "accelerator.sequences" && slices.Contains(cyborgTables(), r.Key):
			continue
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

// cyborgTables are the tables of Cyborg's whose rows are those of the listing.
func cyborgTables() []string {
	return []string{"device_profiles", "devices", "deployables", "attributes", "attach_handles", "accelerator_requests"}
}

// accelerator are the rows of a Cyborg that knows what is listed.
func (w *imported) accelerator() []record {
	l := cmp.Or(w.Accelerator, &AcceleratorListing{})
	var list []record
	last := make(map[string]int)
	add := func(table string, id int, listed any, more object) {
		list = append(list, record{"accelerator." + table, fmt.Sprintf("%010d", id), w.row(id, listed, more)})
		last[table] = max(last[table], id)
	}
	held := make(map[string]string) // attach handles by request
	for i, p := range l.DeviceProfiles {
		groups := [][]object{}
		for _, g := range p.Groups {
			items := []object{}
			for _, key := range slices.Sorted(maps.Keys(g)) {
				items = append(items, object{"key": key, "value": g[key]})
			}
			groups = append(groups, items)
		}
		add("device_profiles", i+1, p, object{"groups": groups, "updated_at": nil})
	}
	for _, d := range w.devices {
		add("devices", d.id, d.ListedDevice, object{
			"driver": "verbatim", "status": cmp.Or(d.Status, fakecyborg.StatusEnabled), "controlpath_id": d.reported.ControlPath, "nested": d.nested, "resources": d.reported.Resources,
		})
	}
	holders := make(map[string]string) // requests by attach handle
	for _, d := range w.deployables {
		for i, a := range d.arqs {
			if i < len(d.reported.AttachHandles) {
				held[a.UUID] = cmp.Or(a.AttachHandleUUID, w.id("attach handle", d.UUID, i)) // Zed shows none
				holders[held[a.UUID]] = a.UUID
			}
		}
	}
	for _, d := range w.deployables {
		_, offered := w.providers[d.ProviderUUID]
		add("deployables", d.id, d.ListedDeployable, object{
			"device": d.device.UUID, "in_placement": offered, "resources": d.reported.Resources, "device_id": nil, "attributes": nil,
		})
		for i, h := range d.reported.AttachHandles {
			id := w.id("attach handle", d.UUID, i)
			if i < len(d.arqs) {
				id = held[d.arqs[i].UUID]
			}
			add("attach_handles", last["attach_handles"]+1, ListedTimes{}, object{
				"uuid": id, "deployable": d.UUID, "attach_type": h.Type, "attach_info": h.Info,
				"in_use": i < len(d.arqs), "held_by": holders[id], "created_at": nil,
			})
		}
	}
	for i, a := range w.attributes {
		add("attributes", i+1, a.ListedAttribute, object{"deployable": a.deployable.UUID, "by_user": a.byUser, "deployable_id": nil})
	}
	for i, a := range l.ARQs {
		add("accelerator_requests", i+1, a, object{
			"attach_handle": held[a.UUID], "attach_handle_uuid": nil, "attach_handle_type": nil, "attach_handle_info": nil,
		})
	}
	for _, table := range cyborgTables() {
		list = append(list, record{"accelerator.sequences", table, object{"name": table, "last": last[table]}})
	}
	return list
}
