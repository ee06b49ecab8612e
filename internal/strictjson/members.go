package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// fewMembers is how many names are compared one by one.
const fewMembers = 32

// NoRepeatedMembers refuses a JSON value in which an object has a member twice. The value
// must be valid JSON.
func NoRepeatedMembers(data []byte) error {
	var few [fewMembers][]byte // neither array is on the heap
	var depths [4]opened
	names := few[:0]   // of the members of all objects that have begun, outer ones first
	open := depths[:0] // the objects and lists that have begun, outer ones first
	isName := false    // the next text is the name of a member
	for at := 0; at < len(data); at++ {
		switch data[at] {
		case '{':
			open = append(open, opened{first: len(names)})
			isName = true
		case '[':
			open = append(open, opened{isList: true})
			isName = false
		case '}', ']':
			if last := open[len(open)-1]; !last.isList {
				names = names[:last.first]
			}
			open = open[:len(open)-1]
			isName = false
		case ',':
			isName = !open[len(open)-1].isList
		case '"':
			start := at
			if at = closingQuote(data, at); !isName {
				continue
			}
			isName = false
			name, err := nameIn(data[start : at+1])
			if err == nil {
				names, err = open[len(open)-1].add(names, name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// opened is an object or a list that has begun.
type opened struct {
	isList bool
	first  int             // where the names of an object begin
	many   map[string]bool // the names, if there are more than few
}

// closingQuote finds the end of the text that begins at an opening quote.
func closingQuote(data []byte, at int) int {
	for at++; data[at] != '"'; at++ {
		if data[at] == '\\' {
			at++
		}
	}
	return at
}

// nameIn is a name without its quotes and escapes.
func nameIn(text []byte) ([]byte, error) {
	name := text[1 : len(text)-1]
	if !bytes.ContainsFunc(name, func(r rune) bool { return r == '\\' || r > '~' }) {
		return name, nil
	}
	var plain string
	err := json.Unmarshal(text, &plain)
	return []byte(plain), err
}

// add adds the name of a member to the names of the open objects. o is the innermost.
func (o *opened) add(names [][]byte, name []byte) ([][]byte, error) {
	before := names[o.first:]
	repeated := o.many[string(name)]
	if o.many == nil {
		repeated = slices.ContainsFunc(before, func(other []byte) bool { return bytes.Equal(name, other) })
	}
	if repeated {
		return nil, fmt.Errorf("member %q is repeated", name)
	}
	if o.many == nil && len(before) == fewMembers {
		o.many = make(map[string]bool)
		for _, other := range before {
			o.many[string(other)] = true
		}
	}
	if o.many != nil {
		o.many[string(name)] = true
		return names, nil
	}
	return append(names, name), nil
}
