package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// Diff compares the records of two states, in the order of tables and keys.
func Diff(before, after []sim.Record) ([]sim.Difference, error) {
	var d differ
	rows := make(map[[2]string][2]json.RawMessage)
	for i, records := range [][]sim.Record{before, after} {
		for _, r := range records {
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
func DiffJSON(before, after json.RawMessage) ([]sim.Difference, error) {
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

// absent is in place of the value that one side does not have.
type absent struct{}

type differ struct{ found []sim.Difference }

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
			return sim.Record{Table: table, Key: key}.Errorf("%w", err)
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
	default:
		if before, after := text(a), text(b); before != after {
			d.found = append(d.found, sim.Difference{Path: strings.TrimPrefix(path, "."), Before: before, After: after})
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
