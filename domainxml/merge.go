package domainxml

import "fmt"

// Merge gives a copy of domain with the devices added to its host devices.
//
//   - The text of the devices goes in after the last hostdev of the domain's
//     devices (and the comments on its line) that is not behind a watchdog or
//     balloon, else before these or a file system at the end, else before the end
//     of its devices element, in the indentation and with the line ends found
//     there. Every byte outside it stays as it is.
//   - Interfaces of network ports (see [Interfaces]) go in after the last
//     interface in the same manner, or else in front of the host devices.
//   - A domain without a devices element gets one, before its end. The empty tag
//     <devices/> (or <domain/>) becomes a pair of tags.
//   - The document is judged first: one root element domain in no name space,
//     UTF-8, at most 4 MiB, no document type declaration, readable by libvirtxml;
//     otherwise [ErrNotDomain].
//   - A device the domain has already as a host device, or as a network interface
//     of type hostdev, and one that is twice in the list, is a [*DuplicateError]
//     (errors.Is [ErrDuplicate]): libvirt refuses to define such a domain.
//     Addresses are compared as numbers, UUIDs without regard to case or dashes.
//   - A device that names none, or two different ones, is [ErrDevice].
//
// After an error nothing is returned; domain itself is never changed. Without
// devices the copy is equal to domain.
func Merge(domain []byte, devices []Device) ([]byte, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	added, err := p.admit(devices)
	if err != nil {
		return nil, err
	}
	if len(added) == 0 {
		return append([]byte(nil), domain...), nil
	}
	return p.insert(domain, added)
}

// insert puts the devices where they belong, interfaces first.
func (p *parsed) insert(domain []byte, added []Device) ([]byte, error) {
	ports := added[:0:0]
	hostdevs := added[:0:0]
	for _, d := range added {
		if d.Interface != nil {
			ports = append(ports, d)
		} else {
			hostdevs = append(hostdevs, d)
		}
	}
	if len(ports) == 0 {
		return p.site(domain).splice(domain, hostdevs)
	}
	if p.last("interface") == nil {
		return p.site(domain).splice(domain, append(ports, hostdevs...))
	}
	merged, err := p.interfaceSite(domain).splice(domain, ports)
	if err != nil || len(hostdevs) == 0 {
		return merged, err
	}
	l, err := scan(merged)
	if err != nil {
		return nil, notDomain(err)
	}
	return l.site(merged).splice(merged, hostdevs)
}

// admit completes the devices and refuses those that are present already.
func (p *parsed) admit(devices []Device) ([]Device, error) {
	holders := map[string]string{}
	for _, d := range p.interfaces {
		holders[d.String()] = "a network interface of the domain"
	}
	for _, d := range p.devices {
		holders[d.String()] = "a hostdev of the domain"
	}
	added := make([]Device, 0, len(devices))
	for i, d := range devices {
		d, err := d.complete()
		if err != nil {
			return nil, err
		}
		if holder, taken := holders[d.String()]; taken {
			return nil, &DuplicateError{Device: d.String(), ARQ: d.ARQ, Holder: holder}
		}
		holders[d.String()] = listed(i, d)
		added = append(added, d)
	}
	return added, nil
}

func listed(i int, d Device) string {
	if d.ARQ == "" {
		return fmt.Sprintf("device %d of the list", i+1)
	}
	return "accelerator request " + d.ARQ
}

// splice puts the text of the devices in at the site.
func (s site) splice(domain []byte, devices []Device) ([]byte, error) {
	body, err := renderAll(devices, s.style, s.indent)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(domain)+len(s.before)+len(body)+len(s.after))
	out = append(out, domain[:s.at]...)
	out = append(out, s.before...)
	out = append(out, body...)
	out = append(out, s.after...)
	return append(out, domain[s.resume:]...), nil
}
