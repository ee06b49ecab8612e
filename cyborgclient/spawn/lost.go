package spawn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/requestspec"
)

// clockSkew is by how much the clocks of a cloud's services may differ: the Date of an
// answer and the creation time of an ARQ are those of two hosts.
const clockSkew = 5*time.Minute + 2*time.Second

// findLostARQs looks for the ARQs of a create whose reply was lost. An ARQ does not
// name its creator, so that with those of other clients in the project none can be
// deleted: what is there is named. With Config.ExclusiveProject those that no attempt
// of the flow has are the lost ones. They become the attempt's, until they are as many
// as a create makes; they may be fewer, because a create makes one after the other.
func (a *Attempt) findLostARQs(ctx context.Context) {
	if !a.create.lost {
		return
	}
	a.create.sought = true
	lost := lostCreate{attempt: a, createState: &a.create, owner: a.flow.cyborg.owner(), seen: map[string]int{}}
	if a.flow.config.ExclusiveProject && lost.owner.ProjectID != "" {
		a.flow.arqs.beginSearch()
		defer a.flow.arqs.endSearch()
		settled, err := a.flow.settle(ctx, lost.adopt)
		a.create.lost = !settled
		lost.name(nil, err)
		return
	}
	var found []cyborgclient.ARQ
	err := a.flow.retry(ctx, func(ctx context.Context) (err error) {
		found, err = lost.candidates(ctx)
		return err
	})
	a.create.lost = err != nil
	lost.name(found, err)
}

// lostCreate is the search for the ARQs of a create.
type lostCreate struct {
	*createState
	attempt *Attempt
	owner   cyborgclient.Owner
	seen    map[string]int // ARQ -> the newest create when it was first seen
}

// candidates lists the ARQs that the create may have made: in the project of the
// token, whatever that of the instance is.
func (l *lostCreate) candidates(ctx context.Context) ([]cyborgclient.ARQ, error) {
	all, now, err := l.attempt.flow.listAllARQs(ctx)
	if err != nil {
		return nil, err
	}
	if l.since.IsZero() {
		l.since = now.Add(-time.Since(l.began) - clockSkew).Truncate(time.Second)
	}
	return slices.DeleteFunc(all, func(arq cyborgclient.ARQ) bool {
		return arq.State != cyborgclient.StateInitial || arq.InstanceUUID != "" ||
			arq.DeviceProfileName != l.from.profile.Name ||
			arq.ProjectID != "" && arq.ProjectID != l.owner.ProjectID ||
			!arq.CreatedAt.IsZero() && arq.CreatedAt.Before(l.since) ||
			l.attempt.flow.arqs.has(arq.UUID) || l.attempt.flow.deleted.has(arq.UUID)
	}), nil
}

// adopt looks once, and adds the ARQs that are no other attempt's to the attempt. One
// that another create of the process may just have made is left for the next look.
func (l *lostCreate) adopt(ctx context.Context) (settled bool, err error) {
	arqs := &l.attempt.flow.arqs
	found, err := l.candidates(ctx)
	newest := arqs.newestCreate() // after the list, which may show what this one made
	if err != nil {
		return false, err
	}
	for _, arq := range found {
		if _, known := l.seen[arq.UUID]; !known {
			l.seen[arq.UUID] = newest
		}
		if l.missing > 0 && arq.ProjectID != "" && arqs.adopt(arq.UUID, l.seen[arq.UUID]) {
			l.attempt.addARQs([]cyborgclient.ARQ{arq}, l.from)
			l.missing--
		}
	}
	return l.missing <= 0, nil
}

// maxNamed bounds the ARQs that are named beside their create: on a cloud with many
// agents most are others'.
const maxNamed = 16

// name adds the create and the newest ARQs that it may have made to the leftovers,
// unless all were found.
func (l *lostCreate) name(found []cyborgclient.ARQ, err error) {
	if l.since.IsZero() {
		l.since = l.began.Add(-clockSkew)
	}
	found = found[max(0, len(found)-maxNamed):] // oldest first
	instance, cleanup := l.attempt.Request.Instance, &l.attempt.cleanup
	if err == nil {
		err = errReplyLost
	}
	create := Leftover{
		Kind: LeftoverCreate, ID: l.from.profile.Name, Instance: instance, Seq: l.ticket, Count: l.missing, ProjectID: l.owner.ProjectID,
		Since: l.since, Err: err,
	}
	if l.missing <= 0 {
		cleanup.remove(create)
		return
	}
	for _, arq := range found {
		cleanup.suspect(Leftover{Kind: LeftoverARQ, ID: arq.UUID, Instance: instance, Err: errLostCreate})
	}
	cleanup.suspect(create)
}

// Why something is a suspect.
var (
	errReplyLost   = errors.New("the reply was lost")
	errLostCreate  = errors.New("another client may have created it")
	errBoundLater  = errors.New("another agent has bound it meanwhile")
	errChanged     = errors.New("another agent has changed it meanwhile")
	errOthersClaim = errors.New("the instance was claimed by another client, or still has an ARQ from a failed attempt")
)

// arqCount is how many ARQs one create makes; -1 for a profile that step 2 refuses.
func arqCount(profile requestspec.Profile) int {
	total := 0
	for _, group := range profile.Groups {
		n, err := requestspec.ARQCount(group)
		if err != nil {
			return -1
		}
		total += n
	}
	return total
}

