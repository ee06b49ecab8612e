package fakecyborg

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The prefixes of the keys of a group.
const (
	prefixResources = "resources:"
	prefixTrait     = "trait:"
	prefixAccel     = "accel:"
)

// maxRequests is how many requests one profile may stand for. Upstream has no
// limit; one body could otherwise fill the memory.
const maxRequests = 1024

// groupItem is one entry of a group; the value is nil for JSON's null.
type groupItem struct {
	key   string
	value *string
}

// group is one group of a device profile in the order in which it was given,
// since upstream takes the first resource class for the one that matters.
type group []groupItem

// MarshalJSON writes an object in the group's order.
func (g group) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, item := range g {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(jsonText(item.key))
		b.WriteByte(':')
		b.WriteString(jsonText(item.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plain is the group as a map, with null as the empty text.
func (g group) plain() map[string]string {
	m := make(map[string]string, len(g))
	for _, item := range g {
		m[item.key] = ""
		if item.value != nil {
			m[item.key] = *item.value
		}
	}
	return m
}

func (g group) get(key string) (string, bool) {
	for _, item := range g {
		if item.key == key && item.value != nil {
			return *item.value, true
		}
	}
	return "", false
}

// firstClass is the resource class that decides how requests of the group are
// bound.
func (g group) firstClass() string {
	for _, item := range g {
		if class, ok := strings.CutPrefix(item.key, prefixResources); ok {
			return class
		}
	}
	return ""
}

// image is the FPGA image that a group wants on its device: a bitstream by its
// id in Glance, or the one image that has a function.
type image struct {
	bitstream, function string
}

// wanted reports whether there is an image at all.
func (i image) wanted() bool { return i != image{} }

// image is what the group wants programmed. Upstream looks for it only if the
// first class is FPGA; naming both kinds is refused when the request is bound,
// in upstream's words, braces included.
func (g group) image() (image, error) {
	if g.firstClass() != "FPGA" {
		return image{}, nil
	}
	var i image
	i.bitstream, _ = g.get(prefixAccel + "bitstream_id")
	i.function, _ = g.get(prefixAccel + "function_id")
	if i.bitstream != "" && i.function != "" {
		return image{}, refuse(kindInvalid, "In device profile {0}, only one among bitstream_id and function_id must be set, but both are set")
	}
	return i, nil
}

// requests is how many accelerator requests the group makes: the sum of its
// amounts, or twice the FPGAs for Xilinx cards, which have a management and a
// user function (cyborg/objects/ext_arq.py).
func (g group) requests() int {
	if value, _ := g.get("trait:CUSTOM_FPGA_XILINX"); value == "required" {
		amount, _ := g.get("resources:FPGA")
		return 2 * amountOf(amount)
	}
	total := 0
	for _, item := range g {
		if strings.HasPrefix(item.key, prefixResources) && item.value != nil {
			total += amountOf(*item.value)
		}
	}
	return total
}

// amountOf is a stored amount; negative ones count, as upstream sums them.
func amountOf(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n > math.MaxInt32 || n < math.MinInt32 {
		return 0
	}
	return n
}

// traitName is what Placement takes for a custom trait.
var traitName = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)

// cyborgClasses are the classes a profile may ask for beside CUSTOM_ ones.
var cyborgClasses = []string{"FPGA", "GPU", "VGPU", "PGPU", "CUSTOM_QAT", "CUSTOM_NIC", "CUSTOM_SSD"}

// normalize checks the entries as upstream's _validate_groups does and trims
// blanks: a trimmed key moves to the end of its group.
func (g group) normalize() (group, error) {
	kept, moved := group{}, group{}
	for _, item := range g {
		prefix := prefixOf(item.key)
		if prefix == "" {
			return nil, refuse(kindInvalid, "Device profile group keys must be of the form ^(resources:|trait:|accel:)")
		}
		if prefix == prefixAccel {
			kept = append(kept, item)
			continue
		}
		name := strings.TrimSpace(strings.TrimPrefix(item.key, prefix))
		if err := checkItem(prefix, name, item.value); err != nil {
			return nil, err
		}
		if key := prefix + name; key != item.key {
			moved = append(moved, groupItem{key, item.value})
			continue
		}
		kept = append(kept, item)
	}
	for _, item := range moved {
		kept = slices.DeleteFunc(kept, func(k groupItem) bool { return k.key == item.key })
		kept = append(kept, item)
	}
	return kept, nil
}

func prefixOf(key string) string {
	for _, prefix := range []string{prefixResources, prefixTrait, prefixAccel} {
		if strings.HasPrefix(key, prefix) {
			return prefix
		}
	}
	return ""
}

func checkItem(prefix, name string, value *string) error {
	if prefix == prefixTrait {
		return checkTraitItem(name, value)
	}
	if !slices.Contains(cyborgClasses, name) && !strings.HasPrefix(name, "CUSTOM_") {
		return refuse(kindInvalid, "Unsupported resource class %s", name)
	}
	if value == nil {
		return refuse(kindUncoded, "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'")
	}
	if n, err := strconv.Atoi(strings.TrimSpace(*value)); err != nil || n > math.MaxInt32 || n < math.MinInt32 {
		return refuse(kindInvalid, "Resources number %s is invalid", *value)
	}
	return nil
}

func checkTraitItem(name string, value *string) error {
	if !strings.HasPrefix(name, "CUSTOM_") {
		return refuse(kindInvalid, "Unsupported trait name format %s, should start with CUSTOM_", name)
	}
	if value == nil || *value != "required" && *value != "forbidden" {
		shown := "None"
		if value != nil {
			shown = *value
		}
		return refuse(kindInvalid, "Unsupported trait value %s, the value must be one among %s", shown, pythonList("required", "forbidden"))
	}
	return nil
}

// strict refuses what upstream stores and Placement or Nova then cannot use.
func (g group) strict(index int) error {
	classes := 0
	for _, item := range g {
		if name, ok := strings.CutPrefix(item.key, prefixTrait); ok && !traitName.MatchString(name) {
			return refuse(kindInvalid, "Device profile group %d: trait name %s has other characters than A-Z, 0-9 and _", index, name)
		}
		name, ok := strings.CutPrefix(item.key, prefixResources)
		if !ok {
			continue
		}
		classes++
		if strings.HasPrefix(name, "CUSTOM_") && !traitName.MatchString(name) {
			return refuse(kindInvalid, "Device profile group %d: resource class %s has other characters than A-Z, 0-9 and _", index, name)
		}
		if amountOf(*item.value) < 1 {
			return refuse(kindInvalid, "Device profile group %d: %s is %s, must be at least 1", index, item.key, *item.value)
		}
	}
	if classes == 0 {
		return refuse(kindInvalid, "Device profile group %d asks for no resources", index)
	}
	return nil
}
