package spawn

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Claim is step 5: it writes the allocation and finds the provider of each group of
// the device profiles. When another client took the resources meanwhile, the first
// candidate of the next host is tried, up to Config.MaxAttempts hosts. The error
// matches ErrClaim when Placement refused, and is an [*OwnerConflictError] when
// another instance has the device.
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
			if placement.StatusOf(err) != http.StatusConflict || placement.ConsumerConflict(err) {
				break // a conflict of the consumer fails on every host (nova/scheduler/client/report.py)
			}
		}
		if placement.Refused(err) {
			err = fmt.Errorf("%w: %w", ErrClaim, a.claimConflict(ctx, err))
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

// consumerGeneration reads what the instance holds already. An allocation other than
// the claim on an earlier host is an error unless Request.Running is set, because the
// claim would overwrite it.
func (a *Attempt) consumerGeneration(ctx context.Context) (*int, error) {
	held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	if err != nil {
		return nil, err
	}
	switch {
	case len(held.Resources) == 0, a.claim.certain:
		return held.Generation, nil
	case len(a.before.Resources) == 0:
		return nil, fmt.Errorf("%w: the instance already has an allocation", ErrClaim)
	}
	a.before = held
	return held.Generation, nil
}

// put writes the candidate beside what the instance held before. A conflict of
// provider generations is not a refusal of the claim and is retried.
func (a *Attempt) put(ctx context.Context, candidate Candidate, generation *int) error {
	want := placement.Allocation{
		Resources: placement.Add(a.before.Resources, candidate.Allocations), Mappings: candidate.Mappings,
		Project: cmp.Or(a.before.Project, a.Request.ProjectID), User: cmp.Or(a.before.User, a.Request.UserID),
		Generation: generation,
	}
	earlier := a.claim
	a.claim = claimState{wanted: want, sent: true}
	var err error
	for range 4 {
		err = a.flow.placement.SetAllocation(ctx, a.Request.Instance, want)
		if !placement.ConcurrentUpdate(err) || placement.ConsumerConflict(err) {
			break
		}
	}
	a.claimed = err == nil
	if a.claim.certain = err == nil; placement.Refused(err) {
		a.claim = earlier
	}
	return err
}

// inventoryConflict finds the provider in the refusal of a claim: "Unable to
// create allocation for 'PGPU' on resource provider '<uuid>'".
var inventoryConflict = regexp.MustCompile(`on resource provider '([0-9a-f-]{36})'`)

// claimConflict turns a refused claim of a device into an [*OwnerConflictError] with
// the consumers that Placement lists. When it lists none, or no device was claimed,
// the error stays as it is.
func (a *Attempt) claimConflict(ctx context.Context, err error) error {
	if placement.StatusOf(err) != http.StatusConflict {
		return err
	}
	found := inventoryConflict.FindStringSubmatch(placement.DetailOf(err))
	if found == nil || !a.isDeviceProvider(found[1]) {
		return err
	}
	holders, holdersErr := a.flow.placement.Consumers(ctx, found[1])
	name, nameErr := a.flow.placement.ProviderName(ctx, found[1])
	if holdersErr != nil || nameErr != nil || len(holders) == 0 {
		return err
	}
	return &OwnerConflictError{
		Address: providerAddress(name), Err: err,
		Owners: [2]string{"instance " + strings.Join(holders, ", "), "instance " + a.Request.Instance},
	}
}

// isDeviceProvider reports whether the claim has a device of the provider.
func (a *Attempt) isDeviceProvider(provider string) bool {
	return slices.ContainsFunc(a.deviceGroups(), func(group requestspec.Group) bool {
		return slices.Contains(a.Chosen.Mappings[group.RequesterID], provider)
	})
}

// mapGroups finds the provider of each group of the device profiles before any ARQ
// is created: in Placement's mappings, or by a search where it has none.
func (a *Attempt) mapGroups(ctx context.Context, candidate Candidate) error {
	groups := a.deviceGroups()
	if len(groups) > 0 && (a.flow.config.Compat.SearchProviders || a.Spec.Numeric) {
		found, err := a.search(ctx, groups, candidate)
		if err != nil {
			return fmt.Errorf("host %s: %w", a.Host, err)
		}
		candidate.Mappings = found
	}
	a.Chosen = &candidate
	if _, err := matching.Providers(groups, candidate.Mappings); err != nil {
		return fmt.Errorf("host %s: %w", a.Host, err)
	}
	if a.flow.config.Compat.FlatProviders {
		return nil
	}
	return checkNested(groups, candidate) // after a search, only now
}

// search finds the providers as Nova did before Placement had mappings.
func (a *Attempt) search(ctx context.Context, groups []requestspec.Group, candidate Candidate) (map[string][]string, error) {
	traits := make(map[string][]string, len(candidate.Allocations))
	var allocated []matching.Allocated
	for _, provider := range slices.Sorted(maps.Keys(candidate.Allocations)) {
		names, err := a.flow.placement.Traits(ctx, provider)
		if err != nil {
			return nil, err
		}
		traits[provider] = names
		allocated = append(allocated, matching.Allocated{Provider: provider, Resources: candidate.Allocations[provider]})
	}
	found, err := matching.Search(ctx, groups, allocated, traits)
	if err != nil {
		return nil, err
	}
	mappings := make(map[string][]string, len(found))
	for id, provider := range found {
		mappings[id] = []string{provider}
	}
	return mappings, nil
}
