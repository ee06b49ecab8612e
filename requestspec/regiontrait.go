package requestspec

import (
	"regexp"
	"strings"
)

// regionForm matches the traits of the function and of the type of a region, under the naming policies of
// Cyborg's drivers: as shipped with FUNCTION_ID before the vendor, and as the Rocky specifications of
// scheduling and of the agent have them. A vendor is one word.
var regionForm = regexp.MustCompile(`^CUSTOM_FPGA_(?:(FUNCTION_ID|FUNCTION|REGION)_([A-Z0-9]+)|([A-Z0-9]+)_(FUNCTION|REGION))_(.+)$`)

// regionTrait is a trait of a region in its parts.
type regionTrait struct {
	kind, vendor string // kind is FUNCTION_ID, FUNCTION or REGION
	vendorFirst  bool   // as in the specification of the agent
	id           string
}

func parseRegionTrait(name string) (r regionTrait, ok bool) {
	m := regionForm.FindStringSubmatch(name)
	if m == nil {
		return r, false
	}
	return regionTrait{kind: m[1] + m[4], vendor: m[2] + m[3], vendorFirst: m[4] != "", id: m[5]}, true
}

// IsFunctionTrait reports whether a trait names a function that is loaded into a region, under
// any naming policy of Cyborg's drivers, or without a vendor.
func IsFunctionTrait(trait string) bool {
	return strings.HasPrefix(trait, "CUSTOM_FPGA_") && strings.Contains(trait, "_FUNCTION_")
}

// NamesFunction reports whether a trait names the function id, under any naming policy of Cyborg's
// drivers. A UUID is the same with hyphens, underscores or neither.
func NamesFunction(trait, id string) bool {
	if !IsFunctionTrait(trait) {
		return false
	}
	name := NormalizeTrait(id)
	if bare := strings.ReplaceAll(name, "_", ""); len(bare) == 32 && strings.Trim(bare, "0123456789ABCDEF") == "" {
		return strings.HasSuffix(strings.ReplaceAll(trait, "_", ""), bare)
	}
	_, text, _ := strings.Cut(trait, "_FUNCTION_")
	if r, ok := parseRegionTrait(trait); ok {
		text = r.id
	}
	return text == name
}

// FunctionSpellings returns the values of an image's property accel:function_id that name a
// function, starting with id itself: a UUID may be written with or without hyphens.
func FunctionSpellings(id string) []string {
	list := []string{id}
	if hyphens, ok := wholeUUID(id); ok {
		for _, text := range []string{hyphens, strings.ReplaceAll(hyphens, "-", "")} {
			if text != id {
				list = append(list, text)
			}
		}
	}
	return list
}

// wholeUUID returns a UUID in lower case with hyphens.
func wholeUUID(id string) (string, bool) {
	uuid, ok := functionID(id)
	return uuid, ok && len(id) <= len(uuid)
}

// reportedRegionTrait returns the form in which drivers report a trait of a region on providers of a class,
// which may be unknown: drivers that report the class FPGA write the UUID without separators,
// drivers of the Rocky specifications with underscores. Other traits are returned unchanged.
func reportedRegionTrait(name, class string) string {
	r, ok := parseRegionTrait(name)
	uuid, isUUID := functionID(r.id)
	if !ok || !isUUID {
		return name
	}
	shipped := r.kind == "FUNCTION_ID" || r.kind == "REGION" && !r.vendorFirst && !strings.Contains(r.id, "_")
	switch class {
	case "FPGA":
		shipped = true
	case rockyClass + "FPGA":
		shipped = false
	}
	kind := strings.TrimSuffix(r.kind, "_ID")
	if shipped {
		if kind == "FUNCTION" {
			kind = "FUNCTION_ID"
		}
		return "CUSTOM_FPGA_" + kind + "_" + r.vendor + "_" + strings.ToUpper(strings.ReplaceAll(uuid, "-", ""))
	}
	words := []string{kind, r.vendor}
	if r.vendorFirst {
		words = []string{r.vendor, kind}
	}
	return "CUSTOM_FPGA_" + strings.Join(words, "_") + "_" + NormalizeTrait(uuid)
}
