package matching

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/requestspec"
)

// keyFunctionID is the key by which a group names a function.
const keyFunctionID = "accel:function_id"

// programming are the keys by which a group says what is to be programmed.
func programming() []string {
	return []string{keyFunctionID, "accel:function_name", "accel:bitstream_id", "accel:bitstream_name"}
}

// functionTrait starts the traits that tell which function a region has.
const functionTrait = "CUSTOM_FPGA_FUNCTION_"

// Loaded answers whether a provider is known to have what a group wants
// programmed: key is accel:function_id or one of its relatives.
type Loaded func(provider, key, value string) bool

// FunctionLoaded is a weigher that ranks a candidate higher the more of its
// regions have the function, or the bitstream, that the group of the profile
// wants: binding there needs no programming (Rocky specification, "Scheduling
// workflow"). The score is the number of such groups. A region tells its function
// by a trait CUSTOM_FPGA_FUNCTION_..._<function id>; that it has a bitstream, or a
// function of a certain name, does not show in Placement. known, if not nil, is
// asked as well and may know better, from Cyborg's deployables for example.
func FunctionLoaded(profile requestspec.DeviceProfile, known Loaded) Weigher {
	return func(c Candidate) (float64, string) {
		wanted, loaded := 0, 0
		var reasons []string
		for i, group := range profile.Groups {
			key, value := wantedProgram(group)
			if key == "" {
				continue
			}
			wanted++
			provider := c.device(i)
			if provider != "" && (c.hasFunction(provider, key, value) || known != nil && known(provider, key, value)) {
				loaded++
				reasons = append(reasons, fmt.Sprintf("%s has %s", provider, value))
				continue
			}
			reasons = append(reasons, fmt.Sprintf("%s has to be programmed with %s", orUnmapped(provider), value))
		}
		if wanted == 0 {
			return 0, "nothing is to be programmed"
		}
		return float64(loaded), strings.Join(reasons, ", ")
	}
}

func orUnmapped(provider string) string {
	if provider == "" {
		return "an unknown provider"
	}
	return provider
}

// wantedProgram is the one thing that a group wants programmed.
func wantedProgram(group map[string]string) (key, value string) {
	for _, key := range programming() {
		if value := group[key]; value != "" {
			return key, value
		}
	}
	return "", ""
}

// device is the provider that serves a group of the device profile.
func (c Candidate) device(group int) string {
	if providers := c.Mappings[requestspec.RequesterID(group)]; len(providers) > 0 {
		return providers[0]
	}
	return ""
}

func (c Candidate) hasFunction(provider, key, value string) bool {
	if key != keyFunctionID {
		return false
	}
	name := "_" + requestspec.NormalizeTrait(value)
	return slices.ContainsFunc(c.Providers[provider].Traits, func(trait string) bool {
		return strings.HasPrefix(trait, functionTrait) && strings.HasSuffix(trait, name)
	})
}

// devices are the providers of the candidate that serve groups with a requester
// id, each once, in order.
func (c Candidate) devices() []string {
	var list []string
	for id, providers := range c.Mappings {
		if id != "" {
			list = append(list, providers...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// FewestFragments is a weigher that ranks a candidate higher the fewer devices
// it leaves in part used: whole devices stay whole, for requests of many units on
// one provider. The score is how many of its devices were in part used and will
// be full, less how many were unused and will be in part used. The root's own
// resources and a device of one unit, which is never in part used, do not count.
func FewestFragments() Weigher {
	return func(c Candidate) (float64, string) {
		filled, broken := 0, 0
		for _, provider := range c.devices() {
			before, after := c.fragment(provider)
			if before && !after {
				filled++
			}
			if !before && after {
				broken++
			}
		}
		return float64(filled - broken), fmt.Sprintf("fills up %d and breaks into %d devices", filled, broken)
	}
}

// fragment reports whether a device is in part used, before and after the claim.
// Of its classes those count that the candidate takes.
func (c Candidate) fragment(provider string) (before, after bool) {
	known := c.Providers[provider]
	for class, amount := range c.Allocations[provider] {
		used, capacity := known.Used[class], known.Capacity[class]
		before = before || used > 0 && used < capacity
		after = after || used+amount > 0 && used+amount < capacity
	}
	return before, after
}

// Node tells on which NUMA node of its host a provider is; false if nobody knows.
type Node func(c Candidate, provider string) (node string, ok bool)

// NUMAByTree finds the node of a provider in the tree: the nearest provider at
// or above it with the trait HW_NUMA_ROOT, which Nova's and Neutron's nested
// providers model a NUMA node by.
func NUMAByTree(c Candidate, provider string) (string, bool) {
	for range len(c.Providers) { // a tree without a ring ends sooner
		p, ok := c.Providers[provider]
		if !ok {
			return "", false
		}
		if slices.Contains(p.Traits, "HW_NUMA_ROOT") {
			return provider, true
		}
		provider = p.Parent
	}
	return "", false
}

var numaTrait = regexp.MustCompile(`^CUSTOM_(?:[A-Z0-9_]*_)?NUMA_?(?:NODE)?_?([0-9]+)$`)

// NUMAByTrait finds the node of a provider by its own custom trait, such as
// CUSTOM_NUMA_1 or CUSTOM_GPU_NUMA_NODE_1, with which operators mark devices.
func NUMAByTrait(c Candidate, provider string) (string, bool) {
	for _, trait := range c.Providers[provider].Traits {
		if m := numaTrait.FindStringSubmatch(trait); m != nil {
			return m[1], true
		}
	}
	return "", false
}

// NUMAAffinity is a weigher that ranks a candidate higher the fewer NUMA nodes
// its devices, and what else its groups with a requester id are served by, are
// spread over. The score is the number of those that are on the node of most,
// less those elsewhere. A provider whose node nobody knows counts neither way.
// The nodes are found by the first of find that knows; without any by
// [NUMAByTree], then [NUMAByTrait].
func NUMAAffinity(find ...Node) Weigher {
	if len(find) == 0 {
		find = []Node{NUMAByTree, NUMAByTrait}
	}
	return func(c Candidate) (float64, string) {
		nodes := map[string]int{}
		total := 0
		for _, provider := range c.devices() {
			for _, node := range find {
				if name, ok := node(c, provider); ok {
					nodes[name]++
					total++
					break
				}
			}
		}
		if total == 0 {
			return 0, "no NUMA node is known"
		}
		most := slices.Max(slices.Collect(maps.Values(nodes)))
		return float64(most - (total - most)), fmt.Sprintf("%d devices on %d NUMA nodes", total, len(nodes))
	}
}
