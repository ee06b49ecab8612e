package fakecyborg

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// profileInput is a device profile that passed validation.
type profileInput struct {
	uuid        string
	name        string
	description *string
	groups      []group
}

// maxName is the width of the column.
const maxName = 255

// profileName is upstream's pattern, which lets one trailing newline pass.
var profileName = regexp.MustCompile(`^[a-zA-Z0-9-_]+\n?$`)

// errOneProfile is upstream's answer to a list of another length than one.
var errOneProfile error = &refusal{kindInvalid, "Only one device profile allowed per POST request for now."}

// parseProfile reads the body of a create: a list of one object. Fields that
// it does not know are dropped, as upstream does.
func parseProfile(body []byte, quirks bool) (profileInput, error) {
	var list []json.RawMessage
	switch jsonKind(body) {
	case '[':
		if json.Unmarshal(body, &list) != nil {
			return profileInput{}, errJSON
		}
	case '{':
		if _, err := decodeObject(body); err != nil {
			return profileInput{}, err
		}
	default:
		if !json.Valid(body) {
			return profileInput{}, errJSON
		}
	}
	if len(list) != 1 {
		return profileInput{}, errOneProfile
	}
	if jsonKind(list[0]) != '{' {
		return profileInput{}, refuse(kindUncoded, "device profile is not an object")
	}
	fields, err := decodeObject(list[0])
	if err != nil {
		return profileInput{}, err
	}
	return profileOf(fields, quirks)
}

// profileOf checks the fields in upstream's order
// (cyborg/api/controllers/v2/device_profiles.py).
func profileOf(fields []member, quirks bool) (profileInput, error) {
	get := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		if jsonKind(f.value) != 'n' {
			get[f.key] = f.value
		}
	}
	in := profileInput{}
	var err error
	if in.name, err = textField(get, "name"); err != nil {
		return in, err
	}
	if err := checkProfileName(in.name); err != nil {
		return in, err
	}
	if in.groups, err = parseGroups(get["groups"]); err != nil {
		return in, err
	}
	if in.uuid, err = textField(get, "uuid"); err != nil {
		return in, err
	}
	if raw, ok := get["description"]; ok {
		text, err := scalarText(raw)
		if err != nil {
			return in, refuse(kindInvalid, "Device profile description: %v", err)
		}
		in.description = &text
	}
	return in, in.check(quirks)
}

func textField(get map[string]json.RawMessage, name string) (string, error) {
	raw, ok := get[name]
	if !ok {
		return "", nil
	}
	text, err := scalarText(raw)
	if err != nil {
		return "", refuse(kindInvalid, "Device profile %s: %v", name, err)
	}
	return text, nil
}

func checkProfileName(name string) error {
	switch {
	case name == "":
		return refuse(kindUncoded, "DeviceProfile name needed.")
	case !profileName.MatchString(name):
		return refuse(kindInvalid, "Device profile name must be of the form ^[a-zA-Z0-9-_]+$")
	case len(name) > maxName:
		return refuse(kindUncoded, "Data too long for column 'name' at row 1: the limit is %d characters", maxName)
	}
	return nil
}

// parseGroups reads the list of groups and normalizes each.
func parseGroups(raw json.RawMessage) ([]group, error) {
	var list []json.RawMessage
	switch jsonKind(raw) {
	case '[':
		if json.Unmarshal(raw, &list) != nil {
			return nil, errJSON
		}
	case 'n':
	default:
		return nil, refuse(kindUncoded, "'str' object has no attribute 'items'")
	}
	if len(list) == 0 {
		return nil, refuse(kindUncoded, "DeviceProfile needs groups field.")
	}
	groups := make([]group, 0, len(list))
	for i, item := range list {
		g, err := parseGroup(i, item)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func parseGroup(index int, raw json.RawMessage) (group, error) {
	if jsonKind(raw) != '{' {
		return nil, refuse(kindUncoded, "Device profile group %d is not an object", index)
	}
	fields, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	g := make(group, 0, len(fields))
	for _, f := range fields {
		item := groupItem{key: f.key}
		if jsonKind(f.value) != 'n' {
			text, err := scalarText(f.value)
			if err != nil {
				return nil, refuse(kindInvalid, "Device profile group %d: value of %s: %v", index, f.key, err)
			}
			item.value = &text
		}
		g = append(g, item)
	}
	return g.normalize()
}

// check holds the limits that upstream lacks: quirks leaves only the one that
// protects the server's memory.
func (in profileInput) check(quirks bool) error {
	total := 0
	for i, g := range in.groups {
		if !quirks {
			if err := g.strict(i); err != nil {
				return err
			}
		}
		total += max(g.requests(quirks), 0)
		if total > maxRequests {
			return refuse(kindInvalid, "Device profile asks for more than %d accelerators", maxRequests)
		}
	}
	if quirks {
		return in.checkOwner()
	}
	if total == 0 {
		return refuse(kindInvalid, "Device profile asks for memory only, and for no accelerator")
	}
	if strings.HasSuffix(in.name, "\n") {
		return refuse(kindInvalid, "Device profile name must be of the form ^[a-zA-Z0-9-_]+$")
	}
	if in.uuid != "" && !simhttp.IsUUIDLike(in.uuid) {
		return refuse(kindInvalid, "Expected a uuid but received %s.", in.uuid)
	}
	return nil
}
