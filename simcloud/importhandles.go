package simcloud

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// madeUpDomain is the first PCI domain of addresses that nothing tells.
const madeUpDomain = 0xffff

// places are the PCI addresses of a host.
type places struct {
	taken map[driver.PCIAddress]bool
	next  uint64 // made-up address
}

// findPlaces notes the addresses that names and handles tell, so that none is made up a
// second time.
func (w *imported) findPlaces() {
	w.places = make(map[string]*places)
	for _, d := range w.devices {
		if w.places[d.Hostname] == nil {
			w.places[d.Hostname] = &places{taken: make(map[driver.PCIAddress]bool)}
		}
		taken := w.places[d.Hostname].taken
		for _, part := range d.parts {
			if address, ok := part.address(); ok {
				taken[address] = true
			}
			for _, h := range part.handles {
				if address, err := driver.PCIAddressOf(h.Info); err == nil {
					taken[address] = true
				}
			}
		}
	}
}

// fresh is an address that nothing of the host has.
func (p *places) fresh() driver.PCIAddress {
	for {
		n := p.next
		p.next++
		address := driver.PCIAddress{
			Domain: madeUpDomain + uint32(n>>16), Bus: uint8(n >> 8), Device: uint8(n >> 3 & 0x1f), Function: uint8(n & 7),
		}
		if !p.taken[address] {
			p.taken[address] = true
			return address
		}
	}
}

// madeUpType is the type of mediated devices of which nothing tells it.
const madeUpType = "made-up"

// furnish finds or makes up what Cyborg does not show of a device: its control path, which
// attributes users made, further inventories, attach handles.
func (w *imported) furnish(d *importedDevice) {
	d.path = w.pathOf(d)
	for _, part := range d.parts {
		w.judgeAttributes(part)
		w.findMemory(part)
		w.fillHandles(d, part)
	}
}

// findHandles gives the handles of bound requests to their deployables. On a flat host
// several have one provider; the address in a name decides, and else the requests are dealt
// out in order to those that have the class of their group and units left.
func (w *imported) findHandles() {
	if w.Accelerator == nil {
		return
	}
	byProvider := make(map[string][]*importedPart)
	for _, part := range w.parts {
		byProvider[part.ProviderUUID] = append(byProvider[part.ProviderUUID], part)
	}
	var rest []ListedARQ
	for _, a := range w.Accelerator.ARQs {
		if fakecyborg.State(a.State) != fakecyborg.StateBound {
			continue
		}
		if part := named(byProvider[a.ProviderUUID], a); part != nil {
			part.hold(a)
		} else {
			rest = append(rest, a)
		}
	}
	for _, a := range rest {
		alike := byProvider[a.ProviderUUID]
		i := slices.IndexFunc(alike, func(part *importedPart) bool {
			return len(part.handles) < part.NumAccelerators && w.asks(a, part.class())
		})
		alike[max(i, 0)].hold(a)
	}
}

// named is the only deployable of a provider, or the one whose name tells the address of
// the request's handle; nil if there is none.
func named(alike []*importedPart, a ListedARQ) *importedPart {
	if len(alike) == 1 {
		return alike[0]
	}
	at, err := driver.PCIAddressOf(a.AttachHandleInfo)
	if err != nil {
		return nil
	}
	for _, part := range alike {
		if address, ok := part.address(); ok && address == at {
			return part
		}
	}
	return nil
}

// hold gives the deployable the handle of a bound request.
func (part *importedPart) hold(a ListedARQ) {
	part.handles = append(part.handles, importedHandle{
		uuid: a.AttachHandleUUID, holder: a.UUID,
		AttachHandle: driver.AttachHandle{Type: a.AttachHandleType, Info: driver.Info(maps.Clone(a.AttachHandleInfo))},
	})
}

// asks tells whether the group of a request wants a resource class.
func (w *imported) asks(a ListedARQ, class string) bool {
	for _, p := range w.Accelerator.DeviceProfiles {
		if p.Name == a.ProfileName && a.Group < len(p.Groups) {
			_, ok := p.Groups[a.Group]["resources:"+class]
			return ok
		}
	}
	return false
}

// address is the PCI address in the name of a deployable, HOST_0000:3b:00.0.
func (part *importedPart) address() (driver.PCIAddress, bool) {
	rest, ok := strings.CutPrefix(part.Name, part.host+"_")
	if !ok {
		return driver.PCIAddress{}, false
	}
	rest, _, _ = strings.Cut(rest, "_") // the region of an FPGA, or a type of vGPUs
	address, err := driver.ParsePCIAddress(rest)
	return address, err == nil
}

// mdevType is the type of mediated devices in the name of a deployable, such as
// HOST_0000:af:00.0_nvidia-35, else one that is made up.
func (part *importedPart) mdevType() string {
	parts := strings.SplitN(strings.TrimPrefix(part.Name, part.host+"_"), "_", 2)
	if _, named := part.address(); named && len(parts) == 2 && parts[1] != "" && !strings.ContainsAny(parts[1], "/\x00\n") {
		return parts[1]
	}
	return madeUpType
}

