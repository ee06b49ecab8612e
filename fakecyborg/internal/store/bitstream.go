package store

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// selector is a key by which a group, or an image of Glance, names an FPGA image.
type selector string

// The selectors. Upstream reads only the ones that end in _id; its specifications have all four.
const (
	ByBitstreamID   selector = "bitstream_id"
	ByFunctionID    selector = "function_id"
	byBitstreamName selector = "bitstream_name"
	ByFunctionName  selector = "function_name"
)

// selectors are all of them, in the order in which a refusal names them.
func selectors(quirks bool) []selector {
	ids := []selector{ByBitstreamID, ByFunctionID}
	if quirks {
		return ids
	}
	return append(ids, byBitstreamName, ByFunctionName)
}

// Property is the name of the selector in a group and in Glance.
func (s selector) Property() string { return PrefixAccel + string(s) }

// Get is the value of a selector in the properties of an image.
func (i Image) Get(by selector) string { return i.Properties[by.Property()] }

// BitstreamRef names the FPGA image that a request wants on its device.
type BitstreamRef struct {
	By    selector `json:"by,omitempty"`
	Value string   `json:"value,omitempty"`
	// GuestImage is the image of the instance, if known. It is not a bitstream, but may have the property by which a
	// bitstream is searched, to name what its guests need.
	GuestImage string `json:"guest_image,omitempty"`
}

// Named reports whether the reference names an image.
func (r BitstreamRef) Named() bool { return r.Value != "" }

// String names the image for errors.
func (r BitstreamRef) String() string { return string(r.By) + " " + r.Value }

// IsFunction reports whether a function is named rather than an image.
func (r BitstreamRef) IsFunction() bool { return r.By == ByFunctionID || r.By == ByFunctionName }

// Spellings returns the possible values of the image property: Glance compares strings, and the UUID of a function
// may be written with or without hyphens. Upstream asks for one.
func (r BitstreamRef) Spellings(quirks bool) []string {
	list := []string{r.Value}
	if id, err := uuid.Parse(r.Value); err == nil && r.By == ByFunctionID && !quirks {
		for _, text := range []string{id.String(), strings.ReplaceAll(id.String(), "-", "")} {
			if text != r.Value {
				list = append(list, text)
			}
		}
	}
	return list
}

func (r BitstreamRef) valid() bool {
	return r.By == "" && !r.Named() || r.Named() && slices.Contains(selectors(false), r.By)
}

// bitstream returns the image that the group requests. Naming it in more than one way is refused at the bind, with
// upstream's text, braces included, for the two selectors that upstream reads.
func (g Group) bitstream(profile string, quirks bool) (BitstreamRef, error) {
	if !g.programmable(quirks) {
		return BitstreamRef{}, nil
	}
	return pickBitstream(profile, quirks, func(s selector) string {
		value, _ := g.get(s.Property())
		return value
	})
}

// BitstreamOf returns the bitstream that the image of image_uuid names, if any.
func BitstreamOf(i Image) (BitstreamRef, error) {
	ref, err := pickBitstream("of image "+i.ID, false, i.Get)
	ref.GuestImage = i.ID
	return ref, err
}

// LeavesBitstream reports whether a group of a profile leaves the choice of a bitstream to the image of the instance.
func (t Tx) LeavesBitstream(profile string) bool {
	p, _ := t.s.profileByName.Get(t.tx, profile)
	return slices.ContainsFunc(p.Groups, func(g Group) bool {
		ref, err := g.bitstream(profile, t.s.cfg.Quirks)
		return err == nil && !ref.Named() && g.programmable(t.s.cfg.Quirks)
	})
}

// pickBitstream takes the one selector that has a value.
func pickBitstream(profile string, quirks bool, get func(selector) string) (BitstreamRef, error) {
	var found []BitstreamRef
	for _, by := range selectors(quirks) {
		if value := get(by); value != "" {
			found = append(found, BitstreamRef{By: by, Value: value})
		}
	}
	switch {
	case len(found) == 0:
		return BitstreamRef{}, nil
	case len(found) == 1:
		return found[0], nil
	case len(found) == 2 && found[0].By == ByBitstreamID && found[1].By == ByFunctionID:
		return BitstreamRef{}, Refuse(Invalid, "In device profile {0}, only one among bitstream_id and function_id must be set, but both are set")
	}
	names := make([]string, 0, len(found))
	for _, i := range found {
		names = append(names, string(i.By))
	}
	return BitstreamRef{}, Refuse(Invalid, "In device profile %s, only one among bitstream_id, function_id, bitstream_name and function_name must be set, but %s are set",
		profile, strings.Join(names, " and "))
}

// RequestedBitstream returns the image of a request: from its group, or else from the image_uuid of its creation.
func (t Tx) RequestedBitstream(a ARQ) (BitstreamRef, error) {
	g := t.group(a)
	ref, err := g.bitstream(a.Profile, t.s.cfg.Quirks)
	switch {
	case err != nil:
	case ref.Named():
		ref.GuestImage = a.Bitstream.GuestImage
	case a.Bitstream.Named() && g.programmable(t.s.cfg.Quirks):
		ref = a.Bitstream
	}
	return ref, err
}

// group returns the group of the profile to which a request belongs.
func (t Tx) group(a ARQ) Group {
	p, _ := t.s.profileByName.Get(t.tx, a.Profile)
	if a.Group >= len(p.Groups) {
		return nil
	}
	return p.Groups[a.Group]
}
