package fakecyborg

import (
	"encoding/json"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// errOneProfile is upstream's answer to a list of another length than one.
var errOneProfile error = &store.Refusal{Kind: store.Invalid, Text: "Only one device profile allowed per POST request for now."}

// parseProfile reads the body of a create: a list of one object. Fields that
// it does not know are dropped, as upstream does.
func parseProfile(body []byte, quirks bool) (store.Profile, error) {
	var list []json.RawMessage
	switch jsonKind(body) {
	case '[':
		if json.Unmarshal(body, &list) != nil {
			return store.Profile{}, errJSON
		}
	case '{':
		if _, err := decodeObject(body); err != nil {
			return store.Profile{}, err
		}
	default:
		if !json.Valid(body) {
			return store.Profile{}, errJSON
		}
	}
	if len(list) != 1 {
		return store.Profile{}, errOneProfile
	}
	if jsonKind(list[0]) != '{' {
		return store.Profile{}, store.Refuse(store.Uncoded, "device profile is not an object")
	}
	fields, err := decodeObject(list[0])
	if err != nil {
		return store.Profile{}, err
	}
	return parseProfileFields(fields, quirks)
}

// parseProfileFields checks the fields in upstream's order
// (cyborg/api/controllers/v2/device_profiles.py).
func parseProfileFields(fields []member, quirks bool) (store.Profile, error) {
	get := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		if jsonKind(f.value) != 'n' {
			get[f.key] = f.value
		}
	}
	in := store.Profile{}
	var err error
	if in.Name, err = textField(get, "name"); err != nil {
		return in, err
	}
	if err := store.CheckProfileName(in.Name); err != nil {
		return in, err
	}
	if in.Groups, err = parseGroups(get["groups"]); err != nil {
		return in, err
	}
	if in.UUID, err = textField(get, "uuid"); err != nil {
		return in, err
	}
	if raw, ok := get["description"]; ok {
		text, err := scalarText(raw)
		if err != nil {
			return in, store.Refuse(store.Invalid, "Device profile description: %v", err)
		}
		in.Description = &text
	}
	return in, in.Check(quirks)
}

func textField(get map[string]json.RawMessage, name string) (string, error) {
	raw, ok := get[name]
	if !ok {
		return "", nil
	}
	text, err := scalarText(raw)
	if err != nil {
		return "", store.Refuse(store.Invalid, "Device profile %s: %v", name, err)
	}
	return text, nil
}

// parseGroups reads the list of groups and normalizes each.
func parseGroups(raw json.RawMessage) ([]store.Group, error) {
	var list []json.RawMessage
	switch jsonKind(raw) {
	case '[':
		if json.Unmarshal(raw, &list) != nil {
			return nil, errJSON
		}
	case 'n':
	default:
		return nil, store.Refuse(store.Uncoded, "'str' object has no attribute 'items'")
	}
	if len(list) == 0 {
		return nil, store.Refuse(store.Uncoded, "DeviceProfile needs groups field.")
	}
	groups := make([]store.Group, 0, len(list))
	for i, item := range list {
		g, err := parseGroup(i, item)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func parseGroup(index int, raw json.RawMessage) (store.Group, error) {
	if jsonKind(raw) != '{' {
		return nil, store.Refuse(store.Uncoded, "Device profile group %d is not an object", index)
	}
	fields, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	g := make(store.Group, 0, len(fields))
	for _, f := range fields {
		item := store.GroupItem{Key: f.key}
		if jsonKind(f.value) != 'n' {
			text, err := scalarText(f.value)
			if err != nil {
				return nil, store.Refuse(store.Invalid, "Device profile group %d: value of %s: %v", index, f.key, err)
			}
			item.Value = &text
		}
		g = append(g, item)
	}
	return g.Normalize()
}
