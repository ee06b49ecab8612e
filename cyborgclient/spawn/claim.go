package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Claim is step 5: it writes the allocation and finds the provider of each group of
// the device profiles. When a device was taken or removed meanwhile, the next candidate of
// the host without it is tried, up to 16 of them, then those of the next host, up to
// Config.MaxAttempts hosts. A candidate with a card that Nova has, too, is left out. When
// all are refused, Placement is asked for candidates again, up to seven times, unless they
// are those of a handover, which does not have the options of the request.
//
// The error matches ErrClaim when Placement refused all, ErrNoCandidates as well when no
// host has room any more, and is an [*OwnerConflictError] as well when a card has two
// owners.
func (a *Attempt) Claim(ctx context.Context) error {
	return a.record.step(ctx, StepClaim, func(ctx context.Context) (string, error) {
		if err := a.needs(a.Chosen != nil, StepSelect); err != nil {
			return "", err
		}
		generation, err := a.consumerGeneration(ctx)
		if err != nil {
			return "", err
		}
		return a.claimNext(ctx, generation)
	})
}

// claimOf claims one candidate, unless Nova has a card of it, too.
func (a *Attempt) claimOf(ctx context.Context, candidate Candidate, generation *int) (decision string, err error) {
	if conflict := a.tree.ownerConflict(a.deviceProviders(candidate), nil); conflict != nil {
		return "", conflict
	}
	if err = a.put(ctx, candidate, generation); err != nil {
		return "", err
	}
	return "host " + a.Host + ", " + count(len(candidate.Allocations), "provider"), nil
}

// refusedBy is the error of a claim that was refused everywhere. It names the owner of a
// device that Nova has by now, which may be why it was refused.
func (a *Attempt) refusedBy(ctx context.Context, refused *refusals) error {
	for _, devices := range refused.devices {
		var conflict *OwnerConflictError
		if refused.owner == nil && errors.As(a.withOwners(ctx, devices.root, devices.providers, devices.err), &conflict) {
			refused.owner = conflict
			if refused.err() == devices.err {
				refused.tried[len(refused.tried)-1].err = conflict
			}
		}
	}
	return refused.cause()
}

// deviceProviders are the providers of the candidate's device groups.
func (a *Attempt) deviceProviders(candidate Candidate) []string {
	var providers []string
	for _, group := range a.deviceGroups() {
		providers = append(providers, candidate.Mappings[group.RequesterID]...)
	}
	return providers
}

// claimed is what was claimed for the instance; nil before it is.
func (a *Attempt) claimed() *ledger.Effect {
	for _, e := range a.journal.Effects(ledger.Claim) {
		if e.State != ledger.Foreign {
			return e
		}
	}
	return nil
}

// hasClaim reports whether the chosen candidate is claimed.
func (a *Attempt) hasClaim() bool {
	e := a.claimed()
	return e != nil && e.State == ledger.Done && (a.Chosen == nil || placement.Contains(e.Amount.Added, a.Chosen.Allocations))
}

// consumerGeneration reads what the instance holds already. An allocation other than
// the claim on an earlier host, or of an earlier attempt that arrived late, is an error
// unless devices are added to a running instance, because the claim would overwrite it. So is that of an instance
// that was deleted or moved since the candidates were requested for its host.
func (a *Attempt) consumerGeneration(ctx context.Context) (*int, error) {
	held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	if err != nil {
		return nil, err
	}
	if e := a.claimed(); e != nil {
		if shown, _ := e.In(held); shown != ledger.Present || (amountUndoer{a.remover()}).othersHaveIt(ctx, e) {
			return nil, fmt.Errorf("%w: %w", ErrClaim, errOthersClaim)
		}
		return held.Generation, nil
	}
	_, isLost := a.flow.book.LostClaim(a.Request.Instance, held.Resources)
	switch {
	case isLost, len(held.Resources) == 0 && len(a.before.Resources) == 0:
		return held.Generation, nil
	case len(held.Resources) == 0, len(a.before.Resources) > 0 && !sameNodes(held.Resources, a.before.Resources):
		return nil, fmt.Errorf("%w: the instance was deleted or moved meanwhile", ErrClaim)
	case len(a.before.Resources) == 0:
		return nil, fmt.Errorf("%w: the instance already has an allocation", ErrClaim)
	}
	a.before = held
	return held.Generation, nil
}

