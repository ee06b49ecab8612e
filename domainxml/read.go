package domainxml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Read returns the PCI and mediated host devices of a domain, in the order of the
// document. It ignores other host devices (USB, SCSI, capabilities, unknown types),
// network interfaces of type hostdev and NVMe disks.
//
// Addresses and UUIDs may have any form; Hostdev.MDEV is always lower case with dashes.
// A document that is not a domain, or has a malformed PCI or mediated device, is
// [ErrNotDomain].
func Read(domain []byte) ([]Hostdev, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	return p.devices, nil
}

func (p *parsed) has(want Hostdev) bool {
	list := p.devices
	if want.Interface != nil {
		list = p.interfaces
	}
	return slices.ContainsFunc(list, want.is)
}

// is reports whether a device of a domain is this one, and not there for another accelerator request
// or network port.
func (d Hostdev) is(have Hostdev) bool {
	return have.String() == d.String() && agree(have.ARQ, d.ARQ) && agree(have.mac(), d.mac())
}

// agree reports whether two names, without regard to case, may be of one thing.
func agree(a, b string) bool { return a == "" || b == "" || strings.EqualFold(a, b) }

// parsed is a valid domain.
type parsed struct {
	*layout
	devices    []Hostdev
	places     []*element // elements of devices
	interfaces []Hostdev  // host functions given as network interfaces
	ports      []*element // elements of interfaces
	disks      []Hostdev  // host functions given as NVMe disks
}

// parse reads the parts of a document that may have devices of the host.
func parse(doc []byte) (*parsed, error) {
	l, err := scan(doc)
	if err != nil {
		return nil, notDomain(err)
	}
	p := &parsed{layout: l}
	if err := p.readHostdevs(doc); err != nil {
		return nil, notDomain(err)
	}
	for _, e := range l.children {
		switch kind, _ := attribute(e.attrs, "type"); {
		case e.name == "interface" && kind == "hostdev":
			err = p.readInterface(doc, e)
		case e.name == "disk":
			err = p.readDisk(doc[e.open:e.end])
		}
		if err != nil {
			return nil, notDomain(err)
		}
	}
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
func readHostdev(text []byte, hasMode bool) (Hostdev, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	tok, err := dec.Token()
	if err != nil {
		return Hostdev{}, err
	}
	start, ok := tok.(xml.StartElement)
	if !ok {
		return Hostdev{}, errors.New("no start tag")
	}
	if !hasMode {
		start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: "mode"}, Value: "subsystem"})
	}
	var h libvirtxml.DomainHostdev
	if err := dec.DecodeElement(&h, &start); err != nil {
		return Hostdev{}, err
	}
	return fromElement(h)
}

// readInterface reads an interface of type hostdev. One without a valid PCI function has
// no device.
func (p *parsed) readInterface(doc []byte, e *element) error {
	var i libvirtxml.DomainInterface
	if err := xml.Unmarshal(doc[e.open:e.end], &i); err != nil {
		return fmt.Errorf("interface of type hostdev: %w", err)
	}
	if d, err := (Hostdev{Interface: &i}).complete(); err == nil {
		p.interfaces, p.ports = append(p.interfaces, d), append(p.ports, e)
	}
	return nil
}

// image is a disk, the copy of it that is being made, or what is behind either, as far as
// it may be an NVMe disk.
type image struct {
	Type   string `xml:"type,attr"`
	Source struct {
		Address *libvirtxml.DomainAddressPCI `xml:"address"`
	} `xml:"source"`
	BackingStore *image `xml:"backingStore"`
	Mirror       *image `xml:"mirror"`
}

// readDisk reads the PCI functions of a disk. An invalid disk is not a device.
func (p *parsed) readDisk(text []byte) error {
	var disk image
	if err := xml.Unmarshal(text, &disk); err != nil {
		return fmt.Errorf("disk: %w", err)
	}
	p.addImage(&disk)
	return nil
}

func (p *parsed) addImage(i *image) {
	if i == nil {
		return
	}
	if address, err := addressOf(i.Source.Address); err == nil && i.Type == "nvme" {
		p.disks = append(p.disks, Hostdev{PCI: &address})
	}
	p.addImage(i.BackingStore)
	p.addImage(i.Mirror)
}

func attribute(attrs []xml.Attr, name string) (string, bool) {
	for _, a := range attrs {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}
