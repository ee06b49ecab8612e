package spawn

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// FindCandidates is step 3: it asks Placement for allocation candidates. Shipped Nova tries all of them.
// FindCandidates excludes candidates that cannot provide the accelerators, see [Exclusion]: a device profile's device
// on a provider of Nova, which Cyborg cannot bind, and a group of the flavor itself on a provider of Cyborg, for
// which there would be no accelerator request. The error is a [*NoCandidatesError], which matches ErrNoCandidates,
// when no host has room or all candidates are excluded.
//
// The first request asks for few candidates: two for each host that may be tried and for each alternate, times the
// number of orders of several devices. While there are more and the candidates found cover fewer than
// Config.MaxAttempts hosts, the limit is multiplied by four, up to [requestspec.DefaultLimit]. If all of these are
// excluded or on hosts to avoid, the limit grows further, up to 64 times as many. The first limit is DefaultLimit if
// Request.Order or Config.Weighers order the candidates, and Request.Options.Limit if it is set. Unless
// Config.PlacementOrder is set, the order of the candidates depends on the instance.
func (a *Attempt) FindCandidates(ctx context.Context) error {
	return a.record.step(ctx, StepCandidates, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Spec.Groups) > 0, StepRequest); err != nil {
			return "", err
		}
		if err := a.narrowToHost(ctx); err != nil {
			return "", err
		}
		a.queue.Begin(a.limits())
		if err := a.askCandidates(ctx); err != nil {
			return "", err
		}
		return count(len(a.Candidates), "candidate") + " on " + count(choose.Hosts(inQueue(a.Candidates)), "host"), nil
	})
}

// limits returns how many candidates to ask for. A running instance needs candidates on its own host only.
func (a *Attempt) limits() choose.Limits {
	all, attempts := a.Spec.Limit, a.flow.config.MaxAttempts
	hosts := attempts
	if a.Request.running {
		hosts = 1
	}
	switch {
	case all == 0, a.Request.Options.Limit != 0:
		return choose.Fixed(all, hosts)
	case a.Request.Order != nil, len(a.flow.config.Weighers) > 0, len(a.avoided) > 0:
		return choose.Whole(all, hosts)
	}
	return choose.Few(all, attempts, len(a.deviceGroups()), hosts)
}

// askCandidates asks until the candidates cover as many hosts as may be tried, or there are no more.
func (a *Attempt) askCandidates(ctx context.Context) error {
	for limit, again := a.queue.Ask(), true; again; {
		spec := a.Spec
		spec.Limit = limit
		answer, err := a.sendQuery(ctx, &spec)
		if err != nil {
			return err
		}
		excluded, err := a.readCandidates(answer)
		if err != nil {
			return err
		}
		a.dropAvoided()
		limit, again = a.queue.Answered(limit, len(answer.Requests), inQueue(a.Candidates))
		if len(a.Candidates) == 0 && !again {
			err := &NoCandidatesError{Query: spec.Query(), Groups: groupsText(spec.Groups), Excluded: excluded}
			if len(a.avoided) > 0 {
				return fmt.Errorf("%w; hosts that are avoided do not count", err)
			}
			return err
		}
	}
	if !a.flow.config.PlacementOrder {
		spread(a.Candidates, a.Request.Instance)
	}
	return nil
}

// sendQuery sends a query. If Placement does not support its microversion, it sends the query of Stein and Train.
func (a *Attempt) sendQuery(ctx context.Context, spec *requestspec.RequestSpec) (*placement.Candidates, error) {
	p := a.flow.placement
	answer, err := p.Candidates(ctx, *spec)
	if spec.Numeric || !placement.VersionRefused(err) {
		return answer, err
	}
	p.SetOld()
	if err := a.buildSpec(); err != nil {
		return nil, err
	}
	if err := a.narrowToHost(ctx); err != nil {
		return nil, err
	}
	limit := spec.Limit
	*spec = a.Spec
	spec.Limit = limit
	return p.Candidates(ctx, *spec)
}

// narrowToHost keeps only the device groups of a running instance, in the provider tree of its host. An instance
// without an allocation is not running: its UUID is probably mistyped, and the device would be reserved for no
// instance.
func (a *Attempt) narrowToHost(ctx context.Context) error {
	if !a.Request.running {
		return nil
	}
	if err := a.readBefore(ctx); err != nil {
		return err
	}
	if len(a.before.Resources) == 0 {
		return fmt.Errorf("%w: a running instance has an allocation in Placement, this one has none", ErrRequest)
	}
	if err := a.refuseSecondDevice(ctx); err != nil {
		return err
	}
	node, err := a.onlyNode(ctx, a.before.Resources)
	if err != nil {
		return err
	}
	groups := a.deviceGroups()
	for i := range groups {
		groups[i].InTree = node
	}
	a.Spec.SameSubtree = subtreesOf(groups, a.Spec.SameSubtree)
	a.Spec.Groups = groups
	if len(groups) < 2 {
		a.Spec.GroupPolicy = ""
	} else {
		a.Spec.GroupPolicy = cmp.Or(a.Spec.GroupPolicy, requestspec.GroupPolicyNone)
	}
	return nil
}

