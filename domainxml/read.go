package domainxml

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"
)

// Read gives the PCI and mediated host devices of a domain, in the order of the
// document. Host devices of other kinds (USB, SCSI, capabilities, types unknown
// here) are passed over, and so are network interfaces of type hostdev.
//
// Addresses are compared as numbers and mediated devices by the value of their
// UUID, so the spelling in the document does not matter; Device.MDEV is always
// lower case with dashes. A document that is not one domain, and one with a PCI
// or mediated device that cannot be identified, is [ErrNotDomain].
func Read(domain []byte) ([]Device, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	return p.devices, nil
}

// ReadInterfaces gives the network interfaces of type hostdev that pass a PCI
// function through, in the order of the document; the error is that of [Read].
func ReadInterfaces(domain []byte) ([]Device, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	return p.interfaces, nil
}

// Has reports whether a domain has the device d: among its host devices, or,
// for the device of a network port, among its interfaces. It returns
// [ErrNotDomain] as [Read] does, and [ErrDevice] when d names none.
func Has(domain []byte, d Device) (bool, error) {
	want, err := d.complete()
	if err != nil {
		return false, err
	}
	p, err := parse(domain)
	if err != nil {
		return false, err
	}
	return p.has(want), nil
}

// has tells of a completed device.
func (p *parsed) has(want Device) bool {
	list := p.devices
	if want.Interface != nil {
		list = p.interfaces
	}
	return slices.ContainsFunc(list, func(have Device) bool { return have.String() == want.String() })
}

// parsed is a judged domain.
type parsed struct {
	*layout
	devices    []Device
	places     []*element // of devices
	interfaces []Device   // host functions given as network interfaces
}

func parse(doc []byte) (*parsed, error) {
	l, err := scan(doc)
	if err != nil {
		return nil, notDomain(err)
	}
	p := &parsed{layout: l}
	if err := p.readHostdevs(doc); err != nil {
		return nil, notDomain(err)
	}
	whole, err := judge(doc, l)
	if err != nil {
		return nil, notDomain(err)
	}
	p.interfaces = interfaceDevices(whole)
	return p, nil
}

func notDomain(err error) error { return fmt.Errorf("domainxml: %w: %w", ErrNotDomain, err) }

// judge lets libvirtxml read the document. The hostdev elements are cut out
// first, because libvirtxml refuses types it does not know and elements without
// the mode attribute, which libvirt takes; they are read one by one instead.
func judge(doc []byte, l *layout) (*libvirtxml.Domain, error) {
	rest, from := make([]byte, 0, len(doc)), 0
	for _, h := range l.hostdevs {
		rest = append(rest, doc[from:h.open]...)
		from = h.end
	}
	rest = append(rest, doc[from:]...)
	var d libvirtxml.Domain
	if err := d.Unmarshal(string(rest)); err != nil {
		return nil, err
	}
	return &d, nil
}

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

// readHostdev reads one element. libvirt takes a missing mode as subsystem,
// libvirtxml does not, so it is added where it is missing.
func readHostdev(text []byte, hasMode bool) (Device, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	tok, err := dec.Token()
	if err != nil {
		return Device{}, err
	}
	start, ok := tok.(xml.StartElement)
	if !ok {
		return Device{}, fmt.Errorf("no start tag")
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

// interfaceDevices lists the functions that network interfaces of type hostdev
// take. Those that cannot be read are left to libvirt: they are not our devices.
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

func attribute(attrs []xml.Attr, name string) (string, bool) {
	for _, a := range attrs {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}
