package requestspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Lint tells an operator what is wrong with a flavor, and with the device profile
// that it names, before anybody uses them, each with a suggestion. profile is nil
// for a flavor without one, or when it is not at hand; what then cannot be judged
// is left out. A flavor and a profile without findings pass [New] without warnings.
//
// The findings of the flavor come first, by key; then those of the profile, by
// group and key; then what shows only when both are put together.
func Lint(flavor Flavor, profile *DeviceProfile) []Finding {
	list := LintFlavor(flavor)
	if profile == nil {
		return list
	}
	return append(append(list, LintProfile(*profile)...), LintTogether(flavor, *profile)...)
}

// LintFlavor is [Lint] of a flavor alone.
func LintFlavor(flavor Flavor) []Finding {
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

// HasErrors reports whether one of the findings is an error.
func HasErrors(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Severity == SeverityError })
}

// LintTogether is the last part of [Lint]: whether a flavor and a profile fit, and
// what [New] says of both that neither [LintFlavor] nor [LintProfile] does. It has
// nothing to say while one of those finds errors.
func LintTogether(flavor Flavor, profile DeviceProfile) []Finding {
	known := append(LintFlavor(flavor), LintProfile(profile)...)
	name, named := flavor.DeviceProfile()
	f := findings{subject: fmt.Sprintf("flavor %q", flavor.Name)}
	switch {
	case HasErrors(known):
		return nil
	case !named:
		f.fail(DeviceProfileKey, "", fmt.Sprintf("the flavor does not name device profile %q, so its servers get no accelerator", profile.Name),
			fmt.Sprintf("set %s=%s", DeviceProfileKey, profile.Name))
		return f.list
	case name != profile.Name:
		f.fail(DeviceProfileKey, name, fmt.Sprintf("the device profile given is %q", profile.Name), "give the profile that the flavor names, or name this one")
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

// flavorLint looks at one flavor.
type flavorLint struct {
	findings
	flavor Flavor
	groups map[string]*Group // as far as Nova would read them
}

// entry judges one extra spec.
func (f *flavorLint) entry(key, value string) {
	k, ok := parseKey(key)
	switch {
	case ok:
		f.group(key, value, k)
	case key == DeviceProfileKey:
		f.profileName(value)
	case key == "group_policy":
		if value != "none" && value != "isolate" {
			f.fail(key, value, "Nova takes an invalid policy for none given", "use none or isolate")
		}
	default:
		f.stray(key, value)
	}
}

// group judges an entry that Nova reads.
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
	if amount, ok := f.resource(key, value, k.name); ok {
		g.Resources[k.name] = amount
	}
}

// suffix judges the name of the group that a key opens.
func (f *flavorLint) suffix(key, value string, k specKey) {
	switch {
	case k.plural():
		f.fail(key, value, fmt.Sprintf(`"traits" is a trait of a group named %q, which asks for no resources; Placement refuses the query`, k.suffix),
			"use trait"+k.suffix[1:]+":"+k.name)
	case k.suffix != "" && strings.Trim(k.suffix, "_-") == "":
		f.warn(key, value, fmt.Sprintf("this opens a group named %q; it is not the group without a name", k.suffix), "use "+k.prefix+":"+k.name)
	case strings.HasPrefix(k.suffix, "device_profile_"):
		f.fail(key, value, "the name of the group is that of a group of the device profile; Nova refuses the server", "use another suffix")
	}
}

// plural finds the slip traits: and traitsN:, which the Rocky specification has.
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
		f.fail(key, value, fmt.Sprintf("%q is no name of a trait; Placement refuses the query", name), suggestion)
	}
	if value != traitRequired && value != traitForbidden {
		f.fail(key, value, "Nova skips a trait with another value than required and forbidden", "use "+suggestTraitValue(value))
	}
}

func suggestTraitValue(value string) string {
	if word := nearest(value, []string{traitRequired, traitForbidden}); word != "" {
		return word
	}
	return "required or forbidden"
}

// resource judges class and amount, and returns the amount that Nova would ask for.
func (f *flavorLint) resource(key, value, class string) (int, bool) {
	prefix := strings.TrimSuffix(key, class)
	switch {
	case !acceptedClass(class):
		f.fail(key, value, fmt.Sprintf("Nova skips the unknown resource class %q", class), "use "+suggestClass(prefix, class))
		return 0, false
	case !validClass(class):
		f.fail(key, value, fmt.Sprintf("%q is no name of a resource class; Placement refuses the query", class),
			"use "+prefix+NormalizeTrait(class))
	}
	amount, err := parseAmount(value)
	if err != nil {
		f.fail(key, value, fmt.Sprintf("the amount is %v; Nova skips the entry", err), "use a whole number from 0 to "+strconv.Itoa(maxAmount))
		return 0, false
	}
	f.unattached(key, value, class, amount)
	return amount, true
}

// unattached warns of devices that are claimed and that nobody attaches.
func (f *flavorLint) unattached(key, value, class string, amount int) {
	named := f.flavor.ExtraSpecs[DeviceProfileKey] != ""
	switch {
	case amount == 0:
	case strings.HasPrefix(class, rockyClass) && !named:
		f.warn(key, value, "Nova claims the accelerator and asks Cyborg for none, so the server does not get it",
			"put it into a device profile; cysim lint --rocky prints one")
	case class == "FPGA" || class == "PGPU" || strings.HasPrefix(class, rockyClass):
		f.warn(key, value, "Nova claims the accelerator beside those of the device profile and attaches none for it",
			"put it into the groups of the device profile")
	}
}

