package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// NoRepeatedMembers refuses a JSON value in which an object has a member twice. The value
// must be valid JSON.
func NoRepeatedMembers(data []byte) error {
	m := members{data: data}
	m.names, m.open = m.few[:0], m.depths[:0]
	for m.at < len(data) {
		switch c := data[m.at]; c {
		case '{':
			m.open = append(m.open, opened{first: len(m.names)})
			m.isName = true
		case '[':
			m.open = append(m.open, opened{isList: true})
			m.isName = false
		case '}', ']':
			m.end()
		case ',':
			m.isName = !m.open[len(m.open)-1].isList
		case '"':
			if err := m.text(); err != nil {
				return err
			}
		}
		m.at++
	}
	return nil
}

// members are the names of the members in the objects that have begun.
type members struct {
	data   []byte
	at     int
	isName bool     // the next text is the name of a member
	names  [][]byte // of all objects that have begun, outer ones first
	open   []opened // outer ones first
	few    [32][]byte
	depths [4]opened
}

// opened is an object or a list that has begun.
type opened struct {
	isList bool
	first  int             // where the names of an object begin
	many   map[string]bool // the names, if there are more than few
}

// fewMembers is how many names are compared one by one.
const fewMembers = 32

// end ends an object or a list.
func (m *members) end() {
	if last := m.open[len(m.open)-1]; !last.isList {
		m.names = m.names[:last.first]
	}
	m.open = m.open[:len(m.open)-1]
	m.isName = false
}

// text reads a text up to its closing quote.
func (m *members) text() error {
	start := m.at
	for m.at++; m.data[m.at] != '"'; m.at++ {
		if m.data[m.at] == '\\' {
			m.at++
		}
	}
	if !m.isName {
		return nil
	}
	m.isName = false
	name := m.data[start+1 : m.at]
	if bytes.ContainsFunc(name, func(r rune) bool { return r == '\\' || r > '~' }) {
		var plain string
		if err := json.Unmarshal(m.data[start:m.at+1], &plain); err != nil {
			return err
		}
		name = []byte(plain)
	}
	return m.add(name)
}

// add adds a name of a member of the innermost object.
func (m *members) add(name []byte) error {
	o := &m.open[len(m.open)-1]
	before := m.names[o.first:]
	repeated := o.many[string(name)]
	if o.many == nil {
		repeated = slices.ContainsFunc(before, func(other []byte) bool { return bytes.Equal(name, other) })
	}
	if repeated {
		return fmt.Errorf("member %q is repeated", name)
	}
	if o.many == nil && len(before) == fewMembers {
		o.many = make(map[string]bool)
		for _, other := range before {
			o.many[string(other)] = true
		}
	}
	if o.many != nil {
		o.many[string(name)] = true
		return nil
	}
	m.names = append(m.names, name)
	return nil
}