// othersHaveIt reports whether the instance has ARQs that are not the attempt's, of providers that were claimed and that
// it did not hold before: then another agent has spawned it, and the allocation is that agent's. Those of other
// providers an earlier failure has left. After a claim that was answered Cyborg is asked only
// once, because the claim has to be given back also while Cyborg is down.
func (a *Attempt) othersHaveIt(ctx context.Context) bool {
	var arqs []cyborgclient.ARQ
	var err error
	switch {
	case !a.claim.certain:
		arqs, err = a.flow.instanceARQs(ctx, a.Request.Instance)
	case a.accelerated():
		ctx, cancel := context.WithTimeout(ctx, stateTimeout)
		defer cancel()
		arqs, err = a.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: a.Request.Instance})
	}
	known := slices.Concat(uuidsOf(a.ARQs), uuidsOf(a.spares), uuidsOf(a.stuck.arqs))
	before, claimed := a.before.Resources, placement.Subtract(a.claim.wanted.Resources, a.before.Resources)
	return err == nil && slices.ContainsFunc(arqs, func(arq cyborgclient.ARQ) bool {
		isLater := len(before[arq.DeviceRPUUID]) == 0 && len(claimed[arq.DeviceRPUUID]) > 0
		return isLater && !a.cleanup.had(arq.UUID) && !a.flow.deleted.has(arq.UUID) && !slices.Contains(known, arq.UUID)
	})
}

// hasClaim reports whether an instance holds what was certainly claimed. What else a running one
// holds may change. A consumer whose generation is not beyond that of the claim was deleted and
// created again, for a later attempt.
func (a *Attempt) hasClaim(held placement.Allocation) bool {
	sent, wanted, before := a.claim.wanted.Generation, a.claim.wanted.Resources, a.before.Resources
	if sent != nil && (held.Generation == nil || *held.Generation <= *sent) {
		return false
	}
	return placement.Equal(held.Resources, wanted) ||
		len(before) > 0 && len(placement.Subtract(placement.Subtract(wanted, before), held.Resources)) == 0
}

// releaseClaim gives the allocation back: the instance holds what it held before.
//
// A claim with a lost reply may be another client's allocation, and may still arrive.
// The claim of an instance that held something before is settled at once, because
// writing that again changes the generation that the claim needs. That of a new
// instance needs none, so it is looked for, and so is one on a second host once nothing is
// held: another agent that claims then gives the consumer the generations of the first again.
// The allocation of a later attempt is left.
func (a *Attempt) releaseClaim(ctx context.Context) {
	if !a.claim.sent {
		return
	}
	certain := a.claim.certain
	if a.othersHaveIt(ctx) {
		a.leaveClaim()
		return
	}
	seen, replaced := certain, false
	settled, released, err := a.flow.changeAllocation(ctx, a.Request.Instance, func(held placement.Allocation) (placement.Allocation, verdict) {
		restored := placement.Equal(held.Resources, a.before.Resources)
		ours := placement.Equal(held.Resources, a.claim.wanted.Resources)
		if certain {
			ours = a.hasClaim(held)
		}
		late := a.claim.wanted.Generation
		refused := certain || late == nil || held.Generation == nil || *late != *held.Generation // a claim that is under way
		switch {
		case len(held.Resources) == 0 && seen:
			return held, leave
		case len(held.Resources) == 0:
			return held, await
		case refused && (restored || !ours): // not ours: another client's
			replaced = certain && !restored
			return held, leave
		}
		seen = seen || ours
		next := a.before
		claimed := placement.Subtract(a.claim.wanted.Resources, a.before.Resources)
		if !restored && len(placement.Subtract(claimed, held.Resources)) == 0 { // it has this claim, and not that on an earlier host
			next.Resources = placement.Subtract(held.Resources, claimed) // what others have changed meanwhile stays
		}
		if len(next.Resources) == 0 && !seen {
			return next, replaceFirst
		}
		return next, replace
	})
	if replaced && !released {
		a.leaveClaim()
		return
	}
	l := Leftover{Kind: LeftoverAllocation, ID: a.Request.Instance, Instance: a.Request.Instance, Err: err}
	switch {
	case settled:
		a.cleanup.drop(l.Kind, l.ID)
		if a.claim = (claimState{}); released && seen {
			a.cleanup.add(l.Kind, l.ID, nil)
		}
	default:
		if err == nil {
			l.Err = errReplyLost
		}
		if seen {
			a.cleanup.keep(l, a.lookAtClaim)
			return
		}
		a.cleanup.suspect(l)
		a.flow.suspects.addClaim(l, a.claim.wanted.Resources, a.before.Resources)
	}
}

// lookAtClaim reads whether the instance holds all that was claimed for it.
func (a *Attempt) lookAtClaim(ctx context.Context) (held bool, err error) {
	claimed := placement.Subtract(a.claim.wanted.Resources, a.before.Resources)
	present, err := a.flow.placement.Allocation(ctx, a.Request.Instance)
	return len(placement.Subtract(claimed, present.Resources)) == 0, err
}

// leaveClaim names the allocation of another agent. What was certainly claimed is gone.
func (a *Attempt) leaveClaim() {
	l := Leftover{Kind: LeftoverAllocation, ID: a.Request.Instance, Instance: a.Request.Instance, Err: errOthersClaim}
	if a.cleanup.suspect(l); a.claim.certain {
		a.claim = claimState{}
	}
}