// suggestClass guesses which class was meant.
func suggestClass(prefix, class string) string {
	meant := map[string]string{"GPU": "PGPU", "GPUS": "PGPU", "QAT": "CUSTOM_QAT", "NIC": "CUSTOM_NIC", "SSD": "CUSTOM_SSD"}[strings.ToUpper(class)]
	if meant == "" {
		meant = nearest(class, slices.Sorted(maps.Keys(standardClasses)))
	}
	if meant == "" {
		return "a standard class, or one that starts with " + customPrefix
	}
	return prefix + meant
}

// profileName judges the name of the device profile.
func (f *flavorLint) profileName(name string) {
	switch {
	case name == "":
		f.warn(DeviceProfileKey, name, "an empty name means no accelerators", "name a device profile or remove the key")
	case strings.TrimSpace(name) != name:
		f.fail(DeviceProfileKey, name, "the name is used with its blanks, and no profile can have such a name", "use "+strings.TrimSpace(name))
	case strings.ContainsAny(name, ",;"):
		f.fail(DeviceProfileKey, name, "a flavor names exactly one device profile", "put all devices into the groups of one profile")
	case !profileName.MatchString(name) || len(name) > maxName:
		f.fail(DeviceProfileKey, name, "no device profile can have such a name", fmt.Sprintf("use 1 to %d letters, digits, hyphens and underscores", maxName))
	}
}

// stray judges an extra spec that nothing here reads.
func (f *flavorLint) stray(key, value string) {
	if suggestion, problem := strayKey(key); problem != "" {
		f.warn(key, value, problem, suggestion)
	}
}

// strayKey tells of a key that is probably meant for us; no problem for others,
// such as hw:cpu_policy.
func strayKey(key string) (suggestion, problem string) {
	lower := strings.ToLower(strings.TrimSpace(key))
	switch {
	case likeProfileKey(lower):
		return "use " + DeviceProfileKey, "nothing reads this key"
	case strings.HasPrefix(lower, "accel:"):
		return "put it into a group of the device profile", "Nova does not look at it, and Cyborg does not see flavors"
	case lower == "group-policy" || lower == "grouppolicy" || lower == "group_policy":
		return "use group_policy", "nothing reads this key"
	case otherForm.MatchString(key) || strings.HasPrefix(lower, "others"):
		return "put it into a group of the device profile as accel:function_id, accel:function_name or accel:bitstream_id; cysim lint --rocky prints one",
			"the Rocky specification has this key, and nothing reads it"
	case strings.HasPrefix(lower, "member_of") || strings.HasPrefix(lower, "in_tree") ||
		strings.HasPrefix(lower, "same_subtree") || strings.HasPrefix(lower, "root_required"):
		return "remove it; use aggregates, availability zones or group_policy", "a flavor cannot set this part of the query"
	}
	return strayGroupKey(key)
}

// strayGroupKey tells of a misspelt resources or trait.
func strayGroupKey(key string) (suggestion, problem string) {
	head, name, ok := strings.Cut(key, ":")
	if !ok {
		if m := rockyForm.FindStringSubmatch(key); m != nil {
			return "use resources<suffix>:<class>=<amount> or trait<suffix>:<trait>=required", "nothing reads a key without a colon"
		}
		return "", ""
	}
	squashed := strings.Join(strings.Fields(head), "")
	word := strings.TrimRight(squashed, "0123456789")
	suffix := squashed[len(word):]
	word = strings.ToLower(word)
	switch meant := nearest(word, []string{prefixResources, prefixTrait}); {
	case meant == "" && !strayForm.MatchString(key):
		return "", ""
	case len(head) > len(prefixResources)+64:
		return "use a suffix of at most 64 letters, digits, underscores and hyphens", "nothing reads a key with so long a suffix"
	case meant == "":
		return "use resources<suffix>:<class> or trait<suffix>:<trait>, the suffix of letters, digits, underscores and hyphens", "nothing reads this key"
	default:
		return "use " + meant + suffix + ":" + strings.TrimSpace(name), "nothing reads this key"
	}
}

// likeProfileKey finds the look-alikes of accel:device_profile, those of the
// specifications' prose among them.
func likeProfileKey(lower string) bool {
	switch word := squash(lower); word {
	case "acceldeviceprofilename", "acceldeviceprofiles", "deviceprofile", "deviceprofilename", "acceleratordeviceprofile", "accelprofile", "cyborgdeviceprofile":
		return true
	default:
		return distance(word, "acceldeviceprofile") <= 2
	}
}

// asks reports whether an amount is left once zeros are dropped.
func (g *Group) asks() bool {
	for _, amount := range g.Resources {
		if amount > 0 {
			return true
		}
	}
	return false
}

// whole judges the flavor's groups together.
func (f *flavorLint) whole() {
	suffixed := 0
	for _, suffix := range slices.Sorted(maps.Keys(f.groups)) {
		if suffix == "" {
			continue
		}
		suffixed++
		if g := f.groups[suffix]; !g.asks() && len(g.Required)+len(g.Forbidden) > 0 && !(specKey{prefix: prefixTrait, suffix: suffix}).plural() {
			f.fail(prefixTrait+suffix, "", "the group asks for no resources; Placement refuses the query",
				fmt.Sprintf("add resources%s:<class>, or drop the suffix", suffix))
		}
	}
	if policy := f.flavor.ExtraSpecs["group_policy"]; suffixed >= 2 && policy != "none" && policy != "isolate" {
		f.fail("group_policy", policy, fmt.Sprintf("the flavor has %d groups of its own and no policy; Placement refuses the query", suffixed),
			"set group_policy=none, or isolate to have each group from another provider")
	}
}
