package placement

import (
	"maps"
	"slices"
	"strings"
)

// Resources is provider UUID -> resource class -> amount.
type Resources = map[string]map[string]int

// Add returns the sum of two sets of resources without changing either.
func Add(a, b Resources) Resources {
	sum := make(Resources, len(a)+len(b))
	for _, part := range []Resources{a, b} {
		for provider, resources := range part {
			if sum[provider] == nil {
				sum[provider] = make(map[string]int, len(resources))
			}
			for class, amount := range resources {
				sum[provider][class] += amount
			}
		}
	}
	return sum
}

// Subtract returns the difference of two sets of resources without changing either.
func Subtract(from, part Resources) Resources {
	rest := make(Resources, len(from))
	for provider, resources := range from {
		for class, amount := range resources {
			if amount -= part[provider][class]; amount <= 0 {
				continue
			}
			if rest[provider] == nil {
				rest[provider] = make(map[string]int, len(resources))
			}
			rest[provider][class] = amount
		}
	}
	return rest
}

// Clone copies resources and their strings, which may be parts of a long response.
func Clone(r Resources) Resources {
	copied := make(Resources, len(r))
	for provider, resources := range r {
		amounts := make(map[string]int, len(resources))
		for class, amount := range resources {
			amounts[strings.Clone(class)] = amount
		}
		copied[strings.Clone(provider)] = amounts
	}
	return copied
}

// Equal reports whether two sets of resources are equal.
func Equal(a, b Resources) bool {
	return maps.EqualFunc(a, b, func(x, y map[string]int) bool { return maps.Equal(x, y) })
}

// Contains reports whether held includes all resources of part.
func Contains(held, part Resources) bool { return len(Subtract(part, held)) == 0 }

// Devices are the resource classes of devices, by provider.
type Devices map[string]map[string]bool

// Add adds a resource class to a provider.
func (d Devices) Add(provider, class string) {
	if d[provider] == nil {
		d[provider] = map[string]bool{}
	}
	d[provider][class] = true
}

// Without returns resources without the resources of devices. On a flat host the device provider is the compute node;
// its other resources are kept.
func Without(held Resources, devices Devices) Resources {
	kept := maps.Clone(held)
	for provider, classes := range devices {
		resources := maps.Clone(held[provider])
		isNode := onNode(resources) || resources["DISK_GB"] > 0
		maps.DeleteFunc(resources, func(class string, _ int) bool { return !isNode || classes[class] })
		if kept[provider] = resources; len(resources) == 0 {
			delete(kept, provider)
		}
	}
	return kept
}

// WithoutMemory returns resources without device memory on any provider. Memory that the regions of a card share is
// on the provider of the card, which Cyborg does not list.
func WithoutMemory(held Resources) Resources {
	kept := Clone(held)
	for provider, resources := range kept {
		maps.DeleteFunc(resources, func(class string, _ int) bool { return isMemory(class) })
		if len(resources) == 0 {
			delete(kept, provider)
		}
	}
	return kept
}

// HasMemory reports whether resources of a provider include device memory.
func HasMemory(resources map[string]int) bool {
	for class := range resources {
		if isMemory(class) {
			return true
		}
	}
	return false
}

// isMemory reports whether a resource class is device memory, such as CUSTOM_ACCELERATOR_MEMORY_HBM.
func isMemory(class string) bool { return strings.HasPrefix(class, "CUSTOM_ACCELERATOR_MEMORY_") }

// Elsewhere returns the resources on all but the given providers.
func Elsewhere(held Resources, providers map[string]bool) Resources {
	rest := maps.Clone(held)
	maps.DeleteFunc(rest, func(provider string, _ map[string]int) bool { return providers[provider] })
	return rest
}

// onNode reports whether resources are on a compute node: processors and memory always are; disk and addresses may
// come from a sharing provider in another tree.
func onNode(resources map[string]int) bool {
	return resources["VCPU"] > 0 || resources["PCPU"] > 0 || resources["MEMORY_MB"] > 0
}

// NodeProviders returns the providers of an instance's compute resources, sorted.
func NodeProviders(held Resources) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(held)), func(provider string) bool { return !onNode(held[provider]) })
}
