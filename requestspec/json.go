package requestspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// checkJSON checks that data is one JSON value without duplicate keys, of which
// encoding/json would take the last.
func checkJSON(data []byte) error {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("line %d: %w", lineAt(data, syntax.Offset), err)
		}
		return err
	}
	return checkDuplicateKeys(data)
}

func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

// checkDuplicateKeys reads the tokens of valid JSON. A frame is an open object or
// list; keys is nil for a list.
func checkDuplicateKeys(data []byte) error {
	type frame struct {
		keys    map[string]bool
		wantKey bool
	}
	stack := []frame{{}}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		top := &stack[len(stack)-1]
		key, isString := token.(string)
		switch {
		case token == json.Delim('{'):
			stack = append(stack, frame{keys: map[string]bool{}, wantKey: true})
		case token == json.Delim('['):
			stack = append(stack, frame{})
		case token == json.Delim('}') || token == json.Delim(']'):
			stack = stack[:len(stack)-1]
			stack[len(stack)-1].wantKey = true
		case isString && top.keys != nil && top.wantKey:
			if top.keys[key] {
				return fmt.Errorf("line %d: key %q is there twice in one object", lineAt(data, dec.InputOffset()), clip(key))
			}
			top.keys[key], top.wantKey = true, false
		default:
			top.wantKey = true
		}
	}
}

// decodeObject decodes the fields of an object into targets. Other fields, in this
// exact spelling, and null are errors.
func decodeObject(data []byte, targets map[string]any) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return fmt.Errorf("want a JSON object, got %s", clip(string(bytes.TrimSpace(data))))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		target, known := targets[name]
		switch {
		case !known:
			return fmt.Errorf("unknown field %q; known are %s", clip(name), strings.Join(slices.Sorted(maps.Keys(targets)), ", "))
		case string(object[name]) == "null":
			return fmt.Errorf("field %s is null; leave it out instead", name)
		}
		if err := json.Unmarshal(object[name], target); err != nil {
			return fmt.Errorf("field %s: %w", name, wrongType(err))
		}
	}
	return nil
}

// wrongType translates an error of encoding/json from Go types to JSON types.
func wrongType(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	want := map[string]string{"int": "an integer", "string": "a string", "map": "an object", "slice": "a list"}[mismatch.Type.Kind().String()]
	return fmt.Errorf("want %s, got %s", want, clip(mismatch.Value))
}

// stringMaps is a list of [stringMap].
type stringMaps []map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *stringMaps) UnmarshalJSON(data []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*m = make(stringMaps, len(raw))
	for i, group := range raw {
		if err := (*stringMap)(&(*m)[i]).UnmarshalJSON(group); err != nil {
			return fmt.Errorf("group %d: %w", i, err)
		}
	}
	return nil
}

// stringMap is an object of strings. It reads a number as its text, which is how
// Cyborg and Nova store it.
type stringMap map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *stringMap) UnmarshalJSON(data []byte) error {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil || entries == nil {
		return fmt.Errorf("want an object, got %s", clip(string(data)))
	}
	*m = make(stringMap, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		text := string(entries[key])
		if strings.ContainsRune("-0123456789", rune(text[0])) {
			(*m)[key] = text
			continue
		}
		var value *string
		if err := json.Unmarshal(entries[key], &value); err != nil || value == nil {
			return fmt.Errorf("key %q: value %s is neither a string nor a number", clip(key), clip(text))
		}
		(*m)[key] = *value
	}
	return nil
}

// clip truncates text for messages.
func clip(text string) string {
	const limit = 60
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
