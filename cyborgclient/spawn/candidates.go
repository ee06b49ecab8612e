package spawn

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// FindCandidates is step 3: it asks Placement. Candidates with an accelerator on a
// provider that carries OWNER_NOVA are left out, which shipped Nova would try in vain.
// The error matches ErrNoCandidates when no host has room.
func (a *Attempt) FindCandidates(ctx context.Context) error {
	return a.step(ctx, StepCandidates, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Spec.Groups) > 0, StepRequest); err != nil {
			return "", err
		}
		answer, err := a.askCandidates(ctx)
		if err != nil {
			return "", err
		}
		var novas []string
		a.Candidates = nil
		shared := &summaries{byProvider: answer.ProviderSummaries}
		for _, request := range answer.AllocationRequests {
			candidate, err := a.candidate(request, answer.ProviderSummaries)
			if err != nil {
				return "", err
			}
			if provider := a.novasOwn(candidate, answer.ProviderSummaries); provider != "" {
				novas = append(novas, provider)
				continue
			}
			candidate.summaries = shared
			a.Candidates = append(a.Candidates, candidate)
		}
		if err := a.dropFlat(); err != nil {
			return "", err
		}
		if a.flow.config.RotateCandidates {
			rotate(a.Candidates, a.Request.Instance)
		}
		if len(a.Candidates) == 0 {
			slices.Sort(novas)
			return "", &NoCandidatesError{Query: a.Spec.Query(), Groups: groupsText(a.Spec.Groups), NovasOwn: slices.Compact(novas)}
		}
		return count(len(a.Candidates), "candidate") + " on " + count(len(firstOfEachHost(a.Candidates)), "host"), nil
	})
}

// askCandidates sends the query. A Placement that does not know the
// microversion of Nova's query is asked again as Stein and Train asked.
func (a *Attempt) askCandidates(ctx context.Context) (*allocationcandidates.AllocationCandidates, error) {
	p := a.flow.placement
	if err := a.narrowToHost(ctx); err != nil && statusOf(err) != http.StatusNotAcceptable {
		return nil, err
	}
	answer, err := p.candidates(ctx, a.Spec)
	if p.old() || statusOf(err) != http.StatusNotAcceptable {
		return answer, err
	}
	p.legacy.Store(true)
	if err := a.buildSpec(); err != nil {
		return nil, err
	}
	if err := a.narrowToHost(ctx); err != nil {
		return nil, err
	}
	return p.candidates(ctx, a.Spec)
}

// narrowToHost keeps only the device groups, in the provider tree where the
// instance is. An instance that holds nothing is asked for as a whole.
func (a *Attempt) narrowToHost(ctx context.Context) error {
	if !a.Request.Running {
		return nil
	}
	held, err := a.flow.placement.getAllocation(ctx, a.Request.Instance)
	if err != nil {
		return err
	}
	if len(held.Resources) == 0 {
		return nil
	}
	a.before = held
	groups := a.deviceGroups()
	for i := range groups {
		groups[i].InTree = nodeProvider(held.Resources)
	}
	a.Spec.Groups = groups
	if len(groups) < 2 {
		a.Spec.GroupPolicy = ""
	} else {
		a.Spec.GroupPolicy = cmp.Or(a.Spec.GroupPolicy, "none")
	}
	return nil
}

// nodeProvider picks, of the providers that an instance uses, one in the tree
// of its compute node. Disk and addresses may come from a sharing provider in a
// tree of its own; processors and memory do not.
func nodeProvider(held map[string]map[string]int) string {
	providers := slices.Sorted(maps.Keys(held))
	for _, provider := range providers {
		for _, class := range []string{"VCPU", "PCPU", "MEMORY_MB"} {
			if held[provider][class] > 0 {
				return provider
			}
		}
	}
	return providers[0]
}

