package transfer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// unknown is the vendor and model of a device that stands for one of several.
const unknown = "unknown"

// maxUnits is how many attach handles a deployable may have.
const maxUnits = 1 << 16

// imported is a listing whose rows know each other.
type imported struct {
	Listing
	seed        uint64
	mode        string                    // where the providers of devices are
	providers   map[string]ListedProvider // by uuid
	devices     []*device                 // in the order of their numbers
	deployables []*deployable             // in the order of their numbers
	attributes  []*attribute              // in the order of their numbers
}

type device struct {
	ListedDevice
	id          int
	nested      bool // it has a provider of its own
	reported    driver.Device
	deployables []*deployable
}

type deployable struct {
	ListedDeployable
	id         int
	device     *device
	reported   driver.Deployable // its attach handles are those of bound requests, then unknown ones
	attributes []*attribute
	arqs       []ListedARQ // the bound requests
}

type attribute struct {
	ListedAttribute
	deployable *deployable
	byUser     bool // created through the API
}

// join finds out what belongs to what. Cyborg shows the numbers of devices and deployables
// only where something refers to them; its lists are in their order.
func join(l Listing, seed uint64) (*imported, error) {
	w := &imported{Listing: l, seed: seed, providers: make(map[string]ListedProvider, len(l.Placement.ResourceProviders))}
	for _, p := range l.Placement.ResourceProviders {
		w.providers[p.UUID] = p
	}
	if l.Accelerator == nil {
		return w, nil
	}
	for _, d := range l.Accelerator.Devices {
		w.devices = append(w.devices, &device{ListedDevice: d})
	}
	for _, d := range l.Accelerator.Deployables {
		w.deployables = append(w.deployables, &deployable{ListedDeployable: d})
	}
	if err := w.joinDevices(); err != nil {
		return nil, err
	}
	w.joinAttributes()
	w.findMode()
	for _, d := range w.deployables {
		d.findReported(w.providers[d.ProviderUUID], w.mode)
	}
	if err := w.findHandles(); err != nil {
		return nil, err
	}
	w.findDevices()
	return w, nil
}

// id is a uuid that stands for something that no API shows.
func (w *imported) id(kind string, name ...any) string {
	return newUUID(w.seed, kind+" "+fmt.Sprintln(name...))
}

// hosts are the names of compute hosts, in the order of the listing: of root providers that
// do not share with others of their aggregates and whose names can be those of hosts, and
// of hosts that Cyborg knows.
func (l Listing) hosts() []string {
	var list []string
	seen := map[string]bool{"": true}
	add := func(name string) {
		if !seen[name] {
			seen[name], list = true, append(list, name)
		}
	}
	for _, p := range l.Placement.ResourceProviders {
		if p.Parent == "" && !slices.Contains(p.Traits, "MISC_SHARES_VIA_AGGREGATE") && !strings.ContainsAny(p.Name, " /\t\n\x00") {
			add(p.Name)
		}
	}
	if l.Accelerator != nil {
		for _, d := range l.Accelerator.Devices {
			add(d.Hostname)
		}
		for _, a := range l.Accelerator.ARQs {
			add(a.Hostname)
		}
	}
	return list
}

// hostOf is the host of a deployable: the name of the root of its provider, or for one
// that Placement does not have the host that its name begins with.
func (w *imported) hostOf(d *deployable, devices map[string][]*device) string {
	if p, ok := w.providers[d.ProviderUUID]; ok {
		for p.Parent != "" { // Validate has found that these are trees
			p = w.providers[p.Parent]
		}
		return p.Name
	}
	best := ""
	for host := range devices {
		if strings.HasPrefix(d.Name, host+"_") && len(host) > len(best) {
			best = host
		}
	}
	return best
}

