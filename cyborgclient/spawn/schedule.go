package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/requestspec"
)

// ReadProfile is step 1: it reads the device profiles that the ports and the
// flavor name. Exactly one must exist of each name; otherwise the error matches
// ErrProfile. A flavor without a device profile has nothing to read.
func (a *Attempt) ReadProfile(ctx context.Context) error {
	return a.step(ctx, StepProfile, func(ctx context.Context) (string, error) {
		for _, port := range a.Request.Ports {
			if !port.Accelerated() {
				continue
			}
			profile, err := a.readProfile(ctx, port.DeviceProfile)
			if err != nil {
				return "", fmt.Errorf("port %s: %w", port.UUID, err)
			}
			if a.PortProfiles == nil {
				a.PortProfiles = make(map[string]requestspec.DeviceProfile)
			}
			a.PortProfiles[port.UUID] = profile
		}
		ports := ""
		if len(a.PortProfiles) > 0 {
			ports = ", " + count(len(a.PortProfiles), "profile") + " of ports"
		}
		rocky, err := a.convertRocky(ctx)
		if err != nil {
			return "", err
		}
		name, ok := a.Request.Flavor.DeviceProfile()
		if !ok {
			return "the flavor names no device profile" + ports, nil
		}
		profile, err := a.readProfile(ctx, name)
		if err != nil {
			return "", err
		}
		a.Profile = &profile
		return rocky + name + ": " + count(len(profile.Groups), "group") + ports, nil
	})
}

func (a *Attempt) readProfile(ctx context.Context, name string) (requestspec.DeviceProfile, error) {
	found, err := a.flow.cyborg.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{Names: []string{name}})
	if err != nil {
		return requestspec.DeviceProfile{}, fmt.Errorf("device profile %s: %w", name, err)
	}
	if len(found) != 1 {
		return requestspec.DeviceProfile{}, fmt.Errorf("%w: %s: expected 1 device profile but got %d", ErrProfile, name, len(found))
	}
	return requestspec.DeviceProfile{Name: found[0].Name, Groups: found[0].Groups}, nil
}

// BuildRequest is step 2: flavor and profile become request groups. A profile
// that cannot be scheduled matches ErrProfile, a wrong flavor ErrRequest.
func (a *Attempt) BuildRequest(ctx context.Context) error {
	return a.step(ctx, StepRequest, func(context.Context) (string, error) {
		if err := a.buildSpec(); err != nil {
			return "", err
		}
		return groupsText(a.Spec.Groups), nil
	})
}

func (a *Attempt) buildSpec() error {
	options, err := a.options()
	if err != nil {
		return err
	}
	a.Spec, err = requestspec.New(a.Request.Flavor, a.Profile, options)
	if err != nil {
		return fmt.Errorf("%w: flavor %s: %w", requestKind(err), a.Request.Flavor.Name, err)
	}
	return nil
}

func requestKind(err error) error {
	if errors.Is(err, requestspec.ErrInvalidProfile) {
		return ErrProfile
	}
	return ErrRequest
}

// options are the caller's with the groups of the ports, which stand before
// those of the profile, and with what Compat says.
func (a *Attempt) options() (requestspec.Options, error) {
	options := a.Request.Options
	options.NumericSuffixes = options.NumericSuffixes || a.flow.placement.old()
	if a.flow.config.Compat.OwnerNovaOnFlavorGroups {
		options.OwnerNova, options.OwnerNovaOnFlavorGroups = true, true
	}
	for _, s := range a.sources() {
		if !s.ofPort() {
			continue
		}
		groups, err := requestspec.PortGroups(s.port.Port, &s.profile, options.ComputeVersion)
		if err != nil {
			return options, fmt.Errorf("%w: %w", requestKind(err), err)
		}
		options.Groups = append(slices.Clip(options.Groups), groups...)
	}
	return options, nil
}

// groupsText tells for each group what it asks for: "device_profile_0 PGPU:1
// with CUSTOM_A without CUSTOM_B".
func groupsText(groups []requestspec.Group) string {
	texts := make([]string, len(groups))
	for i, group := range groups {
		texts[i] = cmp.Or(group.RequesterID, "flavor") + " " + amountsText(group.Resources)
		if len(group.Required) > 0 {
			texts[i] += " with " + strings.Join(group.Required, "+")
		}
		if len(group.Forbidden) > 0 {
			texts[i] += " without " + strings.Join(group.Forbidden, "+")
		}
	}
	return strings.Join(texts, ", ")
}

