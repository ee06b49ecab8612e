package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// Reschedulable reports whether the failure of a step may not occur on another host, so that [Flow.Run] tries the
// next one:
//
//   - the creation of ARQs, when Cyborg did not answer or failed (5xx). A refusal
//     would be the same for every host.
//   - the bind, when it failed because there is no free handle, no device or no
//     answer, or because the FPGA region cannot be given what the request needs.
//     Not when the token lacks a role or the instance already has ARQs.
//   - the wait, when Cyborg shows an ARQ BindFailed.
//   - the hook Claim and the start of the guest, unless the error is an ErrAbort or ErrGone.
//
// All other failures are final: a refused claim, because [Attempt.Claim] itself tries the other hosts, and the
// timeout of the wait, as in Nova.
func (a *Attempt) Reschedulable(step Step, err error) bool {
	if errors.Is(err, ErrAbort) || errors.Is(err, ErrGone) || errors.Is(err, ErrOrder) {
		return false
	}
	switch step {
	case StepCreate:
		return errors.Is(err, cyborgclient.ErrUnavailable)
	case StepBind:
		return errors.Is(err, cyborgclient.ErrNotFound) || errors.Is(err, cyborgclient.ErrRegionRefused) ||
			errors.Is(err, cyborgclient.ErrUnavailable) || errors.Is(err, cyborgclient.ErrReplyLost) || bindFailed(err)
	case StepWait:
		return bindFailed(err)
	case StepHost, StepStart:
		return true
	}
	return false
}

// Reschedule moves on after a step has failed. It releases the guest and the ARQs of the failed try, and chooses the
// next device on the same host if a bind failed because of a device, or else the first candidate on the next host.
// Continue with Claim, which replaces the allocation: if the allocation were deleted and created again, a delayed
// request could delete the new one. With Compat.Rebind the ARQs are unbound and kept, unless the outcome of their
// bind is unknown.
//
// An ARQ whose mediated device Cyborg cannot remove, because the agent of the host does not respond, is kept: the
// ARQs on the next host are bound next to it, and [Result.Leftovers] lists it. An ARQ is also kept and listed if an
// [MdevRemover] could not remove the definition of its mediated device.
//
// The error matches ErrNoAlternate if no host remains: usually before anything is released, or, if the agent of the
// only remaining host does not respond, after the failed try was released. It matches ErrLeftover if anything else
// could not be released: Cyborg would refuse a second bind, so unwind the attempt.
func (a *Attempt) Reschedule(ctx context.Context) error {
	move, next, err := a.next(ctx)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.giveBack(ctx, func(ctx context.Context, r *remover) {
		if a.flow.config.Compat.Rebind && a.unbind(ctx, r) {
			return
		}
		r.undo(ctx, func(e *ledger.Effect) bool {
			return e.Kind != ledger.Claim && e.State != ledger.Found && !a.isElsewhere(e)
		})
		a.ARQs = nil
	})
	if left := a.notElsewhere(ctx); len(left) > 0 {
		return fmt.Errorf("%w on host %s", ErrLeftover, a.Host)
	}
	isLeft := func(e *ledger.Effect) bool { return e.State == ledger.Left || e.State == ledger.Unknown }
	if move == choose.Same && slices.ContainsFunc(a.journal.Effects(ledger.ARQ), isLeft) { // the agent does not respond
		a.queue.GiveUp()
		if _, next, err = a.next(ctx); err != nil {
			return err
		}
	}
	return a.record.step(ctx, StepSelect, func(ctx context.Context) (string, error) {
		return a.chooseFrom(ctx, next)
	})
}

// Unwind releases everything that the attempt created, in reverse order: guest, events, ARQs (which frees handles and
// mediated devices), allocation. It does not end with the caller's context, but after Config.UnwindTimeout; failures
// are retried. It may be called after any step, and more than once. It returns what it has undone and all leftovers.
func (a *Attempt) Unwind(ctx context.Context) (undone []string, leftovers []Leftover) {
	waiting, cancel := a.flow.detached(ctx)
	defer cancel()
	if err := a.journal.Reopen(waiting); err != nil { // the attempt has ended, and a later operation is running
		for _, e := range a.journal.Effects() {
			l := leftoverOf(*e)
			l.Err = err
			leftovers = append(leftovers, l)
		}
		return nil, leftovers
	}
	defer a.release(a.journal)
	earlier := len(a.journal.Removed())
	a.giveBack(ctx, func(ctx context.Context, r *remover) {
		defer func() { // also after a hook that panics or ends the goroutine
			if a.ARQs = nil; len(a.before.Resources) > 0 && len(a.stuck()) > 0 { // keep the resources of their devices
				a.journal.Note(&ledger.Effect{Kind: ledger.Part, ID: a.Request.Instance, Amount: &ledger.Amount{}}, ledger.ErrARQsStay)
			}
		}()
		for _, e := range a.journal.Effects() {
			if e.State == ledger.Found { // the instance keeps it
				a.journal.Settle(e, ledger.Refused, nil)
			}
		}
		r.undo(ctx, func(e *ledger.Effect) bool { return !a.isElsewhere(e) })
	})
	return namesOf(a.journal.Removed()[earlier:]), leftoversOf(a.journal)
}

