package requestspec

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// New assembles the request of a flavor and of the device profile that it
// names, in the order of Nova's ResourceRequest.from_request_spec:
//   - extra specs without a suffix go into the unsuffixed group, those with a
//     suffix into a group of that name; bad entries are skipped with a warning;
//   - image traits, destination and aggregates go into the unsuffixed group;
//   - the groups of opts are added, then the groups of the profile;
//   - VCPU, MEMORY_MB and DISK_GB of the flavor are added unless a group has the
//     class already; PCPU counts as VCPU, and an explicit zero counts;
//   - zero amounts, and groups that are empty without them, are removed;
//   - group_policy is the flavor's. It defaults to "none", as in Nova, if there are at least two
//     suffixed groups and the flavor defines at most one of them.
//
// The request filters add root traits: COMPUTE_ACCELERATORS is required if the
// flavor names a profile, COMPUTE_STATUS_DISABLED is always forbidden, and
// OWNER_NOVA is an option.
//
// profile is required if and only if the flavor names it. It must satisfy the rules
// of [ParseProfile].
//
// Errors match [ErrInvalidFlavor], [ErrInvalidProfile], [ErrInvalidGroup] or
// [ErrDuplicateSuffix]. The inputs are neither changed nor kept.
func New(flavor Flavor, profile *Profile, opts Options) (RequestSpec, error) {
	if err := flavor.validate(); err != nil {
		return RequestSpec{}, err
	}
	device, err := deviceGroups(flavor, profile)
	if err != nil {
		return RequestSpec{}, err
	}
	a := assembly{byID: map[string]*Group{}, numeric: opts.NumericSuffixes}
	form := stringForm
	if a.numeric {
		form = numericForm
	}
	if err := a.addExtraSpecs(flavor, form); err != nil {
		return RequestSpec{}, err
	}
	ownGroups := a.suffixed()
	a.restrict(opts)
	roots := a.filter(len(device) > 0, opts)
	a.own(roots, opts)
	for _, g := range slices.Concat(roots.pciGroups(opts), device) {
		if err := a.insert(g); err != nil {
			return RequestSpec{}, err
		}
	}
	a.addBasics(flavor, opts.BootFromVolume)
	a.stripZeros()
	spec := RequestSpec{ProfileGroups: len(device), SameSubtree: cloneLists(opts.SameSubtree), Limit: opts.limit()}
	spec.RootRequired, spec.RootForbidden = roots.required, roots.forbidden
	spec.GroupPolicy = a.groupPolicy(flavor, ownGroups)
	if opts.NumericSuffixes {
		a.goNumeric(&spec)
	}
	spec.Groups = a.finish()
	spec.Warnings = a.warnings
	return spec, nil
}

// deviceGroups parses the profile after checking that the flavor names it.
func deviceGroups(flavor Flavor, profile *Profile) ([]Group, error) {
	name, named := flavor.DeviceProfile()
	switch {
	case !named && profile == nil:
		return nil, nil
	case !named:
		return nil, flavor.errorf("device profile %q is given, but there is no extra spec %s", profile.Name, DeviceProfileKey)
	case profile == nil:
		return nil, flavor.errorf("extra spec %s names device profile %q, which is not given", DeviceProfileKey, name)
	case profile.Name != name:
		return nil, flavor.errorf("extra spec %s names device profile %q, but %q is given", DeviceProfileKey, name, profile.Name)
	}
	return ParseProfile(name, profile.Groups)
}

// assembly is an unfinished request. groups are in the order of their addition.
type assembly struct {
	groups   []*Group
	byID     map[string]*Group
	warnings []Warning
	numeric  bool // suffixes are numbers
}

func (a *assembly) warn(key, value, format string, args ...any) {
	a.warnings = append(a.warnings, Warning{Key: key, Value: value, Message: fmt.Sprintf(format, args...)})
}

// group returns the group with that requester id and creates it if necessary.
func (a *assembly) group(id string) *Group {
	if g := a.byID[id]; g != nil {
		return g
	}
	g := &Group{RequesterID: id, UseSameProvider: id != "", Resources: map[string]int{}}
	a.add(g)
	return g
}

func (a *assembly) add(g *Group) {
	a.groups = append(a.groups, g)
	a.byID[g.RequesterID] = g
}

// suffixed counts the groups that have a requester id.
func (a *assembly) suffixed() int {
	n := 0
	for _, g := range a.groups {
		if g.RequesterID != "" {
			n++
		}
	}
	return n
}

// addExtraSpecs reads the flavor's own groups. A bad value still creates its
// group, which counts for the group policy.
func (a *assembly) addExtraSpecs(flavor Flavor, form *regexp.Regexp) error {
	for _, key := range slices.Sorted(maps.Keys(flavor.ExtraSpecs)) {
		value := flavor.ExtraSpecs[key]
		k, ok := parseKeyAs(form, key)
		if !ok {
			a.warnIgnored(key, value)
			continue
		}
		g := a.group(k.suffix)
		if k.prefix == prefixTrait {
			if !g.addTrait(k.name, value) {
				a.warn(key, value, "Only (required, forbidden) traits are supported. Received '%s'.", value)
			}
		} else if err := a.addFlavorResource(g, key, k.name, value); err != nil {
			return flavor.errorf("extra spec %q: amount %q is %v", key, value, err)
		}
	}
	return nil
}

// warnIgnored warns of keys that Nova ignores although they look like its own.
func (a *assembly) warnIgnored(key, value string) {
	switch {
	case key == "accel:device_profile_name" || key == "accel:device-profile":
		a.warn(key, value, "This extra spec is ignored; use %s for a device profile.", DeviceProfileKey)
	case strayForm.MatchString(key):
		a.warn(key, value, "This extra spec is ignored; only resources<suffix>:<class> and trait<suffix>:<trait> are read.")
	}
}