// sameNodes reports whether an instance holds compute resources of the same providers as before.
func sameNodes(held, before placement.Resources) bool {
	return slices.Equal(placement.NodeProviders(held), placement.NodeProviders(before))
}

// put writes the candidate next to what the instance held before. A conflict of provider
// generations, or of rows in the database, is not a refusal of the claim and is retried.
func (a *Attempt) put(ctx context.Context, candidate Candidate, generation *int) error {
	claim := a.claimed()
	if claim == nil {
		claim = &ledger.Effect{Kind: ledger.Claim, ID: a.Request.Instance, Amount: &ledger.Amount{
			Before: a.before.Resources, Project: cmp.Or(a.before.Project, a.Request.ProjectID), User: cmp.Or(a.before.User, a.Request.UserID),
		}}
	}
	var err error
	for range 4 {
		err = a.send(ctx, claim, candidate, generation)
		if placement.EmptyConsumer(err) {
			generation = new(int)
			continue
		}
		if placement.RecordChanged(err) && a.unchanged(ctx, generation) {
			continue
		}
		if !placement.ConcurrentUpdate(err) || placement.ConsumerConflict(err) {
			break
		}
	}
	if placement.ConsumerConflict(err) {
		a.suspectRepeated(ctx, placement.Add(a.before.Resources, candidate.Allocations), err)
	}
	if err != nil {
		return err
	}
	if generation != nil { // an earlier claim with a lost reply has arrived
		a.flow.book.Forget(func(e ledger.Effect) bool { return e.Kind == ledger.Claim && e.Instance == a.Request.Instance })
	}
	return a.outdate(ctx, claim, candidate)
}

// send sends a claim.
func (a *Attempt) send(ctx context.Context, claim *ledger.Effect, candidate Candidate, generation *int) error {
	return a.journal.Claim(ctx, claim, candidate.Allocations, generation, func(ctx context.Context) error {
		return a.flow.setAllocation(ctx, a.Request.Instance, placement.Allocation{
			Resources: placement.Add(claim.Amount.Before, candidate.Allocations), Mappings: candidate.Mappings,
			Project: claim.Amount.Project, User: claim.Amount.User, Generation: generation,
		})
	})
}

// outdate writes a claim again until its generation is beyond those of all changes of the
// instance that may still arrive. The consumers of one instance begin with the same
// generation, so that a change of an earlier one would fit this one, too.
func (a *Attempt) outdate(ctx context.Context, claim *ledger.Effect, candidate Candidate) error {
	late := a.flow.book.LateChange(a.Request.Instance)
	for late != nil {
		held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
		if err != nil {
			return err
		}
		if held.Generation != nil && *held.Generation > *late && placement.Equal(held.Resources, claim.Amount.Wanted()) {
			break
		}
		if err := a.send(ctx, claim, candidate, held.Generation); err != nil {
			return err
		}
	}
	return nil
}

// unchanged reports that the instance's allocation has the generation still that a claim was sent with.
func (a *Attempt) unchanged(ctx context.Context, generation *int) bool {
	held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	if err != nil || held.Generation == nil || generation == nil {
		return err == nil && held.Generation == generation
	}
	return *held.Generation == *generation
}

// suspectRepeated names the allocation after a conflict of consumer generations, if it is what
// was claimed. A proxy that sends a claim again when its upstream dies, as nginx does, returns
// the answer to the second one, which the first has made outdated. It may as well be another
// agent's, which spawns the same instance, and is left.
func (a *Attempt) suspectRepeated(ctx context.Context, wanted placement.Resources, conflict error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	if err == nil && !placement.Equal(held.Resources, wanted) {
		return
	}
	a.journal.Note(&ledger.Effect{Kind: ledger.Claim, ID: a.Request.Instance, Amount: &ledger.Amount{}}, conflict)
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
	candidate.Host = a.Host
	a.Chosen = &candidate
	if _, err := matching.Providers(groups, candidate.Mappings); err != nil {
		return fmt.Errorf("host %s: %w", a.Host, err)
	}
	if reason, out := a.exclude(candidate, groups); out { // after a search, only now
		return fmt.Errorf("%w: %s", ErrNoCandidates, exclusionsText([]Exclusion{reason}))
	}
	return nil
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
