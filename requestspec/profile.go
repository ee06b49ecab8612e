package requestspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// xilinxTrait marks cards that hand out two functions, management and user,
// per unit of FPGA.
const xilinxTrait = "CUSTOM_FPGA_XILINX"

// DeviceProfile is a Cyborg device profile. The position of a group is its
// identity: Cyborg's accelerator requests refer to it.
type DeviceProfile struct {
	// Name is what the flavor's extra spec says.
	Name string `json:"name"`
	// Description is free text; it has no effect on the request.
	Description string `json:"description,omitempty"`
	// Groups hold keys such as resources:FPGA, trait:CUSTOM_X and accel:bitstream_id.
	Groups []map[string]string `json:"groups"`
}

// RequesterID is the requester id, and so the suffix of the query parameters,
// of the group at index in a flavor's device profile: device_profile_<index>.
func RequesterID(group int) string { return "device_profile_" + strconv.Itoa(group) }

// PCIRequesterID is the requester id of the n-th group, from 0, of a PCI request
// of the flavor: <request>-<n> (pci-in-placement, Nova 2023.1).
func PCIRequesterID(request string, n int) string { return request + "-" + strconv.Itoa(n) }

// ParseProfile turns the groups of a device profile into request groups, in
// order, as Nova's get_device_profile_request_groups does: a suffix inside a
// key is dropped, and keys of any other form, accel:* among them, are passed
// over. Blanks around names are trimmed, as Cyborg trims them when it stores.
//
// Nova skips bad entries and fails when it is too late, at the scheduler or
// with accelerator requests already made. ParseProfile refuses instead:
//   - no groups, or a group without any resource (traits alone included);
//   - an amount that is not an integer between 1 and 2147483647;
//   - a resource class that Placement cannot know, a malformed trait name, a
//     trait value other than required and forbidden;
//   - two keys that mean the same once their suffixes are dropped, of which
//     Nova would take either;
//   - a group that requires the trait CUSTOM_FPGA_XILINX without resources:FPGA,
//     by which alone Cyborg counts the accelerator requests of such a group.
//
// Every error is a [*ProfileError] and satisfies errors.Is with [ErrInvalidProfile].
func ParseProfile(name string, groups []map[string]string) ([]Group, error) {
	if len(groups) == 0 {
		return nil, &ProfileError{Profile: name, Group: -1, Problem: "no groups"}
	}
	parsed := make([]Group, 0, len(groups))
	devices := int64(0)
	for i, group := range groups {
		g, bad := parseGroup(group)
		if bad != nil {
			return nil, &ProfileError{Profile: name, Group: i, Key: bad.key, Value: group[bad.key], Problem: bad.problem}
		}
		g.RequesterID = RequesterID(i)
		parsed = append(parsed, g)
		devices += arqCount(g)
	}
	if devices == 0 {
		return nil, &ProfileError{Profile: name, Group: -1, Problem: "asks for memory but for no device that has it"}
	}
	return parsed, nil
}

// ARQCount is the number of accelerator requests that Cyborg makes for one
// group of a device profile: the sum of its resource amounts, or, for a group
// that requires the trait CUSTOM_FPGA_XILINX, twice the amount of FPGA (or of the
// Rocky specification's CUSTOM_ACCELERATOR_FPGA, which shipped Cyborg does not
// count). Classes
// of a device's own memory (CUSTOM_ACCELERATOR_MEMORY_...) are claimed in
// Placement but are no devices and make no request; shipped Cyborg knows no such
// classes and would make one request per MiB.
// The group is held to the rules of [ParseProfile]; an error satisfies
// errors.Is with [ErrInvalidProfile] and names the key.
func ARQCount(group map[string]string) (int, error) {
	g, bad := parseGroup(group)
	if bad != nil {
		return 0, fmt.Errorf("requestspec: %w: %w", ErrInvalidProfile, bad)
	}
	return int(arqCount(g)), nil
}

// memoryClass starts the resource classes of a device's own memory.
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

// keyError is a problem with a key of a group whose profile is not known yet.
type keyError struct{ key, problem string }

func (e *keyError) Error() string {
	if e.key == "" {
		return "group: " + e.problem
	}
	return fmt.Sprintf("key %q: %s", e.key, e.problem)
}

// parseGroup reads one group, without its requester id. Keys are visited in
// order, so that of several problems always the same one is reported.
func parseGroup(group map[string]string) (Group, *keyError) {
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
			return Group{}, &keyError{key, fmt.Sprintf("means the same as key %q: suffixes inside a device profile are dropped", other)}
		}
		seen[same] = key
		if problem := g.addProfileEntry(k, group[key]); problem != "" {
			return Group{}, &keyError{key, problem}
		}
	}
	if problem := g.unschedulable(); problem != "" {
		return Group{}, &keyError{problem: problem}
	}
	return g, nil
}

// addProfileEntry takes in one entry, or says what is wrong with it.
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

// unschedulable says why no candidate, or no accelerator request, could come of
// the group; empty when it can.
func (g *Group) unschedulable() string {
	traits := len(g.Required) + len(g.Forbidden)
	switch {
	case len(g.Resources) == 0 && traits == 0:
		return "asks for nothing: no resources key"
	case len(g.Resources) == 0:
		return "has traits but no resources key; placement refuses such a group"
	case arqCount(*g) == 0 && slices.Contains(g.Required, xilinxTrait):
		return "requires trait:" + xilinxTrait + " but has no resources:FPGA, by which its accelerator requests are counted"
	case arqCount(*g) > maxAmount:
		return fmt.Sprintf("asks for %d accelerators, more than %d", arqCount(*g), maxAmount)
	}
	return ""
}
