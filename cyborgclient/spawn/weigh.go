package spawn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// The weighers that Config.Weighers may name.
const (
	// WeighFunction ranks candidates first whose regions have the function that
	// the device profile wants; see matching.FunctionLoaded.
	WeighFunction = "function"
	// WeighFragments ranks candidates first that break into the fewest devices;
	// see matching.FewestFragments.
	WeighFragments = "fragments"
	// WeighNUMA ranks candidates first whose devices are on one NUMA node; see
	// matching.NUMAAffinity.
	WeighNUMA = "numa"
)

// OrderBy returns a Request.Order that ranks the candidates by weighers, best
// first: the first decides, the next where it scores equal. The reason for each
// rank is in Candidate.Reason, and that of the chosen one in the trace.
func OrderBy(weighers ...matching.Weigher) func([]Candidate) []Candidate {
	return func(candidates []Candidate) []Candidate {
		converted := converter{}
		list := make([]matching.Candidate, len(candidates))
		for i, c := range candidates {
			list[i] = matching.Candidate{
				Allocations: c.Allocations, Mappings: c.Mappings, Host: c.Root, Providers: converted.providers(c.summaries),
			}
		}
		ordered := make([]Candidate, 0, len(list))
		for _, w := range matching.Weigh(list, weighers...) {
			candidate := candidates[w.Index]
			candidate.Reason = w.Reason
			ordered = append(ordered, candidate)
		}
		return ordered
	}
}

// converter turns provider summaries into what weighers look at, once for all
// candidates of an answer: they share their summaries.
type converter struct {
	from *summaries
	to   map[string]matching.Provider
}

// summaries are the provider summaries of one answer of Placement.
type summaries struct {
	byProvider map[string]allocationcandidates.ProviderSummary
}

func (c *converter) providers(s *summaries) map[string]matching.Provider {
	if s == nil {
		return nil
	}
	if c.from == s {
		return c.to
	}
	c.from, c.to = s, make(map[string]matching.Provider, len(s.byProvider))
	for uuid, summary := range s.byProvider {
		p := matching.Provider{
			Parent:   deref(summary.ParentProviderUUID),
			Capacity: make(map[string]int, len(summary.Resources)), Used: make(map[string]int, len(summary.Resources)),
		}
		if summary.Traits != nil {
			p.Traits = *summary.Traits
		}
		for class, resource := range summary.Resources {
			p.Capacity[class], p.Used[class] = resource.Capacity, resource.Used
		}
		c.to[uuid] = p
	}
	return c.to
}

// order applies Request.Order or, without one, the weighers of the configuration.
func (a *Attempt) order() error {
	order := a.Request.Order
	if order == nil && len(a.flow.config.Weighers) > 0 {
		var profile requestspec.DeviceProfile
		if a.Profile != nil {
			profile = *a.Profile
		}
		weighers, err := weighersOf(a.flow.config.Weighers, profile)
		if err != nil {
			return err
		}
		order = OrderBy(weighers...)
	}
	if order != nil {
		a.Candidates = order(slices.Clone(a.Candidates))
	}
	if len(a.Candidates) == 0 {
		return fmt.Errorf("%w: none is left after ordering", ErrNoCandidates)
	}
	return nil
}

// weighersOf makes the weighers of names; the error matches ErrConfig and names
// the one that is not known.
func weighersOf(names []string, profile requestspec.DeviceProfile) ([]matching.Weigher, error) {
	known := map[string]matching.Weigher{
		WeighFunction: matching.FunctionLoaded(profile, nil), WeighFragments: matching.FewestFragments(), WeighNUMA: matching.NUMAAffinity(),
	}
	weighers := make([]matching.Weigher, 0, len(names))
	for _, name := range names {
		if known[name] == nil {
			return nil, fmt.Errorf("%w: weighers: unknown weigher %q; known are %s", ErrConfig, name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		weighers = append(weighers, known[name])
	}
	return weighers, nil
}

// withReason adds to the decision of a step why the candidate was taken.
func (c Candidate) withReason(decision string) string {
	return strings.TrimSuffix(decision+": "+cmp.Or(c.Reason, ""), ": ")
}
