package transfer

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

const (
	unknown  = "unknown" // vendor and model of a device that cannot be identified
	maxUnits = 1 << 16   // attach handles of a deployable
)

// original is the cloud that a listing describes. Results of join are in the order of Cyborg's numbers.
type original struct {
	answers
	seed   uint64
	zed    bool
	mode   fakecyborg.PlacementMode // where the providers of devices are
	byUUID map[string]*provider     // resource providers
}

// original is a copy of the answers.
func (l Listing) original() (*original, error) {
	data, err := l.JSON()
	sum := sha256.Sum256(data)
	o := &original{byUUID: make(map[string]*provider), seed: binary.BigEndian.Uint64(sum[:8]) >> 11} // 53 bits, which every reader of JSON has right
	if err == nil {
		err = json.Unmarshal(data, &o.answers)
	}
	for _, p := range o.Placement.Providers {
		o.byUUID[p.UUID] = p
	}
	o.zed = o.Cyborg.Devices != nil && o.Cyborg.Attributes == nil
	return o, err
}

// join finds out what belongs to what. Cyborg shows the numbers of devices and deployables
// only where something refers to them; its lists are in their order.
func (o *original) join() error {
	if err := o.joinDevices(); err != nil {
		return err
	}
	o.joinAttributes()
	o.findMode()
	for _, d := range o.Cyborg.Deployables {
		d.findReported(o.byUUID[d.ProviderUUID], o.mode)
	}
	if err := o.findHandles(); err != nil {
		return err
	}
	o.findDevices()
	return nil
}

// id makes up the UUID of something that no API shows.
func (o *original) id(kind string, name ...any) string {
	return newUUID(o.seed, kind+" "+fmt.Sprintln(name...))
}

// parent is the provider above another, nil for none.
func (o *original) parent(p *provider) *provider {
	if p == nil {
		return nil
	}
	return o.byUUID[p.Parent]
}

