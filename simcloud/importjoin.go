package simcloud

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// join gives each deployable its device and its attributes. Cyborg shows the numbers of
// devices and deployables only where they are referred to, so they are found by order:
// the lists are in the order of the numbers.
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
	w.joinAttributes()
	return nil
}

// hostOf is the host of a deployable: the name of the root of its provider, else the
// host of Cyborg's that its name begins with.
func (w *imported) hostOf(part *importedPart) string {
	if p, ok := w.providers[part.ProviderUUID]; ok {
		root := w.rootOf(p).Name
		if w.hostnames[root] {
			return root
		}
	}
	best := ""
	for host := range w.hostnames {
		if strings.HasPrefix(part.Name, host+"_") && len(host) > len(best) {
			best = host
		}
	}
	return best
}

// rootOf walks up; the listing was judged to be trees.
func (w *imported) rootOf(p ListedProvider) ListedProvider {
	for p.Parent != "" {
		p = w.providers[p.Parent]
	}
	return p
}

// joinDevices finds the number of each device. If there are as many devices as numbers,
// the n-th has the n-th; else it is done host by host, and those are paired that fit best.
func (w *imported) joinDevices() error {
	byNumber := make(map[int][]*importedPart)
	for _, part := range w.parts {
		byNumber[part.DeviceID] = append(byNumber[part.DeviceID], part)
	}
	if !w.joinInOrder(byNumber) {
		if err := w.joinByHost(byNumber); err != nil {
			return err
		}
	}
	w.numberDevices()
	return nil
}

// joinInOrder gives the devices the numbers in order, unless a host tells that it is wrong.
func (w *imported) joinInOrder(byNumber map[int][]*importedPart) bool {
	ids := slices.Sorted(maps.Keys(byNumber))
	if len(ids) != len(w.devices) {
		return false
	}
	for i, d := range w.devices {
		for _, part := range byNumber[ids[i]] {
			if part.host != "" && part.host != d.Hostname {
				return false
			}
		}
	}
	for i, d := range w.devices {
		d.own(ids[i], byNumber[ids[i]])
	}
	return true
}

// own makes deployables those of the device.
func (d *importedDevice) own(id int, parts []*importedPart) {
	d.id, d.parts = id, parts
	for _, part := range parts {
		part.device, part.host = d, d.Hostname
	}
}

func (w *imported) joinByHost(byNumber map[int][]*importedPart) error {
	numbers := make(map[string][]int)
	for _, id := range slices.Sorted(maps.Keys(byNumber)) {
		first := byNumber[id][0]
		for _, part := range byNumber[id] {
			if part.host != first.host {
				return fmt.Errorf("%w: accelerator: deployables %s and %s are of one device, and of hosts %q and %q", ErrListing, first.Name, part.Name, first.host, part.host)
			}
		}
		numbers[first.host] = append(numbers[first.host], id)
	}
	devices := make(map[string][]*importedDevice)
	for _, d := range w.devices {
		devices[d.Hostname] = append(devices[d.Hostname], d)
	}
	for _, host := range slices.Sorted(maps.Keys(numbers)) {
		ids := numbers[host]
		if len(ids) > len(devices[host]) {
			return fmt.Errorf("%w: accelerator: the deployables of host %q are of %d devices, and %d are listed; read the cloud again when nobody changes it",
				ErrListing, host, len(ids), len(devices[host]))
		}
		for i, d := range pair(ids, devices[host], func(id int, d *importedDevice) float64 { return unlikely(byNumber[id][0], d) }) {
			d.own(ids[i], byNumber[ids[i]])
		}
	}
	return nil
}

// pair chooses a device for each number so that both stay in order and the sum of the
// costs is the least. There are at least as many devices as numbers.
func pair(ids []int, devices []*importedDevice, cost func(int, *importedDevice) float64) []*importedDevice {
	n, m := len(ids), len(devices)
	best := make([][]float64, n+1) // best[i][j]: ids[i:] among devices[j:]
	for i := n; i >= 0; i-- {
		best[i] = make([]float64, m+1)
		for j := m; j >= 0; j-- {
			switch {
			case i == n:
			case m-j < n-i:
				best[i][j] = math.Inf(1)
			default:
				best[i][j] = min(best[i][j+1], cost(ids[i], devices[j])+best[i+1][j+1])
			}
		}
	}
	chosen := make([]*importedDevice, 0, n)
	for i, j := 0, 0; i < n; j++ {
		if m-j == n-i || cost(ids[i], devices[j])+best[i+1][j+1] <= best[i][j+1] {
			chosen = append(chosen, devices[j])
			i++
		}
	}
	return chosen
}

// unlikely is how little a deployable fits a device: by the class of its provider, and by
// the time between the two, which are stored one after the other.
func unlikely(part *importedPart, d *importedDevice) float64 {
	cost := math.Min(part.CreatedAt.Sub(d.CreatedAt).Abs().Hours(), 1e3)
	switch kind := part.kind(); {
	case kind == d.Type:
		return cost
	case kind == "":
		return cost + 1e6
	}
	return cost + 2e6
}

// kind is the type of device that a resource class is for, or "".
func (part *importedPart) kind() string {
	class := part.class()
	for _, kind := range []string{
		driver.TypeGPU, driver.TypeFPGA, driver.TypeAICHIP, driver.TypeQAT, driver.TypeNIC, driver.TypeSSD, driver.TypeHPTS,
	} {
		if strings.Contains(class, kind) {
			return kind
		}
	}
	if class == "CUSTOM_PCI" { // as upstream's PCI driver calls everything
		return driver.TypeGPU
	}
	return ""
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

// joinAttributes finds the number of each deployable by the attributes that it shows
// itself. If the two lists cannot be brought together, those of the deployables count.
func (w *imported) joinAttributes() {
	rows := make(map[int][]importedAttribute)
	for i, a := range w.Accelerator.Attributes {
		rows[a.DeployableID] = append(rows[a.DeployableID], importedAttribute{ListedAttribute: a, order: i})
	}
	ids := slices.Sorted(maps.Keys(rows))
	next := 0
	for _, part := range w.parts {
		if len(part.Attributes) == 0 {
			continue
		}
		for next < len(ids) && !part.shows(rows[ids[next]]) {
			next++
		}
		if next == len(ids) {
			w.numberParts()
			return
		}
		part.id, part.attributes = ids[next], rows[ids[next]]
		next++
	}
	taken, last := make(map[int]bool), 0
	for _, id := range ids {
		taken[id] = true
	}
	for _, part := range w.parts {
		for part.id == 0 {
			if last++; !taken[last] {
				part.id = last
			}
		}
		last = part.id
	}
	slices.SortStableFunc(w.parts, func(a, b *importedPart) int { return cmp.Compare(a.id, b.id) })
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

// numberParts numbers the deployables from 1 and makes up rows for their attributes.
func (w *imported) numberParts() {
	order := 0
	for i, part := range w.parts {
		part.id, part.attributes = i+1, nil
		for j, a := range part.Attributes {
			part.attributes = append(part.attributes, importedAttribute{order: order, ListedAttribute: ListedAttribute{
				UUID: w.id("attribute", fmt.Sprint(part.Name, "\x00", j)), DeployableID: part.id, Key: a.Key, Value: a.Value, ListedTimes: part.ListedTimes,
			}})
			order++
		}
	}
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
