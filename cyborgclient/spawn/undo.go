package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// LateWindow is how long the unwinding looks for the effect of a request whose outcome is unknown: it may have been
// sent, but neither success nor refusal was read. An effect that appears later is a suspect, see [Leftover.Certain].
// If a third of Config.UnwindTimeout is shorter, that is the limit.
const LateWindow = ledger.LateWindow

// patience is the divisor of Config.UnwindTimeout for the time in which the removal of effects is retried. Each
// request gets a part of it, so that a request without a response does not use up the time for others.
const patience = 3

// writeTimeout limits a request that changes something. Such a request is not canceled with the caller's context.
const writeTimeout = time.Minute

// detached returns a context for cleaning up. It does not end with the caller's, but after Config.UnwindTimeout.
func (f *Flow) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), f.config.UnwindTimeout)
}

// remover removes the effects of an operation, or the resources of an instance. It has the undoer for each kind of
// effect.
type remover struct {
	flow     *Flow // with the token of the operation
	journal  *ledger.Journal
	record   *recorder
	instance Instance
	// isThere reports whether the guest exists; nil: unknown.
	isThere func(ctx context.Context) (bool, error)
	// mdevs is the hypervisor, if it removes the definitions of mediated devices; nil: they are kept.
	mdevs MdevRemover
	// removeNovaMdev removes a mediated device of Nova.
	removeNovaMdev func(ctx context.Context, mdev string) error
	// confirm reports whether an allocation that was read should still be changed; nil: always.
	confirm func(ctx context.Context) (bool, error)
	// impatient is for the ARQs of a host that is down: see arqUndoer.
	impatient bool
}

// newRemover returns the remover for an operation on an instance.
func (f *Flow) newRemover(journal *ledger.Journal, i Instance) *remover {
	mdevs, _ := f.hypervisor.(MdevRemover)
	return &remover{flow: f, journal: journal, record: f.newRecorder(i.UUID, i.Host), instance: i, mdevs: mdevs}
}

func (r *remover) undoers() map[ledger.Kind]ledger.Undoer {
	amounts, settled := amountUndoer{r}, settler{r, ledger.Undone, nil}
	return map[ledger.Kind]ledger.Undoer{
		ledger.Claim: amounts, ledger.Part: amounts, ledger.Consumer: amounts,
		ledger.Create: &createUndoer{remover: r, seen: map[string]int{}}, ledger.Listed: listedUndoer{r}, ledger.ARQ: arqUndoer{r},
		ledger.Binding: settled, ledger.Mdev: mdevUndoer{r}, ledger.NovaMdev: novaMdevUndoer{r}, ledger.Guest: guestUndoer{r},
		ledger.Program: settler{r, ledger.Unknown, &ledger.Final{Err: errRegion}}, ledger.Power: settled,
	}
}

// undo removes the chosen effects, or all if chosen is nil, and reports them.
func (r *remover) undo(ctx context.Context, chosen func(*ledger.Effect) bool) {
	r.undoFor(ctx, r.patience(), r.undoers(), chosen)
}

// patience is how long a failed removal is retried.
func (r *remover) patience() time.Duration { return r.flow.config.UnwindTimeout / patience }

func (r *remover) undoFor(ctx context.Context, patience time.Duration, undoers map[ledger.Kind]ledger.Undoer, chosen func(*ledger.Effect) bool) {
	defer r.record.reportLeft(ctx, r.journal)
	defer r.record.reportUndone(ctx, r.journal)
	r.journal.Undo(ctx, ledger.Unwinding{
		Undoers: undoers, Chosen: chosen, Patience: patience, Limit: r.patience() / 3,
		Begin: func(kind ledger.Kind) {
			r.record.reportUndone(ctx, r.journal)
			if kind != ledger.Binding {
				r.record.report(ctx, Progress{Step: StepUnwind, Event: ProgressStage, Text: string(leftoverKindOf(kind))})
			}
		},
		Pause: func(pause time.Duration, err error) { reportRetry(ctx, pause, err) },
	})
}

// cleanUp removes the chosen effects of an operation as one step. If something remains, the error is an [*Error] with
// the given cause.
func (r *remover) cleanUp(ctx context.Context, cause string, chosen func(*ledger.Effect) bool) error {
	ctx, end := r.record.open(ctx, StepUnwind)
	earlier := len(r.journal.Removed())
	r.undo(ctx, chosen)
	leftovers, suspects := remaining(r.journal)
	undone := namesOf(r.journal.Removed())
	for _, e := range r.journal.Effects() {
		if isSuspect(*e) && (chosen == nil || chosen(e)) {
			leftovers = append(leftovers, suspects...)
			break
		}
	}
	end(decision(len(undone)-earlier, len(leftovers)), nil)
	if len(leftovers) == 0 {
		return nil
	}
	return &Error{
		Instance: r.instance.UUID, Step: StepUnwind, Err: errors.New(cause), Undone: undone, Leftovers: leftovers, Trace: r.record.trace(),
	}
}