// hosts are the names of compute hosts, in the order of the listing: of root providers that
// do not share with others of their aggregates and whose names can be those of hosts, and
// of hosts that Cyborg knows.
func (o *original) hosts() (names []string) {
	for _, p := range o.Placement.Providers {
		if p.Parent == "" && !slices.Contains(p.Traits, "MISC_SHARES_VIA_AGGREGATE") && !strings.ContainsAny(p.Name, " /\t\n\x00") {
			names = append(names, p.Name)
		}
	}
	for _, d := range o.Cyborg.Devices {
		names = append(names, d.Hostname)
	}
	for _, a := range o.Cyborg.ARQs {
		names = append(names, a.Hostname)
	}
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// hostOf is the host of a deployable: the name of the root of its provider, or for one
// that Placement does not have the host that its name begins with.
func (o *original) hostOf(d *deployable, known prefixes) (string, error) {
	if p := o.byUUID[d.ProviderUUID]; p != nil {
		for steps := 0; o.parent(p) != nil && steps < len(o.byUUID); steps++ { // Placement refuses cycles
			p = o.parent(p)
		}
		return p.Name, nil
	}
	host, _ := known.cut(d.Name)
	if host == "" {
		return "", fmt.Errorf("deployable %s: its resource provider %s is not listed, and its name does not begin with a host that has devices", d.Name, d.ProviderUUID)
	}
	return host, nil
}

// joinDevices gives the devices of a host, in the order of the list, the numbers that its
// deployables show. If a host has more devices than numbers, it is unknown which device has no
// deployables, and each number becomes a device called unknown.
func (o *original) joinDevices() error {
	devices := make(map[string][]*device) // by host
	for _, d := range o.Cyborg.Devices {
		devices[d.Hostname] = append(devices[d.Hostname], d)
	}
	known := prefixesOf(slices.Collect(maps.Keys(devices)))
	numbers := make(map[string][]int) // by host
	deployables, last := make(map[int][]*deployable), 0
	for _, d := range o.Cyborg.Deployables {
		host, err := o.hostOf(d, known)
		if err != nil {
			return err
		}
		if !slices.Contains(numbers[host], d.DeviceID) {
			numbers[host] = append(numbers[host], d.DeviceID)
		}
		deployables[d.DeviceID], last = append(deployables[d.DeviceID], d), max(last, d.DeviceID)
	}
	for _, host := range slices.Sorted(maps.Keys(numbers)) {
		ids, owners := numbers[host], devices[host]
		if slices.Sort(ids); len(ids) > len(owners) {
			return fmt.Errorf("the deployables of host %q are of %d devices, and %d are listed", host, len(ids), len(owners))
		}
		if len(ids) < len(owners) {
			owners = o.unknownDevices(owners[0], ids)
		}
		for i, d := range owners {
			d.id, d.deployables = ids[i], deployables[ids[i]]
			for _, each := range d.deployables {
				each.device = d
			}
		}
	}
	for _, d := range o.Cyborg.Devices {
		if d.id == 0 { // nothing refers to it
			last++
			d.id = last
		}
	}
	slices.SortFunc(o.Cyborg.Devices, func(a, b *device) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// unknownDevices adds a device for each number. They have the type of another device of their
// host, since there is no type for unknown devices.
func (o *original) unknownDevices(like *device, ids []int) []*device {
	var list []*device
	for _, id := range ids {
		list = append(list, &device{UUID: o.id("device", id), Hostname: like.Hostname, Type: like.Type, Vendor: unknown, Model: unknown})
	}
	o.Cyborg.Devices = append(o.Cyborg.Devices, list...)
	return list
}

// joinAttributes gives the deployables, in the order of the list, the numbers that the list
// of attributes shows. If that contradicts what the deployables show themselves, they are
// numbered from 1, and their attributes have new uuids.
func (o *original) joinAttributes() {
	byNumber := make(map[int][]*attribute)
	for _, a := range o.Cyborg.Attributes {
		byNumber[a.DeployableID] = append(byNumber[a.DeployableID], a)
	}
	ids := slices.Sorted(maps.Keys(byNumber))
	fit := len(ids) == len(o.Cyborg.Deployables)
	for i := 0; fit && i < len(ids); i++ {
		fit = slices.Equal(texts(o.Cyborg.Deployables[i].shown()), texts(byNumber[ids[i]]))
	}
	if !fit {
		o.Cyborg.Attributes, ids = nil, nil
	}
	for i, d := range o.Cyborg.Deployables {
		if fit {
			d.id, d.attributes = ids[i], byNumber[ids[i]]
		} else {
			d.id, d.attributes = i+1, d.shown()
			o.Cyborg.Attributes = append(o.Cyborg.Attributes, d.attributes...)
		}
		for j, a := range d.attributes {
			a.deployable, a.UUID = d, cmp.Or(a.UUID, o.id("attribute", d.UUID, j))
		}
	}
}

// shown are the attributes that the deployable shows itself, without uuids.
func (d *deployable) shown() (list []*attribute) {
	for _, pair := range d.Attributes {
		for _, key := range slices.Sorted(maps.Keys(pair)) {
			list = append(list, &attribute{Key: key, Value: pair[key], times: d.times})
		}
	}
	return list
}

// texts are the attributes in any order.
func texts(attributes []*attribute) (list []string) {
	for _, a := range attributes {
		list = append(list, a.Key+"\x00"+a.Value)
	}
	slices.Sort(list)
	return list
}

// findReported finds what the driver reports of a deployable. An attribute was created
// through the API if it is a second one of a key, or a trait that Placement does not have,
// since Cyborg sends only traits from drivers. A provider of a flat host has no owner trait.
// Further inventories of a provider other than a host's are local memory.
func (d *deployable) findReported(p *provider, mode fakecyborg.PlacementMode) {
	d.reported = driver.Deployable{Name: d.Name, NumAccelerators: d.NumAccelerators, DriverName: d.DriverName}
	keys := make(map[string]bool)
	var list []driver.Attribute
	for _, a := range d.attributes {
		missing := p != nil && strings.HasPrefix(a.Key, "trait") && !slices.Contains(p.Traits, a.Value)
		a.byUser = keys[a.Key] || missing && (p.Parent != "" || a.Value != driver.TraitOwnerCyborg)
		if keys[a.Key] = keys[a.Key] || !a.byUser; !a.byUser {
			list = append(list, driver.Attribute{Key: a.Key, Value: a.Value})
		}
	}
	d.reported.SetAttributeList(list)
	if d.reported.Class == "" && p != nil && p.Parent != "" && len(p.Inventories) == 1 {
		for class := range p.Inventories { // a client has deleted the attribute
			d.reported.Class = class
		}
	}
	if mode != fakecyborg.ModeFlat {
		d.reported.Resources = totals(p, d.reported.Class)
	}
}

// findMode finds where the providers of devices are.
func (o *original) findMode() {
	for _, d := range o.Cyborg.Deployables {
		p := o.byUUID[d.ProviderUUID]
		if p != nil && p.Parent == "" {
			o.mode = fakecyborg.ModeFlat
		} else if o.parent(o.parent(p)) != nil {
			o.mode = fakecyborg.ModeNested
		}
	}
}

// totals returns the totals of all inventories of a provider except one.
func totals(p *provider, but string) map[string]int {
	if p == nil {
		return nil
	}
	list := make(map[string]int)
	for class, i := range p.Inventories {
		if class != but {
			list[class] = i.Total
		}
	}
	return list
}

// unknownAddress is another PCI address for each n of a host. Its domain is ffff, which no
// machine has, or above for more than QEMU can have.
func unknownAddress(n int) driver.PCIAddress {
	return driver.PCIAddress{Domain: 0xffff + uint32(n>>16), Bus: uint8(n >> 8), Device: uint8(n >> 3 & 0x1f), Function: uint8(n & 7)}
}

// address is the PCI address in the name of a deployable, HOST_0000:3b:00.0. Behind it may be the region of an FPGA or
// a type of vGPUs.
func (d *deployable) address() (driver.PCIAddress, bool) {
	_, rest, _ := strings.Cut(d.Name, "_")
	for part := range strings.SplitSeq(rest, "_") { // the host may have some, too
		if address, err := driver.ParsePCIAddress(part); err == nil {
			return address, true
		}
	}
	return driver.PCIAddress{}, false
}

// findDevices finds what the drivers report of the devices. The control path is the PCI
// address in the name of a deployable, or an unknown one; no two of a host are the same.
func (o *original) findDevices() {
	taken, ofHost := make(map[string]bool), make(map[string]int) // addresses, devices
	for _, d := range o.Cyborg.Devices {
		d.reported = driver.Device{
			Vendor: d.Vendor, Model: d.Model, Type: d.Type, StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo, Deployables: []driver.Deployable{},
		}
		var address driver.PCIAddress
		for free := false; !free; ofHost[d.Hostname]++ {
			address = unknownAddress(ofHost[d.Hostname])
			free = !taken[d.Hostname+"_"+address.String()]
		}
		for _, each := range d.deployables {
			if named, ok := each.address(); ok && !taken[d.Hostname+"_"+named.String()] {
				address = named
			}
			d.reported.Deployables = append(d.reported.Deployables, each.reported)
		}
		taken[d.Hostname+"_"+address.String()] = true
		d.reported.ControlPath = address.ControlPath()
		for _, each := range d.deployables {
			if above := o.parent(o.byUUID[each.ProviderUUID]); o.parent(above) != nil {
				d.nested, d.reported.Resources = true, totals(above, "")
			}
		}
	}
}

// findHandles gives the deployables the handles of bound requests as they are shown, and
// unknown ones up to their number.
func (o *original) findHandles() error {
	byProvider, taken := make(map[string][]*deployable), make(map[string]bool) // taken: by host, and handle as it is shown
	for _, d := range o.Cyborg.Deployables {
		byProvider[d.ProviderUUID] = append(byProvider[d.ProviderUUID], d)
	}
	for _, a := range o.Cyborg.ARQs {
		if fakecyborg.State(a.State) != fakecyborg.StateBound {
			continue
		}
		d := o.holder(a, byProvider[a.ProviderUUID])
		if d == nil {
			return fmt.Errorf("accelerator request %s is Bound to resource provider %q, and no deployable of that is listed", a.UUID, a.ProviderUUID)
		}
		a.handle = cmp.Or(a.HandleUUID, o.id("attach handle", d.UUID, len(d.arqs)))
		d.arqs = append(d.arqs, a)
		taken[d.device.Hostname+"_"+a.HandleInfo.Key()] = true
		d.reported.AttachHandles = append(d.reported.AttachHandles, driver.AttachHandle{Type: a.HandleType, Info: a.HandleInfo})
	}
	ofHost := make(map[string]int) // unknown handles
	for _, d := range o.Cyborg.Deployables {
		if d.NumAccelerators > maxUnits {
			return fmt.Errorf("deployable %s: num_accelerators %d, want at most %d", d.Name, d.NumAccelerators, maxUnits)
		}
		host := d.device.Hostname
		for ; len(d.reported.AttachHandles) < d.handles(); ofHost[host]++ {
			if h := d.unknownHandle(ofHost[host]); !taken[host+"_"+h.Info.Key()] {
				d.reported.AttachHandles = append(d.reported.AttachHandles, h)
			}
		}
	}
	return nil
}

// handles is the number of attach handles: of a card of Xilinx Cyborg's driver reports two functions for its one
// accelerator, which are bound by two requests (cyborg/accelerator/drivers/fpga/xilinx, objects/ext_arq.py).
func (d *deployable) handles() int {
	if d.isXilinx() {
		return 2 * d.NumAccelerators
	}
	return d.NumAccelerators
}

func (d *deployable) isXilinx() bool { return slices.Contains(d.reported.Traits, "CUSTOM_FPGA_XILINX") }

// holder returns the deployable of the handle of a bound request, or nil. On flat hosts several
// deployables have the request's provider. holder then selects the deployable whose name contains
// the address of the handle, or the slot for a Xilinx card. If there is no such name, it returns
// the first deployable with the requested class and a free handle.
func (o *original) holder(a *arq, of []*deployable) (best *deployable) {
	at, err := driver.PCIAddressOf(a.HandleInfo)
	rank := 0
	for _, d := range of {
		this := 1
		address, ok := d.address()
		if d.isXilinx() {
			address.Function = at.Function
		}
		if ok && err == nil && address == at {
			this = 3
		} else if len(d.arqs) < d.handles() && o.asks(a, d.reported.Class) {
			this = 2
		}
		if this > rank {
			best, rank = d, this
		}
	}
	return best
}

// asks reports whether the group of a request wants a resource class.
func (o *original) asks(a *arq, class string) bool {
	return slices.ContainsFunc(o.Cyborg.Profiles, func(p *deviceProfile) bool {
		return p.Name == a.ProfileName && a.Group >= 0 && a.Group < len(p.Groups) && p.Groups[a.Group]["resources:"+class] != ""
	})
}

// unknownHandle is a handle that Cyborg does not show: one like the bound ones of the
// deployable and marked as unknown, else a PCI device.
func (d *deployable) unknownHandle(n int) driver.AttachHandle {
	h := driver.AttachHandle{Type: driver.HandlePCI, Info: unknownAddress(n).Info()}
	if len(d.arqs) > 0 {
		h.Type = d.arqs[0].HandleType
	}
	if h.Type == driver.HandleMDEV {
		h.Info = driver.Info{}
		maps.Copy(h.Info, d.arqs[0].HandleInfo)
		h.Info["vgpu_mark"] = fmt.Sprint(unknown, "_", n)
	}
	return h
}