func amountsText(resources map[string]int) string {
	amounts := make([]string, 0, len(resources))
	for _, class := range slices.Sorted(maps.Keys(resources)) {
		amounts = append(amounts, fmt.Sprintf("%s:%d", class, resources[class]))
	}
	return strings.Join(amounts, "+")
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

// Claim is step 5: it writes the allocation and looks which provider serves
// each group of the device profiles. When somebody else took the room meanwhile,
// the first candidate of the next host is tried, up to Config.MaxAttempts hosts.
// The error matches ErrClaim when Placement refused, and is an
// [*OwnerConflictError] when the device that was wanted has an owner.
func (a *Attempt) Claim(ctx context.Context) error {
	return a.step(ctx, StepClaim, func(ctx context.Context) (string, error) {
		if err := a.needs(a.Chosen != nil, StepSelect); err != nil {
			return "", err
		}
		generation, err := a.consumerGeneration(ctx)
		if err != nil {
			return "", err
		}
		for _, candidate := range a.alternates() {
			a.tried[candidate.Root] = true
			if candidate.Root != a.Chosen.Root {
				if _, err = a.choose(ctx, candidate); err != nil {
					return "", err
				}
			}
			if err = a.put(ctx, candidate, generation); err == nil {
				return "host " + a.Host + ", " + count(len(candidate.Allocations), "provider"), a.mapGroups(ctx, candidate)
			}
			if statusOf(err) != http.StatusConflict || consumerConflict(err) {
				break
			}
		}
		if refused(err) {
			err = fmt.Errorf("%w: instance %s: %w", ErrClaim, a.Request.Instance, a.claimConflict(ctx, err))
		}
		return "", err
	})
}

// alternates lists the chosen candidate and the first one of each other host
// that was not tried before.
func (a *Attempt) alternates() []Candidate {
	list := []Candidate{*a.Chosen}
	for _, candidate := range firstOfEachHost(a.Candidates) {
		if candidate.Root != a.Chosen.Root && !a.tried[candidate.Root] {
			list = append(list, candidate)
		}
	}
	return list[:min(len(list), max(1, a.flow.config.MaxAttempts-len(a.tried)))]
}

// consumerGeneration looks what the instance holds already. Holding something
// is an error unless Request.Running says so: overwriting it would lose it.
func (a *Attempt) consumerGeneration(ctx context.Context) (*int, error) {
	held, err := a.flow.placement.getAllocation(ctx, a.Request.Instance)
	if err != nil {
		return nil, err
	}
	if len(held.Resources) > 0 && len(a.before.Resources) == 0 {
		return nil, fmt.Errorf("%w: instance %s holds an allocation already", ErrClaim, a.Request.Instance)
	}
	if len(held.Resources) > 0 {
		a.before = held
	}
	return held.Generation, nil
}

// put writes the candidate beside what the instance held before. A conflict
// of provider generations is no refusal of the claim: it is tried again.
func (a *Attempt) put(ctx context.Context, candidate Candidate, generation *int) error {
	want := allocation{
		Resources: add(a.before.Resources, candidate.Allocations), Mappings: candidate.Mappings,
		Project: cmp.Or(a.before.Project, a.Request.ProjectID), User: cmp.Or(a.before.User, a.Request.UserID),
		Generation: generation,
	}
	a.claim = claimState{wanted: want, sent: true}
	var err error
	for range 4 {
		err = a.flow.placement.putAllocation(ctx, a.Request.Instance, want)
		if !concurrentUpdate(err) || consumerConflict(err) {
			break
		}
	}
	a.claim.certain = err == nil
	a.claim.sent = !refused(err)
	return err
}

// add sums two sets of allocations without changing either.
func add(a, b map[string]map[string]int) map[string]map[string]int {
	sum := make(map[string]map[string]int, len(a)+len(b))
	for _, part := range []map[string]map[string]int{a, b} {
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

func concurrentUpdate(err error) bool {
	var placementErr *PlacementError
	return errors.As(err, &placementErr) && placementErr.Code == "placement.concurrent_update"
}

// consumerConflict reports that the consumer itself was changed by somebody
// else, which no other host will mend (nova/scheduler/client/report.py).
func consumerConflict(err error) bool {
	var placementErr *PlacementError
	return concurrentUpdate(err) && errors.As(err, &placementErr) &&
		strings.Contains(placementErr.Detail, "consumer generation conflict")
}
