package requestspec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rockyClass is the prefix of the resource classes of the Rocky specification:
// CUSTOM_ACCELERATOR_<device type>.
const rockyClass = "CUSTOM_ACCELERATOR_"

// Rocky is a converted flavor of the Rocky specification.
type Rocky struct {
	// Flavor is the flavor without its accelerators; it names Profile.
	Flavor Flavor `json:"flavor"`
	// Profile has to exist in Cyborg before the flavor is used.
	Profile Profile `json:"device_profile"`
	// Moved are the keys of the extra specs that moved to the profile, sorted.
	Moved []string `json:"moved"`
	// Warnings are entries that were interpreted.
	Warnings []Warning `json:"warnings,omitempty"`
}

// FromRocky converts a flavor of the Rocky specification of the Cyborg-Nova
// scheduling, which has no device profile, to a flavor with a device profile. Shipped
// Nova claims plain custom resources for such a flavor and makes no accelerator
// requests. ok is false for a flavor that names a device profile or requests no
// CUSTOM_ACCELERATOR_<device type>.
//
// These extra specs become entries of a group:
//   - resources:CUSTOM_ACCELERATOR_<type>=<n>, including memory of the device
//     (CUSTOM_ACCELERATOR_MEMORY_<type>). Without a number in the key each device
//     type becomes a group; memory then needs a single type;
//   - trait:<name>=required or forbidden. Without a number only traits of a device move:
//     CUSTOM_PROGRAMMABLE and CUSTOM_<type>_...; others belong to the host. The hyphens of the
//     specification, which Placement refuses, become underscores, with a warning;
//   - function:CUSTOM_FPGA_FUNCTION_<vendor>_<uuid>=required is accel:function_id
//     with the UUID, function_name:<name>=required is accel:function_name,
//     bitstream:<uuid>=required, or bitstream_id, is accel:bitstream_id and
//     bitstream_name:<name>=required is accel:bitstream_name; one of them per group;
//   - resourcesN, traitsN (or traitN) and othersN, N from 1 on: the group N with
//     all its resources, traits and othersN:function:... and the like. A group N
//     without an accelerator remains with the flavor.
//
// The groups of the profile are in the order of their numbers, the one without a
// number first. group_policy remains with the flavor. The name of the profile is
// rocky-<flavor>-<eight digits of its groups>, so that a changed flavor gets another
// profile: Cyborg cannot change one.
//
// With shippedClasses the profile has the classes of Cyborg's drivers, such as FPGA for
// CUSTOM_ACCELERATOR_FPGA. Shipped Cyborg programs only devices of the class FPGA.
//
// Errors match [ErrInvalidFlavor], or [ErrInvalidProfile] for a group that no device
// can serve, and name key and value.
func FromRocky(flavor Flavor, shippedClasses bool) (converted Rocky, ok bool, err error) {
	if _, named := flavor.DeviceProfile(); named {
		return Rocky{}, false, nil
	}
	r := rockyReader{flavor: flavor, shipped: shippedClasses, groups: map[int]*rockyGroup{}}
	if err := r.read(); err != nil {
		return Rocky{}, false, err
	}
	if !r.accelerated() {
		return Rocky{}, false, nil
	}
	if err := r.convert(); err != nil {
		return Rocky{}, false, err
	}
	return r.result()
}

// NormalizeTrait returns a trait name in the form that Placement accepts: upper case,
// with underscores for hyphens and spaces. The specifications write CUSTOM_HPTS-ZTE
// and lower-case UUIDs.
func NormalizeTrait(name string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(strings.TrimSpace(name)))
}

// functionUUID matches the UUID at the end of the name of a function, with hyphens,
// underscores or neither.
var functionUUID = regexp.MustCompile(`(?i)(?:^|_)([0-9a-f]{8})[-_]?([0-9a-f]{4})[-_]?([0-9a-f]{4})[-_]?([0-9a-f]{4})[-_]?([0-9a-f]{12})$`)

