package requestspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// xilinxTrait marks cards with two functions, management and user, per unit of FPGA.
const xilinxTrait = "CUSTOM_FPGA_XILINX"

// Profile is a Cyborg device profile. Accelerator requests refer to a group by
// its index.
type Profile struct {
	// Name is the value of the flavor's extra spec.
	Name string `json:"name"`
	// Description is free text; it has no effect on the request.
	Description string `json:"description,omitempty"`
	// Groups hold keys such as resources:FPGA, trait:CUSTOM_X and accel:bitstream_id.
	Groups []map[string]string `json:"groups"`
}

// RequesterID returns the requester id of the group at an index of a flavor's device
// profile, which is also the suffix of its query parameters: device_profile_<index>.
func RequesterID(group int) string { return "device_profile_" + strconv.Itoa(group) }

// ParseProfile converts the groups of a device profile to request groups, in order,
// as Nova's get_device_profile_request_groups does: the suffix of a key is ignored,
// and so are keys of other forms, such as accel:*. Spaces around names are trimmed,
// as in Cyborg.
//
// Nova skips bad entries and fails in the scheduler or after the accelerator
// requests were created. ParseProfile refuses
//   - no groups, or a group without resources (with traits only);
//   - an amount that is not an integer between 1 and 2147483647;
//   - an invalid resource class, trait name or trait value;
//   - two keys that differ only in their suffixes: which one Nova uses is undefined;
//   - a group that requires the trait CUSTOM_FPGA_XILINX without resources:FPGA,
//     by which Cyborg counts the accelerator requests of such a group.
//
// Errors match [ErrInvalidProfile] and name the profile, the group, and the key with its
// value.
func ParseProfile(name string, groups []map[string]string) ([]Group, error) {
	if len(groups) == 0 {
		return nil, invalidEntry(fmt.Sprintf(" %q", name), "", "", "no groups")
	}
	parsed := make([]Group, 0, len(groups))
	devices := int64(0)
	for i, group := range groups {
		g, err := parseGroup(groupPart(name, i), group)
		if err != nil {
			return nil, err
		}
		g.RequesterID = RequesterID(i)
		parsed = append(parsed, g)
		devices += arqCount(g)
	}
	if devices == 0 {
		return nil, invalidEntry(fmt.Sprintf(" %q", name), "", "", "requests memory but no device")
	}
	return parsed, nil
}

// ARQCount returns the number of accelerator requests that Cyborg makes for one group
// of a device profile: the sum of its resource amounts, or, for a group that requires
// the trait CUSTOM_FPGA_XILINX, twice the amount of FPGA (or of the Rocky
// specification's CUSTOM_ACCELERATOR_FPGA, which shipped Cyborg does not count).
// Classes of device memory (CUSTOM_ACCELERATOR_MEMORY_...) make no request; shipped
// Cyborg does not support them and would make one request per MiB.
//
// The group must satisfy the rules of [ParseProfile]; an error matches
// [ErrInvalidProfile] and names the key.
func ARQCount(group map[string]string) (int, error) {
	g, err := parseGroup(" group", group)
	return int(arqCount(g)), err
}

// memoryClass is the prefix of the resource classes of device memory.
const memoryClass = "CUSTOM_ACCELERATOR_MEMORY_"

func arqCount(g Group) int64 {
	if slices.Contains(g.Required, xilinxTrait) {
		return 2 * (int64(g.Resources["FPGA"]) + int64(g.Resources[rockyClass+"FPGA"]))
	}
	var sum int64
	for class, amount := range g.Resources {
		if !strings.HasPrefix(class, memoryClass) {
			sum += int64(amount)
		}
	}
	return sum
}

// parseGroup parses one group, without its requester id. It reports the first mistake by key;
// part is the group's name in the error.
func parseGroup(part string, group map[string]string) (Group, error) {
	g := Group{UseSameProvider: true, Resources: map[string]int{}}
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(group)) {
		k, ok := parseKey(key)
		if !ok {
			continue
		}
		k.name = strings.TrimSpace(k.name)
		same := k.prefix + ":" + k.name
		if other, twice := seen[same]; twice {
			problem := fmt.Sprintf("has the same meaning as key %q: suffixes in a device profile are ignored", other)
			return Group{}, invalidEntry(part, key, group[key], problem)
		}
		seen[same] = key
		if problem := g.addProfileEntry(k, group[key]); problem != "" {
			return Group{}, invalidEntry(part, key, group[key], problem)
		}
	}
	if problem := g.unschedulable(); problem != "" {
		return Group{}, invalidEntry(part, "", "", problem)
	}
	return g, nil
}

// addProfileEntry adds one entry, or returns what is wrong with it.
func (g *Group) addProfileEntry(k specKey, value string) string {
	if k.prefix == prefixTrait {
		if !validTrait(k.name) {
			return fmt.Sprintf("%q is not a trait name (capitals, digits and underscores, at most %d)", k.name, maxName)
		}
		if !g.addTrait(k.name, value) {
			return fmt.Sprintf("trait value %q is neither %s nor %s", value, traitRequired, traitForbidden)
		}
		return ""
	}
	if !validClass(k.name) {
		return fmt.Sprintf("unknown resource class %q: neither a standard class nor CUSTOM_ with capitals, digits and underscores", k.name)
	}
	amount, err := parseAmount(value)
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("amount %q is %v", value, err)
	case err != nil || amount == 0:
		return fmt.Sprintf("amount %q is not a positive integer", value)
	}
	g.Resources[k.name] = amount
	return ""
}

// unschedulable returns why the group cannot have a candidate or an accelerator
// request, or "".
func (g *Group) unschedulable() string {
	traits := len(g.Required) + len(g.Forbidden)
	switch {
	case len(g.Resources) == 0 && traits == 0:
		return "is empty: no resources key"
	case len(g.Resources) == 0:
		return "has traits but no resources key; Placement refuses such a group"
	case arqCount(*g) == 0 && slices.Contains(g.Required, xilinxTrait):
		return "requires trait:" + xilinxTrait + " but has no resources:FPGA, by which its accelerator requests are counted"
	case arqCount(*g) > maxAmount:
		return fmt.Sprintf("requests %d accelerators, more than %d", arqCount(*g), maxAmount)
	}
	return ""
}
