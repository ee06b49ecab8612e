package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// DecodeModel decodes a model, which a person has written. Unlike encoding/json it names the path of what it refuses, also
// inside lists, such as hosts[0].sysfs.devices[2].address, and matches field names exactly. Unknown and
// repeated fields and null for a scalar are refused. A time.Duration is text such as "90s"; types with a
// decoder of their own use it.
func DecodeModel(data json.RawMessage, into any) error {
	return decodeAt("", data, reflect.ValueOf(into).Elem())
}

// decodeAt decodes into v, which is at a path.
func decodeAt(path string, data json.RawMessage, v reflect.Value) error {
	_, custom := v.Addr().Interface().(json.Unmarshaler)
	switch kind := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return decodeDuration(path, data, v)
	case custom:
	case string(data) == "null" && (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map):
		return nil
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeAt(path, data, v.Elem())
	case kind == reflect.Struct:
		return decodeObject(path, data, v)
	case kind == reflect.Slice:
		return decodeList(path, data, v)
	case kind == reflect.Map:
		return decodeMap(path, data, v)
	}
	if !custom && string(data) == "null" {
		return At(path, "null is not allowed")
	}
	if err := json.Unmarshal(data, v.Addr().Interface()); err != nil {
		return At(path, wrongType(err, v.Type()))
	}
	return nil
}

// decodeDuration reads a time such as "90s".
func decodeDuration(path string, data json.RawMessage, v reflect.Value) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return At(path, wrongType(err, reflect.TypeFor[string]()))
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return At(path, err.Error())
	}
	v.SetInt(int64(d))
	return nil
}

func decodeObject(path string, data json.RawMessage, v reflect.Value) error {
	fields, err := objectFields(path, data)
	if err != nil {
		return err
	}
	known := make(map[string]reflect.Value)
	addFields(known, v)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := known[name]
		if !ok {
			return At(Join(path, name), "unknown field (known here: "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")+")")
		}
		if err := decodeAt(Join(path, name), fields[name], field); err != nil {
			return err
		}
	}
	return nil
}

// addFields collects the fields of a struct by their JSON names, including those of
// embedded structs. A field of the struct itself hides an embedded one.
func addFields(known map[string]reflect.Value, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			below := make(map[string]reflect.Value)
			addFields(below, v.Field(i))
			for name, value := range below {
				if _, hidden := known[name]; !hidden {
					known[name] = value
				}
			}
			continue
		}
		known[name] = v.Field(i)
	}
}

func decodeList(path string, data json.RawMessage, v reflect.Value) error {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return At(path, "want a list")
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if err := decodeAt(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

func decodeMap(path string, data json.RawMessage, v reflect.Value) error {
	fields, err := objectFields(path, data)
	if err != nil {
		return err
	}
	decoded := reflect.MakeMap(v.Type())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := decodeAt(Join(path, name), fields[name], element); err != nil {
			return err
		}
		decoded.SetMapIndex(reflect.ValueOf(name), element)
	}
	v.Set(decoded)
	return nil
}

// objectFields splits an object. It refuses a repeated field. encoding/json would use the last one.
func objectFields(path string, data json.RawMessage) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, At(path, "want an object")
	}
	fields := make(map[string]json.RawMessage)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, At(path, err.Error())
		}
		name, _ := token.(string)
		if _, twice := fields[name]; twice {
			return nil, At(Join(path, name), "the field occurs twice")
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, At(Join(path, name), err.Error())
		}
		fields[name] = value
	}
	return fields, nil
}

// wrongType describes a type mismatch by the types of JSON instead of Go's.
func wrongType(err error, t reflect.Type) string {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) || mismatch.Field != "" {
		return err.Error()
	}
	want := map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false", reflect.Uint64: "a whole number, not negative", reflect.Int: "a whole number"}[t.Kind()]
	return fmt.Sprintf("want %s, got %s", want, mismatch.Value)
}

// At is an error about what is at a path of a model; empty: the model as a whole.
func At(path, problem string) error {
	if path == "" {
		path = "the model"
	}
	return fmt.Errorf("%s: %s", path, problem)
}

// Join is the path of a member of what is at a path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
