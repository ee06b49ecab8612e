package requestspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/spelling"
)

// cyborgClasses are the resource classes that Cyborg accepts in a profile besides
// CUSTOM_ ones (cyborg/common/constants.py, RESOURCES).
var cyborgClasses = []string{"FPGA", "GPU", "VGPU", "PGPU", "CUSTOM_QAT", "CUSTOM_NIC", "CUSTOM_SSD"}

// lintProfile checks Cyborg's rules for a new profile, those of [ParseProfile], and
// the effects of the groups.
func lintProfile(profile Profile) []Finding {
	whole := findings{subject: fmt.Sprintf("device profile %q", profile.Name)}
	if !validProfileName(profile.Name) {
		whole.fail("name", profile.Name, "Cyborg refuses the name", profileNameRule)
	}
	if len(profile.Groups) == 0 {
		whole.fail("groups", "", "no groups; Cyborg refuses the profile", "add a group with resources:<class>")
	}
	var list []Finding
	devices := false
	for i, entries := range profile.Groups {
		g := &groupLint{findings: findings{subject: fmt.Sprintf("%s group %d", whole.subject, i)}, entries: entries, seen: map[string]string{}}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			g.entry(key, entries[key])
		}
		g.whole()
		devices = devices || g.classes == 0 || len(g.devices) > 0
		list = append(list, g.list...)
	}
	if !devices && len(profile.Groups) > 0 {
		whole.fail("", "", "it requests memory but no device", "add resources:FPGA, or the class of the device, to the group")
	}
	return append(whole.list, list...)
}

// groupLint checks one group of a profile.
type groupLint struct {
	findings
	entries map[string]string
	seen    map[string]string // meaning -> key
	classes int               // resource entries
	devices []string          // requested device classes
}

// entry checks one entry of the group.
func (g *groupLint) entry(key, value string) {
	k, ok := parseKey(key)
	switch {
	case key == "":
		g.fail("", "", fmt.Sprintf("the entry %q=%q has no key; Cyborg refuses it", key, value), "remove it")
	case ok && k.plural():
		g.fail(key, value, `Cyborg refuses "traits:"`, "use trait:"+k.name)
	case ok && k.suffix != "":
		g.fail(key, value, "keys of a device profile have no suffix; Cyborg refuses it, and Nova ignores the suffix", "use "+k.prefix+":"+k.name+" in a group of its own")
		g.duplicate(key, value, k)
	case ok:
		g.duplicate(key, value, k)
		g.known(key, value, k)
	case strings.HasPrefix(key, "accel:"):
		g.accel(key, value)
	default:
		suggestion, problem := strayKey(key)
		if problem == "" {
			suggestion = "remove it, or use resources:<class>, trait:<trait> or accel:<key>"
		}
		g.fail(key, value, "Cyborg refuses keys that do not start with resources:, trait: or accel:", suggestion)
	}
}

// duplicate finds keys with the same meaning for Nova.
func (g *groupLint) duplicate(key, value string, k specKey) {
	meaning := k.prefix + ":" + strings.TrimSpace(k.name)
	if other, twice := g.seen[meaning]; twice {
		g.fail(key, value, fmt.Sprintf("it has the same meaning as %q, and Nova uses either", other), "remove one of them")
	}
	g.seen[meaning] = key
}

// known checks a resource or a trait.
func (g *groupLint) known(key, value string, k specKey) {
	name := strings.TrimSpace(k.name)
	if name != k.name {
		g.add(SeverityHint, key, value, "Cyborg trims the spaces", "use "+k.prefix+":"+name)
	}
	if k.prefix == prefixTrait {
		g.trait(key, value, name)
		return
	}
	g.classes++
	if !strings.HasPrefix(name, memoryClass) {
		g.devices = append(g.devices, name)
	}
	switch {
	case !slices.Contains(cyborgClasses, name) && !strings.HasPrefix(name, customPrefix):
		g.fail(key, value, fmt.Sprintf("Cyborg refuses the resource class %q", name), suggestProfileClass(name))
	case !validClass(name):
		suggestion := "use resources:" + NormalizeTrait(name)
		if name == "GPU" {
			suggestion = "use resources:PGPU"
		}
		g.fail(key, value, fmt.Sprintf("Placement has no resource class %q", name), suggestion)
	}
	if n, err := parseAmount(value); err != nil || n == 0 {
		g.fail(key, value, "the amount is not an integer of at least 1; no host is valid for the server", "use 1, or the number of devices of one provider")
	}
}

