package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// claimNext claims the chosen candidate, or else the next one that Placement does not refuse: on the same host, on
// the next host, or from another response.
func (a *Attempt) claimNext(ctx context.Context, generation *int) (decision string, err error) {
	refused := new(refusals)
	candidates := append([]Candidate{*a.Chosen}, a.Candidates...)
	a.queue.Choose(a.Chosen.Root)
	for {
		queued := inQueue(candidates)
		move, i := a.queue.Next(queued)
		switch move {
		case choose.Same:
			decision, err = a.claimOf(ctx, candidates[i], generation)
			if err == nil {
				a.queue.Claimed()
				return decision + refused.text(), a.mapGroups(ctx, candidates[i])
			}
			a.record.failed(StepClaim, err)
			refused.add(a.Host, candidates[i], err)
			reason, others := refusalOf(err)
			if !others {
				return "", refused.cause()
			}
			a.queue.Refused(queued[i], reason)
		case choose.Other: // no candidate of this host remains
			if _, err = a.choose(ctx, candidates[i]); err != nil && !passesBy(err) {
				return "", err
			}
		case choose.Query: // no host of this answer remains
			if err = a.askAgain(ctx); err != nil {
				return "", fmt.Errorf("%w; second request: %w", a.refusedBy(ctx, refused), err)
			}
			candidates = a.Candidates
		case choose.None:
			return "", a.refusedBy(ctx, refused)
		}
	}
}

// askAgain replaces the candidates with a new response.
func (a *Attempt) askAgain(ctx context.Context) error {
	if err := a.askCandidates(ctx); err != nil {
		return err
	}
	return a.order(ctx)
}

// next returns the next candidate: another one on the same host, or else one on another host. When all known
// candidates have been tried, it asks for more.
func (a *Attempt) next(ctx context.Context) (choose.Move, Candidate, error) {
	for {
		move, i := a.queue.Next(inQueue(a.Candidates))
		switch {
		case move == choose.Same, move == choose.Other:
			return move, a.Candidates[i], nil
		case move == choose.None, a.askAgain(a.record.reopen(ctx)) != nil:
			return choose.None, Candidate{}, fmt.Errorf("%w after %s", ErrNoAlternate, count(a.queue.Claims(), "host"))
		}
	}
}

// chooseFrom chooses the host of a candidate or, if it was removed or is down, the next host.
func (a *Attempt) chooseFrom(ctx context.Context, candidate Candidate) (decision string, err error) {
	for passed := 1; ; passed++ {
		decision, err = a.choose(ctx, candidate)
		if !passesBy(err) {
			return decision, err
		}
		_, next, noneLeft := a.next(ctx)
		switch {
		case noneLeft == nil:
			candidate = next
		case passed > 1:
			return "", fmt.Errorf("%w: none of %d hosts can be chosen, the last because: %w", ErrNoCandidates, passed, err)
		default:
			return "", fmt.Errorf("%w: %w", ErrNoCandidates, err)
		}
	}
}

// errDown is the error for a host in MoveOpts.Down.
var errDown = errors.New("the host is down")

// passesBy reports whether a host cannot be chosen, but the next one may.
func passesBy(err error) bool { return placement.UnknownProvider(err) || errors.Is(err, errDown) }

// choose chooses the host of a candidate.
func (a *Attempt) choose(ctx context.Context, candidate Candidate) (decision string, err error) {
	host, err := a.readHost(ctx, candidate)
	if err == nil && holding.Among(a.down, host) { // down may have its short name
		err = fmt.Errorf("host %s: %w", host, errDown)
	}
	if passesBy(err) {
		a.queue.Close(candidate.Root)
	}
	if err != nil {
		return "", err
	}
	a.queue.Choose(candidate.Root)
	candidate.Host = host
	for i, c := range a.Candidates {
		if c.Root == candidate.Root {
			a.Candidates[i].Host = host
		}
	}
	a.Chosen, a.Host = &candidate, host
	a.record.choose(host)
	return "host " + host, nil
}

// noteBroken records the devices that could not be bound: the devices of BindFailed ARQs, or all devices of a bind
// that was refused because of one of them, which the response does not name.
func (a *Attempt) noteBroken(err error) {
	notBound, _ := errors.AsType[*NotBoundError](err)
	isRefused := errors.Is(err, cyborgclient.ErrNoFreeHandle) || errors.Is(err, cyborgclient.ErrRegionRefused)
	var broken []string
	for _, b := range a.Bindings {
		hasFailed := notBound != nil && slices.ContainsFunc(notBound.ARQs, func(arq cyborgclient.ARQ) bool {
			return arq.UUID == b.ARQ && arq.State == cyborgclient.StateBindFailed
		})
		if hasFailed || isRefused {
			broken = append(broken, b.DeviceRP)
		}
	}
	a.queue.BindFailed(broken)
}

// inQueue converts candidates for the queue.
func inQueue(candidates []Candidate) []choose.Candidate {
	list := make([]choose.Candidate, len(candidates))
	for i, c := range candidates {
		list[i] = choose.Candidate{Root: c.Root, Allocations: c.Allocations}
	}
	return list
}
