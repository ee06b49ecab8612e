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

// Claim is step 5: it writes the allocation and finds the provider of each group of the device profiles. If a device
// has been taken or removed, the next candidate of the host without that device is tried, up to 16 of them, then the
// candidates of the next host, up to Config.MaxAttempts hosts. A candidate with a card that Nova also has is skipped.
// When all are refused, Placement is asked for candidates again, up to seven times, unless the candidates come from a
// handover, which lacks the options of the request.
//
// The error matches ErrClaim when Placement refused all candidates. It also matches ErrNoCandidates when no host has
// room now, and is also an [*OwnerConflictError] when a card has two owners.
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

// claimOf claims one candidate, unless Nova also has one of its cards.
func (a *Attempt) claimOf(ctx context.Context, candidate Candidate, generation *int) (decision string, err error) {
	if conflict := a.tree.ownerConflict(a.deviceProviders(candidate), nil); conflict != nil {
		return "", conflict
	}
	if err = a.put(ctx, candidate, generation); err != nil {
		return "", err
	}
	return "host " + a.Host + ", " + count(len(candidate.Allocations), "provider"), nil
}

// refusedBy returns the error of a claim that was refused everywhere. If Nova now owns one of the devices, which may
// be the reason, the error says so.
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

// claimed returns the claim of the instance, or nil before there is one.
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

// consumerGeneration returns the consumer generation of the instance's allocation. It is an error if the claim would
// overwrite an allocation: only the claim on an earlier host, a claim of an earlier attempt that was applied late,
// and, when devices are added, the allocation of the running instance are expected. It is also an error if that
// instance was deleted or moved since its candidates were requested.
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
		return nil, fmt.Errorf("%w: the instance was deleted or moved", ErrClaim)
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

// put adds the candidate to what the instance held before. A conflict of provider generations, or of rows in the
// database, is retried; it does not mean that the claim was refused.
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

// outdate repeats a claim until its generation is greater than the generation of any change of the instance that may
// still be applied. All consumers of an instance start with the same generation, so a delayed change of an earlier
// consumer could apply to this one.
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

// unchanged reports whether the instance's allocation still has the generation with which a claim was sent.
func (a *Attempt) unchanged(ctx context.Context, generation *int) bool {
	held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	if err != nil || held.Generation == nil || generation == nil {
		return err == nil && held.Generation == generation
	}
	return *held.Generation == *generation
}

// suspectRepeated reports the allocation after a conflict of consumer generations, if it equals the claim. A proxy
// that repeats a request when its upstream dies, as nginx does, returns the response to the second one, which
// conflicts with the first. The allocation may also belong to another agent that spawns the same instance, so it is
// not removed.
func (a *Attempt) suspectRepeated(ctx context.Context, wanted placement.Resources, conflict error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	held, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	if err == nil && !placement.Equal(held.Resources, wanted) {
		return
	}
	a.journal.Note(&ledger.Effect{Kind: ledger.Claim, ID: a.Request.Instance, Amount: &ledger.Amount{}}, conflict)
}

// mapGroups finds the provider of each group of the device profiles before any ARQ is created: in Placement's
// mappings, or by a search if Placement returns no mappings.
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
