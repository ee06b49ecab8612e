package domainxml

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"
)

const (
	// keptPrefix begins the aliases that libvirt keeps. It makes others itself, such as hostdev0.
	keptPrefix = "ua-"
	// aliasPrefix begins the alias of a host device of an accelerator request.
	aliasPrefix = keptPrefix + "arq-"
)

// aliasOf returns the alias of a device of an accelerator request, or nil without a UUID.
func aliasOf(arq string) *libvirtxml.DomainAlias {
	uuid, err := canonicalUUID(arq)
	if err != nil {
		return nil
	}
	return &libvirtxml.DomainAlias{Name: aliasPrefix + uuid}
}

// requestOf is the accelerator request that an alias names, "" if it names none.
func requestOf(alias *libvirtxml.DomainAlias) string {
	if alias == nil {
		return ""
	}
	name, ours := strings.CutPrefix(alias.Name, aliasPrefix)
	uuid, err := canonicalUUID(name)
	if !ours || err != nil {
		return ""
	}
	return uuid
}

// mark returns a copy of domain in which each of the devices has the alias of its accelerator
// request, unless it has one that libvirt keeps. Devices that are not host devices of the domain
// are ignored.
func mark(domain []byte, devices []Hostdev) ([]byte, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	var out []byte
	from := 0
	for i, have := range p.devices {
		if a := have.Hostdev.Alias; a != nil && strings.HasPrefix(a.Name, keptPrefix) {
			continue
		}
		n := slices.IndexFunc(devices, func(d Hostdev) bool { return d.Interface == nil && d.is(have) })
		if n < 0 || requestOf(devices[n].Hostdev.Alias) == "" {
			continue
		}
		e := p.places[i]
		at, resume, text := aliasEdit(domain[e.open:e.end], devices[n].Hostdev.Alias.Name)
		out = append(append(out, domain[from:e.open+at]...), text...)
		from = e.open + resume
	}
	return append(out, domain[from:]...), nil
}

// aliasEdit returns what replaces which bytes of a hostdev: its alias, or nothing after its source.
func aliasEdit(hostdev []byte, name string) (from, to int, text string) {
	text = `<alias name="` + name + `"/>`
	if from, to = lastChild(hostdev, "alias"); to > 0 {
		return from, to, text
	}
	from, to = lastChild(hostdev, "source")
	before := hostdev[:from]
	return to, to, string(before[len(bytes.TrimRight(before, " \t\r\n")):]) + text
}

// lastChild returns the range of the last child of that name; it is empty if there is no such child.
func lastChild(element []byte, name string) (from, to int) {
	dec := xml.NewDecoder(bytes.NewReader(element))
	for depth := 0; ; {
		at := int(dec.InputOffset())
		tok, err := dec.Token()
		if err != nil {
			return from, to
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if depth++; depth == 2 && t.Name.Local == name {
				from = at
			}
		case xml.EndElement:
			if depth--; depth == 1 && t.Name.Local == name {
				to = int(dec.InputOffset())
			}
		}
	}
}
