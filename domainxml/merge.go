package domainxml

import (
	"fmt"
	"slices"
)

// Merge returns a copy of domain with the devices added to its host devices.
//
//   - The devices are inserted after the last hostdev (and the comments on its line)
//     that does not follow a watchdog or balloon, else before these or a file system
//     at the end, else before the end of the devices element, with the indentation
//     and line ends found there. All other bytes are unchanged.
//   - Interfaces of network ports (see [Interfaces]) are inserted after the last
//     interface in the same way, else before the host devices.
//   - A domain without a devices element gets one, before its end. An empty tag
//     <devices/> or <domain/> becomes a pair of tags.
//   - The document must have one root element domain without a name space, be UTF-8,
//     at most 4 MiB, without a document type declaration, and libvirt's PCI and mediated
//     host devices, interfaces of type hostdev and disks must be readable in it; otherwise
//     the error is [ErrNotDomain]. Other elements may be newer than this package.
//   - A device that the domain has already, as a host device, a network
//     interface of type hostdev, or an NVMe disk or image behind a disk, or that is in the list twice, is a
//     [*DuplicateError]: libvirt refuses such a domain. Addresses are compared as
//     numbers, UUIDs without regard to case or dashes.
//   - A device without a name or with two different ones is [ErrDevice].
func Merge(domain []byte, devices []Hostdev) ([]byte, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	holders := map[string]string{}
	for _, d := range p.interfaces {
		holders[d.String()] = "a network interface of the domain"
	}
	for _, d := range p.devices {
		holders[d.String()] = "a hostdev of the domain"
	}
	for _, d := range p.disks {
		holders[d.String()] = "an NVMe disk of the domain"
	}
	added, err := completeAll(devices, holders)
	if err != nil {
		return nil, err
	}
	if len(added) == 0 {
		return slices.Clone(domain), nil
	}
	return p.insert(domain, added)
}

// insert adds the devices, interfaces first.
func (p *parsed) insert(domain []byte, added []Hostdev) ([]byte, error) {
	ports := added[:0:0]
	hostdevs := added[:0:0]
	for _, d := range added {
		if d.Interface != nil {
			ports = append(ports, d)
		} else {
			hostdevs = append(hostdevs, d)
		}
	}
	last := p.last("interface")
	if len(ports) == 0 || last == nil {
		return p.site(domain).splice(domain, append(ports, hostdevs...))
	}
	merged, err := afterElement(domain, last, p.unit(domain)).splice(domain, ports)
	if err != nil || len(hostdevs) == 0 {
		return merged, err
	}
	l, err := scan(merged)
	if err != nil {
		return nil, notDomain(err)
	}
	return l.site(merged).splice(merged, hostdevs)
}

// completeAll completes the devices and adds them to the holders, by the name of the
// device; one that has a holder already is refused.
func completeAll(devices []Hostdev, holders map[string]string) ([]Hostdev, error) {
	added := make([]Hostdev, 0, len(devices))
	for i, d := range devices {
		d, err := d.complete()
		if err != nil {
			return nil, err
		}
		if holder, taken := holders[d.String()]; taken {
			return nil, &DuplicateError{Device: d.String(), ARQ: d.ARQ, Holder: holder}
		}
		holders[d.String()] = holderOf(i, d)
		added = append(added, d)
	}
	return added, nil
}

func holderOf(i int, d Hostdev) string {
	if d.ARQ == "" {
		return fmt.Sprintf("device %d of the list", i+1)
	}
	return "accelerator request " + d.ARQ
}

// splice inserts the text of the devices at the site.
func (s site) splice(domain []byte, devices []Hostdev) ([]byte, error) {
	body, err := renderAll(devices, s.style, s.indent)
	if err != nil {
		return nil, err
	}
	return slices.Concat(domain[:s.at], []byte(s.before+body+s.after), domain[s.resume:]), nil
}
