package simhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// shape lists the parts of a JSON value that a route reads. A shape without parts accepts any value: the
// service checks it as a whole.
type shape struct {
	members map[string]*shape // nil for one that is not read although any is there
	any     *shape            // of members without their own shape; nil: they are not read
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

// part returns the shape one step further, and creates it if necessary.
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

// unrecognizedBody lists the members of a body that have no shape: "body [0].colour". A body that
// is not JSON is not checked: the service refuses it.
func (s *shape) unrecognizedBody(body []byte) []string {
	switch {
	case s != nil && s.leaf(), len(bytes.TrimSpace(body)) == 0:
		return nil
	case s == nil:
		return []string{"body"}
	}
	var value any
	var invalid *json.SyntaxError
	if errors.As(json.Unmarshal(body, &value), &invalid) || s.reads(value) { // a number too large for a float64 does no harm
		return nil
	}
	var list []string
	s.visit(value, "", func(path string) {
		if len(list) < maxUnrecognized {
			list = append(list, "body "+clipped(path))
		}
	})
	return list
}

// reads reports whether each member of a value has a shape.
func (s *shape) reads(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if s.members == nil && s.any == nil {
			return true
		}
		for name, member := range v {
			if next := s.member(name); next == nil || !next.reads(member) {
				return false
			}
		}
	case []any:
		return s.items == nil || !slices.ContainsFunc(v, func(item any) bool { return !s.items.reads(item) })
	}
	return true
}

// visit calls note for the members of a value that have no shape, by their names in order.
func (s *shape) visit(value any, path string, note func(path string)) {
	switch v := value.(type) {
	case map[string]any:
		if s.members == nil && s.any == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			here := strings.TrimPrefix(path+"."+name, ".")
			if next := s.member(name); next != nil {
				next.visit(v[name], here, note)
			} else {
				note(here)
			}
		}
	case []any:
		if s.items == nil {
			return
		}
		for i, item := range v {
			s.items.visit(item, path+"["+strconv.Itoa(i)+"]", note)
		}
	}
}

// clipped shortens a name that a client chose.
func clipped(name string) string {
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
