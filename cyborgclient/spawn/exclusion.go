package spawn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Exclusion says why a candidate is not tried: a resource provider serves a request group that it cannot serve
// usefully. Shipped Nova tries such a candidate. Then the bind fails, or the instance gets no device for its
// allocation.
type Exclusion struct {
	// Group is the requester id of the request group; empty for the unsuffixed group of the
	// flavor.
	Group string
	// Provider is the UUID of the resource provider.
	Provider string
	// Reason describes the provider and what to do.
	Reason string
}

// The reasons to exclude a candidate.
const (
	reasonNova   = "a provider with OWNER_NOVA, whose device Cyborg cannot bind"
	reasonNode   = "the compute node itself, not by a device below it (Compat.FlatProviders accepts it)"
	reasonCyborg = "a provider of Cyborg's, and the flavor makes no accelerator request for it (request the device with a device profile)"
)

// exclude returns why a candidate is excluded, and whether it is. Devices are the groups of device profiles: only
// these get accelerator requests, so Cyborg's devices must serve them, and must not serve any other group.
func (a *Attempt) exclude(c Candidate, devices []requestspec.Group) (reason Exclusion, out bool) {
	flat := a.flow.config.Compat.FlatProviders
	for _, group := range a.Spec.Groups {
		device := slices.ContainsFunc(devices, func(d requestspec.Group) bool { return d.RequesterID == group.RequesterID })
		for _, provider := range c.serving(group) {
			reason = Exclusion{Group: group.RequesterID, Provider: provider}
			node := provider == c.Root
			switch {
			case device && node && !flat:
				reason.Reason = reasonNode
			case device && !node && c.summaries.kind(provider)&placement.KindNova != 0:
				reason.Reason = reasonNova
			case !device && node && c.nodeServes(group, devices):
				reason.Reason = reasonCyborg
			case !device && !node && c.summaries.isCyborgs(provider):
				reason.Reason = reasonCyborg
			default:
				continue
			}
			return reason, true
		}
	}
	return Exclusion{}, false
}

// serving returns the providers of a group. Before Placement 1.34 a candidate has no mappings, and all providers of a
// class of the group are returned. A candidate is unusable anyway if a device profile and the flavor request the same
// class, see [matching.Search].
func (c Candidate) serving(group requestspec.Group) []string {
	if c.Mappings != nil {
		return c.Mappings[group.RequesterID]
	}
	var providers []string
	for provider, resources := range c.Allocations {
		for class := range group.Resources {
			if resources[class] > 0 {
				providers = append(providers, provider)
				break
			}
		}
	}
	slices.Sort(providers)
	return providers
}

// classVGPU is the resource class of Nova's vGPUs, and of Cyborg's.
const classVGPU = "VGPU"

// nodeServes reports whether the compute node itself serves a class of the group that only Cyborg can have reported
// there, as on a flat host: Nova reports VGPU below the node, and provider.yaml has only custom classes. Amounts for
// device profiles are not counted.
func (c Candidate) nodeServes(group requestspec.Group, devices []requestspec.Group) bool {
	for _, class := range []string{"FPGA", "PGPU", classVGPU} {
		amount := c.Allocations[c.Root][class]
		for _, d := range devices {
			if slices.Contains(c.serving(d), c.Root) {
				amount -= d.Resources[class]
			}
		}
		if amount > 0 && group.Resources[class] > 0 {
			return true
		}
	}
	return false
}

// kind returns the kind of a provider; 0 for candidates that the caller made.
func (s *summaries) kind(provider string) placement.Kind {
	if s == nil {
		return 0
	}
	return s.Of(provider).Kind
}

// isCyborgs reports whether a provider below a compute node belongs to Cyborg. Few drivers report OWNER_CYBORG: none
// before 11.0.0, then NVIDIA's, and since 17.0.0 the PCI driver. Without the trait the UUID decides, which is of
// version 3 in every release. If an operator has created a provider with such a UUID, OWNER_NOVA marks it as not
// Cyborg's. A false positive is an error that names the provider; a false negative would be a lost device.
func (s *summaries) isCyborgs(provider string) bool {
	switch kind := s.kind(provider); {
	case kind&placement.KindCyborg != 0:
		return true
	case kind != 0, s == nil, s.Of(provider).Parent == "": // also a root, such as one that shares its disks
		return false
	}
	return isCyborgs(provider)
}

// shownProviders is the number of providers that an error names for each reason.
const shownProviders = 3

// exclusionsText describes the reasons, with the first providers of each.
func exclusionsText(list []Exclusion) string {
	type cause struct{ group, reason string }
	var causes []cause
	providers := map[cause][]string{}
	for _, l := range list {
		c := cause{l.Group, l.Reason}
		if providers[c] == nil {
			causes = append(causes, c)
		}
		providers[c] = append(providers[c], l.Provider)
	}
	texts := make([]string, len(causes))
	for i, c := range causes {
		group, named, more := "the flavor", providers[c], ""
		if c.group != "" {
			group = "group " + c.group
		}
		if len(named) > shownProviders {
			named, more = named[:shownProviders], fmt.Sprintf(" and %d more", len(named)-shownProviders)
		}
		texts[i] = group + " is served by " + c.reason + ": " + strings.Join(named, ", ") + more
	}
	return strings.Join(texts, "; ")
}
