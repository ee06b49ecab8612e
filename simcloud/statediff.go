package simcloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is one thing in which two states differ.
type Difference struct {
	// Path says where: placement.resource_providers[cn0].generation. The members of a list
	// are called by their name, uuid or id, or by their place if they have none.
	Path string `json:"path"`
	// Before and After are the values as JSON; empty for what is not there.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String is one line: "+ path: value", "- path: value" or "path: before -> after".
func (d Difference) String() string {
	switch {
	case d.Before == "":
		return "+ " + d.Path + ": " + d.After
	case d.After == "":
		return "- " + d.Path + ": " + d.Before
	}
	return "  " + d.Path + ": " + d.Before + " -> " + d.After
}

// DiffStates tells in what two states differ, ordered by where. The members of lists are
// matched by their uuid, id or name, wherever they stand. The error matches [ErrState] for
// a document that is no state.
func DiffStates(before, after []byte) ([]Difference, error) {
	for _, data := range [][]byte{before, after} {
		if _, err := splitState(data); err != nil {
			return nil, err
		}
	}
	return differences(before, after)
}

// differences compares any two JSON values.
func differences(before, after []byte) ([]Difference, error) {
	var d differ
	a, err := decodeAny(before)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	b, err := decodeAny(after)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	d.values("", a, b)
	return d.found, nil
}

// firstDifference tells where two JSON values begin to differ, or nothing.
func firstDifference(before, after []byte) string {
	found, err := differences(before, after)
	switch {
	case err != nil:
		return err.Error()
	case len(found) == 0:
		return ""
	}
	return strings.TrimSpace(found[0].String())
}

func decodeAny(data []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}

// absent stands for what one side does not have.
type absent struct{}

type differ struct{ found []Difference }

func (d *differ) values(path string, a, b any) {
	objectA, isObjectA := a.(map[string]any)
	objectB, isObjectB := b.(map[string]any)
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	switch {
	case isObjectA && isObjectB:
		d.objects(path, objectA, objectB)
	case isListA && isListB:
		d.lists(path, listA, listB)
	default:
		if before, after := text(a), text(b); before != after {
			d.found = append(d.found, Difference{strings.TrimPrefix(path, "."), before, after})
		}
	}
}

func text(value any) string {
	if _, ok := value.(absent); ok {
		return ""
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (d *differ) objects(path string, a, b map[string]any) {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		d.values(path+"."+key, orAbsent(a, key), orAbsent(b, key))
	}
}

func orAbsent(object map[string]any, key string) any {
	if value, ok := object[key]; ok {
		return value
	}
	return absent{}
}

// lists matches members by what they are called, scalars by their value.
func (d *differ) lists(path string, a, b []any) {
	membersA, membersB := byIdentity(a), byIdentity(b)
	if membersA == nil || membersB == nil {
		for i := range max(len(a), len(b)) {
			d.values(fmt.Sprintf("%s[%d]", path, i), atOrAbsent(a, i), atOrAbsent(b, i))
		}
		return
	}
	both := maps.Clone(membersA)
	maps.Copy(both, membersB)
	for _, id := range slices.Sorted(maps.Keys(both)) {
		d.values(path+"["+label(id, both[id])+"]", orAbsent(membersA, id), orAbsent(membersB, id))
	}
}

func atOrAbsent(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

// byIdentity is a list as an object, or nil if its members have no identity of their own.
func byIdentity(list []any) map[string]any {
	members := make(map[string]any, len(list))
	for _, member := range list {
		id := identity(member)
		if _, twice := members[id]; twice || id == "" {
			return nil
		}
		members[id] = member
	}
	return members
}

// identity is what a member of a list is known by.
func identity(member any) string {
	switch m := member.(type) {
	case map[string]any:
		for _, key := range []string{"uuid", "id", "name", "resource_provider", "resource_class", "key", "sha256"} {
			if value, ok := m[key]; ok {
				return fmt.Sprint(value)
			}
		}
		return ""
	case string:
		return m
	}
	return ""
}

// label is what a member is called in a path: its name says more than its uuid.
func label(id string, member any) string {
	m, _ := member.(map[string]any)
	name, _ := m["name"].(string)
	if name == "" || name == id {
		return id
	}
	return name + " " + id
}
