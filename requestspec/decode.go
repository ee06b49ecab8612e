package requestspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

var (
	// profileName and profileKey are Cyborg's own checks of a new profile.
	profileName = regexp.MustCompile(`^[a-zA-Z0-9-_]+$`)
	profileKey  = regexp.MustCompile(`^(resources:|trait:|accel:)`)
)

// ParseProfileFile reads a device profile written for Cyborg: an object with
// name, groups and optionally description, or, as in the body of
// POST /v2/device_profiles, a list of exactly one such object. Values inside a
// group are strings or JSON numbers.
//
// Stricter than Cyborg's wire, because a file has an author who can be told:
// unknown fields, a key that stands twice, a name or group key that Cyborg
// would refuse, and groups that [ParseProfile] refuses are errors, and each
// satisfies errors.Is with [ErrInvalidProfile].
func ParseProfileFile(data []byte) (DeviceProfile, error) {
	p, err := ReadProfile(data)
	if err != nil {
		return DeviceProfile{}, err
	}
	if !profileName.MatchString(p.Name) || len(p.Name) > maxName {
		return DeviceProfile{}, fmt.Errorf("requestspec: %w file: name %q: want 1 to %d letters, digits, hyphens and underscores", ErrInvalidProfile, p.Name, maxName)
	}
	if err := checkKeys(p); err != nil {
		return DeviceProfile{}, err
	}
	if _, err := ParseProfile(p.Name, p.Groups); err != nil {
		return DeviceProfile{}, err
	}
	return p, nil
}

// ReadProfile is [ParseProfileFile] for who wants to judge the profile himself,
// as [LintProfile] does: the form of the file is held to the same rules, what
// the profile says is not looked at. An error satisfies errors.Is with
// [ErrInvalidProfile].
func ReadProfile(data []byte) (DeviceProfile, error) {
	p, err := decodeProfile(data)
	if err != nil {
		return DeviceProfile{}, fmt.Errorf("requestspec: %w file: %w", ErrInvalidProfile, err)
	}
	return p, nil
}

// ParseFlavorFile reads a [Flavor] from a JSON object with the fields name,
// vcpus, ram, disk, ephemeral, swap and extra_specs. Unknown fields, a key that
// stands twice, and sizes out of range are errors that satisfy errors.Is with
// [ErrInvalidFlavor].
func ParseFlavorFile(data []byte) (Flavor, error) {
	fail := func(err error) (Flavor, error) {
		return Flavor{}, fmt.Errorf("requestspec: %w file: %w", ErrInvalidFlavor, err)
	}
	if err := checkJSON(data); err != nil {
		return fail(err)
	}
	object, err := fields(data, "name", "vcpus", "ram", "disk", "ephemeral", "swap", "extra_specs")
	if err != nil {
		return fail(err)
	}
	var f Flavor
	targets := map[string]any{
		"name": &f.Name, "vcpus": &f.VCPUs, "ram": &f.MemoryMB, "disk": &f.RootGB,
		"ephemeral": &f.EphemeralGB, "swap": &f.SwapMB,
	}
	if err := decodeFields(object, targets); err != nil {
		return fail(err)
	}
	if f.ExtraSpecs, err = decodeStrings(object["extra_specs"]); err != nil {
		return fail(fmt.Errorf("field extra_specs: %w", err))
	}
	if f.Name == "" {
		return fail(errors.New("field name is missing or empty"))
	}
	if err := f.validate(); err != nil {
		return Flavor{}, err
	}
	return f, nil
}

func decodeProfile(data []byte) (DeviceProfile, error) {
	if err := checkJSON(data); err != nil {
		return DeviceProfile{}, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			return DeviceProfile{}, err
		}
		if len(list) != 1 {
			return DeviceProfile{}, fmt.Errorf("a list of %d device profiles, want exactly one", len(list))
		}
		data = list[0]
	}
	object, err := fields(data, "name", "groups", "description")
	if err != nil {
		return DeviceProfile{}, err
	}
	var p DeviceProfile
	if err := decodeFields(object, map[string]any{"name": &p.Name, "description": &p.Description}); err != nil {
		return DeviceProfile{}, err
	}
	if p.Groups, err = decodeGroups(object["groups"]); err != nil {
		return DeviceProfile{}, err
	}
	return p, nil
}

func decodeGroups(data json.RawMessage) ([]map[string]string, error) {
	if data == nil {
		return nil, errors.New("field groups is missing")
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("field groups: %w", wrongType(err))
	}
	groups := make([]map[string]string, 0, len(raw))
	for i, object := range raw {
		group, err := decodeStrings(object)
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", i, err)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// checkKeys applies Cyborg's form of group keys, which Nova does not check and
// without which a misspelt key would be passed over.
func checkKeys(p DeviceProfile) error {
	for i, group := range p.Groups {
		for _, key := range slices.Sorted(maps.Keys(group)) {
			if !profileKey.MatchString(key) {
				return &ProfileError{Profile: p.Name, Group: i, Key: key, Value: group[key], Problem: "keys start with resources:, trait: or accel:"}
			}
		}
	}
	return nil
}
