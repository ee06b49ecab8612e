package domainxml

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
)

// style is the layout of a document at the place of an insertion.
type style struct {
	pretty  bool   // one element per line; otherwise everything on one
	newline string // "\n" or "\r\n"
	unit    string // what one level of nesting adds to the indentation
}

// emptyPair matches an element without content as encoding/xml writes it. The caller
// compares the two names.
var emptyPair = regexp.MustCompile(`<([A-Za-z]+)( [^<>]*)?></([A-Za-z]+)>`)

// render writes one element at an indentation, which the first line lacks, without a
// final line end. Numbers are padded hexadecimal with 0x (libvirt reads 10 as decimal),
// and elements without content are one tag, as in libvirt and Nova.
func render(element any, st style, indent string) (string, error) {
	var text []byte
	var err error
	if st.pretty {
		text, err = xml.MarshalIndent(element, indent, st.unit)
	} else {
		text, err = xml.Marshal(element)
	}
	if err != nil {
		return "", fmt.Errorf("domainxml: write device: %w", err)
	}
	short := emptyPair.ReplaceAllFunc(text, func(pair []byte) []byte {
		m := emptyPair.FindSubmatch(pair)
		if string(m[1]) != string(m[3]) {
			return pair
		}
		return []byte("<" + string(m[1]) + string(m[2]) + "/>")
	})
	return strings.ReplaceAll(strings.TrimPrefix(string(short), indent), "\n", st.newline), nil
}

// renderAll writes several devices.
func renderAll(devices []Hostdev, st style, indent string) (string, error) {
	texts := make([]string, len(devices))
	for i, d := range devices {
		text, err := render(d.element(), st, indent)
		if err != nil {
			return "", err
		}
		texts[i] = text
	}
	return strings.Join(texts, st.between(indent)), nil
}

// between returns the separator of two elements of one level.
func (st style) between(indent string) string {
	if !st.pretty {
		return ""
	}
	return st.newline + indent
}