// refuseSecondDevice returns an error if a running instance already holds a Cyborg device. Cyborg refuses to bind
// more ARQs for an instance, and a flavor names one device profile, from which the operations restore the devices.
// The device may have been claimed by an interrupted attempt; if another one were claimed next to it, nothing would
// release it.
func (a *Attempt) refuseSecondDevice(ctx context.Context) error {
	held := a.before.Resources
	if len(a.flow.mayBeDevices(held, nil)) == 0 {
		return nil
	}
	arqs, err := a.flow.instanceARQs(ctx, a.Request.Instance)
	if err != nil {
		return err
	}
	devices, err := a.flow.devices(ctx, held, arqs)
	if provider := heldDevice(held, devices); provider != "" {
		err = fmt.Errorf("%w: the instance holds a device of provider %s already, and Cyborg binds the ARQs of an instance once; ReleaseDevices releases it, also after an interrupted attempt",
			ErrRequest, provider)
	}
	return err
}

// readBefore reads the allocation of the instance, without a lost claim of an earlier attempt that has since been
// applied: this attempt replaces it. For an administrator the project of the instance is the project of its
// allocation.
func (a *Attempt) readBefore(ctx context.Context) (err error) {
	if a.before, err = a.flow.placement.Allocation(ctx, a.Request.Instance); err == nil {
		if before, isLost := a.flow.book.LostClaim(a.Request.Instance, a.before.Resources); isLost && len(before) > 0 {
			a.before.Resources = before
		}
		owner := a.flow.cyborg.owner()
		switch {
		case owner.IsAdmin():
			a.Request.ProjectID = cmp.Or(a.before.Project, a.Request.ProjectID)
		case owner.ProjectID != "" && a.before.Project != "" && a.before.Project != owner.ProjectID:
			err = fmt.Errorf("%w: the instance is of project %s and the token of project %s, without the role admin: its owner would not see the ARQs",
				ErrRequest, a.before.Project, owner.ProjectID)
		}
	}
	return err
}

// subtreesOf removes the requester IDs of other groups from the lists, because Placement rejects them.
func subtreesOf(groups []requestspec.Group, lists [][]string) (subtrees [][]string) {
	for _, list := range lists {
		list = slices.DeleteFunc(slices.Clone(list), func(id string) bool {
			return !slices.ContainsFunc(groups, func(group requestspec.Group) bool { return group.RequesterID == id })
		})
		if len(list) > 0 {
			subtrees = append(subtrees, list)
		}
	}
	return subtrees
}

// onlyNode returns a provider of the instance's compute node. It returns an error if the instance holds compute
// resources of two nodes, as after an evacuation whose source was not released, because it is unknown on which it
// runs.
func (a *Attempt) onlyNode(ctx context.Context, held placement.Resources) (string, error) {
	nodes := placement.NodeProviders(held)
	switch len(nodes) {
	case 0:
		return slices.Sorted(maps.Keys(held))[0], nil
	case 1:
		return nodes[0], nil
	}
	tree, err := a.flow.placement.Tree(ctx, nodes[0], "")
	if err != nil {
		return "", err
	}
	for _, other := range nodes[1:] {
		if _, same := tree[other]; !same {
			return "", fmt.Errorf("%w: the instance holds compute resources of two hosts, of providers %s and %s", ErrRequest, nodes[0], other)
		}
	}
	return nodes[0], nil
}

// readCandidates sets a.Candidates, and returns why others are excluded, each reason once.
func (a *Attempt) readCandidates(answer *placement.Candidates) (excluded []Exclusion, err error) {
	names := map[string]string{} // of hosts, by root
	for _, c := range a.Candidates {
		names[c.Root] = c.Host
	}
	a.Candidates = make([]Candidate, 0, len(answer.Requests))
	groups, known := a.deviceGroups(), map[Exclusion]bool{}
	shared := &summaries{Providers: &answer.Providers}
	for _, request := range answer.Requests {
		c := Candidate{Allocations: request.Allocations, Mappings: request.Mappings, summaries: shared}
		if c.Root = shared.computeRoot(c, groups); c.Root == "" {
			return nil, fmt.Errorf("placement: a candidate over %v names no root provider", slices.Sorted(maps.Keys(c.Allocations)))
		}
		c.Host = names[c.Root]
		reason, out := a.exclude(c, groups)
		switch {
		case !out:
			a.Candidates = append(a.Candidates, c)
		case !known[reason]:
			known[reason] = true
			excluded = append(excluded, reason)
		}
	}
	return excluded, nil
}

// summaries are the provider summaries of one answer of Placement.
type summaries struct {
	*placement.Providers
	converted map[string]matching.Provider // see providers
}

