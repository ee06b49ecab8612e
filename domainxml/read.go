package domainxml

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"
)

// Read returns the PCI and mediated host devices of a domain, in the order of the
// document. It ignores other host devices (USB, SCSI, capabilities, unknown types),
// network interfaces of type hostdev and NVMe disks.
//
// Addresses and UUIDs may have any form; Device.MDEV is always lower case with dashes.
// A document that is not a domain, or has a malformed PCI or mediated device, is
// [ErrNotDomain].
func Read(domain []byte) ([]Device, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	return p.devices, nil
}

func (p *parsed) has(want Device) bool {
	list := p.devices
	if want.Interface != nil {
		list = p.interfaces
	}
	return slices.ContainsFunc(list, func(have Device) bool { return have.String() == want.String() })
}

// parsed is a valid domain.
type parsed struct {
	*layout
	devices    []Device
	places     []*element // elements of devices
	interfaces []Device   // host functions given as network interfaces
	disks      []Device   // host functions given as NVMe disks
}

// parse reads a document once: libvirtxml reads all but the hostdev elements from the
// scanner. These are read one by one.
func parse(doc []byte) (*parsed, error) {
	s, err := newScanner(doc)
	if err != nil {
		return nil, notDomain(err)
	}
	var whole libvirtxml.Domain
	unreadable := xml.NewTokenDecoder(s).Decode(&whole)
	l, err := s.rest()
	if err != nil {
		return nil, notDomain(err)
	}
	p := &parsed{layout: l}
	if err := cmp.Or(p.readHostdevs(doc), unreadable); err != nil {
		return nil, notDomain(err)
	}
	p.interfaces, p.disks = interfaceDevices(&whole), diskDevices(&whole)
	return p, nil
}

func notDomain(err error) error { return fmt.Errorf("domainxml: %w: %w", ErrNotDomain, err) }

func (p *parsed) readHostdevs(doc []byte) error {
	for i, e := range p.hostdevs {
		kind, _ := attribute(e.attrs, "type")
		mode, given := attribute(e.attrs, "mode")
		if given && mode != "subsystem" || kind != "pci" && kind != "mdev" {
			continue
		}
		d, err := readHostdev(doc[e.open:e.end], given)
		if err != nil {
			return fmt.Errorf("hostdev %d (type %s): %w", i+1, kind, err)
		}
		p.devices, p.places = append(p.devices, d), append(p.places, e)
	}
	return nil
}

// readHostdev reads one element. A missing mode is subsystem for libvirt and an error
// for libvirtxml, so it is added.
func readHostdev(text []byte, hasMode bool) (Device, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	tok, err := dec.Token()
	if err != nil {
		return Device{}, err
	}
	start, ok := tok.(xml.StartElement)
	if !ok {
		return Device{}, errors.New("no start tag")
	}
	if !hasMode {
		start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: "mode"}, Value: "subsystem"})
	}
	var h libvirtxml.DomainHostdev
	if err := dec.DecodeElement(&h, &start); err != nil {
		return Device{}, err
	}
	return fromElement(h)
}

// interfaceDevices returns the PCI functions of network interfaces of type hostdev and
// ignores malformed ones.
func interfaceDevices(d *libvirtxml.Domain) []Device {
	if d.Devices == nil {
		return nil
	}
	var devices []Device
	for i := range d.Devices.Interfaces {
		read, err := Device{Interface: &d.Devices.Interfaces[i]}.complete()
		if err == nil {
			devices = append(devices, read)
		}
	}
	return devices
}

// diskDevices returns the PCI functions of NVMe disks and ignores malformed ones.
func diskDevices(d *libvirtxml.Domain) []Device {
	if d.Devices == nil {
		return nil
	}
	var devices []Device
	for i := range d.Devices.Disks {
		source := d.Devices.Disks[i].Source
		if source == nil || source.NVME == nil || source.NVME.PCI == nil {
			continue
		}
		if address, err := addressOf(source.NVME.PCI.Address); err == nil {
			devices = append(devices, Device{PCI: &address})
		}
	}
	return devices
}

func attribute(attrs []xml.Attr, name string) (string, bool) {
	for _, a := range attrs {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}
