package transfer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/driver/verbatim"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// row is a row of a state; the services that load it check it.
type row map[string]any

// writer collects the records of the state of a cloud that is like the original.
type writer struct {
	*original
	records []sim.Record
	last    map[string]int // the newest number, by table of Cyborg's
	err     error
}

func (w *writer) add(table, key string, r row) {
	data, err := json.Marshal(r)
	w.err = cmp.Or(w.err, err)
	w.records = append(w.records, sim.Record{Table: table, Key: key, Row: data})
}

// number is the key of a row with a number.
func number(id int) string { return fmt.Sprintf("%010d", id) }

// cloud adds what no service of the original shows: hardware without mediated devices, which
// the agents then make, and the seed of faults.
func (w *writer) cloud(m simcloud.Model) {
	for _, h := range m.Hosts {
		drivers := row{}
		if len(h.Devices) > 0 {
			snapshot, err := verbatim.New(nil).Dump()
			drivers["verbatim"], w.err = json.RawMessage(snapshot), cmp.Or(w.err, err)
		}
		w.add("hardware.hosts", h.Name, row{"host": h.Name, "drivers": drivers})
	}
	w.add("sim.faults.seed", "seed", row{"seed": w.seed})
}

// placement adds the rows of a Placement that holds what is listed. It shows the traits of a
// provider by age, which is not listed; they are made in the order in which providers show
// them.
func (w *writer) placement() {
	classes, traits := []string{}, []string{}
	for _, c := range w.Placement.Classes {
		classes = append(classes, c.Name)
	}
	for _, p := range w.Placement.Providers {
		classes, traits = append(classes, slices.Sorted(maps.Keys(p.Inventories))...), append(traits, p.Traits...)
	}
	classIDs := w.names("resource_classes", placementsim.StandardResourceClasses(), classes)
	traitIDs := w.names("traits", placementsim.StandardTraits(), append(traits, w.Placement.Traits...))
	keys, trees := w.resourceProviders(classIDs)
	for _, c := range w.Placement.Consumers {
		w.add("placement.consumers", c.UUID, row{
			"uuid": c.UUID, "project_id": c.ProjectID, "user_id": c.UserID, "consumer_type": c.Type, "generation": cmp.Or(c.Generation, 1), "created_at": w.ReadAt,
		})
		for provider, allocation := range c.Allocations {
			for class, amount := range allocation.Resources {
				w.add("placement.allocations", fmt.Sprintf("%s.%s.%06d", c.UUID, keys[provider], classIDs[class]), row{
					"consumer": c.UUID, "resource_provider": provider, "resource_class": class, "used": amount,
				})
			}
		}
	}
	w.add("placement.sequences", "ids", row{"name": "ids"})
	w.add("placement.sequences", "placement", row{
		"name": "placement", "resource_providers": len(keys), "trees": trees, "created_at": w.ReadAt,
		"resource_classes": len(classIDs) - len(placementsim.StandardResourceClasses()), "traits": len(traitIDs) - len(placementsim.StandardTraits()),
	})
}

// names adds the names that are not standard, and returns the numbers of all.
func (w *writer) names(table string, standard, names []string) map[string]int {
	ids := make(map[string]int)
	for i, name := range standard {
		ids[name] = i
	}
	for _, name := range names {
		if _, known := ids[name]; !known {
			ids[name] = len(ids)
			id := len(ids) - len(standard)
			w.add("placement."+table, number(id), row{"id": id, "name": name, "created_at": w.ReadAt})
		}
	}
	return ids
}

// resourceProviders returns the keys of the providers by their uuid, and the number of trees.
func (w *writer) resourceProviders(classIDs map[string]int) (keys map[string]string, trees int) {
	keys = make(map[string]string)
	for i, p := range w.Placement.Providers {
		key := number(i + 1)
		keys[p.UUID] = key
		r := row{"id": i + 1, "uuid": p.UUID, "name": p.Name, "parent_provider_uuid": p.Parent, "generation": p.Generation, "created_at": w.ReadAt}
		if p.Parent == "" {
			trees++
			r["tree"] = trees
		}
		w.add("placement.resource_providers", key, r)
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			i := p.Inventories[class]
			w.add("placement.inventories", fmt.Sprintf("%s.%06d", key, classIDs[class]), row{
				"resource_provider": p.UUID, "resource_class": class, "total": i.Total, "reserved": i.Reserved, "min_unit": i.MinUnit, "max_unit": i.MaxUnit,
				"step_size": i.StepSize, "allocation_ratio": i.AllocationRatio, "updated_at": w.ReadAt,
			})
		}
		if len(p.Traits) > 0 {
			w.add("placement.provider_traits", key, row{"resource_provider": p.UUID, "traits": p.Traits})
		}
		if len(p.Aggregates) > 0 {
			w.add("placement.provider_aggregates", key, row{"resource_provider": p.UUID, "aggregates": p.Aggregates})
		}
	}
	return keys, trees
}

