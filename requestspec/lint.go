package requestspec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/spelling"
)

// Lint returns the mistakes in a flavor and in a device profile, each with a
// suggestion. Either may be nil. A flavor and a profile without findings pass [New]
// without warnings.
//
// The findings about the flavor come first, by key; then the findings about the profile, by group
// and key; then, if there are no errors, the findings about the combination.
func Lint(flavor *Flavor, profile *Profile) []Finding {
	var list []Finding
	if flavor != nil {
		list = lintFlavor(*flavor)
	}
	if profile != nil {
		list = append(list, lintProfile(*profile)...)
	}
	if flavor == nil || profile == nil || slices.ContainsFunc(list, func(f Finding) bool { return f.Severity == SeverityError }) {
		return list
	}
	return append(list, lintTogether(*flavor, *profile, list)...)
}

func lintFlavor(flavor Flavor) []Finding {
	f := &flavorLint{findings: findings{subject: fmt.Sprintf("flavor %q", flavor.Name)}, flavor: flavor, groups: map[string]*Group{}}
	if err := flavor.validate(); err != nil {
		f.fail("", "", err.Error(), "correct the size")
	}
	for _, key := range slices.Sorted(maps.Keys(flavor.ExtraSpecs)) {
		f.entry(key, flavor.ExtraSpecs[key])
	}
	f.whole()
	return f.list
}

// lintTogether reports whether a flavor and a profile match, and the warnings of
// [New] that are not among the known findings.
func lintTogether(flavor Flavor, profile Profile, known []Finding) []Finding {
	name, named := flavor.DeviceProfile()
	f := findings{subject: fmt.Sprintf("flavor %q", flavor.Name)}
	switch {
	case !named:
		f.fail(DeviceProfileKey, "", fmt.Sprintf("the flavor does not name device profile %q, so its servers get no accelerator", profile.Name),
			fmt.Sprintf("set %s=%s", DeviceProfileKey, profile.Name))
		return f.list
	case name != profile.Name:
		f.fail(DeviceProfileKey, name, fmt.Sprintf("the device profile given is %q", profile.Name), "give the profile that the flavor names, or change the flavor")
		return f.list
	}
	spec, err := New(flavor, &profile, Options{})
	if err != nil {
		f.fail("", "", err.Error(), "rename or remove one of the two")
		return f.list
	}
	for _, w := range spec.Warnings {
		if !slices.ContainsFunc(known, func(k Finding) bool { return k.Key == w.Key && k.Value == w.Value }) {
			f.warn(w.Key, w.Value, strings.TrimSuffix(w.Message, "."), "see the documentation of package requestspec")
		}
	}
	return f.list
}

// flavorLint checks one flavor.
type flavorLint struct {
	findings
	flavor Flavor
	groups map[string]*Group // as Nova would read them
}

// acceleratorClasses are the resource classes that Cyborg's drivers report, in addition to the
// classes of the Rocky specification.
var acceleratorClasses = []string{"FPGA", "PGPU", "VGPU", "CUSTOM_NIC", "CUSTOM_PCI", "CUSTOM_QAT", "CUSTOM_SSD"}

// entry checks one extra spec.
func (f *flavorLint) entry(key, value string) {
	k, ok := parseKey(key)
	switch {
	case ok:
		f.group(key, value, k)
	case key == DeviceProfileKey:
		f.profileName(value)
	case key == "group_policy":
		if !GroupPolicy(value).Known() {
			f.fail(key, value, "Nova ignores an invalid policy", "use none or isolate")
		}
	default: // neither Nova nor this package reads it
		if suggestion, problem := strayKey(key); problem != "" {
			f.warn(key, value, problem, suggestion)
		}
	}
}

// group checks an entry that Nova reads.
func (f *flavorLint) group(key, value string, k specKey) {
	f.suffix(key, value, k)
	g := f.groups[k.suffix]
	if g == nil {
		g = &Group{Resources: map[string]int{}}
		f.groups[k.suffix] = g
	}
	if k.prefix == prefixTrait {
		f.trait(key, value, k.name)
		g.addTrait(k.name, value)
		return
	}
	if amount, ok := f.resource(key, value, k); ok {
		g.Resources[k.name] = amount
	}
}

// suffix checks the name of the group of a key.
func (f *flavorLint) suffix(key, value string, k specKey) {
	switch {
	case k.plural():
		f.fail(key, value, fmt.Sprintf(`the key is a trait of a group named %q, which has no resources; Placement refuses the query`, k.suffix),
			"use trait"+k.suffix[1:]+":"+k.name)
	case k.suffix != "" && strings.Trim(k.suffix, "_-") == "":
		f.warn(key, value, fmt.Sprintf("this is a group named %q, not the unsuffixed group", k.suffix), "use "+k.prefix+":"+k.name)
	case strings.HasPrefix(k.suffix, "device_profile_"):
		f.fail(key, value, "a group of the device profile has the same name; Nova refuses the server", "use another suffix")
	}
}

