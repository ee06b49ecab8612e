package requestspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkJSON checks that data is one JSON value without duplicate keys. encoding/json would use
// the last duplicate.
func checkJSON(data []byte) error {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("line %d: %w", lineAt(data, syntax.Offset), err)
		}
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return checkDuplicateKeys(dec, data)
}

func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

// checkDuplicateKeys reads the next value of valid JSON.
func checkDuplicateKeys(dec *json.Decoder, data []byte) error {
	token, err := dec.Token()
	open, nested := token.(json.Delim)
	if err != nil || !nested {
		return err
	}
	keys := map[json.Token]bool{}
	for dec.More() {
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			if keys[key] {
				return fmt.Errorf("line %d: key %q occurs twice in one object", lineAt(data, dec.InputOffset()), clip(fmt.Sprint(key)))
			}
			keys[key] = true
		}
		if err := checkDuplicateKeys(dec, data); err != nil {
			return err
		}
	}
	_, err = dec.Token() // the end of the object or list
	return err
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