func (a *Attempt) candidate(request allocationcandidates.AllocationRequest, summaries map[string]allocationcandidates.ProviderSummary) (Candidate, error) {
	c := Candidate{Allocations: make(map[string]map[string]int, len(request.Allocations))}
	for provider, entry := range request.Allocations {
		c.Allocations[provider] = entry.Resources
	}
	if request.Mappings != nil {
		c.Mappings = *request.Mappings
	}
	c.Root = a.computeRoot(c, summaries)
	if c.Root == "" {
		return c, fmt.Errorf("placement: a candidate over %v names no root provider", slices.Sorted(maps.Keys(c.Allocations)))
	}
	return c, nil
}

// computeRoot finds the compute node: the root of the tree of a device
// provider, or else of any provider that does not share its inventory with
// other trees.
func (a *Attempt) computeRoot(c Candidate, summaries map[string]allocationcandidates.ProviderSummary) string {
	for _, group := range a.deviceGroups() {
		for _, provider := range c.Mappings[group.RequesterID] {
			return deref(summaries[provider].RootProviderUUID)
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(c.Allocations)) {
		summary := summaries[provider]
		if summary.Traits == nil || !slices.Contains(*summary.Traits, "MISC_SHARES_VIA_AGGREGATE") {
			return deref(summary.RootProviderUUID)
		}
	}
	return ""
}

// novasOwn returns a provider of the candidate that a device profile's group landed
// on although Nova offers it by itself: Cyborg knows nothing of it and could never
// bind it. A compute root is Nova's always, also where Cyborg's devices stand on it.
func (a *Attempt) novasOwn(c Candidate, summaries map[string]allocationcandidates.ProviderSummary) string {
	for _, group := range a.Spec.DeviceGroups() {
		for _, provider := range c.Mappings[group.RequesterID] {
			traits := summaries[provider].Traits
			if provider != c.Root && traits != nil && slices.Contains(*traits, "OWNER_NOVA") {
				return provider
			}
		}
	}
	return ""
}

// dropFlat leaves out the candidates whose devices are the compute node's own,
// unless Compat.FlatProviders takes them. When there are no others, the error
// says so and matches ErrNoCandidates.
func (a *Attempt) dropFlat() error {
	if a.flow.config.Compat.FlatProviders {
		return nil
	}
	groups := a.deviceGroups()
	var flat error
	a.Candidates = slices.DeleteFunc(a.Candidates, func(c Candidate) bool {
		err := checkNested(groups, c)
		flat = cmp.Or(flat, err)
		return err != nil
	})
	if len(a.Candidates) > 0 {
		return nil
	}
	return flat
}

func checkNested(groups []requestspec.Group, c Candidate) error {
	for _, group := range groups {
		if slices.Contains(c.Mappings[group.RequesterID], c.Root) {
			return fmt.Errorf("%w: group %s is served by the compute node %s itself and by no device below it (Compat.FlatProviders takes it)",
				ErrNoCandidates, group.RequesterID, c.Root)
		}
	}
	return nil
}

// rotate begins the list elsewhere for every instance, so that parallel spawns
// do not all want the first candidate.
func rotate(candidates []Candidate, instance string) {
	if len(candidates) < 2 {
		return
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(instance))
	n := int(hash.Sum32() % uint32(len(candidates)))
	copy(candidates, slices.Concat(candidates[n:], candidates[:n]))
}

func firstOfEachHost(candidates []Candidate) []Candidate {
	seen := map[string]bool{}
	var first []Candidate
	for _, c := range candidates {
		if !seen[c.Root] {
			seen[c.Root] = true
			first = append(first, c)
		}
	}
	return first
}

// Select is step 4: the first candidate of the first host, after
// Request.Order or else Config.Weighers, if any.
func (a *Attempt) Select(ctx context.Context) error {
	return a.step(ctx, StepSelect, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Candidates) > 0, StepCandidates); err != nil {
			return "", err
		}
		if err := a.order(); err != nil {
			return "", err
		}
		decision, err := a.choose(ctx, a.Candidates[0])
		return a.Candidates[0].withReason(decision), err
	})
}

func (a *Attempt) choose(ctx context.Context, candidate Candidate) (decision string, err error) {
	host, err := a.flow.placement.providerName(ctx, candidate.Root)
	if err != nil {
		return "", err
	}
	a.Chosen, a.Host = &candidate, host
	return "host " + host, nil
}

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
