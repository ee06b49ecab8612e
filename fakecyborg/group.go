package fakecyborg

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
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

// UnmarshalJSON reads such an object. The error names what is no text.
func (g *group) UnmarshalJSON(data []byte) error {
	fields, err := decodeObject(data)
	if err != nil {
		return err
	}
	items := make(group, 0, len(fields))
	for _, f := range fields {
		item := groupItem{key: f.key}
		if jsonKind(f.value) != 'n' {
			var text string
			if err := json.Unmarshal(f.value, &text); err != nil {
				return fmt.Errorf("group: value of %s: %w", f.key, err)
			}
			item.value = &text
		}
		items = append(items, item)
	}
	*g = items
	return nil
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

// memoryClass starts the resource classes of a device's own memory (Rocky
// specification): they are claimed in Placement together with the device, and
// nobody attaches them.
const memoryClass = "CUSTOM_ACCELERATOR_MEMORY_"

// firstClass is the resource class that decides how requests of the group are
// bound. Upstream knows no memory classes and takes one for a device.
func (g group) firstClass(quirks bool) string {
	for _, item := range g {
		class, ok := strings.CutPrefix(item.key, prefixResources)
		if ok && (quirks || !strings.HasPrefix(class, memoryClass)) {
			return class
		}
	}
	return ""
}

// programmable reports whether devices of the group's class are programmed.
// Upstream looks at FPGA only, and not at the class of the Rocky specification.
func (g group) programmable(quirks bool) bool {
	class := g.firstClass(quirks)
	return class == "FPGA" || class == "CUSTOM_ACCELERATOR_FPGA" && !quirks
}

// requests is how many accelerator requests the group makes: the sum of its
// amounts, or twice the FPGAs for Xilinx cards, which have a management and a
// user function (cyborg/objects/ext_arq.py). Memory makes no request; quirks
// lets it, as upstream does.
func (g group) requests(quirks bool) int {
	if value, _ := g.get("trait:CUSTOM_FPGA_XILINX"); value == "required" {
		amount, _ := g.get("resources:FPGA")
		total := amountOf(amount)
		if other, ok := g.get("resources:CUSTOM_ACCELERATOR_FPGA"); ok && !quirks {
			total += amountOf(other)
		}
		return 2 * total
	}
	total := 0
	for _, item := range g {
		if !strings.HasPrefix(item.key, prefixResources) || item.value == nil {
			continue
		}
		if quirks || !strings.HasPrefix(item.key, prefixResources+memoryClass) {
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
	if !strings.HasPrefix(name, "CUSTOM_") && name != driver.TraitOwnerCyborg {
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
		if name, ok := strings.CutPrefix(item.key, prefixTrait); ok && name != driver.TraitOwnerCyborg && !traitName.MatchString(name) {
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
