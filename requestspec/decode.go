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
// POST /v2/device_profiles, a list of exactly one such object. Values in a group
// are strings or JSON numbers.
//
// It is stricter than Cyborg's API: unknown fields, duplicate keys, a name or
// group key that Cyborg refuses, and groups that [ParseProfile] refuses are
// errors. They match [ErrInvalidProfile].
func ParseProfileFile(data []byte) (Profile, error) {
	p, err := ReadProfile(data)
	if err != nil {
		return Profile{}, err
	}
	if !validProfileName(p.Name) {
		return Profile{}, fmt.Errorf("requestspec: %w file: name %q: %s", ErrInvalidProfile, p.Name, profileNameRule)
	}
	if err := checkKeys(p); err != nil {
		return Profile{}, err
	}
	if _, err := ParseProfile(p.Name, p.Groups); err != nil {
		return Profile{}, err
	}
	return p, nil
}

const profileNameRule = "use 1 to 255 letters, digits, hyphens and underscores"

func validProfileName(name string) bool { return profileName.MatchString(name) && len(name) <= maxName }

// ReadProfile is [ParseProfileFile] without the checks of name and groups, for
// use with [Lint]. Errors match [ErrInvalidProfile].
func ReadProfile(data []byte) (Profile, error) {
	p, err := decodeProfile(data)
	if err != nil {
		return Profile{}, fmt.Errorf("requestspec: %w file: %w", ErrInvalidProfile, err)
	}
	return p, nil
}

// ParseFlavorFile reads a [Flavor] from a JSON object with the fields name,
// vcpus, ram, disk, ephemeral, swap and extra_specs. Unknown fields, duplicate
// keys and sizes out of range are errors that match [ErrInvalidFlavor].
func ParseFlavorFile(data []byte) (Flavor, error) {
	var f Flavor
	err := checkJSON(data)
	if err == nil {
		err = decodeObject(data, map[string]any{
			"name": &f.Name, "vcpus": &f.VCPUs, "ram": &f.MemoryMB, "disk": &f.RootGB,
			"ephemeral": &f.EphemeralGB, "swap": &f.SwapMB, "extra_specs": (*stringMap)(&f.ExtraSpecs),
		})
	}
	if err == nil && f.Name == "" {
		err = errors.New("field name is missing or empty")
	}
	if err != nil {
		return Flavor{}, fmt.Errorf("requestspec: %w file: %w", ErrInvalidFlavor, err)
	}
	if err := f.validate(); err != nil {
		return Flavor{}, err
	}
	return f, nil
}

func decodeProfile(data []byte) (Profile, error) {
	if err := checkJSON(data); err != nil {
		return Profile{}, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			return Profile{}, err
		}
		if len(list) != 1 {
			return Profile{}, fmt.Errorf("the list has %d device profiles instead of one", len(list))
		}
		data = list[0]
	}
	var p Profile
	err := decodeObject(data, map[string]any{"name": &p.Name, "groups": (*stringMaps)(&p.Groups), "description": &p.Description})
	if err == nil && p.Groups == nil {
		err = errors.New("field groups is missing")
	}
	return p, err
}

// checkKeys checks the prefix of group keys as Cyborg does. Nova ignores other
// keys.
func checkKeys(p Profile) error {
	for i, group := range p.Groups {
		for _, key := range slices.Sorted(maps.Keys(group)) {
			if !profileKey.MatchString(key) {
				return invalidEntry(groupPart(p.Name, i), key, group[key], "keys start with resources:, trait: or accel:")
			}
		}
	}
	return nil
}
