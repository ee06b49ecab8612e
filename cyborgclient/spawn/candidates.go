package spawn

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// FindCandidates is step 3: it asks Placement for candidates. Candidates with an
// accelerator on a provider that carries OWNER_NOVA are left out, because Cyborg
// cannot bind it; shipped Nova tries them. The error matches ErrNoCandidates when no
// host has room.
func (a *Attempt) FindCandidates(ctx context.Context) error {
	return a.record.step(ctx, StepCandidates, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Spec.Groups) > 0, StepRequest); err != nil {
			return "", err
		}
		answer, err := a.askCandidates(ctx)
		if err != nil {
			return "", err
		}
		novaOwned, err := a.readCandidates(answer)
		if err != nil {
			return "", err
		}
		if err := a.dropFlat(); err != nil {
			return "", err
		}
		if a.flow.config.RotateCandidates {
			rotate(a.Candidates, a.Request.Instance)
		}
		if len(a.Candidates) == 0 {
			slices.Sort(novaOwned)
			return "", &NoCandidatesError{
				Query: a.Spec.Query(), Groups: groupsText(a.Spec.Groups), NovaOwnedProviders: slices.Compact(novaOwned),
			}
		}
		return count(len(a.Candidates), "candidate") + " on " + count(len(firstOfEachHost(a.Candidates)), "host"), nil
	})
}

// askCandidates sends the query. A Placement that does not support the microversion
// of Nova's query gets that of Stein and Train.
func (a *Attempt) askCandidates(ctx context.Context) (*allocationcandidates.AllocationCandidates, error) {
	p := a.flow.placement
	if err := a.narrowToHost(ctx); err != nil {
		return nil, err
	}
	answer, err := p.Candidates(ctx, a.Spec)
	if a.Spec.Numeric || placement.StatusOf(err) != http.StatusNotAcceptable {
		return answer, err
	}
	p.SetOld()
	if err := a.buildSpec(); err != nil {
		return nil, err
	}
	if err := a.narrowToHost(ctx); err != nil {
		return nil, err
	}
	return p.Candidates(ctx, a.Spec)
}

// narrowToHost keeps only the device groups of a running instance, in the provider
// tree of its host. An instance without an allocation does not run: its UUID is
// mistyped, and a device would be reserved for nobody.
func (a *Attempt) narrowToHost(ctx context.Context) error {
	if !a.Request.Running {
		return nil
	}
	held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	if err != nil {
		return err
	}
	if len(held.Resources) == 0 {
		return fmt.Errorf("%w: a running instance has an allocation in Placement, this one has none", ErrRequest)
	}
	a.before = held
	groups := a.deviceGroups()
	for i := range groups {
		groups[i].InTree = placement.NodeProvider(held.Resources)
	}
	a.Spec.Groups = groups
	if len(groups) < 2 {
		a.Spec.GroupPolicy = ""
	} else {
		a.Spec.GroupPolicy = cmp.Or(a.Spec.GroupPolicy, requestspec.GroupPolicyNone)
	}
	return nil
}

// readCandidates sets a.Candidates and returns the providers of those that were left
// out, because Nova owns them.
func (a *Attempt) readCandidates(answer *allocationcandidates.AllocationCandidates) (novaOwned []string, err error) {
	a.Candidates = nil
	groups, flavorGroups := a.deviceGroups(), a.Spec.DeviceGroups()
	shared := &summaries{byProvider: answer.ProviderSummaries}
	for _, request := range answer.AllocationRequests {
		c := Candidate{Allocations: make(map[string]map[string]int, len(request.Allocations)), summaries: shared}
		for provider, entry := range request.Allocations {
			c.Allocations[provider] = entry.Resources
		}
		if request.Mappings != nil {
			c.Mappings = *request.Mappings
		}
		if c.Root = shared.computeRoot(c, groups); c.Root == "" {
			return nil, fmt.Errorf("placement: a candidate over %v names no root provider", slices.Sorted(maps.Keys(c.Allocations)))
		}
		if provider := shared.novaOwned(c, flavorGroups); provider != "" {
			novaOwned = append(novaOwned, provider)
			continue
		}
		a.Candidates = append(a.Candidates, c)
	}
	return novaOwned, nil
}

// traitOwnerNova is on the compute node and on the providers of Nova's devices.
const traitOwnerNova = "OWNER_NOVA"

// summaries are the provider summaries of one answer of Placement.
type summaries struct {
	byProvider map[string]allocationcandidates.ProviderSummary
	converted  map[string]matching.Provider // see providers
}

func (s *summaries) hasTrait(provider, trait string) bool {
	traits := s.byProvider[provider].Traits
	return traits != nil && slices.Contains(*traits, trait)
}

