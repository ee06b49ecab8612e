package fakecyborg

import (
	"slices"
	"strings"
)

// selector is a key by which a group, or an image of Glance, names the FPGA
// image that is meant.
type selector string

// The selectors. Upstream reads those that end in _id, its specifications know
// all four.
const (
	byBitstreamID   selector = "bitstream_id"
	byFunctionID    selector = "function_id"
	byBitstreamName selector = "bitstream_name"
	byFunctionName  selector = "function_name"
)

// selectors are all of them, in the order in which a refusal names them.
func selectors(quirks bool) []selector {
	ids := []selector{byBitstreamID, byFunctionID}
	if quirks {
		return ids
	}
	return append(ids, byBitstreamName, byFunctionName)
}

// property is the name of the selector in a group and in Glance.
func (s selector) property() string { return prefixAccel + string(s) }

// image is the FPGA image that a request wants on its device.
type image struct {
	by    selector
	value string
}

// wanted reports whether there is an image at all.
func (i image) wanted() bool { return i.value != "" }

// String names the image for errors.
func (i image) String() string { return string(i.by) + " " + i.value }

// image is what the group wants programmed. Naming it in more than one way is
// refused when the request is bound; for the two that upstream knows in its own
// words, braces included.
func (g group) image(profile string, quirks bool) (image, error) {
	if !g.programmable(quirks) {
		return image{}, nil
	}
	return pickImage(profile, quirks, func(s selector) string {
		value, _ := g.get(s.property())
		return value
	})
}

// pickImage takes the one selector that has a value.
func pickImage(profile string, quirks bool, get func(selector) string) (image, error) {
	var found []image
	for _, by := range selectors(quirks) {
		if value := get(by); value != "" {
			found = append(found, image{by, value})
		}
	}
	switch {
	case len(found) == 0:
		return image{}, nil
	case len(found) == 1:
		return found[0], nil
	case len(found) == 2 && found[0].by == byBitstreamID && found[1].by == byFunctionID:
		return image{}, refuse(kindInvalid, "In device profile {0}, only one among bitstream_id and function_id must be set, but both are set")
	}
	names := make([]string, 0, len(found))
	for _, i := range found {
		names = append(names, string(i.by))
	}
	return image{}, refuse(kindInvalid, "In device profile %s, only one among bitstream_id, function_id, bitstream_name and function_name must be set, but %s are set",
		profile, strings.Join(names, " and "))
}

// wanted is the image of a request: what its group names, or else what the
// image_uuid of its creation stands for.
func (a *arqRow) wanted(quirks bool) (image, error) {
	g := a.profile.groups[a.group]
	i, err := g.image(a.profile.name, quirks)
	if err == nil && !i.wanted() && g.programmable(quirks) {
		i = a.image
	}
	return i, err
}

// isFunction reports whether the selector names a function rather than an image.
func (i image) isFunction() bool {
	return slices.Contains([]selector{byFunctionID, byFunctionName}, i.by)
}
