package fakecyborg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// errJSON is upstream's answer to every body that is not JSON.
var errJSON error = &store.Refusal{Kind: store.Invalid, Text: "Request is not in valid JSON format"}

// member is one field of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// decodeObject reads a JSON object and keeps the order of its fields, which
// upstream's answers depend on. Of a key given twice the last value counts, in
// the first place, as in a Python dictionary.
func decodeObject(data []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, errJSON
	}
	var members []member
	index := make(map[string]int)
	for dec.More() {
		token, err := dec.Token()
		key, isKey := token.(string)
		if err != nil || !isKey {
			return nil, errJSON
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errJSON
		}
		if at, again := index[key]; again {
			members[at].value = value
			continue
		}
		index[key] = len(members)
		members = append(members, member{key, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, errJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	return members, nil
}

// jsonKind is the first character of a JSON value: { [ " t f n or a digit.
func jsonKind(raw json.RawMessage) byte {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(trimmed) == 0:
		return 'n'
	case trimmed[0] == '-' || trimmed[0] >= '0' && trimmed[0] <= '9':
		return '0'
	}
	return trimmed[0]
}

// scalarText is a JSON string, number or boolean as the text that upstream
// keeps, where 1 is "1" and true is "True".
func scalarText(raw json.RawMessage) (string, error) {
	switch jsonKind(raw) {
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", errJSON
		}
		return text, nil
	case '0':
		return string(bytes.TrimSpace(raw)), nil
	case 't':
		return "True", nil
	case 'f':
		return "False", nil
	}
	return "", fmt.Errorf("%s is not a text", bytes.TrimSpace(raw))
}
