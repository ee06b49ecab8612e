package matching

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/requestspec"
)

// keyFunctionID is the key of a function in a group.
const keyFunctionID = "accel:function_id"

// programming are the keys of a group that name what Cyborg has to program.
func programming() []string {
	return []string{keyFunctionID, "accel:function_name", "accel:bitstream_id", "accel:bitstream_name"}
}

// FunctionLoaded is a weigher that prefers candidates whose regions have the function
// or bitstream of the group, so that binding needs no programming (Rocky
// specification, "Scheduling workflow"). The score is the number of such groups. In
// Placement a region has a trait with the function's id ([requestspec.NamesFunction]),
// but nothing for a bitstream or the name of a function. loaded, if not nil, may find those, for
// example in Cyborg's deployables; key is accel:function_id or one of the similar keys.
func FunctionLoaded(profile requestspec.Profile, loaded func(provider, key, value string) bool) Weigher {
	return func(c Candidate) (float64, string) {
		ready := 0
		var reasons []string
		for i, group := range profile.Groups {
			key, value := wantedProgram(group)
			if key == "" {
				continue
			}
			provider := c.device(i)
			if provider != "" && (c.hasFunction(provider, key, value) || loaded != nil && loaded(provider, key, value)) {
				ready++
				reasons = append(reasons, fmt.Sprintf("%s has %s", provider, value))
				continue
			}
			reasons = append(reasons, fmt.Sprintf("%s has to be programmed with %s", cmp.Or(provider, "an unknown provider"), value))
		}
		if len(reasons) == 0 {
			return 0, "no programming is needed"
		}
		return float64(ready), strings.Join(reasons, ", ")
	}
}

// wantedProgram returns the programming key of a group and its value.
func wantedProgram(group map[string]string) (key, value string) {
	for _, key := range programming() {
		if value := group[key]; value != "" {
			return key, value
		}
	}
	return "", ""
}

// device returns the provider of a group of the device profile.
func (c Candidate) device(group int) string {
	if providers := c.Mappings[requestspec.RequesterID(group)]; len(providers) > 0 {
		return providers[0]
	}
	return ""
}

func (c Candidate) hasFunction(provider, key, value string) bool {
	return key == keyFunctionID && slices.ContainsFunc(c.Providers[provider].Traits, func(trait string) bool {
		return requestspec.NamesFunction(trait, value)
	})
}

// devices returns the providers of the suffixed groups, sorted and without duplicates.
func (c Candidate) devices() []string {
	list := make([]string, 0, len(c.Mappings))
	for id, providers := range c.Mappings {
		if id != "" {
			list = append(list, providers...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// FewestFragments is a weigher that prefers candidates that leave fewer devices partly
// used, so that whole devices remain for requests of many units on one provider. The
// score is the number of partly used devices that become full minus the number of
// unused devices that become partly used. The root's own resources and devices of one unit do not count.
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
		return float64(filled - broken), "partly used devices filled: " + strconv.Itoa(filled) + ", unused devices fragmented: " + strconv.Itoa(broken)
	}
}

// fragment reports whether a device is partly used before and after the claim, in the
// classes of the candidate.
func (c Candidate) fragment(provider string) (before, after bool) {
	known := c.Providers[provider]
	for class, amount := range c.Allocations[provider] {
		used, capacity := known.Used[class], known.Capacity[class]
		before = before || used > 0 && used < capacity
		after = after || used+amount < capacity
	}
	return before, after
}

// numaByTree returns the nearest provider at or above a provider with the trait
// HW_NUMA_ROOT, which Nova's and Neutron's nested providers have for a NUMA node.
func (c Candidate) numaByTree(provider string) string {
	for range len(c.Providers) { // ends if the parents form a cycle
		p, ok := c.Providers[provider]
		if !ok {
			return ""
		}
		if slices.Contains(p.Traits, "HW_NUMA_ROOT") {
			return provider
		}
		provider = p.Parent
	}
	return ""
}

var numaTrait = regexp.MustCompile(`^CUSTOM_(?:[A-Z0-9_]*_)?NUMA_?(?:NODE)?_?([0-9]+)$`)

// numaByTrait returns the NUMA node of a custom trait of operators, such as
// CUSTOM_NUMA_1 or CUSTOM_GPU_NUMA_NODE_1.
func (c Candidate) numaByTrait(provider string) string {
	for _, trait := range c.Providers[provider].Traits {
		if m := numaTrait.FindStringSubmatch(trait); m != nil {
			return m[1]
		}
	}
	return ""
}

// NUMAAffinity is a weigher that prefers candidates whose suffixed groups are on fewer
// NUMA nodes. The score is the number of their providers on the most frequent node
// minus the number of those on others. The node of a provider is its nearest ancestor,
// or itself, with the trait HW_NUMA_ROOT, else the number in a custom trait such as
// CUSTOM_NUMA_1; providers without a node do not count.
func NUMAAffinity() Weigher {
	return func(c Candidate) (float64, string) {
		nodes := map[string]int{}
		total := 0
		for _, provider := range c.devices() {
			if node := cmp.Or(c.numaByTree(provider), c.numaByTrait(provider)); node != "" {
				nodes[node]++
				total++
			}
		}
		if total == 0 {
			return 0, "no NUMA node is known"
		}
		most := slices.Max(slices.Collect(maps.Values(nodes)))
		return float64(most - (total - most)), fmt.Sprintf("devices: %d, NUMA nodes: %d", total, len(nodes))
	}
}
