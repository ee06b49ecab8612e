package domainxml

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	// maxDocument is the size limit of libvirt's remote protocol (REMOTE_STRING_MAX in src/remote/remote_protocol.x).
	maxDocument = 4 << 20
	// maxDepth is the default limit of libxml2 for nesting.
	maxDepth = 256
	utf8BOM  = "\uFEFF"
)

// element is the position of an element in the document, in byte offsets.
type element struct {
	name     string // "" in a name space
	open     int    // first byte of its start tag
	inner    int    // first byte after its start tag
	innerEnd int    // first byte of its end tag
	end      int    // first byte after the element
	attrs    []xml.Attr
	parent   *element // of a device: the devices element
}

// selfClosed reports whether the element is written as one empty tag.
func (e *element) selfClosed() bool { return e.inner == e.end }

// layout has the elements of a domain document that matter for a merge. Only
// /domain/devices/hostdev is a device, not an element of that name in the metadata, in
// another name space or inside a comment.
type layout struct {
	domain    *element
	child     *element // first child element of domain
	devices   *element // the last devices element; libvirt reads all
	lastChild *element // last child element of devices
	hostdevs  []*element
	children  []*element // of all devices elements
}

// scan finds the elements of a domain and refuses a document with another root
// element. What else is in the document may be newer than this package.
func scan(doc []byte) (*layout, error) {
	if err := plausible(doc); err != nil {
		return nil, err
	}
	s := &scanner{doc: doc}
	for dec := xml.NewDecoder(bytes.NewReader(doc)); ; {
		from := int(dec.InputOffset())
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = s.token(tok, from, int(dec.InputOffset()))
		}
		if err != nil {
			return nil, err
		}
	}
	if s.domain == nil {
		return nil, errors.New("it has no root element")
	}
	return &s.layout, nil
}

// plausible checks a document before parsing.
func plausible(doc []byte) error {
	switch {
	case len(doc) > maxDocument:
		return fmt.Errorf("%d bytes, more than libvirt's limit of %d", len(doc), maxDocument)
	case !utf8.Valid(doc):
		return errors.New("it is not UTF-8")
	case len(bytes.TrimSpace(doc)) == 0:
		return errors.New("it is empty")
	}
	return nil
}

// scanner finds the elements of a domain while its tokens are read.
type scanner struct {
	layout
	doc   []byte
	depth int         // of open elements
	open  [3]*element // the first of them; what is deeper has no place
}

func (s *scanner) token(tok xml.Token, from, to int) error {
	switch t := tok.(type) {
	case xml.StartElement:
		return s.start(t, from, to)
	case xml.EndElement:
		s.close(from, to)
	case xml.CharData:
		return s.text(t, from)
	case xml.Directive:
		return errors.New("it has a document type declaration")
	case xml.ProcInst:
		if t.Target == "xml" && len(bytes.TrimPrefix(s.doc[:from], []byte(utf8BOM))) > 0 {
			return errors.New("it has an XML declaration that is not at its start")
		}
	}
	return nil
}

func (s *scanner) start(t xml.StartElement, from, to int) error {
	if err := s.checkStart(t); err != nil {
		return err
	}
	if s.depth < len(s.open) {
		e := &element{open: from, inner: to, attrs: t.Attr}
		if t.Name.Space == "" {
			e.name = t.Name.Local
		}
		s.place(e)
		s.open[s.depth] = e
	}
	s.depth++
	return nil
}

func (s *scanner) checkStart(t xml.StartElement) error {
	if s.depth >= maxDepth {
		return fmt.Errorf("its elements are nested more than %d deep", maxDepth)
	}
	seen := make(map[xml.Name]bool)
	for _, a := range t.Attr {
		if seen[a.Name] {
			return fmt.Errorf("element %s has the attribute %s twice", t.Name.Local, a.Name.Local)
		}
		seen[a.Name] = true
	}
	switch {
	case s.depth > 0:
		return nil
	case s.domain != nil:
		return fmt.Errorf("it has a second root element, %s", shortened(t.Name.Local))
	case t.Name.Space != "":
		return fmt.Errorf("its root element %s is in the name space %s", shortened(t.Name.Local), shortened(t.Name.Space))
	case t.Name.Local != "domain":
		return fmt.Errorf("its root element is %s", shortened(t.Name.Local))
	}
	return nil
}

// place records an element by its path.
func (s *scanner) place(e *element) {
	switch s.depth {
	case 0:
		s.domain = e
	case 1:
		s.child = cmp.Or(s.child, e)
		if e.name == "devices" {
			s.devices, s.lastChild = e, nil
		}
	case 2:
		if s.open[1].name != "devices" {
			return
		}
		e.parent, s.lastChild = s.open[1], e
		s.children = append(s.children, e)
		if e.name == "hostdev" {
			s.hostdevs = append(s.hostdevs, e)
		}
	}
}

func (s *scanner) close(from, to int) {
	if s.depth--; s.depth < len(s.open) {
		s.open[s.depth].innerEnd, s.open[s.depth].end = from, to
	}
}

func (s *scanner) text(t xml.CharData, from int) error {
	if s.depth > 0 {
		return nil
	}
	if from == 0 {
		t = bytes.TrimPrefix(t, []byte(utf8BOM))
	}
	if junk := bytes.TrimSpace(t); len(junk) > 0 {
		return fmt.Errorf("it has text outside its root element: %q", shortened(string(junk)))
	}
	return nil
}