// pathOf is the control path of a device: what a name or a handle tells, else made up. No
// two of a host are the same.
func (w *imported) pathOf(d *importedDevice) driver.ControlPath {
	var told []driver.ControlPath
	for _, part := range d.parts {
		if part.DriverName == "fake" { // upstream's fake driver has one place
			told = append(told, driver.PCIAddress{Bus: 0x0c}.ControlPath())
		}
		if address, ok := part.address(); ok {
			told = append(told, address.ControlPath())
		}
		for _, h := range part.handles {
			if parent := h.Info["parent"]; parent != "" {
				told = append(told, driver.MdevParent(parent).ControlPath())
			} else if address, err := driver.PCIAddressOf(h.Info); err == nil && h.Type != driver.HandleTestPCI {
				told = append(told, address.ControlPath())
			}
		}
	}
	for _, path := range told {
		if !w.pathTaken(d, path) {
			return path
		}
	}
	return w.places[d.Hostname].fresh().ControlPath()
}

func (w *imported) pathTaken(d *importedDevice, path driver.ControlPath) bool {
	return slices.ContainsFunc(w.devices, func(other *importedDevice) bool {
		return other != d && other.Hostname == d.Hostname && other.path.Key() == path.Key()
	})
}

// judgeAttributes tells which attributes are a user's: a second one of a key, and a trait
// that Placement does not have, since Cyborg tells it those of drivers only.
func (w *imported) judgeAttributes(part *importedPart) {
	p, known := w.providers[part.ProviderUUID]
	keys := make(map[string]bool)
	for i := range part.attributes {
		a := &part.attributes[i]
		missing := known && strings.HasPrefix(a.Key, "trait") && !slices.Contains(p.Traits, a.Value)
		if w.mode == fakecyborg.ModeFlat && a.Value == driver.TraitOwnerCyborg {
			missing = false // the provider stays Nova's
		}
		a.byUser = keys[a.Key] || missing
		keys[a.Key] = keys[a.Key] || !a.byUser
	}
}

// findMemory takes the further inventories of a provider of Cyborg's own.
func (w *imported) findMemory(part *importedPart) {
	if w.mode == fakecyborg.ModeFlat {
		return
	}
	for class, i := range w.providers[part.ProviderUUID].Inventories {
		if class != part.class() {
			if part.memory == nil {
				part.memory = make(map[string]int)
			}
			part.memory[class] = i.Total
		}
	}
}

// fillHandles makes up the handles that nobody holds.
func (w *imported) fillHandles(d *importedDevice, part *importedPart) {
	known := make(map[string]bool)
	for i := range part.handles {
		h := &part.handles[i]
		known[h.Key()] = true
		if h.uuid == "" {
			h.uuid = w.id("attach_handle", h.holder)
		}
	}
	kind := part.handleKind()
	for n := 0; len(part.handles) < part.NumAccelerators; n++ {
		h := driver.AttachHandle{Type: kind, Info: w.madeUp(d, part, kind, n)}
		if known[h.Key()] {
			continue
		}
		known[h.Key()] = true
		part.handles = append(part.handles, importedHandle{uuid: w.id("attach_handle", fmt.Sprint(part.Name, "\x00", n)), AttachHandle: h})
	}
}

// handleKind is the type of the handles of a deployable.
func (part *importedPart) handleKind() string {
	switch {
	case len(part.handles) > 0:
		return part.handles[0].Type
	case part.DriverName == "fake":
		return driver.HandleTestPCI
	case part.class() == "VGPU":
		return driver.HandleMDEV
	}
	return driver.HandlePCI
}

// madeUp is the n-th handle that a deployable could have. No two have the same
// information.
func (w *imported) madeUp(d *importedDevice, part *importedPart, kind string, n int) driver.Info {
	switch kind {
	case driver.HandleTestPCI:
		if n+1 < testHandles {
			return testInfo(n + 1) // upstream counts from one
		}
	case driver.HandleMDEV:
		return mdevInfo(d, part, n)
	}
	if address, ok := part.address(); ok && n == 0 && kind == driver.HandlePCI {
		return address.Info()
	}
	if path, err := driver.PCIAddressOf(d.path.Info); err == nil && n == 0 && kind == driver.HandlePCI && len(d.parts) == 1 {
		return path.Info() // the device as a whole
	}
	return w.places[d.Hostname].fresh().Info()
}

// testHandles is how many handles of upstream's fake driver a bus has room for.
const testHandles = 256

// testInfo is a handle of upstream's fake driver.
func testInfo(n int) driver.Info {
	const slot = 8
	return driver.Info{"domain": "0000", "bus": "0c", "device": strconv.FormatInt(int64(n/slot), 16), "function": strconv.Itoa(n % slot)}
}

// mdevInfo is like those that are known, with another mark.
func mdevInfo(d *importedDevice, part *importedPart, n int) driver.Info {
	info := driver.Info{}
	asked := part.mdevType()
	switch {
	case len(part.handles) > 0:
		maps.Copy(info, part.handles[0].Info)
		asked = info["asked_type"]
	default:
		maps.Copy(info, d.path.Info)
		if address, ok := part.address(); ok {
			maps.Copy(info, address.Info())
		}
	}
	info["asked_type"] = asked
	info["vgpu_mark"] = fmt.Sprint(asked, "_", n)
	return info
}

// mdevs are the mediated devices of the bound requests on a host.
func (w *imported) mdevs(host string) []driver.Mdev {
	var list []driver.Mdev
	for _, d := range w.devices {
		for _, part := range d.parts {
			for _, h := range part.handles {
				if h.holder == "" || h.Type != driver.HandleMDEV || d.Hostname != host {
					continue
				}
				mdev, err := h.Mdev(h.uuid)
				if err != nil {
					continue // the model refuses the handle
				}
				list = append(list, mdev)
			}
		}
	}
	return list
}