// decision describes the result of an unwinding.
func decision(undone, left int) string {
	return fmt.Sprintf("%d undone, %d not cleaned up", undone, left)
}

// novaMdevUndoer removes a mediated device of Nova.
type novaMdevUndoer struct{ *remover }

// Undo implements [ledger.Undoer].
func (u novaMdevUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	for _, e := range effects {
		u.journal.Remove(ctx, []*ledger.Effect{e}, func(ctx context.Context) map[*ledger.Effect]error {
			return map[*ledger.Effect]error{e: u.removeNovaMdev(u.journal.Inside(ctx), e.ID)}
		})
	}
}

// mdevUndoer removes the definitions of mediated devices, if the hypervisor creates any. Cyborg's agent removes the
// devices with their ARQs.
type mdevUndoer struct{ *remover }

// Undo implements [ledger.Undoer].
func (u mdevUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	for _, e := range effects {
		if u.mdevs == nil {
			u.journal.Settle(e, ledger.Undone, nil)
			continue
		}
		there := u.instance.where(*e.ARQ)
		u.journal.Remove(ctx, []*ledger.Effect{e}, func(ctx context.Context) map[*ledger.Effect]error {
			err := u.flow.tryFew(ctx, func(ctx context.Context) error { return u.mdevs.RemoveMdev(u.journal.Inside(ctx), there, *e.ARQ) })
			if err != nil {
				err = &ledger.Final{Err: fmt.Errorf("remove the definition of its mediated device %s on host %s: %w", e.ARQ.AttachHandleUUID, there.Host, err)}
			}
			return map[*ledger.Effect]error{e: err}
		})
	}
}

// takeARQs adds the ARQs of the instance, with the definitions of their mediated devices, except ARQs that an earlier
// try has added.
func (r *remover) takeARQs(arqs []cyborgclient.ARQ) {
	for _, arq := range arqs {
		if known := r.journal.Find(ledger.ARQ, arq.UUID); known != nil && known.Pending() {
			continue
		}
		r.takeMdev(r.journal.Take(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq}))
	}
}

// takeMdev adds the definition of an ARQ's mediated device, if it may have one.
func (r *remover) takeMdev(e *ledger.Effect) {
	if r.mdevs != nil && e.ARQ.AttachHandleType == cyborgclient.HandleMDEV && e.ARQ.AttachHandleUUID != "" {
		r.journal.Take(&ledger.Effect{Kind: ledger.Mdev, ID: e.ID, ARQ: e.ARQ, Holds: []int{e.Seq}})
	}
}

// settler is for effects that need no request: bindings, which end with their ARQs; the power state of a guest; and
// the FPGA region of a program request without a response, whose content cannot be read back.
type settler struct {
	*remover
	state ledger.State
	err   error
}

// Undo implements [ledger.Undoer].
func (u settler) Undo(_ context.Context, effects []*ledger.Effect) {
	for _, e := range effects {
		u.journal.Settle(e, u.state, u.err)
	}
}

// unbindUndoer unbinds the ARQs of an instance before they are bound on the next host. It is tried once: an unbind
// with an unknown outcome could be applied after the next bind.
type unbindUndoer struct{ *remover }

// Undo implements [ledger.Undoer].
func (u unbindUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	u.journal.Remove(ctx, effects, func(ctx context.Context) map[*ledger.Effect]error {
		if err := u.flow.cyborg.UnbindARQs(ctx, idsOf(u.journal.Effects(ledger.ARQ))); err != nil {
			return map[*ledger.Effect]error{effects[0]: &ledger.Final{Err: err}}
		}
		return nil
	})
}

// listedUndoer adds the ARQs of the instance when Cyborg lists them.
type listedUndoer struct{ *remover }

// Undo implements [ledger.Undoer].
func (u listedUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	for _, e := range effects {
		arqs, err := u.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: u.instance.UUID})
		if err != nil {
			u.journal.Settle(e, ledger.Left, err)
			continue
		}
		u.journal.Settle(e, ledger.Undone, nil)
		u.takeARQs(slices.DeleteFunc(arqs, func(arq cyborgclient.ARQ) bool { return u.journal.Find(ledger.ARQ, arq.UUID) != nil }))
	}
}