// plural finds traits: and traitsN:, which the Rocky specification has.
func (k specKey) plural() bool {
	number, ok := strings.CutPrefix(k.suffix, "s")
	return ok && k.prefix == prefixTrait && (number == "" || digits(number))
}

func (f *flavorLint) trait(key, value, name string) {
	if !validTrait(name) {
		suggestion := "use capitals, digits and underscores"
		if fixed := NormalizeTrait(name); fixed != name && validTrait(fixed) {
			suggestion = "use " + strings.TrimSuffix(key, name) + fixed
		}
		f.fail(key, value, fmt.Sprintf("%q is not a valid trait name; Placement refuses the query", name), suggestion)
	}
	f.unreported(key, value, name, "")
	if value != traitRequired && value != traitForbidden {
		f.fail(key, value, "Nova skips a trait whose value is neither required nor forbidden", "use "+suggestTraitValue(value))
	}
}

// unreported warns of a trait of a region in a form that no driver reports on providers of the class.
func (f *findings) unreported(key, value, name, class string) {
	reported := reportedRegionTrait(name, class)
	if reported == name {
		return
	}
	head, _, _ := strings.Cut(key, ":")
	f.warn(key, value, "Cyborg's drivers do not report this form; drivers of the class FPGA write the id without separators, the Rocky specifications with underscores",
		"use "+head+":"+reported)
}

func suggestTraitValue(value string) string {
	return cmp.Or(spelling.Nearest(value, []string{traitRequired, traitForbidden}), "required or forbidden")
}

// resource checks class and amount, and returns the amount that Nova requests.
func (f *flavorLint) resource(key, value string, k specKey) (int, bool) {
	class := k.name
	prefix := strings.TrimSuffix(key, class)
	switch {
	case !acceptedClass(class):
		f.fail(key, value, fmt.Sprintf("Nova skips the unknown resource class %q", class), "use "+suggestClass(prefix, class))
		return 0, false
	case !validClass(class):
		f.fail(key, value, fmt.Sprintf("%q is not a valid resource class; Placement refuses the query", class),
			"use "+prefix+NormalizeTrait(class))
	}
	amount, err := parseAmount(value)
	if err != nil {
		f.fail(key, value, fmt.Sprintf("the amount is %v; Nova skips the entry", err), "use a whole number from 0 to "+strconv.Itoa(maxAmount))
		return 0, false
	}
	f.unattached(key, value, k, amount)
	return amount, true
}

// unattached warns of devices that are claimed but not attached: Cyborg may own the provider
// that serves the group, and the flavor makes no accelerator request.
func (f *flavorLint) unattached(key, value string, k specKey, amount int) {
	named := f.flavor.ExtraSpecs[DeviceProfileKey] != ""
	switch {
	case amount == 0:
	case strings.HasPrefix(k.name, rockyClass) && !named:
		f.warn(key, value, "Nova claims the accelerator in Placement but requests none from Cyborg, so the server does not get it",
			"put it into a device profile; cysim lint --rocky prints one")
	case f.withoutCyborgs(k):
	case k.name == "VGPU": // the only one that Nova reports, too
		f.warn(key, value, "Nova may claim a vGPU of Cyborg's and does not attach it",
			fmt.Sprintf("put it into a device profile; for Nova's vGPUs add trait%s:%s=%s", k.suffix, traitOwnerCyborg, traitForbidden))
	case slices.Contains(acceleratorClasses, k.name), strings.HasPrefix(k.name, rockyClass):
		problem := "Nova may claim an accelerator of Cyborg's and does not attach it"
		if named {
			problem = "Nova may claim another accelerator of Cyborg's than the device profile requests and does not attach it"
		}
		f.warn(key, value, problem, "put it into the groups of the device profile")
	}
}

// withoutCyborgs reports whether the traits of a group exclude Cyborg's providers. The
// compute node may have the traits that the unsuffixed group requires. All vGPUs of Cyborg's
// have OWNER_CYBORG, and few other devices.
func (f *flavorLint) withoutCyborgs(k specKey) bool {
	trait := func(name string) string { return f.flavor.ExtraSpecs[prefixTrait+k.suffix+":"+name] }
	return k.suffix != "" && trait(traitOwnerNova) == traitRequired || k.name == "VGPU" && trait(traitOwnerCyborg) == traitForbidden
}

// suggestClass guesses the intended class.
func suggestClass(prefix, class string) string {
	meant := map[string]string{"GPU": "PGPU", "GPUS": "PGPU", "QAT": "CUSTOM_QAT", "NIC": "CUSTOM_NIC", "SSD": "CUSTOM_SSD"}[strings.ToUpper(class)]
	if meant = cmp.Or(meant, spelling.Nearest(class, slices.Sorted(maps.Keys(standardClasses)))); meant == "" {
		return "a standard class, or one that starts with " + customPrefix
	}
	return prefix + meant
}

