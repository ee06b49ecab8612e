package fakecyborg

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/schema"
)

// Upstream reads bodies without a schema. A value of the wrong type ends in an exception of Python, whose text is the
// answer. The functions below are the operations of Python that upstream's handlers apply to values, with these texts.

// typeName is the name of the Python type of a JSON value.
func typeName(value json.RawMessage) string {
	switch jsonKind(value) {
	case '{':
		return "dict"
	case '[':
		return "list"
	case '"':
		return "str"
	case 't', 'f':
		return "bool"
	case '0':
		if bytes.ContainsAny(value, ".eE") {
			return "float"
		}
		return "int"
	}
	return "NoneType"
}

// raised is an exception of Python, for which upstream answers 500.
func raised(format string, args ...any) error { return store.Refuse(store.Uncoded, format, args...) }

// noAttribute is the exception of value.name.
func noAttribute(value json.RawMessage, name string) error {
	return raised("'%s' object has no attribute '%s'", typeName(value), name)
}

// truthy is bool(value).
func truthy(value json.RawMessage) bool {
	switch jsonKind(value) {
	case '{':
		return len(membersOf(value)) > 0
	case '[':
		return len(itemsOf(value)) > 0
	case '"':
		return textOf(value) != ""
	case '0':
		n, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
		return err != nil || n != 0
	}
	return jsonKind(value) == 't'
}

// textOf is the value of a JSON string.
func textOf(value json.RawMessage) (text string) {
	_ = json.Unmarshal(value, &text) // the body was checked to be JSON
	return text
}

// jsonString is the JSON string of a text.
func jsonString(text string) json.RawMessage { return json.RawMessage(jsonText(text)) }

// iterate is list(value): the items of a list, the keys of an object or the characters of a string.
func iterate(value json.RawMessage) (items []json.RawMessage, err error) {
	switch jsonKind(value) {
	case '[':
		return itemsOf(value), nil
	case '{':
		for _, m := range membersOf(value) {
			items = append(items, jsonString(m.key))
		}
		return items, nil
	case '"':
		for _, r := range textOf(value) {
			items = append(items, jsonString(string(r)))
		}
		return items, nil
	}
	return nil, raised("'%s' object is not iterable", typeName(value))
}

// first is value[0].
func first(value json.RawMessage) (json.RawMessage, error) {
	items, err := iterate(value)
	switch kind := jsonKind(value); {
	case err != nil:
		return nil, raised("'%s' object is not subscriptable", typeName(value))
	case kind == '{':
		return nil, raised("0") // the text of a KeyError is its key
	case len(items) == 0 && kind == '"':
		return nil, raised("string index out of range")
	case len(items) == 0:
		return nil, raised("list index out of range")
	}
	return items[0], nil
}

// subscripted is a value to look up value[key].
type subscripted struct {
	value   json.RawMessage
	members map[string]json.RawMessage // of an object
}

func subscript(value json.RawMessage) subscripted {
	s := subscripted{value: value}
	if jsonKind(value) == '{' {
		_ = json.Unmarshal(value, &s.members) // its form was checked
	}
	return s
}

// at is value[key].
func (s subscripted) at(key string) (json.RawMessage, error) {
	switch jsonKind(s.value) {
	case '{':
		if found, ok := s.members[key]; ok {
			return found, nil
		}
		return nil, raised("'%s'", key)
	case '[':
		return nil, raised("list indices must be integers or slices, not str")
	case '"':
		return nil, raised("string indices must be integers, not 'str'")
	}
	return nil, raised("'%s' object is not subscriptable", typeName(s.value))
}

// str is str(value).
func str(value json.RawMessage) string {
	if jsonKind(value) == '"' {
		return textOf(value)
	}
	decoded, _ := schema.Decode(value) // the body was checked to be JSON
	return schema.Repr(decoded)
}

// The functions below convert a member of a body to a field of upstream's objects, as oslo.versionedobjects does.

// notInteger is the exception of int(value) for a value of another type than text and number.
func notInteger(value json.RawMessage) error {
	return raised("int() argument must be a string, a bytes-like object or a real number, not '%s'", typeName(value))
}

// integerField is a number without its fraction, the number that a text is, or 1 for true.
func integerField(m member) (int, error) {
	switch jsonKind(m.value) {
	case 'n':
		return 0, noneField(m)
	case '[', '{':
		return 0, notInteger(m.value)
	case '"':
		return store.ParseInteger(textOf(m.value))
	case 't':
		return 1, nil
	case 'f':
		return 0, nil
	}
	n, _ := strconv.ParseFloat(str(m.value), 64)
	return int(max(math.MinInt32, min(n, math.MaxInt32))), nil
}

// textField is a text, or a number or boolean as the text that upstream stores.
func textField(m member) (string, error) {
	switch jsonKind(m.value) {
	case 'n':
		return "", noneField(m)
	case '[', '{':
		return "", raised("A string is required in field %s, not a %s", m.key, typeName(m.value))
	}
	return str(m.value), nil
}

func noneField(m member) error { return raised("Field `%s' cannot be None", m.key) }

// checkTimeField refuses what is neither a time nor null. Upstream stores the time.
func checkTimeField(m member) error {
	switch jsonKind(m.value) {
	case 'n':
		return nil
	case '"':
		if _, err := time.Parse(time.RFC3339, textOf(m.value)); err != nil {
			return raised("Unable to parse date string %s", schema.Repr(textOf(m.value)))
		}
		return nil
	}
	return raised("A datetime.datetime is required in field %s, not a %s", m.key, typeName(m.value))
}