// functionID returns the UUID of a function trait, such as
// CUSTOM_FPGA_FUNCTION_INTEL_<uuid>, in lower case with hyphens, as in the image
// property accel:function_id; ok is false if the name does not end in one.
func functionID(trait string) (string, bool) {
	m := functionUUID.FindStringSubmatch(trait)
	if m == nil {
		return "", false
	}
	return strings.ToLower(strings.Join(m[1:], "-")), true
}

// Commands returns the command lines that create the device profile and change the
// flavor.
func (r Rocky) Commands() ([]string, error) {
	groups, err := json.Marshal(r.Profile.Groups)
	if err != nil {
		return nil, err
	}
	unset := []string{"openstack", "flavor", "unset", quote(r.Flavor.Name)}
	for _, key := range r.Moved {
		unset = append(unset, "--property", quote(key))
	}
	return []string{
		"openstack accelerator device profile create " + quote(r.Profile.Name) + " " + quote(string(groups)),
		"openstack flavor set " + quote(r.Flavor.Name) + " --property " + DeviceProfileKey + "=" + quote(r.Profile.Name),
		strings.Join(unset, " "),
	}, nil
}

// plainWord matches words that need no quotes in a shell.
var plainWord = regexp.MustCompile(`^[a-zA-Z0-9_.:/=@%+-]+$`)

func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// rockyReader converts one flavor.
type rockyReader struct {
	flavor   Flavor
	shipped  bool                // use the classes of Cyborg's drivers
	groups   map[int]*rockyGroup // by number, 0 for keys without one
	moved    []string
	profile  []map[string]string
	warnings []Warning
}

// rockyGroup has the entries of one number.
type rockyGroup struct {
	resources, traits, others []rockyEntry
}

// rockyEntry is a parsed extra spec.
type rockyEntry struct{ key, text, kind, name, value string }

func (r *rockyReader) errorf(e rockyEntry, format string, args ...any) error {
	return r.flavor.errorf("extra spec %q=%q: %s", e.key, e.text, fmt.Sprintf(format, args...))
}

func (r *rockyReader) warn(e rockyEntry, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{Key: e.key, Value: e.text, Message: fmt.Sprintf(format, args...)})
}

// read assigns the extra specs of accelerators to their groups.
func (r *rockyReader) read() error {
	for _, key := range slices.Sorted(maps.Keys(r.flavor.ExtraSpecs)) {
		number, e, ok := parseRocky(key, r.flavor.ExtraSpecs[key])
		if !ok {
			if strings.HasPrefix(key, "others") {
				r.warn(e, "This extra spec is ignored; othersN takes function:, function_name:, bitstream: or bitstream_name:.")
			}
			continue
		}
		g := r.groups[number]
		if g == nil {
			g = &rockyGroup{}
			r.groups[number] = g
		}
		switch e.kind {
		case prefixResources:
			g.resources = append(g.resources, e)
		case prefixTrait:
			g.traits = append(g.traits, e)
		default:
			if e.value != traitRequired {
				return r.errorf(e, "want the value %q", traitRequired)
			}
			g.others = append(g.others, e)
		}
	}
	return nil
}

// accelerated reports whether the flavor requests an accelerator or programming.
func (r *rockyReader) accelerated() bool {
	for _, g := range r.groups {
		if g.accelerated() || len(g.others) > 0 {
			return true
		}
	}
	return false
}

func (g *rockyGroup) accelerated() bool {
	return slices.ContainsFunc(g.resources, func(e rockyEntry) bool { return strings.HasPrefix(e.name, rockyClass) })
}

