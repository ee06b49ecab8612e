package requestspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// cyborgClasses are the resource classes that Cyborg takes in a profile, beside
// CUSTOM_ ones (cyborg/common/constants.py, RESOURCES).
var cyborgClasses = []string{"FPGA", "GPU", "VGPU", "PGPU", "CUSTOM_QAT", "CUSTOM_NIC", "CUSTOM_SSD"}

// LintProfile is [Lint] of a device profile alone. It judges by Cyborg's rules for
// creating it, by those of [ParseProfile], and by what its groups then bring about.
func LintProfile(profile DeviceProfile) []Finding {
	whole := findings{subject: fmt.Sprintf("device profile %q", profile.Name)}
	if !profileName.MatchString(profile.Name) || len(profile.Name) > maxName {
		whole.fail("name", profile.Name, "Cyborg refuses the name", fmt.Sprintf("use 1 to %d letters, digits, hyphens and underscores", maxName))
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
		whole.fail("", "", "it asks for memory but for no device that has it", "add resources:FPGA, or the class of the device, to the group")
	}
	return append(whole.list, list...)
}

// groupLint looks at one group of a profile.
type groupLint struct {
	findings
	entries map[string]string
	seen    map[string]string // meaning -> key
	classes int               // resource entries
	devices []string          // device classes asked for
}

// entry judges one entry of the group.
func (g *groupLint) entry(key, value string) {
	k, ok := parseKey(key)
	switch {
	case key == "":
		g.fail("", "", fmt.Sprintf("the entry %q=%q has no key; Cyborg refuses it", key, value), "remove it")
	case ok && k.plural():
		g.fail(key, value, `Cyborg refuses "traits:"`, "use trait:"+k.name)
	case ok && k.suffix != "":
		g.fail(key, value, "keys of a device profile have no suffix; Cyborg refuses it, and Nova drops it", "use "+k.prefix+":"+k.name+" in a group of its own")
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

// duplicate finds keys that mean the same for Nova.
func (g *groupLint) duplicate(key, value string, k specKey) {
	meaning := k.prefix + ":" + strings.TrimSpace(k.name)
	if other, twice := g.seen[meaning]; twice {
		g.fail(key, value, fmt.Sprintf("means the same as %q, and Nova takes either", other), "remove one of them")
	}
	g.seen[meaning] = key
}

// known judges a resource or a trait.
func (g *groupLint) known(key, value string, k specKey) {
	name := strings.TrimSpace(k.name)
	if name != k.name {
		g.add(SeverityHint, key, value, "Cyborg trims the blanks", "use "+k.prefix+":"+name)
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
		g.fail(key, value, "the amount is not an integer of at least 1; the server finds no host", "use 1, or how many devices of one provider are wanted")
	}
}

func suggestProfileClass(class string) string {
	if standardClasses[class] {
		return "ask for it in the flavor"
	}
	if meant := nearest(class, cyborgClasses); meant != "" && meant != "GPU" {
		return "use " + prefixResources + ":" + meant
	}
	return "use FPGA, VGPU, PGPU or a class that starts with " + customPrefix
}

func (g *groupLint) trait(key, value, name string) {
	switch {
	case !strings.HasPrefix(name, customPrefix) && name != traitOwnerCyborg:
		g.fail(key, value, "Cyborg takes traits that start with CUSTOM_ only", "use a custom trait that the device's provider has")
	case !validTrait(name):
		g.fail(key, value, fmt.Sprintf("%q is no name of a trait; Placement refuses the query", name), "use trait:"+NormalizeTrait(name))
	case name == traitOwnerCyborg:
		g.warn(key, value, "shipped Cyborg refuses standard traits in a device profile", "remove it unless your Cyborg takes it")
	}
	if value != traitRequired && value != traitForbidden {
		g.fail(key, value, "Cyborg refuses another value than required and forbidden", "use "+suggestTraitValue(value))
	}
}

// programs are the keys by which Cyborg is told what to program.
func programs() []string {
	return []string{"accel:bitstream_id", "accel:bitstream_name", "accel:function_id", "accel:function_name"}
}

// accel judges a key for Cyborg alone.
func (g *groupLint) accel(key, value string) {
	known := append(programs(), "accel:attach_target", "accel:video_ram")
	switch {
	case slices.Contains(programs(), key):
		if strings.TrimSpace(value) == "" {
			g.fail(key, value, "it names nothing", "name what is to be programmed, or remove the key")
		}
	case slices.Contains(known, key):
		g.add(SeverityHint, key, value, "Cyborg stores it and does not read it", "rely on nothing that it says")
	case nearest(key, known) != "":
		g.warn(key, value, "nothing reads this key", "use "+nearest(key, known))
	default:
		g.add(SeverityHint, key, value, "Cyborg stores it and does not read it", "rely on nothing that it says")
	}
}

// whole judges the group as one.
func (g *groupLint) whole() {
	switch {
	case g.classes == 0 && len(g.entries) == 0:
		g.fail("", "", "the group is empty", "remove it")
	case g.classes == 0:
		g.fail("", "", "the group asks for no resources; Placement refuses the query", "add resources:<class>")
	case len(g.devices) > 1:
		g.warn("resources:"+g.devices[1], g.entries["resources:"+g.devices[1]],
			"one provider has to offer all classes of a group, and Cyborg's drivers report one class per provider", "use a group for each class")
	}
	g.programming()
	if g.entries["trait:"+xilinxTrait] == traitRequired && !slices.Contains(g.devices, "FPGA") && !slices.Contains(g.devices, rockyClass+"FPGA") {
		g.fail("trait:"+xilinxTrait, traitRequired, "Cyborg counts the requests of Xilinx cards by resources:FPGA, which is not there", "add resources:FPGA")
	}
}

// programming judges what is to be programmed, if anything.
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
		g.fail(asked[1], g.entries[asked[1]], "Cyborg programs one thing per group, and "+key+" is there", "keep one of them")
	}
	switch {
	case strings.HasSuffix(key, "_name"):
		g.add(SeverityHint, key, value, "shipped Cyborg does not read names", "use "+strings.TrimSuffix(key, "_name")+"_id where it must work with shipped Cyborg")
	case len(g.devices) > 0 && !slices.Contains(g.devices, "FPGA"):
		g.warn(key, value, "shipped Cyborg programs devices of the class FPGA only", "use resources:FPGA if the devices are reported so")
	}
	if g.entries["trait:CUSTOM_PROGRAMMABLE"] != traitRequired {
		g.add(SeverityHint, key, value, "nothing keeps the group off regions that must not be programmed",
			"add trait:CUSTOM_PROGRAMMABLE=required if your regions have it")
	}
}
