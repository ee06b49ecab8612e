package nova

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/uuids"
)

// Device is a device that a domain passes through: a mediated device, or a PCI function.
type Device struct {
	Mdev   string // the UUID of a mediated device, empty for a function
	Domain uint32
	Bus    uint8
	// Slot is the device number in Cyborg's and the kernel's terms.
	Slot, Function uint8
}

// domain is the XML of a libvirt domain, which is read once. It is read with encoding/xml, so
// that the leak check does not depend on the package that writes domains.
type domain struct {
	text    string
	devices []Device
	twice   []Device // libvirt refuses such a domain
}

// MarshalText implements encoding.TextMarshaler.
func (d domain) MarshalText() ([]byte, error) { return []byte(d.text), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *domain) UnmarshalText(text []byte) (err error) {
	if *d, err = readDomain(string(text)); err != nil {
		return fmt.Errorf("domain: %w", err)
	}
	return nil
}

// passedThrough is an element of a domain that may name a device of the host.
type passedThrough struct {
	Mode    string `xml:"mode,attr"`
	Type    string `xml:"type,attr"`
	Address struct {
		UUID     string `xml:"uuid,attr"`
		Domain   string `xml:"domain,attr"`
		Bus      string `xml:"bus,attr"`
		Slot     string `xml:"slot,attr"`
		Function string `xml:"function,attr"`
	} `xml:"source>address"`
}

// readDomain reads the text to its end. An empty text is a domain without devices.
func readDomain(text string) (domain, error) {
	d := domain{text: text}
	if text == "" {
		return d, nil
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	root, open := "", []string{} // the elements that have begun
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return d, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if len(open) == 2 && open[0] == "domain" && open[1] == "devices" {
				if err := d.add(dec, token); err != nil {
					return d, err
				}
				continue
			}
			if len(open) == 0 && root != "" {
				return d, fmt.Errorf("it has a second root element, %q", token.Name.Local)
			}
			if root == "" {
				root = token.Name.Local
			}
			open = append(open, token.Name.Local)
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
	if root != "domain" {
		return d, fmt.Errorf("its root element is %q, not domain", root)
	}
	return d, nil
}

// add reads an element of the devices to its end. As libvirt, it takes a host device without a mode for a device of a
// subsystem of the host, and passes over elements of other namespaces.
func (d *domain) add(dec *xml.Decoder, start xml.StartElement) error {
	kind := start.Name.Local
	if start.Name.Space != "" || kind != "hostdev" && kind != "interface" && kind != "disk" {
		return dec.Skip()
	}
	var e passedThrough
	if err := dec.DecodeElement(&e, &start); err != nil {
		return err
	}
	var device Device
	switch {
	case kind == "hostdev" && e.Mode != "" && e.Mode != "subsystem": // capabilities, of containers
		return nil
	case kind == "hostdev" && e.Type == "mdev" && e.Address.UUID != "":
		device.Mdev = uuids.Canonical(e.Address.UUID)
	case kind == "hostdev" && e.Type == "pci", kind == "interface" && e.Type == "hostdev", // the device of a port
		kind == "disk" && e.Type == "nvme":
		device = Device{
			Domain: uint32(number(e.Address.Domain, 32)), Bus: uint8(number(e.Address.Bus, 8)),
			Slot: uint8(number(e.Address.Slot, 8)), Function: uint8(number(e.Address.Function, 8)),
		}
	default:
		return nil
	}
	if slices.Contains(d.devices, device) {
		d.twice = append(d.twice, device)
		return nil
	}
	d.devices = append(d.devices, device)
	return nil
}

// String is the UUID of a mediated device or the address of a function.
func (d Device) String() string {
	if d.Mdev != "" {
		return d.Mdev
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", d.Domain, d.Bus, d.Slot, d.Function)
}

// number reads a number as libvirt does: hexadecimal with 0x, octal with 0, else decimal.
// A missing number is zero. So 0x0 and 0x00 are the same slot.
func number(text string, bits int) uint64 {
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0
	}
	return n
}
