package domainxml

import "slices"

// AttachXML returns the document of one device for libvirt's attach-device and
// virDomainAttachDeviceFlags: a hostdev, or the interface of a network port. The
// error is [ErrDevice].
func AttachXML(d Hostdev) ([]byte, error) {
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

// DetachXML returns the document of one device for detach-device: the element of the
// domain, with its alias and its address in the guest, or for a network port a new
// one. The errors are those of [Remove]; [ErrAbsent] also if a port's interface is
// missing.
func DetachXML(domain []byte, d Hostdev) ([]byte, error) {
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
