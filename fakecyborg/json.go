package fakecyborg

import (
	"bytes"
	"encoding/json"
	"strings"
)

// The functions below expect JSON that [Server.readBody] has checked.

// jsonKind is the first character of a JSON value: { [ " t f n or a digit. No value counts as
// null.
func jsonKind(value json.RawMessage) byte {
	trimmed := bytes.TrimSpace(value)
	switch {
	case len(trimmed) == 0:
		return 'n'
	case trimmed[0] == '-' || trimmed[0] >= '0' && trimmed[0] <= '9':
		return '0'
	}
	return trimmed[0]
}

// member is one field of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// membersOf lists the fields of a JSON object in their order, which upstream's answers depend
// on. A duplicate key has its last value at its first position, as in a Python dictionary.
func membersOf(object json.RawMessage) []member {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token()
	var members []member
	index := make(map[string]int)
	for dec.More() {
		token, _ := dec.Token()
		key, _ := token.(string)
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
		if at, again := index[key]; again {
			members[at].value = value
			continue
		}
		index[key] = len(members)
		members = append(members, member{key, value})
	}
	return members
}

// itemsOf lists the items of a JSON array; any other value has no items.
func itemsOf(array json.RawMessage) (items []json.RawMessage) {
	_ = json.Unmarshal(array, &items)
	return items
}

// jsonText encodes plain values, which cannot fail.
func jsonText(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
