package store

import (
	"iter"
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
	// PrefixAccel starts the keys that Cyborg alone reads.
	PrefixAccel = "accel:"
)

// maxRequests is how many requests one profile may make. Upstream has no limit.
const maxRequests = 1024

// GroupItem is one entry of a group; the value is nil for JSON's null.
type GroupItem struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

// Group is one group of a device profile in its order, since upstream binds by the first resource
// class.
type Group []GroupItem

// Map is the group as a map, with null as the empty text.
func (g Group) Map() map[string]string {
	m := make(map[string]string, len(g))
	for _, item := range g {
		m[item.Key] = ""
		if item.Value != nil {
			m[item.Key] = *item.Value
		}
	}
	return m
}

func (g Group) get(key string) (string, bool) {
	for _, item := range g {
		if item.Key == key && item.Value != nil {
			return *item.Value, true
		}
	}
	return "", false
}

// memoryClass starts the resource classes of a device's own memory (Rocky specification), which have
// no attach handles.
const memoryClass = "CUSTOM_ACCELERATOR_MEMORY_"

// firstClass is the resource class that decides how requests of the group are bound. Upstream does not
// know memory classes.
func (g Group) firstClass(quirks bool) string {
	for _, item := range g {
		class, ok := strings.CutPrefix(item.Key, prefixResources)
		if ok && (quirks || !strings.HasPrefix(class, memoryClass)) {
			return class
		}
	}
	return ""
}

// programmable reports whether devices of the group's class are programmed. Upstream does not know the
// class of the Rocky specification.
func (g Group) programmable(quirks bool) bool {
	class := g.firstClass(quirks)
	return class == "FPGA" || class == "CUSTOM_ACCELERATOR_FPGA" && !quirks
}

// traits iterates over the traits of the group, with true for those that it requires and false for those that it forbids.
func (g Group) traits() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, item := range g {
			trait, ok := strings.CutPrefix(item.Key, prefixTrait)
			if ok && item.Value != nil && !yield(trait, *item.Value == "required") {
				return
			}
		}
	}
}

// lacksFunction reports whether the group requires the trait of a function that is not among those of a region.
func (g Group) lacksFunction(traits []string) bool {
	for trait, required := range g.traits() {
		if required && driver.IsFunctionTrait(trait) && !slices.Contains(traits, trait) {
			return true
		}
	}
	return false
}

// requests is how many accelerator requests the group makes: the sum of its amounts, or twice the FPGAs
// for Xilinx cards, which have a management and a user function (cyborg/objects/ext_arq.py). Memory
// makes requests only upstream.
func (g Group) requests(quirks bool) int {
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
		if !strings.HasPrefix(item.Key, prefixResources) || item.Value == nil {
			continue
		}
		if quirks || !strings.HasPrefix(item.Key, prefixResources+memoryClass) {
			total += amountOf(*item.Value)
		}
	}
	return total
}

// amountOf is a stored amount, which may be negative.
func amountOf(text string) int {
	n, err := parseAmount(text)
	if err != nil {
		return 0
	}
	return int(n)
}

// parseAmount reads a number of the width of upstream's column.
func parseAmount(text string) (int64, error) {
	return strconv.ParseInt(strings.TrimSpace(text), 10, 32)
}

// traitName is the form of a custom trait or resource class in Placement.
var traitName = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)

// cyborgClasses are the classes a profile may ask for beside CUSTOM_ ones.
var cyborgClasses = []string{"FPGA", "GPU", "VGPU", "PGPU", "CUSTOM_QAT", "CUSTOM_NIC", "CUSTOM_SSD"}

// ErrNoResources refuses a group that asks for nothing.
var ErrNoResources error = &Refusal{Invalid, "Device profile group must contain at least one 'resources:' key."}

// asks reports whether the group has resources.
func (g Group) asks() bool {
	return slices.ContainsFunc(g, func(item GroupItem) bool { return strings.HasPrefix(item.Key, prefixResources) })
}

// Normalize checks the entries as upstream's _validate_groups does and trims blanks: a
// trimmed key moves to the end of its group.
func (g Group) Normalize(needsResources bool) (Group, error) {
	if needsResources && !g.asks() {
		return nil, ErrNoResources
	}
	kept, moved := Group{}, Group{}
	for _, item := range g {
		prefix := prefixOf(item.Key)
		if prefix == "" {
			return nil, Refuse(Invalid, "Device profile group keys must be of the form ^(resources:|trait:|accel:)")
		}
		if prefix == PrefixAccel {
			kept = append(kept, item)
			continue
		}
		name := strings.TrimSpace(strings.TrimPrefix(item.Key, prefix))
		if err := checkItem(prefix, name, item.Value); err != nil {
			return nil, err
		}
		if key := prefix + name; key != item.Key {
			moved = append(moved, GroupItem{key, item.Value})
			continue
		}
		kept = append(kept, item)
	}
	for _, item := range moved {
		kept = slices.DeleteFunc(kept, func(k GroupItem) bool { return k.Key == item.Key })
		kept = append(kept, item)
	}
	return kept, nil
}

func prefixOf(key string) string {
	for _, prefix := range []string{prefixResources, prefixTrait, PrefixAccel} {
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
		return Refuse(Invalid, "Unsupported resource class %s", name)
	}
	if value == nil {
		return Refuse(Uncoded, "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'")
	}
	if _, err := parseAmount(*value); err != nil {
		return Refuse(Invalid, "Resources number %s is invalid", *value)
	}
	return nil
}

func checkTraitItem(name string, value *string) error {
	if !strings.HasPrefix(name, "CUSTOM_") && name != driver.TraitOwnerCyborg {
		return Refuse(Invalid, "Unsupported trait name format %s, should start with CUSTOM_", name)
	}
	if value == nil || *value != "required" && *value != "forbidden" {
		shown := "None"
		if value != nil {
			shown = *value
		}
		return Refuse(Invalid, "Unsupported trait value %s, the value must be one among %s", shown, PythonList("required", "forbidden"))
	}
	return nil
}

// checkUsable refuses what upstream stores although Placement or Nova cannot use it.
func (g Group) checkUsable(index int) error {
	for _, item := range g {
		if name, ok := strings.CutPrefix(item.Key, prefixTrait); ok && name != driver.TraitOwnerCyborg && !traitName.MatchString(name) {
			return Refuse(Invalid, "Device profile group %d: trait name %s has other characters than A-Z, 0-9 and _", index, name)
		}
		name, ok := strings.CutPrefix(item.Key, prefixResources)
		if !ok {
			continue
		}
		if strings.HasPrefix(name, "CUSTOM_") && !traitName.MatchString(name) {
			return Refuse(Invalid, "Device profile group %d: resource class %s has other characters than A-Z, 0-9 and _", index, name)
		}
		if amountOf(*item.Value) < 1 {
			return Refuse(Invalid, "Device profile group %d: %s is %s, must be at least 1", index, item.Key, *item.Value)
		}
	}
	return nil
}
