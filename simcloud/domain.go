package simcloud

import (
	"encoding/xml"
	"maps"
	"strconv"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/sim"
)

// domainDevices are the devices that a libvirt domain passes through. The leak check reads
// them with encoding/xml, so that it does not depend on the package that writes domains.
type domainDevices map[domainDevice]bool

// domainDevice is a PCI function, or the mediated device of a UUID.
type domainDevice struct {
	mdev string
	pci  driver.PCIAddress
}

// deviceOf is the device of an attach handle. A TEST_PCI handle has none, nor has a handle
// without a readable address.
func deviceOf(kind, handle string, info map[string]string) (domainDevice, bool) {
	switch kind {
	case driver.HandleTestPCI:
		return domainDevice{}, false
	case driver.HandleMDEV:
		return domainDevice{mdev: uuids.Canonical(handle)}, true
	}
	address, err := driver.PCIAddressOf(info)
	return domainDevice{pci: address}, err == nil
}

// domainReader remembers the devices of each guest's domain: to read the XML is most of what a
// check costs, and domains rarely change.
type domainReader struct {
	mu   sync.Mutex
	last map[string]lastDomain // by guest
}

type lastDomain struct {
	text    string
	devices domainDevices
}

// read returns the devices of a guest's domain, which the caller does not change.
func (r *domainReader) read(g sim.Guest) (domainDevices, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[g.UUID]; ok && last.text == g.Domain {
		return last.devices, nil
	}
	devices, err := readDomain(g.Domain)
	if err == nil {
		if r.last == nil {
			r.last = make(map[string]lastDomain)
		}
		r.last[g.UUID] = lastDomain{g.Domain, devices}
	}
	return devices, err
}

// forget forgets all guests but those that are there.
func (r *domainReader) forget(there map[string]sim.Guest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.last, func(uuid string, _ lastDomain) bool { _, stays := there[uuid]; return !stays })
}

type domainXML struct {
	Hostdevs []struct {
		Type    string `xml:"type,attr"`
		Address struct {
			UUID string `xml:"uuid,attr"`
			domainFunction
		} `xml:"source>address"`
	} `xml:"devices>hostdev"`
	Interfaces []struct {
		Type    string         `xml:"type,attr"`
		Address domainFunction `xml:"source>address"`
	} `xml:"devices>interface"`
}

// domainFunction is the address of a PCI function in a domain.
type domainFunction struct {
	Domain   string `xml:"domain,attr"`
	Bus      string `xml:"bus,attr"`
	Slot     string `xml:"slot,attr"`
	Function string `xml:"function,attr"`
}

func (f domainFunction) address() driver.PCIAddress {
	return driver.PCIAddress{
		Domain: uint32(number(f.Domain, 32)), Bus: uint8(number(f.Bus, 8)),
		Device: uint8(number(f.Slot, 8)), Function: uint8(number(f.Function, 8)),
	}
}

// readDomain reads the devices of a domain; an empty text has none. Addresses are numbers:
// 0x0 and 0x00 are the same slot.
func readDomain(text string) (domainDevices, error) {
	if text == "" {
		return nil, nil
	}
	d := make(domainDevices)
	var domain domainXML
	if err := xml.Unmarshal([]byte(text), &domain); err != nil {
		return d, err
	}
	for _, h := range domain.Hostdevs {
		switch h.Type {
		case "mdev":
			if h.Address.UUID != "" {
				d[domainDevice{mdev: uuids.Canonical(h.Address.UUID)}] = true
			}
		case "pci":
			d[domainDevice{pci: h.Address.address()}] = true
		}
	}
	for _, i := range domain.Interfaces { // the device of a port
		if i.Type == "hostdev" {
			d[domainDevice{pci: i.Address.address()}] = true
		}
	}
	return d, nil
}

// number reads a number as libvirt does: hexadecimal with 0x, octal with 0, else decimal.
// A missing number is zero.
func number(text string, bits int) uint64 {
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0
	}
	return n
}

// has reports whether the domain has the device of a request.
func (d domainDevices) has(a fakecyborg.ARQ) bool {
	device, ok := deviceOf(a.AttachHandleType, a.AttachHandleUUID, a.AttachHandleInfo)
	return ok && d[device]
}
