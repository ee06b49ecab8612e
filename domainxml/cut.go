package domainxml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Remove returns a copy of domain without the given host devices and, of those of
// [Interfaces], network interfaces; it is otherwise unchanged. A missing device is [ErrAbsent],
// an invalid one [ErrDevice]; the document is checked as in [Merge].
func Remove(domain []byte, devices []Hostdev) ([]byte, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	var cuts []*element
	for _, d := range devices {
		e, err := p.find(d)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(cuts, e) {
			cuts = append(cuts, e)
		}
	}
	slices.SortFunc(cuts, func(a, b *element) int { return a.open - b.open })
	var out []byte
	from := 0
	for _, e := range cuts {
		at, resume := lineOf(domain, e)
		out = append(out, domain[from:at]...)
		from = resume
	}
	return append(out, domain[from:]...), nil
}

// find returns the element of a host device or a network interface of the domain.
func (p *parsed) find(d Hostdev) (*element, error) {
	want, err := d.complete()
	if err != nil {
		return nil, err
	}
	list, places := p.devices, p.places
	if want.Interface != nil {
		list, places = p.interfaces, p.ports
	}
	for i, have := range list {
		if have.String() == want.String() {
			return places[i], nil
		}
	}
	return nil, absent(want)
}

func absent(d Hostdev) error { return fmt.Errorf("domainxml: %s: %w in the domain", d, ErrAbsent) }

// lineOf returns the range of an element, with its line if it is alone on it.
func lineOf(doc []byte, e *element) (from, to int) {
	_, first := indentOf(doc, e.open)
	rest := doc[e.end:]
	end := bytes.IndexByte(rest, '\n')
	if !first || end < 0 || len(bytes.TrimSpace(rest[:end])) > 0 {
		return e.open, e.end
	}
	return lineStart(doc, e.open), e.end + end + 1
}

// ReplaceMDEV returns a copy of domain in which the mediated device old is replaced:
// only the UUID in its source changes, so that alias, address in the guest, display
// and position remain. It transfers a vGPU from Nova to Cyborg, with [Complete] for the
// alias of the accelerator request. UUIDs may be in any case, with or without dashes.
//
// A domain without old is [ErrAbsent], one that already has the replacement
// [ErrDuplicate], a malformed UUID [ErrDevice]; the document is checked as in
// [Merge].
func ReplaceMDEV(domain []byte, old, replacement string) ([]byte, error) {
	p, err := parse(domain)
	if err != nil {
		return nil, err
	}
	fresh, err := Hostdev{MDEV: replacement}.complete()
	if err != nil {
		return nil, err
	}
	if p.has(fresh) {
		return nil, &DuplicateError{Device: fresh.String(), Holder: "a hostdev of the domain"}
	}
	e, err := p.find(Hostdev{MDEV: old})
	if err != nil {
		return nil, err
	}
	from, to, err := uuidValue(domain[e.open:e.end])
	if err != nil {
		return nil, notDomain(err)
	}
	replaced := slices.Concat(domain[:e.open+from], []byte(fresh.MDEV), domain[e.open+to:])
	if again, err := parse(replaced); err != nil || !again.has(fresh) {
		return nil, notDomain(errors.Join(fmt.Errorf("the uuid of mdev %s could not be replaced", shortened(old)), err))
	}
	return replaced, nil
}

// uuidAttribute matches the uuid attribute in a start tag. A UUID has no quotes.
var uuidAttribute = regexp.MustCompile(`\suuid\s*=\s*["']([^"']*)`)

// uuidValue returns the range of the uuid in the source address of a hostdev.
func uuidValue(hostdev []byte) (from, to int, err error) {
	dec := xml.NewDecoder(bytes.NewReader(hostdev))
	var path []string
	for {
		at := int(dec.InputOffset())
		tok, err := dec.Token()
		if err != nil {
			return 0, 0, fmt.Errorf("no uuid in its source address: %w", err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			if slices.Equal(path, []string{"hostdev", "source", "address"}) {
				m := uuidAttribute.FindSubmatchIndex(hostdev[at:dec.InputOffset()])
				if m == nil {
					return 0, 0, errors.New("no uuid in its source address")
				}
				return at + m[2], at + m[3], nil
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}
