package requestspec

import (
	"maps"
	"slices"
	"strings"
)

// ImageTraits returns the traits that an image requires, sorted, for
// [Options].ImageTraits: the properties trait:<name>=required
// (nova/objects/image_meta.py). Nova ignores other values silently; here they give
// a warning.
func ImageTraits(properties map[string]string) ([]string, []Warning) {
	var traits []string
	var warnings []Warning
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		name, ok := strings.CutPrefix(key, prefixTrait+":")
		switch value := properties[key]; {
		case !ok:
		case value != traitRequired:
			warnings = append(warnings, Warning{Key: key, Value: value,
				Message: "An image can only require traits; the property is ignored unless its value is 'required'."})
		case !validTrait(name):
			warnings = append(warnings, Warning{Key: key, Value: value,
				Message: "Placement refuses the query: '" + name + "' is not a valid trait name."})
			fallthrough
		default:
			traits = append(traits, name)
		}
	}
	return traits, warnings
}