// giveBack releases the effects on one host, as one step.
func (a *Attempt) giveBack(ctx context.Context, undo func(context.Context, *remover)) {
	earlier := len(a.journal.Removed())
	ctx, end := a.record.open(context.WithoutCancel(ctx), StepUnwind)
	a.closeWaiter()
	a.readHanded(ctx)
	ctx, cancel := context.WithTimeout(ctx, a.flow.config.UnwindTimeout)
	defer cancel()
	defer func() {
		a.bound, a.Bindings, a.Devices, a.Skipped, a.Ports, a.Domain = time.Time{}, nil, nil, nil, nil, nil
		end(decision(len(a.journal.Removed())-earlier, len(leftoversOf(a.journal))), nil)
	}()
	undo(ctx, a.remover())
}

// remover returns the remover for the effects of the attempt.
func (a *Attempt) remover() *remover {
	r := a.flow.newRemover(a.journal, a.instance())
	r.record = a.record
	return r
}

// unbind destroys the guest and unbinds the ARQs, which are kept for the next host. It returns false if they must be
// deleted instead: if not all were created, if their bind may still be applied, or if the unbind got no response.
func (a *Attempt) unbind(ctx context.Context, r *remover) bool {
	isPart := slices.ContainsFunc(a.sources(), func(from source) bool { return len(a.matchingARQs(from)) < arqCount(from.profile) })
	isHanded := slices.ContainsFunc(a.journal.Effects(ledger.ARQ), func(e *ledger.Effect) bool { return e.Guard == ledger.Handed })
	if len(a.ARQs) == 0 || isPart || isHanded || len(a.stuck()) > 0 && len(a.spares()) == 0 || !a.bindHasEnded(ctx) {
		return false
	}
	undoers := r.undoers()
	undoers[ledger.Binding] = unbindUndoer{r}
	r.undoFor(ctx, r.patience(), undoers, func(e *ledger.Effect) bool {
		return e.Kind == ledger.Guest || e.Kind == ledger.Mdev || e.Kind == ledger.Binding
	})
	return len(a.journal.Effects(ledger.Guest, ledger.Mdev, ledger.Binding)) == 0
}

// bindHasEnded reports whether the bind got a response, or Cyborg shows an ARQ as BindFailed, which ends a bind, or
// all as Bound.
func (a *Attempt) bindHasEnded(ctx context.Context) bool {
	lost := slices.DeleteFunc(a.journal.Effects(ledger.Binding), func(e *ledger.Effect) bool { return e.State != ledger.Unknown })
	if len(lost) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	arqs, err := a.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: a.Request.Instance})
	own, _ := inOrder(arqs, uuidsOf(a.ARQs))
	hasFailed := slices.ContainsFunc(own, func(arq cyborgclient.ARQ) bool { return arq.State == cyborgclient.StateBindFailed })
	isPart := slices.ContainsFunc(own, func(arq cyborgclient.ARQ) bool { return arq.State != cyborgclient.StateBound })
	if err != nil || isPart && !hasFailed {
		return false
	}
	for _, e := range lost {
		a.journal.Settle(e, ledger.Done, nil)
	}
	return true
}

// stuck returns the ARQs on other hosts that Cyborg keeps until the agents of those hosts respond.
func (a *Attempt) stuck() []*ledger.Effect {
	return slices.DeleteFunc(a.journal.Effects(ledger.ARQ), func(e *ledger.Effect) bool { return !a.isElsewhere(e) })
}

// isElsewhere reports whether an effect is an ARQ that could not be deleted on another host.
func (a *Attempt) isElsewhere(e *ledger.Effect) bool {
	return e.Kind == ledger.ARQ && (e.State == ledger.Left || e.State == ledger.Unknown) && e.ARQ.Hostname != "" && !holding.SameHost(e.ARQ.Hostname, a.Host)
}

// notElsewhere returns what an unwinding could not remove, except the ARQs that Cyborg keeps until the agents of
// their hosts respond: the attempt moves on to another host in spite of them.
func (a *Attempt) notElsewhere(ctx context.Context) []*ledger.Effect {
	left := slices.DeleteFunc(a.journal.Effects(), func(e *ledger.Effect) bool {
		return e.Kind == ledger.Claim || e.State != ledger.Left && e.State != ledger.Unknown || e.Kind == ledger.Create || a.isElsewhere(e)
	})
	if len(left) == 0 || len(a.journal.Effects(ledger.Guest)) > 0 {
		return left
	}
	ctx, cancel := a.flow.detached(ctx)
	defer cancel()
	arqs, _ := a.flow.instanceARQs(ctx, a.Request.Instance) // without a response no ARQ is excepted
	a.remover().see(arqs)
	return slices.DeleteFunc(left, func(e *ledger.Effect) bool {
		return e.Kind == ledger.Mdev || e.Kind == ledger.ARQ && mayBeMediated(*e.ARQ)
	})
}