// computeRoot returns the compute node: the root of the tree of a device provider, or else of a provider that does
// not share its inventory with other trees, or else of the provider of the VCPUs.
func (s *summaries) computeRoot(c Candidate, groups []requestspec.Group) string {
	for _, group := range groups {
		for _, provider := range c.Mappings[group.RequesterID] {
			return s.Of(provider).Root
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(c.Allocations)) {
		if summary := s.Of(provider); summary.Kind&placement.KindShares == 0 {
			return summary.Root
		}
	}
	for _, node := range placement.NodeProviders(c.Allocations) {
		return s.Of(node).Root
	}
	return ""
}

// novaBelow returns Nova's providers below a root.
func (s *summaries) novaBelow(root string) []string {
	if s == nil {
		return nil // the caller's candidate
	}
	var nova []string
	for provider, summary := range s.All() {
		if provider != root && summary.Root == root && summary.Kind&placement.KindNova != 0 {
			nova = append(nova, provider)
		}
	}
	return nova
}

// providers converts the summaries for the weighers, once for all candidates. It is nil for a candidate that the
// caller made.
func (s *summaries) providers() map[string]matching.Provider {
	if s == nil {
		return nil
	}
	if s.converted != nil {
		return s.converted
	}
	s.converted = make(map[string]matching.Provider, s.Len())
	for uuid, d := range s.Details() {
		s.converted[uuid] = matching.Provider{Parent: d.Parent, Traits: d.Traits, Capacity: d.Capacity, Used: d.Used}
	}
	return s.converted
}

// dropAvoided removes the candidates on hosts to avoid.
func (a *Attempt) dropAvoided() {
	a.Candidates = slices.DeleteFunc(a.Candidates, func(c Candidate) bool {
		return slices.ContainsFunc(a.avoided, func(provider string) bool { return c.Root == cmp.Or(c.summaries.Of(provider).Root, provider) })
	})
}

// spread shuffles candidates by the UUID of the instance, so that parallel spawns do not all choose the first one.
func spread(candidates []Candidate, instance string) {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(instance)) // never fails
	rand.New(rand.NewPCG(seed.Sum64(), 0)).Shuffle(len(candidates), func(i, j int) {
		candidates[i], candidates[j] = candidates[j], candidates[i]
	})
}

// Select is step 4: it chooses the first candidate, after Request.Order or else
// Config.Weighers have ordered them.
func (a *Attempt) Select(ctx context.Context) error {
	return a.record.step(ctx, StepSelect, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Candidates) > 0, StepCandidates); err != nil {
			return "", err
		}
		if err := a.order(ctx); err != nil {
			return "", err
		}
		decision, err := a.chooseFrom(ctx, a.Candidates[0])
		if err == nil && a.Chosen.Reason != "" {
			decision += ": " + a.Chosen.Reason
		}
		return decision, err
	})
}

// OrderBy returns a function for Request.Order that ranks the candidates by weighers, best first: the first weigher
// decides, the next one breaks ties. Candidate.Reason explains each rank; the reason of the chosen candidate is in
// the trace.
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
func (a *Attempt) order(ctx context.Context) error {
	order := a.Request.Order
	if order == nil && len(a.flow.config.Weighers) > 0 {
		var profile requestspec.Profile
		var loaded func(provider, key, value string) bool
		var unread error
		if slices.Contains(a.flow.config.Weighers, WeigherFunction) {
			profile, loaded, unread = a.readRegions(ctx)
		}
		weighers, err := weighersOf(a.flow.config.Weighers, profile, loaded)
		if err != nil {
			return err
		}
		order = func(candidates []Candidate) []Candidate {
			ordered := OrderBy(weighers...)(candidates)
			for i := range ordered {
				if unread != nil {
					ordered[i].Reason += fmt.Sprintf("; the content of regions is unknown: %v", unread)
				}
			}
			return ordered
		}
	}
	if order != nil {
		a.Candidates = order(slices.Clone(a.Candidates))
	}
	if len(a.Candidates) == 0 {
		return fmt.Errorf("%w: no candidate remains after ordering", ErrNoCandidates)
	}
	if i := slices.IndexFunc(a.Candidates, func(c Candidate) bool { return len(c.Allocations) == 0 }); i >= 0 {
		return fmt.Errorf("%w: candidate %d of Request.Order, of root %s, has no allocations", ErrRequest, i+1, a.Candidates[i].Root)
	}
	return nil
}

// weighersOf returns the named weighers. The error for an unknown name matches ErrConfig.
func weighersOf(names []Weigher, profile requestspec.Profile, loaded func(provider, key, value string) bool) ([]matching.Weigher, error) {
	known := map[Weigher]matching.Weigher{
		WeigherFunction: matching.FunctionLoaded(profile, loaded), WeigherFragments: matching.FewestFragments(), WeigherNUMA: matching.NUMAAffinity(),
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