// profileName checks the name of the device profile.
func (f *flavorLint) profileName(name string) {
	switch {
	case name == "":
		f.warn(DeviceProfileKey, name, "an empty name means no accelerators", "name a device profile or remove the key")
	case strings.TrimSpace(name) != name:
		f.fail(DeviceProfileKey, name, "the name is used with its spaces, and a profile name cannot have spaces", "use "+strings.TrimSpace(name))
	case strings.ContainsAny(name, ",;"):
		f.fail(DeviceProfileKey, name, "a flavor names exactly one device profile", "put all devices into the groups of one profile")
	case !validProfileName(name):
		f.fail(DeviceProfileKey, name, "a device profile cannot have this name", profileNameRule)
	}
}

// strayKey describes a key that resembles one of ours; problem is empty for others,
// such as hw:cpu_policy.
func strayKey(key string) (suggestion, problem string) {
	lower := strings.ToLower(strings.TrimSpace(key))
	switch {
	case likeProfileKey(lower):
		return "use " + DeviceProfileKey, "this key is ignored"
	case strings.HasPrefix(lower, "accel:"):
		return "put it into a group of the device profile", "Nova ignores it, and Cyborg does not read flavors"
	case lower == "group-policy" || lower == "grouppolicy" || lower == "group_policy":
		return "use group_policy", "this key is ignored"
	case otherForm.MatchString(key) || strings.HasPrefix(lower, "others"):
		return "put it into a group of the device profile as accel:function_id, accel:function_name or accel:bitstream_id; cysim lint --rocky prints one",
			"the Rocky specification has this key, and it is ignored"
	case strings.HasPrefix(lower, "member_of") || strings.HasPrefix(lower, "in_tree") ||
		strings.HasPrefix(lower, "same_subtree") || strings.HasPrefix(lower, "root_required"):
		return "remove it; use aggregates, availability zones or group_policy", "a flavor cannot set this part of the query"
	}
	return strayGroupKey(key)
}

// strayGroupKey describes a misspelled resources or trait.
func strayGroupKey(key string) (suggestion, problem string) {
	head, name, ok := strings.Cut(key, ":")
	if !ok {
		if m := rockyForm.FindStringSubmatch(key); m != nil {
			return "use resources<suffix>:<class>=<amount> or trait<suffix>:<trait>=required", "a key without a colon is ignored"
		}
		return "", ""
	}
	squashed := strings.Join(strings.Fields(head), "")
	word := strings.TrimRight(squashed, "0123456789")
	suffix := squashed[len(word):]
	word = strings.ToLower(word)
	switch meant := spelling.Nearest(word, []string{prefixResources, prefixTrait}); {
	case meant == "" && !strayForm.MatchString(key):
		return "", ""
	case len(head) > len(prefixResources)+64:
		return "use a suffix of at most 64 letters, digits, underscores and hyphens", "a key with so long a suffix is ignored"
	case meant == "":
		return "use resources<suffix>:<class> or trait<suffix>:<trait>, with a suffix of letters, digits, underscores and hyphens", "this key is ignored"
	default:
		return "use " + meant + suffix + ":" + strings.TrimSpace(name), "this key is ignored"
	}
}

// likeProfileKey matches keys similar to accel:device_profile, such as those in the
// prose of the specifications.
func likeProfileKey(lower string) bool {
	switch word := spelling.Squash(lower); word {
	case "acceldeviceprofilename", "acceldeviceprofiles", "deviceprofile", "deviceprofilename", "acceleratordeviceprofile", "accelprofile", "cyborgdeviceprofile":
		return true
	default:
		return spelling.Distance(word, "acceldeviceprofile") <= 2
	}
}

// whole checks the flavor's groups together.
func (f *flavorLint) whole() {
	suffixed := 0
	for _, suffix := range slices.Sorted(maps.Keys(f.groups)) {
		if suffix == "" {
			continue
		}
		suffixed++
		g := f.groups[suffix]
		maps.DeleteFunc(g.Resources, func(_ string, amount int) bool { return amount == 0 })
		if len(g.Resources) == 0 && len(g.Required)+len(g.Forbidden) > 0 && !(specKey{prefix: prefixTrait, suffix: suffix}).plural() {
			f.fail(prefixTrait+suffix, "", "the group has no resources; Placement refuses the query",
				fmt.Sprintf("add resources%s:<class>, or remove the suffix", suffix))
		}
	}
	if policy := f.flavor.ExtraSpecs["group_policy"]; suffixed >= 2 && !GroupPolicy(policy).Known() {
		f.fail("group_policy", policy, fmt.Sprintf("the flavor has %d groups of its own and no policy; Placement refuses the query", suffixed),
			"set group_policy=none, or isolate to use a different provider for each group")
	}
}
