package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// Difference is a row that only one of two states has, or a value in which a row differs.
type Difference struct {
	// Path is TABLE[KEY], or TABLE[KEY].FIELD and further into the row. The key is followed
	// by the name or UUID of the row, if it has one.
	Path string `json:"path"`
	// Before and After are JSON values, empty where there is none.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String is one line: "+ path: value", "- path: value" or "  path: before -> after".
func (d Difference) String() string {
	switch {
	case d.Before == "":
		return "+ " + d.Path + ": " + d.After
	case d.After == "":
		return "- " + d.Path + ": " + d.Before
	}
	return "  " + d.Path + ": " + d.Before + " -> " + d.After
}

// Ignore is what a comparison leaves out.
type Ignore struct {
	Times  bool // fields that are times in both states
	Tokens bool // the tables named tokens
}

// Diff compares the records of two states, in the order of tables and keys.
func Diff(before, after []sim.Record, ignore Ignore) ([]Difference, error) {
	d := differ{ignore: ignore}
	rows := make(map[[2]string][2]json.RawMessage)
	for i, records := range [][]sim.Record{before, after} {
		for _, r := range records {
			if ignore.Tokens && strings.HasSuffix(r.Table, ".tokens") {
				continue
			}
			both := rows[[2]string{r.Table, r.Key}]
			both[i] = r.Row
			rows[[2]string{r.Table, r.Key}] = both
		}
	}
	byPlace := func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
	for _, place := range slices.SortedFunc(maps.Keys(rows), byPlace) {
		if err := d.rows(place[0], place[1], rows[place]); err != nil {
			return nil, err
		}
	}
	return d.found, nil
}

// DiffJSON compares two JSON values. The paths begin in the values.
func DiffJSON(before, after json.RawMessage) ([]Difference, error) {
	var d differ
	a, err := decodeAny(before)
	if err != nil {
		return nil, err
	}
	b, err := decodeAny(after)
	if err != nil {
		return nil, err
	}
	d.values("", a, b)
	return d.found, nil
}

// absent stands for the value that one side does not have.
type absent struct{}

type differ struct {
	ignore Ignore
	found  []Difference
}

func (d *differ) rows(table, key string, rows [2]json.RawMessage) error {
	if bytes.Equal(rows[0], rows[1]) {
		return nil
	}
	values := [2]any{absent{}, absent{}}
	path := table + "[" + key
	for i, row := range rows {
		if row == nil {
			continue
		}
		var err error
		if values[i], err = decodeAny(row); err != nil {
			return recordError(table, key, err)
		}
		if object, ok := values[i].(map[string]any); ok && path == table+"["+key {
			path += name(object, key)
		}
	}
	d.values(path+"]", values[0], values[1])
	return nil
}

// name is what people call a row, unless the key is that.
func name(row map[string]any, key string) string {
	for _, field := range []string{"name", "uuid"} {
		if text, ok := row[field].(string); ok && text != "" && text != key {
			return " " + text
		}
	}
	return ""
}

func decodeAny(data []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}

func (d *differ) values(path string, a, b any) {
	objectA, isObjectA := a.(map[string]any)
	objectB, isObjectB := b.(map[string]any)
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	switch {
	case isObjectA && isObjectB:
		both := maps.Clone(objectA)
		maps.Copy(both, objectB)
		for _, field := range slices.Sorted(maps.Keys(both)) {
			d.values(path+"."+field, member(objectA, field), member(objectB, field))
		}
	case isListA && isListB:
		for i := range max(len(listA), len(listB)) {
			d.values(fmt.Sprintf("%s[%d]", path, i), element(listA, i), element(listB, i))
		}
	case d.ignore.Times && isTime(a) && isTime(b):
	default:
		if before, after := text(a), text(b); before != after {
			d.found = append(d.found, Difference{strings.TrimPrefix(path, "."), before, after})
		}
	}
}

func member(object map[string]any, field string) any {
	if value, ok := object[field]; ok {
		return value
	}
	return absent{}
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

func isTime(value any) bool {
	text, _ := value.(string)
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
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
