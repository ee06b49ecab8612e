package domainxml

import "slices"

// AttachXML gives the document of one device, as libvirt's attach-device and
// virDomainAttachDeviceFlags take it: a hostdev, or the interface of a network
// port. The error is [ErrDevice].
func AttachXML(d Device) ([]byte, error) {
	full, err := d.complete()
	if err != nil {
		return nil, err
	}
	text, err := render(full.element(), style{pretty: true, newline: "\n", unit: "  "}, "")
	if err != nil {
		return nil, err
	}
	return append([]byte(text), '\n'), nil
}

// DetachXML gives the document of one device as detach-device takes it: the
// element as it stands in the domain, with its alias and its address in the
// guest, or for a network port a new one. The errors are those of [Remove]; of a
// port whose interface the domain has not, [ErrAbsent].
func DetachXML(domain []byte, d Device) ([]byte, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	if d.Interface != nil {
		full, err := d.complete()
		if err != nil {
			return nil, err
		}
		if !p.has(full) {
			return nil, absent(full)
		}
		return AttachXML(full)
	}
	e, err := p.find(d)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(domain[e.open:e.end]), '\n'), nil
}
