package domainxml

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Hostdev is one host device of a domain: a PCI function or a mediated device, or
// the PCI function behind a network interface.
type Hostdev struct {
	// ARQ is the accelerator request it came from. For a device read from a domain it is taken
	// from the alias, see [Hostdevs]; it is empty without an alias.
	ARQ string
	// PCI is the host address of a PCI device, nil for a mediated one.
	PCI *PCIAddress
	// MDEV is the UUID of a mediated device in lower case with dashes, empty for a PCI
	// device.
	MDEV string
	// Hostdev is the libvirt element. Callers may add to it before [Merge], such as an
	// alias, a driver, or a display (SubsysMDev.Display and RamFB). If it is zero,
	// Merge makes it from PCI or MDEV.
	Hostdev libvirtxml.DomainHostdev
	// Interface is the libvirt element of the accelerator of a network port, see
	// [Interfaces]; nil for a host device. If it is set, the field Hostdev is zero.
	Interface *libvirtxml.DomainInterface
}

// String returns the name of the device: "pci 0000:3b:00.0", "mdev <uuid>", or "no device".
func (d Hostdev) String() string {
	switch {
	case d.PCI != nil:
		return "pci " + d.PCI.String()
	case d.MDEV != "":
		return "mdev " + d.MDEV
	}
	return "no device"
}

// mac is the MAC address of a network interface, or "".
func (d Hostdev) mac() string {
	if d.Interface == nil || d.Interface.MAC == nil {
		return ""
	}
	return d.Interface.MAC.Address
}

func pciDevice(arq string, a PCIAddress, managed string) Hostdev {
	return Hostdev{ARQ: arq, PCI: &a, Hostdev: libvirtxml.DomainHostdev{
		Managed: managed, Alias: aliasOf(arq),
		SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
			Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: a.element()},
		},
	}}
}

func mdevDevice(arq, uuid string) Hostdev {
	return Hostdev{ARQ: arq, MDEV: uuid, Hostdev: libvirtxml.DomainHostdev{
		Managed: "no", Alias: aliasOf(arq),
		SubsysMDev: &libvirtxml.DomainHostdevSubsysMDev{
			Model:  "vfio-pci",
			Source: &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: uuid}},
		},
	}}
}

// complete checks a device of the caller and sets its element: PCI or MDEV and the
// element must name the same device.
func (d Hostdev) complete() (Hostdev, error) {
	if d.Interface != nil {
		return d.completeInterface()
	}
	made, err := d.fromName()
	if err != nil {
		return Hostdev{}, d.invalid(err)
	}
	if d.Hostdev.SubsysPCI == nil && d.Hostdev.SubsysMDev == nil {
		if d.PCI == nil && d.MDEV == "" {
			return Hostdev{}, d.invalid(errors.New("neither PCI nor MDEV is set"))
		}
		return made, nil
	}
	read, err := fromElement(d.Hostdev)
	if err != nil {
		return Hostdev{}, d.invalid(err)
	}
	if (d.PCI != nil || d.MDEV != "") && read.String() != made.String() {
		return Hostdev{}, d.invalid(fmt.Errorf("its element names %s", read))
	}
	read.ARQ = d.ARQ
	return read, nil
}

// completeInterface is complete for the device of a network port.
func (d Hostdev) completeInterface() (Hostdev, error) {
	i := d.Interface
	if d.MDEV != "" || d.Hostdev.SubsysPCI != nil || d.Hostdev.SubsysMDev != nil {
		return Hostdev{}, d.invalid(errors.New("it is both a network interface and a host device"))
	}
	if i.Source == nil || i.Source.Hostdev == nil || i.Source.Hostdev.PCI == nil {
		return Hostdev{}, d.invalid(errors.New("its interface has no PCI function"))
	}
	a, err := addressOf(i.Source.Hostdev.PCI.Address)
	if err != nil {
		return Hostdev{}, d.invalid(err)
	}
	if d.PCI != nil && *d.PCI != a {
		return Hostdev{}, d.invalid(fmt.Errorf("its element names pci %s", a))
	}
	d.PCI = &a
	return d, nil
}

// element returns the libvirtxml element of the device.
func (d Hostdev) element() any {
	if d.Interface != nil {
		return d.Interface
	}
	return &d.Hostdev
}

func (d Hostdev) fromName() (Hostdev, error) {
	switch {
	case d.PCI != nil && d.MDEV != "":
		return Hostdev{}, errors.New("both PCI and MDEV are set")
	case d.PCI != nil:
		return pciDevice(d.ARQ, *d.PCI, "yes"), d.PCI.validate()
	case d.MDEV != "":
		uuid, err := canonicalUUID(d.MDEV)
		return mdevDevice(d.ARQ, uuid), err
	}
	return Hostdev{}, nil
}

// fromElement reads the identity of a PCI or mediated device element.
func fromElement(h libvirtxml.DomainHostdev) (Hostdev, error) {
	switch {
	case h.SubsysPCI != nil && h.SubsysMDev != nil:
		return Hostdev{}, errors.New("its element is both a PCI and a mediated device")
	case h.SubsysPCI != nil && h.SubsysPCI.Source != nil:
		a, err := addressOf(h.SubsysPCI.Source.Address)
		return Hostdev{ARQ: requestOf(h.Alias), PCI: &a, Hostdev: h}, err
	case h.SubsysMDev != nil && h.SubsysMDev.Source != nil && h.SubsysMDev.Source.Address != nil:
		uuid, err := lenientUUID(h.SubsysMDev.Source.Address.UUID)
		return Hostdev{ARQ: requestOf(h.Alias), MDEV: uuid, Hostdev: h}, err
	}
	return Hostdev{}, errors.New("no source address")
}

func (d Hostdev) invalid(err error) error {
	subject := d.String()
	if d.ARQ != "" {
		subject += " of accelerator request " + d.ARQ
	}
	return fmt.Errorf("domainxml: %s: %w: %w", subject, ErrDevice, err)
}

// canonicalUUID returns the lower-case form with dashes of a UUID in any case, with or
// without dashes.
func canonicalUUID(text string) (string, error) {
	digits := text
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		digits = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	}
	return dashed(digits, text)
}

// lenientUUID accepts what libvirt's virUUIDParse accepts: 32 hexadecimal digits in any
// case, with dashes and spaces anywhere between them.
func lenientUUID(text string) (string, error) {
	digits := strings.ReplaceAll(strings.ReplaceAll(text, "-", ""), " ", "")
	return dashed(digits, text)
}

func dashed(digits, original string) (string, error) {
	if _, err := hex.DecodeString(digits); err != nil || len(digits) != 32 {
		return "", fmt.Errorf("%q is not a UUID", shortened(original))
	}
	d := strings.ToLower(digits)
	return strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:]}, "-"), nil
}