// joinDevices gives the devices of a host, in the order of the list, the numbers that its
// deployables show. If a host has more devices than numbers, it is unknown which of them
// has none, and a device called unknown stands for each number.
func (w *imported) joinDevices() error {
	devices := make(map[string][]*device) // by host
	for _, d := range w.devices {
		devices[d.Hostname] = append(devices[d.Hostname], d)
	}
	numbers := make(map[string][]int) // by host
	deployables, last := make(map[int][]*deployable), 0
	for _, d := range w.deployables {
		host := w.hostOf(d, devices)
		if !slices.Contains(numbers[host], d.DeviceID) {
			numbers[host] = append(numbers[host], d.DeviceID)
		}
		deployables[d.DeviceID], last = append(deployables[d.DeviceID], d), max(last, d.DeviceID)
	}
	for _, host := range slices.Sorted(maps.Keys(numbers)) {
		ids, owners := numbers[host], devices[host]
		if slices.Sort(ids); len(ids) > len(owners) {
			return fmt.Errorf("%w: the deployables of host %q are of %d devices, and %d are listed", ErrListing, host, len(ids), len(owners))
		}
		if len(ids) < len(owners) {
			owners = w.unknownDevices(owners[0], ids)
		}
		for i, d := range owners {
			d.id, d.deployables = ids[i], deployables[ids[i]]
			for _, each := range d.deployables {
				each.device = d
			}
		}
	}
	for _, d := range w.devices {
		if d.id == 0 { // nothing refers to it
			last++
			d.id = last
		}
	}
	slices.SortFunc(w.devices, func(a, b *device) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// unknownDevices adds a device for each number. They are of the type of another device of
// their host, since there is no type for what is unknown.
func (w *imported) unknownDevices(like *device, ids []int) []*device {
	var list []*device
	for _, id := range ids {
		list = append(list, &device{ListedDevice: ListedDevice{
			UUID: w.id("device", id), Hostname: like.Hostname, Type: like.Type, Vendor: unknown, Model: unknown,
		}})
	}
	w.devices = append(w.devices, list...)
	return list
}

// joinAttributes gives the deployables, in the order of the list, the numbers that the list
// of attributes shows. If that contradicts what the deployables show themselves, they are
// numbered from 1, and their attributes have new uuids.
func (w *imported) joinAttributes() {
	byNumber := make(map[int][]*attribute)
	for _, a := range w.Accelerator.Attributes {
		w.attributes = append(w.attributes, &attribute{ListedAttribute: a})
		byNumber[a.DeployableID] = append(byNumber[a.DeployableID], w.attributes[len(w.attributes)-1])
	}
	ids := slices.Sorted(maps.Keys(byNumber))
	fit := len(ids) == len(w.deployables)
	for i := 0; fit && i < len(ids); i++ {
		fit = w.deployables[i].shows(byNumber[ids[i]])
	}
	if !fit {
		w.attributes, ids = nil, nil
	}
	for i, d := range w.deployables {
		if fit {
			d.id, d.attributes = ids[i], byNumber[ids[i]]
		} else {
			d.id = i + 1
			for j, a := range d.Attributes {
				d.attributes = append(d.attributes, &attribute{ListedAttribute: ListedAttribute{
					UUID: w.id("attribute", d.UUID, j), Key: a.Key, Value: a.Value, ListedTimes: d.ListedTimes,
				}})
			}
			w.attributes = append(w.attributes, d.attributes...)
		}
		for _, a := range d.attributes {
			a.deployable = d
		}
	}
}

// shows tells whether the deployable shows the attributes itself, in any order.
func (d *deployable) shows(attributes []*attribute) bool {
	var own, others []string
	for _, a := range d.Attributes {
		own = append(own, a.Key+"\x00"+a.Value)
	}
	for _, a := range attributes {
		others = append(others, a.Key+"\x00"+a.Value)
	}
	slices.Sort(own)
	slices.Sort(others)
	return slices.Equal(own, others)
}

// findReported finds what the driver reports of a deployable. An attribute was created
// through the API if it is a second one of a key, or a trait that Placement does not have,
// since Cyborg sends it those of drivers only; a provider of a flat host has no trait of its
// owner. Further inventories of a provider that is no host's are those of local memory.
func (d *deployable) findReported(p ListedProvider, mode string) {
	d.reported = driver.Deployable{Name: d.Name, NumAccelerators: d.NumAccelerators, DriverName: d.DriverName}
	keys := make(map[string]bool)
	var list []driver.Attribute
	for _, a := range d.attributes {
		missing := p.UUID != "" && strings.HasPrefix(a.Key, "trait") && !slices.Contains(p.Traits, a.Value)
		a.byUser = keys[a.Key] || missing && (p.Parent != "" || a.Value != driver.TraitOwnerCyborg)
		if keys[a.Key] = keys[a.Key] || !a.byUser; !a.byUser {
			list = append(list, driver.Attribute{Key: a.Key, Value: a.Value})
		}
	}
	d.reported.SetAttributeList(list)
	if mode != fakecyborg.ModeFlat {
		d.reported.Resources = totals(p, d.reported.Class)
	}
}

// findMode finds where the providers of devices are.
func (w *imported) findMode() {
	for _, d := range w.deployables {
		if p, ok := w.providers[d.ProviderUUID]; ok && p.Parent == "" {
			w.mode = fakecyborg.ModeFlat
		} else if ok && w.providers[p.Parent].Parent != "" {
			w.mode = fakecyborg.ModeNested
		}
	}
}

// totals are those of all inventories of a provider but one; nil for none.
func totals(p ListedProvider, but string) (list map[string]int) {
	for class, i := range p.Inventories {
		if list == nil && class != but {
			list = make(map[string]int)
		}
		if class != but {
			list[class] = i.Total
		}
	}
	return list
}

// unknownAddress is another PCI address for each n. Its domain is ffff or above, which no
// machine has.
func unknownAddress(n int) driver.PCIAddress {
	return driver.PCIAddress{Domain: 0xffff + uint32(n>>16), Bus: uint8(n >> 8), Device: uint8(n >> 3 & 0x1f), Function: uint8(n & 7)}
}

// address is the PCI address in the name of a deployable, HOST_0000:3b:00.0.
func (d *deployable) address() (driver.PCIAddress, bool) {
	rest, ok := strings.CutPrefix(d.Name, d.device.Hostname+"_")
	rest, _, _ = strings.Cut(rest, "_") // the region of an FPGA, or a type of vGPUs
	address, err := driver.ParsePCIAddress(rest)
	return address, ok && err == nil
}

// findDevices finds what the drivers report of the devices. The control path is the PCI
// address in the name of a deployable, or an unknown one; no two of a host are the same.
func (w *imported) findDevices() {
	taken := make(map[string]bool)
	for n, d := range w.devices {
		d.reported = driver.Device{
			Vendor: d.Vendor, Model: d.Model, Type: d.Type, StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo, Deployables: []driver.Deployable{},
		}
		address := unknownAddress(n)
		for _, each := range d.deployables {
			if named, ok := each.address(); ok && !taken[d.Hostname+"_"+named.String()] {
				address = named
			}
			d.reported.Deployables = append(d.reported.Deployables, each.reported)
		}
		taken[d.Hostname+"_"+address.String()] = true
		d.reported.ControlPath = address.ControlPath()
		if d.nested = w.mode == fakecyborg.ModeNested && d.Type == driver.TypeFPGA && len(d.deployables) > 1; d.nested {
			d.reported.Resources = totals(w.providers[w.providers[d.deployables[0].ProviderUUID].Parent], "")
		}
	}
}

// findHandles gives the deployables the handles of bound requests as they are shown, and as
// many unknown ones as they have accelerators left.
func (w *imported) findHandles() error {
	for _, a := range w.Accelerator.ARQs {
		if fakecyborg.State(a.State) != fakecyborg.StateBound {
			continue
		}
		d := w.holder(a)
		if d == nil {
			return fmt.Errorf("%w: accelerator request %s is Bound to resource provider %q, and no deployable of that is listed", ErrListing, a.UUID, a.ProviderUUID)
		}
		d.arqs = append(d.arqs, a)
		d.reported.AttachHandles = append(d.reported.AttachHandles, driver.AttachHandle{Type: a.AttachHandleType, Info: a.AttachHandleInfo})
	}
	n := 0
	for _, d := range w.deployables {
		if d.NumAccelerators > maxUnits {
			return fmt.Errorf("%w: deployable %s: num_accelerators %d, want at most %d", ErrListing, d.Name, d.NumAccelerators, maxUnits)
		}
		for ; len(d.reported.AttachHandles) < d.NumAccelerators; n++ {
			d.reported.AttachHandles = append(d.reported.AttachHandles, d.unknownHandle(n))
		}
	}
	return nil
}

// holder is the deployable that the handle of a bound request belongs to, nil for none.
// Where several have one provider, as on flat hosts, it is the one whose name tells the
// address of the handle; if there is none, it is unknown, and the first one counts that has
// the class which the request asks for and an accelerator left.
func (w *imported) holder(a ListedARQ) (best *deployable) {
	at, err := driver.PCIAddressOf(a.AttachHandleInfo)
	rank := 0
	for _, d := range w.deployables {
		if d.ProviderUUID != a.ProviderUUID {
			continue
		}
		this := 1
		if address, ok := d.address(); ok && err == nil && address == at {
			this = 3
		} else if len(d.arqs) < d.NumAccelerators && w.asks(a, d.reported.Class) {
			this = 2
		}
		if this > rank {
			best, rank = d, this
		}
	}
	return best
}

// asks tells whether the group of a request wants a resource class.
func (w *imported) asks(a ListedARQ, class string) bool {
	return slices.ContainsFunc(w.Accelerator.DeviceProfiles, func(p ListedProfile) bool {
		return p.Name == a.ProfileName && a.Group >= 0 && a.Group < len(p.Groups) && p.Groups[a.Group]["resources:"+class] != ""
	})
}

// unknownHandle is a handle that Cyborg does not show: one like the bound ones of the
// deployable and marked as unknown, else a PCI device.
func (d *deployable) unknownHandle(n int) driver.AttachHandle {
	h := driver.AttachHandle{Type: driver.HandlePCI, Info: unknownAddress(n).Info()}
	if len(d.arqs) > 0 {
		h.Type = d.arqs[0].AttachHandleType
	}
	if h.Type == driver.HandleMDEV {
		h.Info = maps.Clone(d.arqs[0].AttachHandleInfo)
		h.Info["vgpu_mark"] = fmt.Sprint(unknown, "_", n)
	}
	return h
}