// addFlavorResource skips what Nova skips. An amount beyond Placement's range is
// an error: skipping it would make the request smaller than the flavor.
func (a *assembly) addFlavorResource(g *Group, key, class, value string) error {
	if !acceptedClass(class) {
		a.warn(key, value, "Received an invalid ResourceClass '%s' in extra_specs.", class)
		return nil
	}
	amount, err := parseAmount(value)
	switch {
	case errors.Is(err, errTooLarge):
		return err
	case err != nil:
		a.warn(key, value, "Resource amounts must be nonnegative integers. Received '%s'", value)
	default:
		g.Resources[class] = amount
	}
	return nil
}

// restrict adds the constraints of image and destination to the unsuffixed group.
func (a *assembly) restrict(opts Options) {
	g := a.group("")
	a.addImageTraits(g, opts.ImageProperties)
	g.Aggregates = cloneLists(opts.Aggregates)
	g.ForbiddenAggregates = slices.Clone(opts.ForbiddenAggregates)
	g.InTree = opts.InTree
}

// addImageTraits adds the traits that the image requires (nova/objects/image_meta.py).
// Nova ignores other values silently.
func (a *assembly) addImageTraits(g *Group, properties map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		name, ok := strings.CutPrefix(key, prefixTrait+":")
		switch value := properties[key]; {
		case !ok:
			continue
		case value != traitRequired:
			a.warn(key, value, "An image can only require traits; the property is ignored unless its value is 'required'.")
			continue
		case !validTrait(name):
			a.warn(key, value, "Placement refuses the query: '%s' is not a valid trait name.", name)
		}
		g.Required = append(g.Required, name)
	}
}

// insert adds a group that is not the flavor's, with the checks of Nova's
// _add_request_group.
func (a *assembly) insert(g Group) error {
	switch {
	case g.RequesterID == "":
		return fmt.Errorf("requestspec: %w: missing requester_id", ErrInvalidGroup)
	case g.empty():
		return fmt.Errorf("requestspec: %w: refusing to add no-op group with requester_id=%s", ErrInvalidGroup, g.RequesterID)
	case a.byID[g.RequesterID] != nil:
		return fmt.Errorf("requestspec: %w %s", ErrDuplicateSuffix, g.RequesterID)
	}
	for class, amount := range g.Resources {
		if amount < 0 || int64(amount) > maxAmount {
			return fmt.Errorf("requestspec: %w with requester_id=%s: %s: %d is not between 0 and %d",
				ErrInvalidGroup, g.RequesterID, class, amount, maxAmount)
		}
	}
	added := g.clone()
	added.UseSameProvider = true // Placement does so for every suffix
	if a.numeric {
		added.Suffix = a.nextNumber()
	}
	a.add(added)
	return nil
}

// addBasics adds the flavor's sizes for classes that no group has.
func (a *assembly) addBasics(flavor Flavor, fromVolume bool) {
	named := map[string]bool{}
	for _, g := range a.groups {
		for class := range g.Resources {
			named[class] = true
		}
	}
	resources := a.group("").Resources
	if !named["VCPU"] && !named["PCPU"] {
		resources["VCPU"] = flavor.VCPUs
	}
	if !named["MEMORY_MB"] {
		resources["MEMORY_MB"] = flavor.MemoryMB
	}
	if !named["DISK_GB"] {
		resources["DISK_GB"] = int(flavor.diskGB(fromVolume))
	}
}

func (a *assembly) stripZeros() {
	for _, g := range a.groups {
		maps.DeleteFunc(g.Resources, func(_ string, amount int) bool { return amount == 0 })
	}
	a.groups = slices.DeleteFunc(a.groups, (*Group).empty)
}

// groupPolicy returns the flavor's policy, or Nova's default for the remaining
// groups. ownGroups counts the flavor's own groups, empty ones included.
func (a *assembly) groupPolicy(flavor Flavor, ownGroups int) GroupPolicy {
	const key = "group_policy"
	policy, given := flavor.ExtraSpecs[key]
	switch {
	case GroupPolicy(policy).Known():
		return GroupPolicy(policy)
	case given:
		a.warn(key, policy, "Invalid group_policy '%s'. Valid values are 'none' and 'isolate'.", policy)
	}
	switch {
	case a.suffixed() < 2:
		return ""
	case ownGroups < 2:
		return GroupPolicyNone
	}
	a.warn(key, policy, "The flavor has %d groups of its own and no group_policy; Placement refuses the query.", ownGroups)
	return ""
}

// finish sorts traits, puts the unsuffixed group first and warns of groups
// that Placement refuses.
func (a *assembly) finish() []Group {
	var groups []Group
	for _, g := range a.groups {
		g.Required, g.Forbidden = sortedSet(g.Required), sortedSet(g.Forbidden)
		a.check(g)
		if g.RequesterID == "" {
			groups = slices.Insert(groups, 0, *g)
			continue
		}
		groups = append(groups, *g)
	}
	return groups
}

func (a *assembly) check(g *Group) {
	if len(g.Resources) == 0 {
		hint := ""
		if strings.HasPrefix(g.RequesterID, "s") { // traits:X, a common mistake
			hint = " The key of a trait without suffix is trait:<trait>."
		}
		a.warn(prefixResources+g.suffix(), "", "The group has no resources; Placement refuses the query.%s", hint)
	}
	for _, trait := range g.Required {
		if slices.Contains(g.Forbidden, trait) {
			a.warn("required"+g.suffix(), trait, "The trait %s is required and forbidden; Placement refuses the query.", trait)
		}
	}
}

// sortedSet sorts in place and removes duplicates.
func sortedSet(items []string) []string {
	slices.Sort(items)
	return slices.Compact(items)
}