// computeRoot returns the compute node: the root of the tree of a device provider,
// or else of any provider that does not share its inventory with other trees.
func (s *summaries) computeRoot(c Candidate, groups []requestspec.Group) string {
	for _, group := range groups {
		for _, provider := range c.Mappings[group.RequesterID] {
			return deref(s.byProvider[provider].RootProviderUUID)
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(c.Allocations)) {
		if !s.hasTrait(provider, "MISC_SHARES_VIA_AGGREGATE") {
			return deref(s.byProvider[provider].RootProviderUUID)
		}
	}
	return ""
}

// novaOwned returns a provider of the candidate that serves a group of the flavor's
// device profile and belongs to Nova. A compute root always carries OWNER_NOVA, also
// where Cyborg reports devices on it.
func (s *summaries) novaOwned(c Candidate, groups []requestspec.Group) string {
	for _, group := range groups {
		for _, provider := range c.Mappings[group.RequesterID] {
			if provider != c.Root && s.hasTrait(provider, traitOwnerNova) {
				return provider
			}
		}
	}
	return ""
}

// novaBelow returns Nova's providers below a root.
func (s *summaries) novaBelow(root string) []string {
	if s == nil {
		return nil // the caller's candidate
	}
	var nova []string
	for provider, summary := range s.byProvider {
		if provider != root && deref(summary.RootProviderUUID) == root && s.hasTrait(provider, traitOwnerNova) {
			nova = append(nova, provider)
		}
	}
	return nova
}

// providers converts the summaries to what weighers read, once for all candidates.
// It is nil for a candidate that the caller made.
func (s *summaries) providers() map[string]matching.Provider {
	if s == nil {
		return nil
	}
	if s.converted != nil {
		return s.converted
	}
	s.converted = make(map[string]matching.Provider, len(s.byProvider))
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
		s.converted[uuid] = p
	}
	return s.converted
}

// dropFlat leaves out the candidates whose devices are on the compute node itself,
// unless Compat.FlatProviders is set. Without other candidates the error matches
// ErrNoCandidates.
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
			return fmt.Errorf("%w: group %s is served by the compute node %s itself, not by a device below it (Compat.FlatProviders accepts it)",
				ErrNoCandidates, group.RequesterID, c.Root)
		}
	}
	return nil
}

// rotate moves the start of the list by a hash of the instance, so that parallel
// spawns do not all choose the first candidate.
func rotate(candidates []Candidate, instance string) {
	if len(candidates) == 0 {
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

// Select is step 4: it chooses the first candidate, after Request.Order or else
// Config.Weighers have ordered them.
func (a *Attempt) Select(ctx context.Context) error {
	return a.record.step(ctx, StepSelect, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Candidates) > 0, StepCandidates); err != nil {
			return "", err
		}
		if err := a.order(); err != nil {
			return "", err
		}
		decision, err := a.choose(ctx, a.Candidates[0])
		if reason := a.Candidates[0].Reason; reason != "" {
			decision += ": " + reason
		}
		return decision, err
	})
}

func (a *Attempt) choose(ctx context.Context, candidate Candidate) (decision string, err error) {
	host, err := a.readHost(ctx, candidate)
	if err != nil {
		return "", err
	}
	a.Chosen, a.Host, a.record.host = &candidate, host, host
	a.hosts = append(slices.Clip(a.hosts), host)
	return "host " + host, nil
}

// OrderBy returns a Request.Order that ranks the candidates by weighers, best
// first: the first decides, the next where it scores equal. The reason for each
// rank is in Candidate.Reason, and that of the chosen one in the trace.
func OrderBy(weighers ...matching.Weigher) func([]Candidate) []Candidate {
	return func(candidates []Candidate) []Candidate {
		list := make([]matching.Candidate, len(candidates))
		for i, c := range candidates {
			list[i] = matching.Candidate{
				Allocations: c.Allocations, Mappings: c.Mappings, Host: c.Root, Providers: c.summaries.providers(),
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
	if i := slices.IndexFunc(a.Candidates, func(c Candidate) bool { return len(c.Allocations) == 0 }); i >= 0 {
		return fmt.Errorf("%w: candidate %d of Request.Order, of root %s, has no allocations", ErrRequest, i+1, a.Candidates[i].Root)
	}
	return nil
}

// weighersOf returns the named weighers; the error matches ErrConfig and names an
// unknown one.
func weighersOf(names []Weigher, profile requestspec.DeviceProfile) ([]matching.Weigher, error) {
	known := map[Weigher]matching.Weigher{
		WeigherFunction: matching.FunctionLoaded(profile, nil), WeigherFragments: matching.FewestFragments(), WeigherNUMA: matching.NUMAAffinity(),
	}
	weighers := make([]matching.Weigher, 0, len(names))
	for _, name := range names {
		if known[name] == nil {
			return nil, fmt.Errorf("%w: weighers: unknown weigher %q; known are %s, %s, %s", ErrConfig, name, WeigherFragments, WeigherFunction, WeigherNUMA)
		}
		weighers = append(weighers, known[name])
	}
	return weighers, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