func (r *rockyReader) convert() error {
	for _, number := range slices.Sorted(maps.Keys(r.groups)) {
		g := r.groups[number]
		switch {
		case !g.accelerated() && len(g.others) > 0:
			return r.errorf(g.others[0], "there is no resources%s of a class %s<device type> for it", strings.TrimPrefix(strconv.Itoa(number), "0"), rockyClass)
		case !g.accelerated():
			continue
		}
		var err error
		if number == 0 {
			err = r.convertUnsuffixed(g)
		} else {
			err = r.convertNumbered(g)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// convertNumbered moves the whole group.
func (r *rockyReader) convertNumbered(g *rockyGroup) error {
	entries := map[string]string{}
	for _, e := range g.resources {
		if err := r.addResource(entries, e); err != nil {
			return err
		}
	}
	for _, e := range g.traits {
		if err := r.addTrait(entries, e); err != nil {
			return err
		}
	}
	if err := r.addOthers(entries, g.others); err != nil {
		return err
	}
	r.profile = append(r.profile, entries)
	return nil
}

// convertUnsuffixed moves the entries of devices, one group per type of device.
func (r *rockyReader) convertUnsuffixed(g *rockyGroup) error {
	groups, err := r.byDevice(g)
	if err != nil {
		return err
	}
	types := slices.Sorted(maps.Keys(groups))
	for _, e := range g.traits {
		if typ := deviceOf(NormalizeTrait(e.name), types); typ != "" {
			if err := r.addTrait(groups[typ], e); err != nil {
				return err
			}
		} else if strings.HasPrefix(e.name, customPrefix) {
			r.warn(e, "The trait remains with the flavor, as one of the host. For a trait of the device, number the group: trait1:%s.", e.name)
		}
	}
	if len(g.others) > 0 {
		target := groups["FPGA"]
		if len(types) == 1 {
			target = groups[types[0]]
		}
		if target == nil {
			return r.errorf(g.others[0], "it is not clear to which of %s it belongs; number the groups and use othersN", strings.Join(types, ", "))
		}
		if err := r.addOthers(target, g.others); err != nil {
			return err
		}
	}
	for _, typ := range types {
		r.profile = append(r.profile, groups[typ])
	}
	return nil
}

// byDevice makes a group of each device type; memory needs a single one.
func (r *rockyReader) byDevice(g *rockyGroup) (map[string]map[string]string, error) {
	groups := map[string]map[string]string{}
	var memory []rockyEntry
	for _, e := range g.resources {
		typ, ok := strings.CutPrefix(e.name, rockyClass)
		switch {
		case !ok:
			continue
		case strings.HasPrefix(e.name, memoryClass):
			memory = append(memory, e)
			continue
		}
		groups[typ] = map[string]string{}
		if err := r.addResource(groups[typ], e); err != nil {
			return nil, err
		}
	}
	for _, e := range memory {
		if len(groups) != 1 {
			return nil, r.errorf(e, "it is not clear to which device the memory belongs; number the groups: resources1:%s", e.name)
		}
		for _, entries := range groups {
			if err := r.addResource(entries, e); err != nil {
				return nil, err
			}
		}
	}
	return groups, nil
}

// deviceOf returns the device type that a trait belongs to, or "" for a trait of the
// host.
func deviceOf(trait string, types []string) string {
	for _, typ := range types {
		if trait == customPrefix+typ || strings.HasPrefix(trait, customPrefix+typ+"_") {
			return typ
		}
	}
	if trait == "CUSTOM_PROGRAMMABLE" {
		if slices.Contains(types, "FPGA") {
			return "FPGA"
		}
		if len(types) == 1 {
			return types[0]
		}
	}
	return ""
}

// move adds an extra spec to a group of the profile; a duplicate is an error.
func (r *rockyReader) move(entries map[string]string, key, value string, e rockyEntry) error {
	if _, twice := entries[key]; twice {
		return r.errorf(e, "it has the same meaning as another extra spec, %s", key)
	}
	entries[key] = value
	r.moved = append(r.moved, e.key)
	return nil
}

func (r *rockyReader) addResource(entries map[string]string, e rockyEntry) error {
	if !strings.HasPrefix(e.name, customPrefix) {
		return r.errorf(e, "a group of a device profile cannot request %s; put it into a group of another number", e.name)
	}
	amount, err := parseAmount(e.value)
	switch {
	case errors.Is(err, errTooLarge):
		return r.errorf(e, "the amount is %v", err)
	case err != nil || amount == 0:
		return r.errorf(e, "the amount is not a positive integer")
	}
	return r.move(entries, "resources:"+r.class(e.name), fmt.Sprint(amount), e)
}

// class returns the resource class to request.
func (r *rockyReader) class(name string) string {
	if !r.shipped {
		return name
	}
	shipped := map[string]string{"FPGA": "FPGA", "GPU": "PGPU", "PGPU": "PGPU", "VGPU": "VGPU", "QAT": "CUSTOM_QAT", "NIC": "CUSTOM_NIC", "SSD": "CUSTOM_SSD"}
	return cmp.Or(shipped[strings.TrimPrefix(name, rockyClass)], name)
}

func (r *rockyReader) addTrait(entries map[string]string, e rockyEntry) error {
	name := NormalizeTrait(e.name)
	switch {
	case !strings.HasPrefix(name, customPrefix) || !validTrait(name):
		return r.errorf(e, "a device profile only takes traits of the form CUSTOM_<capitals, digits, underscores>")
	case e.value != traitRequired && e.value != traitForbidden:
		return r.errorf(e, "want the value %q or %q", traitRequired, traitForbidden)
	case name != e.name:
		r.warn(e, "This is not a valid trait name; %s is used.", name)
	}
	if reported := reportedRegionTrait(name, "FPGA"); r.shipped && reported != name {
		r.warn(e, "Cyborg's drivers report %s with the class FPGA.", reported)
	}
	return r.move(entries, "trait:"+name, e.value, e)
}

// addOthers adds the bitstream or function that Cyborg has to program.
func (r *rockyReader) addOthers(entries map[string]string, others []rockyEntry) error {
	for i, e := range others {
		if i > 0 {
			return r.errorf(e, "only one function or bitstream per group, and there is %q", others[0].key)
		}
		key, value := "accel:"+e.kind, e.name
		if e.kind == "function" {
			id, ok := functionID(e.name)
			if !ok {
				return r.errorf(e, "want a name that ends in the UUID of the function, such as CUSTOM_FPGA_FUNCTION_<vendor>_<uuid>")
			}
			key, value = "accel:function_id", id
		}
		if err := r.move(entries, key, value, e); err != nil {
			return err
		}
	}
	return nil
}

// result makes the flavor and the profile.
func (r *rockyReader) result() (Rocky, bool, error) {
	name := r.profileName()
	profile := Profile{Name: name, Groups: r.profile}
	if len(r.flavor.Name) <= maxName {
		profile.Description = "Converted from flavor " + r.flavor.Name
	}
	if _, err := ParseProfile(name, r.profile); err != nil {
		return Rocky{}, false, fmt.Errorf("%w, converted from flavor %q", err, r.flavor.Name)
	}
	flavor := r.flavor
	flavor.ExtraSpecs = maps.Clone(r.flavor.ExtraSpecs)
	slices.Sort(r.moved)
	for _, key := range r.moved {
		delete(flavor.ExtraSpecs, key)
	}
	flavor.ExtraSpecs[DeviceProfileKey] = name
	return Rocky{Flavor: flavor, Profile: profile, Moved: r.moved, Warnings: r.warnings}, true, nil
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// profileName derives the profile's name from the names of the flavor and its groups.
func (r *rockyReader) profileName() string {
	groups, err := json.Marshal(r.profile)
	if err != nil { // maps of strings always encode
		return ""
	}
	sum := sha256.Sum256(groups)
	name := notInName.ReplaceAllString(r.flavor.Name, "-")
	return "rocky-" + name[:min(len(name), 200)] + "-" + hex.EncodeToString(sum[:4])
}
