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

// checkJSON makes sure that data is one JSON value in which no object has a key
// twice; encoding/json would quietly take the last one.
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

// checkDuplicateKeys walks the tokens of valid JSON. A frame is an object or a
// list not closed yet; keys is nil for a list.
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
				return fmt.Errorf("line %d: key %q stands twice in one object", lineAt(data, dec.InputOffset()), clip(key))
			}
			top.keys[key], top.wantKey = true, false
		default:
			top.wantKey = true
		}
	}
}

// fields splits an object and refuses every field that is not named, in the
// very spelling, and null for one that is. An absent field is absent from the map.
func fields(data []byte, names ...string) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return nil, fmt.Errorf("want a JSON object, got %s", clip(string(bytes.TrimSpace(data))))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown field %q; known are %s", clip(name), strings.Join(names, ", "))
		}
		if string(object[name]) == "null" {
			return nil, fmt.Errorf("field %s is null; leave it out instead", name)
		}
	}
	return object, nil
}

// wrongType says in words of JSON what encoding/json says in words of Go.
func wrongType(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	want := map[string]string{"int": "an integer", "string": "a string", "map": "an object", "slice": "a list"}[mismatch.Type.Kind().String()]
	return fmt.Errorf("want %s, got %s", want, clip(mismatch.Value))
}

// decodeFields decodes each field that is present into its target.
func decodeFields(object map[string]json.RawMessage, targets map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		raw, present := object[name]
		if !present {
			continue
		}
		if err := json.Unmarshal(raw, targets[name]); err != nil {
			return fmt.Errorf("field %s: %w", name, wrongType(err))
		}
	}
	return nil
}

// decodeStrings reads an object of strings; nil when raw is. A number is taken
// as its text, which is how Cyborg and Nova store it.
func decodeStrings(raw json.RawMessage) (map[string]string, error) {
	if raw == nil {
		return nil, nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil || entries == nil {
		return nil, fmt.Errorf("want an object, got %s", clip(string(raw)))
	}
	decoded := make(map[string]string, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		value, err := scalar(entries[key])
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", clip(key), err)
		}
		decoded[key] = value
	}
	return decoded, nil
}

// scalar reads a string, or a number as its text.
func scalar(raw json.RawMessage) (string, error) {
	text := string(raw)
	if text != "" && strings.ContainsRune("-0123456789", rune(text[0])) {
		return text, nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fmt.Errorf("value %s is neither a string nor a number", clip(text))
	}
	return *s, nil
}

// clip keeps foreign text in messages short.
func clip(text string) string {
	const limit = 60
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
