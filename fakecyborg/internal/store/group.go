package store

import (
	"iter"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/schema"
)

// The prefixes of the keys of a group.
const (
	PrefixResources = "resources:"
	PrefixTrait     = "trait:"
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
		class, ok := strings.CutPrefix(item.Key, PrefixResources)
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
			trait, ok := strings.CutPrefix(item.Key, PrefixTrait)
			if ok && item.Value != nil && !yield(trait, *item.Value == "required") {
				return
			}
		}
	}
}

// lacksFunction reports whether the group requires a function trait that a region lacks.
func (g Group) lacksFunction(traits []string) bool {
	for trait, required := range g.traits() {
		if required && driver.IsFunctionTrait(trait) && !slices.Contains(traits, trait) {
			return true
		}
	}
	return false
}

// requests returns how many accelerator requests the group makes: the sum of its amounts, or twice the FPGAs for
// Xilinx cards, which have a management and a user function (cyborg/objects/ext_arq.py). Memory makes requests only
// upstream. The error is upstream's for a stored amount that it cannot read.
func (g Group) requests(quirks bool) (total int, err error) {
	if value, _ := g.get("trait:CUSTOM_FPGA_XILINX"); value == "required" {
		amount, ok := g.get("resources:FPGA")
		if other, old := g.get("resources:CUSTOM_ACCELERATOR_FPGA"); old && !quirks {
			total, _ = ParseInteger(other)
		} else if !ok {
			return 0, Refuse(Uncoded, "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'")
		}
		if ok {
			n, err := ParseInteger(amount)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return 2 * total, nil
	}
	for _, item := range g {
		if !strings.HasPrefix(item.Key, PrefixResources) || item.Value == nil || !quirks && strings.HasPrefix(item.Key, PrefixResources+memoryClass) {
			continue
		}
		n, err := ParseInteger(*item.Value)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// ParseInteger reads a number as Python's int() does, with its error. The result lies between -[math.MaxInt32] and [math.MaxInt32].
func ParseInteger(text string) (int, error) {
	n, ok := schema.ParseInt(text)
	if !ok {
		return 0, Refuse(Uncoded, "invalid literal for int() with base 10: %s", schema.Repr(text))
	}
	if n.CmpAbs(big.NewInt(math.MaxInt32)) > 0 {
		return n.Sign() * math.MaxInt32, nil
	}
	return int(n.Int64()), nil
}

// traitName is the form of a custom trait or resource class in Placement.
var traitName = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)

// ErrNoResources refuses a group that asks for nothing.
var ErrNoResources error = &Refusal{Invalid, "Device profile group must contain at least one 'resources:' key."}

// asks reports whether the group has resources.
func (g Group) asks() bool {
	return slices.ContainsFunc(g, func(item GroupItem) bool { return strings.HasPrefix(item.Key, PrefixResources) })
}

// Trim removes blanks around the names of traits and resource classes, as upstream's _validate_post_request does: a
// trimmed key moves to the end of its group.
func (g Group) Trim() Group {
	kept, moved := Group{}, Group{}
	for _, item := range g {
		key := item.Key
		for _, prefix := range []string{PrefixResources, PrefixTrait} {
			if name, ok := strings.CutPrefix(item.Key, prefix); ok {
				key = prefix + strings.Trim(name, " ")
			}
		}
		if key != item.Key {
			moved = append(moved, GroupItem{key, item.Value})
			continue
		}
		kept = append(kept, item)
	}
	for _, item := range moved {
		kept = slices.DeleteFunc(kept, func(k GroupItem) bool { return k.Key == item.Key })
		kept = append(kept, item)
	}
	return kept
}

// decimal is the form of a number that clients in any language read.
var decimal = regexp.MustCompile(`^[+-]?[0-9]+$`)

// checkUsable refuses what upstream stores although Placement or Nova cannot use it.
func (g Group) checkUsable(index int) error {
	_, asks := g.get("resources:FPGA")
	_, asksOld := g.get("resources:CUSTOM_ACCELERATOR_FPGA")
	if value, _ := g.get("trait:CUSTOM_FPGA_XILINX"); value == "required" && !asks && !asksOld {
		return Refuse(Invalid, "Device profile group %d requires CUSTOM_FPGA_XILINX and asks for no FPGA", index)
	}
	for _, item := range g {
		if name, ok := strings.CutPrefix(item.Key, PrefixTrait); ok && name != driver.TraitOwnerCyborg && !traitName.MatchString(name) {
			return Refuse(Invalid, "Device profile group %d: trait name %s has other characters than A-Z, 0-9 and _", index, name)
		}
		name, ok := strings.CutPrefix(item.Key, PrefixResources)
		if !ok {
			continue
		}
		if strings.HasPrefix(name, "CUSTOM_") && !traitName.MatchString(name) {
			return Refuse(Invalid, "Device profile group %d: resource class %s has other characters than A-Z, 0-9 and _", index, name)
		}
		if n, _ := ParseInteger(*item.Value); n < 1 || !decimal.MatchString(strings.TrimSpace(*item.Value)) {
			return Refuse(Invalid, "Device profile group %d: %s is %s, must be a number of at least 1", index, item.Key, *item.Value)
		}
	}
	return nil
}
