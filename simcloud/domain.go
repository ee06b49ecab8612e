package simcloud

import (
	"encoding/xml"
	"strconv"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// domainDevices are the devices that a libvirt domain passes through. The leak check reads
// them with encoding/xml, so that it does not depend on the package that writes domains.
type domainDevices struct {
	pci   map[driver.PCIAddress]bool
	mdevs map[string]bool // by uuid
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
	d := domainDevices{pci: make(map[driver.PCIAddress]bool), mdevs: make(map[string]bool)}
	if text == "" {
		return d, nil
	}
	var domain domainXML
	if err := xml.Unmarshal([]byte(text), &domain); err != nil {
		return d, err
	}
	for _, h := range domain.Hostdevs {
		switch h.Type {
		case "mdev":
			d.mdevs[uuids.Canonical(h.Address.UUID)] = true
		case "pci":
			d.pci[h.Address.address()] = true
		}
	}
	for _, i := range domain.Interfaces { // the device of a port
		if i.Type == "hostdev" {
			d.pci[i.Address.address()] = true
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

// has reports whether the domain has the device of an attach handle.
func (d domainDevices) has(kind, handle string, info map[string]string) bool {
	if kind == driver.HandleMDEV {
		return d.mdevs[uuids.Canonical(handle)]
	}
	address, err := driver.PCIAddressOf(info)
	return err == nil && d.pci[address]
}
