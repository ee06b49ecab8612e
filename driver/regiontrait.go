package driver

import (
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// What a trait of a region names.
const (
	kindFunction = "FUNCTION"
	kindRegion   = "REGION"
)

// FunctionTrait returns the trait of a function that is loaded into a region of an FPGA. An id that
// is a UUID, with or without separators, has one form in each shape: 32 hexadecimal digits in
// CUSTOM_FPGA_FUNCTION_ID_INTEL_<id>, as upstream's driver reads it from sysfs, and with underscores
// for hyphens in the names of the Rocky specifications. The error wraps ErrName.
func (s TraitShape) FunctionTrait(vendor, id string) (string, error) {
	return s.regionTrait(TypeFPGA, vendor, kindFunction, id)
}

// RegionTrait returns the trait of the type of a region, as FunctionTrait does for a function.
func (s TraitShape) RegionTrait(vendor, id string) (string, error) {
	return s.regionTrait(TypeFPGA, vendor, kindRegion, id)
}

func (s TraitShape) regionTrait(typ, vendor, kind, id string) (string, error) {
	parsed, err := uuid.Parse(id)
	isUUID := err == nil
	if isUUID {
		id = parsed.String()
	}
	switch s {
	case ShapeRockyScheduling:
		return CustomName(typ, kind, vendor, id)
	case ShapeRockyAgent:
		return CustomName(typ, vendor, kind, id)
	}
	if isUUID {
		id = bareID(id)
	}
	if kind == kindFunction {
		return CustomName(typ, kind, "ID", vendor, id)
	}
	return CustomName(typ, kind, vendor, id)
}

// The traits of regions in every shape. A vendor is one word.
var (
	functionForm = regexp.MustCompile(`^CUSTOM_FPGA_(?:FUNCTION_ID_[A-Z0-9]+|FUNCTION_[A-Z0-9]+|[A-Z0-9]+_FUNCTION)_(.+)$`)
	regionForm   = regexp.MustCompile(`^CUSTOM_FPGA_(?:REGION_[A-Z0-9]+|[A-Z0-9]+_REGION)_(.+)$`)
)

// IsFunctionTrait reports whether a trait names a function, in any shape or without a vendor.
func IsFunctionTrait(trait string) bool { return isRegionTrait(trait, kindFunction) }

// IsRegionTrait reports whether a trait names a type of region, in any shape or without a vendor.
func IsRegionTrait(trait string) bool { return isRegionTrait(trait, kindRegion) }

func isRegionTrait(trait, kind string) bool {
	return strings.HasPrefix(trait, "CUSTOM_FPGA_") && strings.Contains(trait, "_"+kind+"_")
}

// NamesFunction reports whether a trait names the function. Separators in the id do not matter.
func NamesFunction(trait, id string) bool { return namesID(trait, kindFunction, functionForm, id) }

// NamesRegion is NamesFunction for the type of a region.
func NamesRegion(trait, id string) bool { return namesID(trait, kindRegion, regionForm, id) }

func namesID(trait, kind string, form *regexp.Regexp, id string) bool {
	if !isRegionTrait(trait, kind) || id == "" {
		return false
	}
	_, text, _ := strings.Cut(trait, "_"+kind+"_")
	if m := form.FindStringSubmatch(trait); m != nil {
		text = m[1]
	}
	have, want := bareID(text), bareID(id)
	// the vendor may have several words before a UUID
	return have == want || uuid.Validate(want) == nil && strings.HasSuffix(have, want)
}

var withoutSeparators = strings.NewReplacer("_", "", "-", "", " ", "")

// bareID is an id in capitals and without separators.
func bareID(id string) string {
	return strings.ToUpper(withoutSeparators.Replace(id))
}
