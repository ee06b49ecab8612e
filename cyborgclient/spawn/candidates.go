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

// FindCandidates is step 3: it asks Placement for candidates. Shipped Nova tries all of
// them. Here those are excluded that cannot give the instance its accelerators, see
// [Exclusion]: a device of a device profile on a provider of Nova's, which Cyborg cannot
// bind, and a group of the flavor itself on a provider of Cyborg's, for which there would
// be no accelerator request. The error matches ErrNoCandidates when no host has room or all
// candidates are excluded; it is a [*NoCandidatesError].
//
// It asks for few candidates at first, two for each host that may be tried and for each
// alternate, times the orders of several devices, and for four times as many while there
// are more and those that were found are of fewer than Config.MaxAttempts hosts, up to
// [requestspec.DefaultLimit]. Where all of these are excluded or on hosts that are avoided
// it goes on, up to 64 times as many. It
// asks for DefaultLimit at once if Request.Order or Config.Weighers order them, and for as
// many as Request.Options.Limit says, if that is set. Without Config.PlacementOrder
// their order depends on the instance.
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

// limits are how many candidates are asked for. A running instance needs candidates of its own host only.
func (a *Attempt) limits() choose.Limits {
	all, attempts := a.Spec.Limit, a.flow.config.MaxAttempts
	hosts := attempts
	if a.Request.running {
		hosts = 1
	}
	switch {
	case all == 0, a.Request.Options.Limit != 0:
		return choose.Fixed(all, hosts)
	case a.Request.Order != nil, len(a.flow.config.Weighers) > 0, len(a.queue.Avoided) > 0:
		return choose.Whole(all, hosts)
	}
	return choose.Few(all, attempts, len(a.deviceGroups()), hosts)
}

// askCandidates asks until the candidates are of as many hosts as may be tried, or are all
// that there are.
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
			if len(a.queue.Avoided) > 0 {
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

// sendQuery sends a query. A Placement that does not support the microversion of Nova's
// query gets that of Stein and Train.
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

// narrowToHost keeps only the device groups of a running instance, in the provider
// tree of its host. An instance without an allocation does not run: its UUID is
// mistyped, and a device would be reserved for nobody.
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

// refuseSecondDevice returns an error if a running instance holds a device of Cyborg's. Cyborg refuses to bind ARQs for an
// instance that has some, and a flavor names one device profile, from which the operations would restore the devices. The
// device may be one that an interrupted attempt has claimed: with another one claimed next to it, nothing would release it.
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

// readBefore reads what the instance holds, without a lost claim of an earlier attempt that has arrived
// since: this one replaces it. To an administrator the instance is of the project of its allocation.
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

// subtreesOf returns the lists of requester ids without those of other groups, which Placement refuses.
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

// onlyNode returns a provider of the instance's compute node. An instance that holds compute
// resources of two, as after an evacuation whose source is not given up, is refused: which of them
// it runs on is not known.
func (a *Attempt) onlyNode(ctx context.Context, held placement.Resources) (string, error) {
	nodes := placement.NodeProviders(held)
	if len(nodes) < 2 {
		return placement.NodeProvider(held), nil
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

// readCandidates sets a.Candidates and returns why others are excluded, each reason once.
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

// computeRoot returns the compute node: the root of the tree of a device provider, or else of any provider that
// does not share its inventory with other trees, or else that of the processors.
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

// providers converts the summaries to what weighers read, once for all candidates.
// It is nil for a candidate that the caller made.
func (s *summaries) providers() map[string]matching.Provider {
	if s == nil {
		return nil
	}
	if s.converted != nil {
		return s.converted
	}
	details := placement.Details{Providers: s.Providers}
	s.converted = make(map[string]matching.Provider, s.Len())
	for uuid, summary := range s.All() {
		p := matching.Provider{Parent: summary.Parent, Traits: details.Traits(summary)}
		p.Capacity, p.Used = details.Resources(summary)
		s.converted[uuid] = p
	}
	return s.converted
}

// dropAvoided leaves out the candidates on the hosts that are avoided.
func (a *Attempt) dropAvoided() {
	a.Candidates = slices.DeleteFunc(a.Candidates, func(c Candidate) bool {
		return slices.ContainsFunc(a.queue.Avoided, func(provider string) bool { return c.Root == cmp.Or(c.summaries.Of(provider).Root, provider) })
	})
}

// spread puts candidates into an order that depends on the instance, so that parallel
// spawns do not all choose the first one.
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
					ordered[i].Reason += fmt.Sprintf("; what regions have is not known: %v", unread)
				}
			}
			return ordered
		}
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
