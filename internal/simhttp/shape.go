package simhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// shape is what a route reads of a JSON value. A shape without parts takes the value as
// it is, whatever it holds: the service checks it as a whole.
type shape struct {
	members map[string]*shape // nil for one that is not read although any is there
	any     *shape            // of members that have no shape of their own; nil: they are not read
	items   *shape            // of an array's items
}

// newShape makes a shape of paths such as "auth.scope.project.id", "[].groups[].*": a
// name is a member, * any member, [] the items of an array. Without any path nothing is
// read, and nil is returned.
func newShape(paths []string) *shape {
	if len(paths) == 0 {
		return nil
	}
	root := &shape{}
	for _, path := range paths {
		node := root
		for step := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ".[]"), ".") {
			if step != "" {
				node = node.part(step)
			}
		}
	}
	return root
}

// part is the shape one step further, made if there is none.
func (s *shape) part(step string) *shape {
	switch step {
	case "[]":
		if s.items == nil {
			s.items = &shape{}
		}
		return s.items
	case "*":
		if s.any == nil {
			s.any = &shape{}
		}
		return s.any
	}
	if s.members == nil {
		s.members = make(map[string]*shape)
	}
	if name, not := strings.CutPrefix(step, "!"); not {
		s.members[name] = nil
		return &shape{}
	}
	if s.members[step] == nil {
		s.members[step] = &shape{}
	}
	return s.members[step]
}

func (s *shape) leaf() bool { return s.members == nil && s.any == nil && s.items == nil }

// member is the shape of a member, nil if it is not read.
func (s *shape) member(name string) *shape {
	if known, ok := s.members[name]; ok {
		return known
	}
	return s.any
}

// maxUnrecognized is how many unrecognized things of one request are listed, and maxName
// how much of each name, in bytes.
const (
	maxUnrecognized = 100
	maxName         = 200
)

// unrecognizedBody lists the members of a body that have no shape: "body [0].colour". A body
// that is no JSON is not checked: the service refuses it.
func (s *shape) unrecognizedBody(body []byte) []string {
	switch {
	case s != nil && s.leaf(), len(bytes.TrimSpace(body)) == 0:
		return nil
	case s == nil:
		return []string{"body"}
	case !json.Valid(body):
		return nil
	}
	var w shapeWalk
	w.value(s, body, "")
	return w.found
}

type shapeWalk struct{ found []string }

// value visits the parts of a valid JSON value.
func (w *shapeWalk) value(s *shape, value json.RawMessage, path string) {
	dec := json.NewDecoder(bytes.NewReader(value))
	open, err := dec.Token()
	isObject := open == json.Delim('{') && (s.members != nil || s.any != nil)
	isList := open == json.Delim('[') && s.items != nil
	for i := 0; err == nil && (isObject || isList) && dec.More(); i++ {
		next, here := s.items, fmt.Sprintf("%s[%d]", path, i)
		if isObject {
			var name json.Token
			name, err = dec.Token()
			text, _ := name.(string)
			next, here = s.member(text), strings.TrimPrefix(path+"."+text, ".")
		}
		var part json.RawMessage
		err = errors.Join(err, dec.Decode(&part))
		if next != nil {
			w.value(next, part, here)
		} else {
			w.note(here)
		}
	}
}

func (w *shapeWalk) note(path string) {
	text := "body " + clipped(path)
	if len(w.found) < maxUnrecognized && !slices.Contains(w.found, text) {
		w.found = append(w.found, text)
	}
}

// clipped shortens a name that a client chose.
func clipped(name string) string {
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
