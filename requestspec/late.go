package requestspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// parseLate reads a profile as Nova's get_device_profile_request_groups does:
// bad entries are passed over and no group is refused. What then is wrong shows
// later: New refuses a group without any entry, a group of traits reaches
// Placement with empty resources, and a group of zeros is not asked for at all.
func parseLate(p DeviceProfile) []Group {
	groups := make([]Group, 0, len(p.Groups))
	for i, entries := range p.Groups {
		g := Group{RequesterID: RequesterID(i), UseSameProvider: true, Resources: map[string]int{}}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if k, ok := parseKey(key); ok {
				g.addLate(k, entries[key])
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// addLate takes in one entry, or tells Nova's warning.
func (g *Group) addLate(k specKey, value string) string {
	if k.prefix == prefixTrait {
		if !g.addTrait(k.name, value) {
			return fmt.Sprintf("Only (required, forbidden) traits are supported. Received '%s'.", value)
		}
		return ""
	}
	if !acceptedClass(k.name) {
		return fmt.Sprintf("Received an invalid ResourceClass '%s' in extra_specs.", k.name)
	}
	amount, err := parseAmount(value)
	if err != nil {
		if errors.Is(err, errTooLarge) {
			return fmt.Sprintf("The amount '%s' is %v.", value, err)
		}
		return fmt.Sprintf("Resource amounts must be nonnegative integers. Received '%s'", value)
	}
	g.Resources[k.name] = amount
	return ""
}

// lateWarnings are what parseLate passes over.
func lateWarnings(p DeviceProfile) []Warning {
	var warnings []Warning
	for _, entries := range p.Groups {
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			k, ok := parseKey(key)
			if !ok {
				continue
			}
			scratch := Group{Resources: map[string]int{}}
			if text := scratch.addLate(k, entries[key]); text != "" {
				warnings = append(warnings, Warning{Key: key, Value: entries[key], Message: text})
			}
		}
	}
	return warnings
}