// Look reports whether Cyborg lists ARQs of the instance.
func (u listedUndoer) Look(ctx context.Context, _ *ledger.Effect) (bool, error) {
	arqs, err := u.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: u.instance.UUID})
	return len(arqs) > 0, err
}

// amountUndoer releases claims and parts of allocations. A change is sent with the generation that was read, so a
// delayed change has no effect.
type amountUndoer struct{ *remover }

// Undo implements [ledger.Undoer].
func (u amountUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	for _, e := range effects {
		u.release(ctx, e)
	}
}

func (u amountUndoer) release(ctx context.Context, e *ledger.Effect) {
	if e.Kind == ledger.Claim && u.othersHaveIt(ctx, e) {
		u.journal.Settle(e, ledger.Foreign, errOthersClaim)
		return
	}
	held, err := u.flow.placement.Allocation(ctx, u.instance.UUID)
	if err != nil {
		u.journal.Settle(e, e.State, err)
		return
	}
	shown, rest := e.In(held)
	if shown == ledger.Present {
		u.journal.Seen(e, held)
	}
	next := ledger.Undone
	switch {
	case shown == ledger.Absent:
		u.journal.Settle(e, ledger.Undone, nil)
		return
	case shown == ledger.Others:
		u.journal.Settle(e, ledger.Foreign, othersError(e.Kind))
		return
	case shown == ledger.Awaited && len(held.Resources) == 0:
		u.journal.Settle(e, ledger.Unknown, nil)
		return
	case shown == ledger.Awaited && len(rest) == 0: // a recreated consumer may get the generation of the claim
		next = ledger.Unknown
	case e.State == ledger.Undoing && time.Since(e.Changed()) < LateWindow: // it may still arrive
		return
	}
	if u.confirm != nil {
		switch still, err := u.confirm(ctx); {
		case err != nil:
			u.journal.Settle(e, ledger.Left, &ledger.Final{Err: err})
			return
		case !still:
			u.journal.Settle(e, ledger.Foreign, errChanged)
			return
		}
	}
	change := placement.Allocation{Resources: rest, Generation: held.Generation, Project: held.Project, User: held.User}
	if change.Project == "" {
		change.Project, change.User = e.Amount.Project, e.Amount.User
	}
	u.journal.Release(ctx, e, held.Generation, next, func(ctx context.Context) error {
		return u.flow.setAllocation(ctx, u.instance.UUID, change)
	})
}

func othersError(kind ledger.Kind) error {
	if kind == ledger.Claim {
		return errOthersClaim
	}
	return errChanged
}

// setAllocation replaces the allocation of an instance.
func (f *Flow) setAllocation(ctx context.Context, instance string, want placement.Allocation) error {
	return f.placement.SetAllocation(ctx, instance, want)
}

// othersHaveIt reports whether another agent has spawned the instance, so that the allocation belongs to that agent:
// it has ARQs that are not in the journal, on providers that were claimed and from which it held nothing before. ARQs
// on other providers come from an earlier failure. If Cyborg does not respond, the result is false, so that a claim
// is released also while Cyborg is down.
func (u amountUndoer) othersHaveIt(ctx context.Context, e *ledger.Effect) bool {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	arqs, err := u.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: u.instance.UUID})
	claimed := placement.Subtract(e.Amount.Wanted(), e.Amount.Before)
	return err == nil && slices.ContainsFunc(arqs, func(arq cyborgclient.ARQ) bool {
		isLater := len(e.Amount.Before[arq.DeviceRPUUID]) == 0 && len(claimed[arq.DeviceRPUUID]) > 0
		own := u.journal.Find(ledger.ARQ, arq.UUID)
		return isLater && (own == nil || own.State == ledger.Foreign) && !u.flow.book.Removed(arq.UUID)
	})
}

// Look reports whether the allocation contains the effect.
func (u amountUndoer) Look(ctx context.Context, e *ledger.Effect) (bool, error) {
	held, err := u.flow.placement.Allocation(ctx, u.instance.UUID)
	if err != nil {
		return false, err
	}
	shown, _ := e.In(held)
	return shown == ledger.Present, nil
}

func idsOf(effects []*ledger.Effect) []string {
	ids := make([]string, len(effects))
	for i, e := range effects {
		ids[i] = e.ID
	}
	return ids
}

// allocation reads the allocation of an instance.
func (f *Flow) allocation(ctx context.Context, instance string) (placement.Allocation, error) {
	return retry(ctx, f, func(ctx context.Context) (placement.Allocation, error) {
		return f.placement.Allocation(ctx, instance)
	})
}
