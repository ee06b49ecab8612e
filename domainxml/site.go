package domainxml

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// site is where text goes into a document and what goes round it there.
type site struct {
	style
	at     int    // the document is kept up to here
	resume int    // and from here on; differs from at only for an empty tag's "/>"
	indent string // indentation of the devices
	before string
	after  string
}

// site finds the place for host devices. Nova writes those of accelerators
// behind its own and before file systems, watchdog and balloon; its own mediated
// devices come behind the balloon (nova/virt/libvirt/driver.py,
// _get_guest_config). So the place is
//
//   - after the last hostdev that is not behind the tail, see [layout.tail];
//   - else before the tail;
//   - else before the end tag of the devices element;
//   - else before the end tag of the domain, in a devices element of our own.
func (l *layout) site(doc []byte) site {
	unit, tail := l.unit(doc), l.tail()
	var last *element
	for _, h := range l.hostdevs {
		if tail == nil || h.open < tail.open {
			last = h
		}
	}
	switch {
	case last != nil:
		return afterElement(doc, last, unit)
	case tail != nil:
		return l.beforeElement(doc, tail, unit)
	}
	return l.siteAtEnd(doc, unit)
}

// interfaceSite finds the place for network interfaces: after the last one, else
// where host devices go.
func (l *layout) interfaceSite(doc []byte) site {
	if last := l.last("interface"); last != nil {
		return afterElement(doc, last, l.unit(doc))
	}
	return l.site(doc)
}

func (l *layout) last(name string) *element {
	for _, e := range slices.Backward(l.children) {
		if e.name == name {
			return e
		}
	}
	return nil
}

func (l *layout) siteAtEnd(doc []byte, unit string) site {
	if l.devices != nil {
		return inside(doc, l.devices, l.lastChild, "devices", unit)
	}
	s := inside(doc, l.domain, l.child, "domain", unit)
	outer := s.indent
	if s.pretty {
		s.indent += unit
	}
	s.before += "<devices>" + s.between(s.indent)
	s.after = s.between(outer) + "</devices>" + s.after
	return s
}

// tail is the first device that Nova writes behind the accelerators: a watchdog,
// a balloon, or a file system. libvirt prints file systems before the interfaces;
// one with anything else behind it than such devices is not the tail.
func (l *layout) tail() *element {
	var tail *element
	for _, e := range slices.Backward(l.children) {
		switch e.name {
		case "watchdog", "memballoon":
			tail = e
		case "filesystem":
			if l.onlyTail(e) {
				tail = e
			}
		}
	}
	return tail
}

// onlyTail reports that nothing but devices of the tail stands behind e.
func (l *layout) onlyTail(e *element) bool {
	i := slices.Index(l.children, e)
	return !slices.ContainsFunc(l.children[i:], func(c *element) bool {
		return !slices.Contains([]string{"filesystem", "watchdog", "memballoon", "hostdev"}, c.name)
	})
}

// beforeElement is the place behind the element before e, or behind the start
// tag of the devices. A comment above e stays with it.
func (l *layout) beforeElement(doc []byte, e *element, unit string) site {
	var previous *element
	for _, c := range l.children {
		if c.parent == e.parent && c.open < e.open {
			previous = c
		}
	}
	if previous != nil {
		return afterElement(doc, previous, unit)
	}
	s := site{style: style{newline: newlineOf(doc, e.open), unit: unit}}
	s.indent, s.pretty = indentOf(doc, e.open)
	s.at, s.resume = e.open, e.open
	s.after = s.between(s.indent)
	return s
}

// trailingComments matches comments behind an element up to the end of its line.
var trailingComments = regexp.MustCompile(`^(?:[ \t]*<!--(?:[^-\r\n]|-[^-\r\n])*-->)+[ \t]*\r?\n`)

// afterElement is the place behind an element and the comments on its line, which
// speak of it.
func afterElement(doc []byte, e *element, unit string) site {
	s := site{at: e.end, style: style{newline: newlineOf(doc, e.open), unit: unit}}
	s.indent, s.pretty = indentOf(doc, e.open)
	if rest := trailingComments.Find(doc[e.end:]); s.pretty && rest != nil {
		s.at += len(bytes.TrimRight(rest, " \t\r\n"))
	}
	s.resume = s.at
	s.before = s.between(s.indent)
	return s
}

// inside is the place before the end tag of parent. An empty tag is opened: its
// "/>" becomes ">", and its end tag comes after the text.
func inside(doc []byte, parent, lastChild *element, name, unit string) site {
	own, first := indentOf(doc, parent.open)
	s := site{at: parent.innerEnd, resume: parent.innerEnd}
	s.style = style{newline: newlineOf(doc, parent.innerEnd), unit: unit}
	s.indent = childIndent(doc, own, lastChild, unit)
	if parent.selfClosed() {
		s.pretty = first
		s.at = parent.end - len("/>")
		s.before = ">" + s.between(s.indent)
		s.after = s.between(own) + "</" + name + ">"
		return s
	}
	if _, alone := indentOf(doc, parent.innerEnd); alone && parent.innerEnd != parent.inner {
		return s.beforeLine(doc)
	}
	s.pretty = first && bytes.IndexByte(doc[parent.open:parent.end], '\n') < 0 && lastChild == nil
	s.before, s.after = s.between(s.indent), s.between(own)
	return s
}

// beforeLine moves the place to the start of the line on which the end tag
// stands alone, so that the end tag keeps its own indentation.
func (s site) beforeLine(doc []byte) site {
	s.pretty = true
	s.at = lineStart(doc, s.at)
	s.resume = s.at
	s.before, s.after = s.indent, s.newline
	return s
}

// unit finds what one level of nesting adds in this document: the difference
// between the devices and their last child, else between the domain and its
// first child, else two spaces.
func (l *layout) unit(doc []byte) string {
	for _, pair := range [][2]*element{{l.devices, l.lastChild}, {l.domain, l.child}} {
		if pair[0] == nil || pair[1] == nil {
			continue
		}
		outer, ok1 := indentOf(doc, pair[0].open)
		inner, ok2 := indentOf(doc, pair[1].open)
		if ok1 && ok2 && len(inner) > len(outer) && strings.HasPrefix(inner, outer) {
			return inner[len(outer):]
		}
	}
	return "  "
}

func childIndent(doc []byte, own string, lastChild *element, unit string) string {
	if lastChild != nil {
		if indent, first := indentOf(doc, lastChild.open); first {
			return indent
		}
	}
	return own + unit
}

// indentOf gives the white space before a place on its line, and whether there
// is nothing else before it there.
func indentOf(doc []byte, at int) (string, bool) {
	line := doc[lineStart(doc, at):at]
	line = bytes.TrimPrefix(line, []byte(utf8BOM))
	if len(bytes.Trim(line, " \t")) > 0 {
		return "", false
	}
	return string(line), true
}

func lineStart(doc []byte, at int) int { return bytes.LastIndexByte(doc[:at], '\n') + 1 }

// newlineOf gives the line end of the line before a place, or of the document's
// first line when there is none before.
func newlineOf(doc []byte, at int) string {
	end := lineStart(doc, at) - 1
	if end < 0 {
		end = bytes.IndexByte(doc, '\n')
	}
	if end > 0 && doc[end-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
