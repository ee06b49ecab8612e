package simcloud

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// join gives each deployable its device, its number and its attributes. Cyborg shows the
// numbers of devices and deployables only where they are referred to; its lists are in
// their order.
func (w *imported) join() error {
	if w.Accelerator == nil {
		return nil
	}
	for _, d := range w.Accelerator.Deployables {
		part := &importedPart{ListedDeployable: d}
		part.host = w.hostOf(part)
		w.parts = append(w.parts, part)
	}
	for _, d := range w.Accelerator.Devices {
		w.devices = append(w.devices, &importedDevice{ListedDevice: d})
	}
	if err := w.joinDevices(); err != nil {
		return err
	}
	w.numberDevices()
	if !w.joinAttributes() {
		w.numberParts()
	}
	return nil
}

// hostOf is the host of a deployable: the name of the root of its provider, or for one
// that Placement does not have the host that its name begins with.
func (w *imported) hostOf(part *importedPart) string {
	if p, ok := w.providers[part.ProviderUUID]; ok {
		for p.Parent != "" { // Validate has found that these are trees
			p = w.providers[p.Parent]
		}
		return p.Name
	}
	best := ""
	for host := range w.hostnames {
		if strings.HasPrefix(part.Name, host+"_") && len(host) > len(best) {
			best = host
		}
	}
	return best
}

// joinDevices gives the devices of a host, in the order of the list, the numbers that its
// deployables tell. If a host has more devices than numbers, it is unknown which of them
// has none, and a device called unknown stands for each number.
func (w *imported) joinDevices() error {
	numbers := make(map[string][]int) // by host
	parts := make(map[int][]*importedPart)
	for _, part := range w.parts {
		id := part.DeviceID
		if first := parts[id]; first == nil {
			numbers[part.host] = append(numbers[part.host], id)
		} else if first[0].host != part.host {
			return fmt.Errorf("%w: accelerator: deployables %s and %s are of one device, and of hosts %q and %q", ErrListing, first[0].Name, part.Name, first[0].host, part.host)
		}
		parts[id] = append(parts[id], part)
	}
	devices := make(map[string][]*importedDevice)
	for _, d := range w.devices {
		devices[d.Hostname] = append(devices[d.Hostname], d)
	}
	for _, host := range slices.Sorted(maps.Keys(numbers)) {
		ids, owners := numbers[host], devices[host]
		if len(ids) > len(owners) {
			return fmt.Errorf("%w: accelerator: the deployables of host %q are of %d devices, and %d are listed; read the cloud again when nothing changes",
				ErrListing, host, len(ids), len(owners))
		}
		slices.Sort(ids)
		if len(ids) < len(owners) {
			owners = w.unknownDevices(owners[0], ids)
		}
		for i, d := range owners {
			d.id, d.parts = ids[i], parts[ids[i]]
			for _, part := range d.parts {
				part.device = d
			}
		}
	}
	return nil
}

// unknownDevices adds a device for each number. They are of the type of another device of
// their host, since there is no type for what is unknown.
func (w *imported) unknownDevices(like *importedDevice, ids []int) []*importedDevice {
	var list []*importedDevice
	for _, id := range ids {
		list = append(list, &importedDevice{ListedDevice: ListedDevice{
			UUID: w.id("device", fmt.Sprint(id)), Hostname: like.Hostname, Type: like.Type, Vendor: unknown, Model: unknown,
		}})
	}
	w.devices = append(w.devices, list...)
	return list
}

// unknown is the vendor and model of a device that stands for one of several.
const unknown = "unknown"

// numberDevices numbers the devices without deployables, which nothing refers to, and
// puts all in order.
func (w *imported) numberDevices() {
	taken := make(map[int]bool)
	for _, d := range w.devices {
		taken[d.id] = true
	}
	last := 0
	for _, d := range w.devices {
		for d.id == 0 {
			if last++; !taken[last] {
				d.id, taken[last] = last, true
			}
		}
		last = d.id
	}
	slices.SortStableFunc(w.devices, func(a, b *importedDevice) int { return cmp.Compare(a.id, b.id) })
}

// joinAttributes gives the deployables that show attributes, in the order of the list, the
// numbers that the list of attributes tells. It reports false if the two lists contradict
// each other.
func (w *imported) joinAttributes() bool {
	rows := make(map[int][]importedAttribute) // by number of the deployable
	for i, a := range w.Accelerator.Attributes {
		rows[a.DeployableID] = append(rows[a.DeployableID], importedAttribute{ListedAttribute: a, order: i})
	}
	ids := slices.Sorted(maps.Keys(rows))
	if len(ids) != len(w.parts) {
		return false
	}
	for i, part := range w.parts {
		if !part.shows(rows[ids[i]]) {
			return false
		}
	}
	for i, part := range w.parts {
		part.id, part.attributes = ids[i], rows[ids[i]]
	}
	return true
}

// shows tells whether the attributes are those that the deployable shows, in any order.
func (part *importedPart) shows(rows []importedAttribute) bool {
	count := make(map[ListedPair]int)
	for _, a := range part.Attributes {
		count[a]++
	}
	for _, a := range rows {
		count[ListedPair{a.Key, a.Value}]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// numberParts numbers the deployables from 1 and makes up the uuids of their attributes.
func (w *imported) numberParts() {
	order := 0
	for i, part := range w.parts {
		part.id = i + 1
		for j, a := range part.Attributes {
			part.attributes = append(part.attributes, importedAttribute{order: order, ListedAttribute: ListedAttribute{
				UUID: w.id("attribute", fmt.Sprint(part.Name, "\x00", j)), DeployableID: part.id, Key: a.Key, Value: a.Value, ListedTimes: part.ListedTimes,
			}})
			order++
		}
	}
}

// class is the resource class of a deployable.
func (part *importedPart) class() string {
	for _, a := range part.Attributes {
		if a.Key == driver.KeyResourceClass {
			return a.Value
		}
	}
	return ""
}

// findMode sees where devices stand in Placement.
func (w *imported) findMode() {
	for _, part := range w.parts {
		p, ok := w.providers[part.ProviderUUID]
		switch {
		case !ok:
		case p.Parent == "":
			w.mode = fakecyborg.ModeFlat
			return
		case w.providers[p.Parent].Parent != "":
			w.mode = fakecyborg.ModeNested
			return
		}
	}
	w.mode = ""
}