func suggestProfileClass(class string) string {
	if standardClasses[class] {
		return "request it in the flavor"
	}
	if meant := spelling.Nearest(class, cyborgClasses); meant != "" && meant != "GPU" {
		return "use " + prefixResources + ":" + meant
	}
	return "use FPGA, VGPU, PGPU or a class that starts with " + customPrefix
}

func (g *groupLint) trait(key, value, name string) {
	switch {
	case !strings.HasPrefix(name, customPrefix) && name != traitOwnerCyborg:
		g.fail(key, value, "Cyborg accepts only traits that start with CUSTOM_", "use a custom trait that the device's provider has")
	case !validTrait(name):
		g.fail(key, value, fmt.Sprintf("%q is not a valid trait name; Placement refuses the query", name), "use trait:"+NormalizeTrait(name))
	case name == traitOwnerCyborg:
		g.warn(key, value, "shipped Cyborg refuses standard traits in a device profile", "remove it unless your Cyborg accepts it")
	}
	if value != traitRequired && value != traitForbidden {
		g.fail(key, value, "Cyborg refuses values other than required and forbidden", "use "+suggestTraitValue(value))
	}
}

// programs are the keys that name what Cyborg has to program.
func programs() []string {
	return []string{"accel:bitstream_id", "accel:bitstream_name", "accel:function_id", "accel:function_name"}
}

// accel checks a key that only Cyborg reads.
func (g *groupLint) accel(key, value string) {
	known := append(programs(), "accel:attach_target", "accel:video_ram")
	switch {
	case slices.Contains(programs(), key):
		if strings.TrimSpace(value) == "" {
			g.fail(key, value, "the value is empty", "name a bitstream or function, or remove the key")
		}
	case !slices.Contains(known, key) && spelling.Nearest(key, known) != "":
		g.warn(key, value, "this key is ignored", "use "+spelling.Nearest(key, known))
	default:
		g.add(SeverityHint, key, value, "Cyborg stores it and does not read it", "do not rely on it")
	}
}

// whole checks the group as a whole.
func (g *groupLint) whole() {
	switch {
	case g.classes == 0 && len(g.entries) == 0:
		g.fail("", "", "the group is empty", "remove it")
	case g.classes == 0:
		g.fail("", "", "the group has no resources; Placement refuses the query", "add resources:<class>")
	case len(g.devices) > 1:
		g.warn("resources:"+g.devices[1], g.entries["resources:"+g.devices[1]],
			"all classes of a group come from one provider, and Cyborg's drivers report one class per provider", "use a group for each class")
	}
	g.programming()
	g.regionTraits()
	if g.entries["trait:"+xilinxTrait] == traitRequired && !slices.Contains(g.devices, "FPGA") && !slices.Contains(g.devices, rockyClass+"FPGA") {
		g.fail("trait:"+xilinxTrait, traitRequired, "Cyborg counts the requests of Xilinx cards by resources:FPGA, which is missing", "add resources:FPGA")
	}
}

// regionTraits checks the form of the traits of regions, which depends on the class.
func (g *groupLint) regionTraits() {
	class := ""
	if len(g.devices) == 1 {
		class = g.devices[0]
	}
	for _, key := range slices.Sorted(maps.Keys(g.entries)) {
		if k, ok := parseKey(key); ok && k.prefix == prefixTrait {
			g.unreported(key, g.entries[key], strings.TrimSpace(k.name), class)
		}
	}
}

// programming checks the keys for programming.
func (g *groupLint) programming() {
	var asked []string
	for _, key := range programs() {
		if _, ok := g.entries[key]; ok {
			asked = append(asked, key)
		}
	}
	if len(asked) == 0 {
		return
	}
	key, value := asked[0], g.entries[asked[0]]
	if len(asked) > 1 {
		g.fail(asked[1], g.entries[asked[1]], "Cyborg programs one bitstream or function per group, and "+key+" is given too", "keep one of them")
	}
	switch {
	case strings.HasSuffix(key, "_name"):
		g.add(SeverityHint, key, value, "shipped Cyborg does not read names", "use "+strings.TrimSuffix(key, "_name")+"_id if it has to work with shipped Cyborg")
	case len(g.devices) > 0 && !slices.Contains(g.devices, "FPGA"):
		g.warn(key, value, "shipped Cyborg programs only devices of the class FPGA", "use resources:FPGA if the devices are reported with that class")
	}
	if g.entries["trait:CUSTOM_PROGRAMMABLE"] != traitRequired {
		g.add(SeverityHint, key, value, "the group may get regions that must not be programmed",
			"add trait:CUSTOM_PROGRAMMABLE=required if your regions have it")
	}
}
