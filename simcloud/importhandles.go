package simcloud

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// unknownDomain is the first PCI domain of the addresses that stand for unknown ones. No
// machine has it.
const unknownDomain = 0xffff

// unknownAddress is another one for each n.
func unknownAddress(n int) driver.PCIAddress {
	return driver.PCIAddress{
		Domain: unknownDomain + uint32(n>>16), Bus: uint8(n >> 8), Device: uint8(n >> 3 & 0x1f), Function: uint8(n & 7),
	}
}

// findPaths gives each device the PCI address in the name of a deployable as its control
// path, or an unknown one. No two of a host are the same.
func (w *imported) findPaths() {
	taken := make(map[string]bool)
	for _, d := range w.devices {
		address := unknownAddress(len(taken))
		for _, part := range d.parts {
			if named, ok := part.address(); ok && !taken[d.Hostname+named.String()] {
				address = named
				break
			}
		}
		taken[d.Hostname+address.String()] = true
		d.path = address.ControlPath()
	}
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

// findHandles gives the deployables the handles of bound requests as they are told, and
// then as many unknown ones as they have accelerators left.
func (w *imported) findHandles() {
	if w.Accelerator == nil {
		return
	}
	byProvider := make(map[string][]*importedPart)
	for _, part := range w.parts {
		byProvider[part.ProviderUUID] = append(byProvider[part.ProviderUUID], part)
	}
	for _, a := range w.Accelerator.ARQs {
		if fakecyborg.State(a.State) != fakecyborg.StateBound {
			continue
		}
		part := w.holder(byProvider[a.ProviderUUID], a)
		h := importedHandle{uuid: a.AttachHandleUUID, holder: a.UUID, AttachHandle: driver.AttachHandle{
			Type: a.AttachHandleType, Info: driver.Info(maps.Clone(a.AttachHandleInfo)),
		}}
		if h.uuid == "" { // Zed shows none
			h.uuid = w.id("attach_handle", a.UUID)
		}
		part.handles = append(part.handles, h)
	}
	n := make(map[string]int) // by host
	for _, part := range w.parts {
		for len(part.handles) < part.NumAccelerators {
			h := part.unknownHandle(n[part.host])
			n[part.host]++
			part.handles = append(part.handles, importedHandle{uuid: w.id("attach_handle", fmt.Sprint(part.Name, "\x00", len(part.handles))), AttachHandle: h})
		}
	}
}

// holder is the deployable that the handle of a bound request belongs to. Where several
// have one provider, as on flat hosts, it is the one whose name tells the address of the
// handle; if there is none, it is unknown, and the first counts that has the class which
// the request asks for and an accelerator left.
func (w *imported) holder(parts []*importedPart, a ListedARQ) *importedPart {
	at, err := driver.PCIAddressOf(a.AttachHandleInfo)
	i := slices.IndexFunc(parts, func(part *importedPart) bool {
		address, ok := part.address()
		return ok && err == nil && address == at
	})
	if i < 0 {
		i = slices.IndexFunc(parts, func(part *importedPart) bool {
			return len(part.handles) < part.NumAccelerators && w.asks(a, part.class())
		})
	}
	return parts[max(i, 0)]
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

// unknownHandle is the n-th handle of a host that Cyborg does not show: one like the bound
// ones of the deployable that is marked as unknown, else a PCI device.
func (part *importedPart) unknownHandle(n int) driver.AttachHandle {
	h := driver.AttachHandle{Type: driver.HandlePCI, Info: unknownAddress(n).Info()}
	if len(part.handles) == 0 {
		return h
	}
	if h.Type = part.handles[0].Type; h.Type == driver.HandleMDEV {
		h.Info = maps.Clone(part.handles[0].Info)
		h.Info["vgpu_mark"] = fmt.Sprint(unknown, "_", n)
	}
	return h
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

// mdevs are the mediated devices of the bound requests on a host.
func (w *imported) mdevs(host string) []driver.Mdev {
	var list []driver.Mdev
	for _, part := range w.parts {
		for _, h := range part.handles {
			if h.holder == "" || h.Type != driver.HandleMDEV || part.host != host {
				continue
			}
			if mdev, err := h.Mdev(h.uuid); err == nil { // the model refuses other handles
				list = append(list, mdev)
			}
		}
	}
	return list
}
