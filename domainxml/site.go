package domainxml

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// site is the place of an insertion and the text around it.
type site struct {
	style
	at     int    // the document is kept up to here
	resume int    // and from here; differs from at only for an empty tag's "/>"
	indent string // indentation of the devices
	before string
	after  string
}

// site returns the place for host devices. Nova writes those of accelerators after
// its own and before file systems, watchdog and balloon, and its mediated devices
// after the balloon (nova/virt/libvirt/driver.py, _get_guest_config). The place is
//
//   - after the last hostdev before the tail, see [layout.tail];
//   - else before the tail;
//   - else before the end tag of the devices element;
//   - else before the end tag of the domain, in a new devices element.
func (l *layout) site(doc []byte) site {
	unit, tail := l.unit(doc), l.tail()
	var last *element
	for _, e := range l.children {
		if e == tail {
			break
		}
		if e.name == "hostdev" {
			last = e
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

// tail returns the first device that Nova writes after the accelerators: a watchdog, a
// balloon, or a file system that only such devices follow. libvirt prints other file
// systems before the interfaces.
func (l *layout) tail() *element {
	var tail *element
	others := false // whether a device that is not of the tail follows
	for _, e := range slices.Backward(l.children) {
		switch e.name {
		case "watchdog", "memballoon":
			tail = e
		case "filesystem":
			if !others {
				tail = e
			}
		case "hostdev":
		default:
			others = true
		}
	}
	return tail
}

// beforeElement returns the place after the element before e, or after the start tag
// of the devices, so that a comment above e stays with it.
func (l *layout) beforeElement(doc []byte, e *element, unit string) site {
	var previous *element
	for _, c := range l.children {
		if c == e {
			break
		}
		if c.parent == e.parent {
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

// trailingComments matches comments after an element on its line.
var trailingComments = regexp.MustCompile(`^(?:[ \t]*<!--(?:[^-\r\n]|-[^-\r\n])*-->)+[ \t]*\r?\n`)

// afterElement returns the place after an element and the comments on its line.
func afterElement(doc []byte, e *element, unit string) site {
	s := site{at: e.end, style: style{newline: newlineOf(doc, e.open), unit: unit}}
	s.indent, s.pretty = indentOf(doc, e.open)
	s.at += len(bytes.TrimRight(trailingComments.Find(doc[e.end:]), " \t\r\n"))
	s.resume = s.at
	s.before = s.between(s.indent)
	return s
}

// inside returns the place before the end tag of parent. An empty tag is opened: its
// "/>" becomes ">", and its end tag follows the text.
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
	s.pretty = first && lastChild == nil
	s.before, s.after = s.between(s.indent), s.between(own)
	return s
}

// beforeLine moves the place to the start of the line of an end tag that is alone on
// it, so that the end tag keeps its indentation.
func (s site) beforeLine(doc []byte) site {
	s.pretty = true
	s.at = lineStart(doc, s.at)
	s.resume = s.at
	s.before, s.after = s.indent, s.newline
	return s
}

// unit returns the indentation of one level: the difference between the devices and
// their last child, else between the domain and its first child, else two spaces.
func (l *layout) unit(doc []byte) string {
	for _, pair := range [][2]*element{{l.devices, l.lastChild}, {l.domain, l.child}} {
		if pair[0] == nil || pair[1] == nil {
			continue
		}
		outer, _ := indentOf(doc, pair[0].open)
		inner, _ := indentOf(doc, pair[1].open)
		if unit, deeper := strings.CutPrefix(inner, outer); deeper && unit != "" {
			return unit
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

// indentOf returns the white space before a place on its line, and whether nothing else
// precedes it there.
func indentOf(doc []byte, at int) (string, bool) {
	line := doc[lineStart(doc, at):at]
	line = bytes.TrimPrefix(line, []byte(utf8BOM))
	if len(bytes.Trim(line, " \t")) > 0 {
		return "", false
	}
	return string(line), true
}

func lineStart(doc []byte, at int) int { return bytes.LastIndexByte(doc[:at], '\n') + 1 }

// newlineOf returns the line end of the line before a place, or of the document's
// first line.
func newlineOf(doc []byte, at int) string {
	end := lineStart(doc, at)
	if end == 0 {
		end = bytes.IndexByte(doc, '\n') + 1
	}
	if bytes.HasSuffix(doc[:end], []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