// created is when a row was made.
func (w *writer) created(t times) time.Time { return cmp.Or(t.CreatedAt, w.ReadAt) }

// accelerator adds the rows of a Cyborg that knows what is listed.
func (w *writer) accelerator() {
	for i, p := range w.Cyborg.Profiles {
		w.numbered("device_profiles", i+1, row{
			"uuid": p.UUID, "name": p.Name, "description": p.Description, "groups": groups(p.Groups), "created_at": w.created(p.times),
		})
	}
	for _, d := range w.Cyborg.Devices {
		w.numbered("devices", d.id, row{
			"uuid": d.UUID, "hostname": d.Hostname, "driver": "verbatim", "type": d.Type, "vendor": d.Vendor, "model": d.Model,
			"std_board_info": d.StdBoardInfo, "vendor_board_info": d.VendorBoardInfo, "status": cmp.Or(d.Status, fakecyborg.StatusEnabled),
			"controlpath_id": d.reported.ControlPath, "nested": d.nested, "resources": d.reported.Resources,
			"created_at": w.created(d.times), "updated_at": d.UpdatedAt,
		})
	}
	for _, d := range w.Cyborg.Deployables {
		w.deployable(d)
	}
	for i, a := range w.Cyborg.Attributes {
		w.numbered("attributes", i+1, row{
			"uuid": a.UUID, "deployable": a.deployable.UUID, "key": a.Key, "value": a.Value, "by_user": a.byUser,
			"created_at": w.created(a.times), "updated_at": a.UpdatedAt,
		})
	}
	for i, a := range w.Cyborg.ARQs {
		w.numbered("accelerator_requests", i+1, row{
			"uuid": a.UUID, "state": a.State, "device_profile_name": a.ProfileName, "device_profile_group_id": a.Group, "hostname": a.Hostname,
			"device_rp_uuid": a.ProviderUUID, "instance_uuid": a.InstanceUUID, "project_id": a.ProjectID, "attach_handle": a.handle,
			"created_at": w.created(a.times), "updated_at": a.UpdatedAt,
		})
	}
	for _, table := range []string{"device_profiles", "devices", "deployables", "attributes", "attach_handles", "accelerator_requests"} {
		w.add("accelerator.sequences", table, row{"name": table, "last": w.last[table]})
	}
}

// groups returns the groups of a device profile as lists of keys and values.
func groups(listed []map[string]string) [][]row {
	list := make([][]row, len(listed))
	for i, group := range listed {
		list[i] = []row{}
		for _, key := range slices.Sorted(maps.Keys(group)) {
			list[i] = append(list[i], row{"key": key, "value": group[key]})
		}
	}
	return list
}

// numbered adds a row of Cyborg's.
func (w *writer) numbered(table string, id int, r row) {
	r["id"] = id
	w.add("accelerator."+table, number(id), r)
	w.last[table] = max(w.last[table], id)
}

// deployable adds a deployable and its attach handles.
func (w *writer) deployable(d *deployable) {
	presence := "offered"
	if w.byUUID[d.ProviderUUID] == nil {
		presence = "absent"
	}
	w.numbered("deployables", d.id, row{
		"uuid": d.UUID, "device": d.device.UUID, "name": d.Name, "driver_name": d.DriverName, "num_accelerators": d.NumAccelerators,
		"rp_uuid": d.ProviderUUID, "bitstream_id": d.BitstreamID, "presence": presence, "resources": d.reported.Resources,
		"created_at": w.created(d.times), "updated_at": d.UpdatedAt,
	})
	for i, h := range d.reported.AttachHandles {
		handle := row{"uuid": w.id("attach handle", d.UUID, i), "deployable": d.UUID, "attach_type": h.Type, "attach_info": h.Info}
		if i < len(d.arqs) {
			handle["uuid"], handle["held_by"], handle["state"] = d.arqs[i].handle, d.arqs[i].UUID, "held"
		}
		w.numbered("attach_handles", w.last["attach_handles"]+1, handle)
	}
}
