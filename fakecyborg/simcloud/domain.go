package simcloud

import (
	"encoding/xml"
	"strconv"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
	"github.com/gocyborg/gocyborg/internal/nova"
)

// domainDevices are the devices that a libvirt domain passes through, as the check needs
// them. They are read here with encoding/xml alone: what writes domains in this module
// must not be its own judge.
type domainDevices struct {
	pci   map[driver.PCIAddress]bool
	mdevs map[string]bool // by uuid
}

type domainXML struct {
	Hostdevs []struct {
		Type    string `xml:"type,attr"`
		Address struct {
			UUID     string `xml:"uuid,attr"`
			Domain   string `xml:"domain,attr"`
			Bus      string `xml:"bus,attr"`
			Slot     string `xml:"slot,attr"`
			Function string `xml:"function,attr"`
		} `xml:"source>address"`
	} `xml:"devices>hostdev"`
}

// readDomain finds the devices of a domain; an empty text has none. Addresses are
// compared as numbers: 0x0 and 0x00 are the same slot.
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
			d.mdevs[nova.CanonicalUUID(h.Address.UUID)] = true
		case "pci":
			d.pci[driver.PCIAddress{
				Domain: uint32(number(h.Address.Domain, 32)), Bus: uint8(number(h.Address.Bus, 8)),
				Device: uint8(number(h.Address.Slot, 8)), Function: uint8(number(h.Address.Function, 8)),
			}] = true
		}
	}
	return d, nil
}

// number reads a number as libvirt does: hexadecimal with 0x, octal with 0, else decimal;
// an absent one is zero.
func number(text string, bits int) uint64 {
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0
	}
	return n
}

// has tells whether the device of an attach handle is among them.
func (d domainDevices) has(kind, handle string, info map[string]string) bool {
	if kind == driver.HandleMDEV {
		return d.mdevs[nova.CanonicalUUID(handle)]
	}
	address, err := driver.PCIAddressOf(info)
	return err == nil && d.pci[address]
}
