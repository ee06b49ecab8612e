package domainxml

import (
	"bytes"
	"regexp"
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

// site finds the place for devices:
//
//   - after the last hostdev;
//   - else before the end tag of the devices element;
//   - else before the end tag of the domain, in a devices element of our own.
func (l *layout) site(doc []byte) site {
	unit := l.unit(doc)
	switch {
	case len(l.hostdevs) > 0:
		return afterElement(doc, l.hostdevs[len(l.hostdevs)-1], unit)
	case l.devices != nil:
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
