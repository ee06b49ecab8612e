package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// Reschedulable reports whether the failure of a step may not occur on another
// host, so that [Flow.Run] tries the next one:
//
//   - the creation of ARQs, when Cyborg did not answer or failed (5xx). A refusal
//     would be the same for every host.
//   - the bind, when it failed because there is no free handle, no device or no
//     answer, or because the FPGA region cannot be given what the request needs.
//     Not when the token lacks a role or the instance already has ARQs.
//   - the wait, when Cyborg shows an ARQ BindFailed.
//   - the hooks Claim and Start, unless the error is an ErrAbort or ErrGone.
//
// Everything else is fatal: a refused claim, because [Attempt.Claim] itself tries
// the other hosts, and the timeout of the wait, as in Nova.
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

// Reschedule moves on to the next host after a step failed: it gives back the guest
// and the ARQs of the failed one, and chooses the first candidate of the next host.
// Continue with Claim, which replaces the allocation: one that was deleted in between
// could be deleted once more by a request that arrives late. With Compat.Rebind the
// ARQs are unbound and kept, unless the outcome of their bind is unknown.
//
// An ARQ whose mediated device Cyborg cannot remove, because the agent of the host does
// not answer, stays: those of the next host are bound beside it, and [Result.Leftovers]
// names it, as it names one whose mediated device's definition an [MdevRemover] could not
// remove. The error matches ErrNoAlternate when no host remains, before anything is
// given back, and ErrLeftover when anything else could not be given back: Cyborg would
// refuse a second bind, so unwind the attempt.
func (a *Attempt) Reschedule(ctx context.Context) error {
	next, err := a.alternate(ctx)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.giveBack(ctx, true)
	a.setStuckAside(ctx)
	if len(a.cleanup.left) > 0 {
		return fmt.Errorf("%w on host %s", ErrLeftover, a.Host)
	}
	return a.record.step(ctx, StepSelect, func(ctx context.Context) (string, error) {
		return a.chooseFrom(ctx, next)
	})
}

// alternate returns a candidate of a host that was not tried yet. When those that are
// known are exhausted, it asks for more.
func (a *Attempt) alternate(ctx context.Context) (Candidate, error) {
	for len(a.tried) < a.flow.config.MaxAttempts {
		if next, ok := a.nextHost(); ok {
			return next, nil
		}
		if !a.cut || a.askCandidates(a.record.reopen(ctx)) != nil {
			break
		}
	}
	return Candidate{}, fmt.Errorf("%w after %s", ErrNoAlternate, count(len(a.tried), "host"))
}

// The unwinding has three stages. Each ends after its third of
// Config.UnwindTimeout, and one request has a third of that, so that a request
// without an answer leaves time for the rest.
const (
	unwindStages  = 3
	retryPause    = 200 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

var stageNames = [unwindStages]string{"guest and lost ARQs", "ARQs", "allocation"}

// LateWindow is how long the unwinding looks for the effect of a request whose
// outcome is unknown: bytes may have been sent, and neither success nor refusal was
// read. What appears later is a suspect, see [Leftover.Certain]. A shorter third of
// Config.UnwindTimeout ends the window.
const LateWindow = 10 * time.Second

// detached returns a context for cleaning up: it does not end with the caller's,
// but after Config.UnwindTimeout.
func (f *Flow) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), f.config.UnwindTimeout)
}

// retry calls try until it succeeds or is forbidden, the context ends, or the time
// of a stage is over. It returns the last error of try.
func (f *Flow) retry(ctx context.Context, try func(ctx context.Context) error) error {
	_, err := f.settle(ctx, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		return err == nil, err
	})
	return err
}

// settle calls look until it reports that an outcome is settled. It gives up when
// LateWindow is over, or with an error that the time of a stage can mend, when that is
// over.
func (f *Flow) settle(ctx context.Context, look func(ctx context.Context) (settled bool, err error)) (bool, error) {
	stage := f.config.UnwindTimeout / unwindStages
	ctx, cancel := context.WithTimeout(ctx, stage)
	defer cancel()
	began := time.Now()
	for pause := retryPause; ; pause = min(2*pause, maxRetryPause) {
		limited, cancel := context.WithTimeout(ctx, stage/3)
		settled, err := look(limited)
		cancel()
		left := LateWindow - time.Since(began)
		switch {
		case settled, err == nil && left <= 0, errors.Is(err, cyborgclient.ErrForbidden),
			errors.Is(err, cyborgclient.ErrUnauthorized) && left <= 0: // a token may be renewed by then
			return settled, err
		case err != nil:
			left = stage
		}
		reportRetry(ctx, min(pause, left), err)
		if sleep(ctx, min(pause, left)) != nil {
			return false, err
		}
	}
}

// Unwind gives back everything that the attempt made, in reverse: guest, events,
// ARQs (which frees handles and mediated devices), allocation. It does not end with
// the caller's context, but after Config.UnwindTimeout; failures are retried. It
// may be called after any step, more than once, and returns what it has undone and all
// that is left behind.
func (a *Attempt) Unwind(ctx context.Context) (undone []string, leftovers []Leftover) {
	defer a.end()
	earlier := len(a.cleanup.undone)
	a.giveBack(ctx, false)
	return a.cleanup.undone[earlier:], a.cleanup.leftovers()
}

// giveBack gives back what was made on one host. Before a move to another host
// Compat.Rebind keeps the ARQs.
func (a *Attempt) giveBack(ctx context.Context, moving bool) {
	began := time.Now()
	c := &a.cleanup
	earlier := len(c.undone)
	ctx, end := a.record.open(context.WithoutCancel(ctx), StepUnwind)
	a.closeWaiter()
	kept := map[string]error{} // ARQs with mediated devices whose definitions remain
	stages := [unwindStages]func(context.Context){
		func(ctx context.Context) {
			defer a.findLostARQs(ctx)
			defer a.removeMdevs(ctx, kept)
			a.destroyGuest(ctx)
		},
		func(ctx context.Context) {
			if a.guestStays {
				a.keepForGuest()
			} else {
				a.giveBackARQs(ctx, moving && a.flow.config.Compat.Rebind && !a.bindLost, kept)
			}
			if !moving {
				a.nameStuck(c)
			}
		},
		func(ctx context.Context) {
			if moving || a.guestStays {
				return
			}
			a.releaseClaim(ctx)
			if len(a.stuck.arqs) > 0 && len(a.before.Resources) > 0 { // what their devices hold was left to them
				c.suspect(Leftover{Kind: LeftoverAllocation, ID: a.Request.Instance, Instance: a.Request.Instance, Err: errARQsStay})
			}
		},
	}
	defer func() {
		a.flow.suspects.add(c.suspects)
		end(fmt.Sprintf("%d undone, %d left behind", len(c.undone)-earlier, len(c.left)+len(c.suspects)), nil)
		a.claimed, a.bindLost = false, false
		a.bound, a.Bindings, a.Devices, a.Skipped, a.Ports, a.Domain = time.Time{}, nil, nil, nil, nil, nil
	}()
	defer a.record.reportLeft(ctx, c)
	defer func() {
		limited, cancel := context.WithDeadline(ctx, began.Add(a.flow.config.UnwindTimeout))
		defer cancel()
		a.record.look(limited, c)
	}()
	for i, stage := range slices.Backward(stages[:]) {
		defer func() { // also after a hook that panics or ends the goroutine
			limited, cancel := context.WithDeadline(ctx, began.Add(time.Duration(i+1)*a.flow.config.UnwindTimeout/unwindStages))
			defer cancel()
			defer a.record.reportUndone(ctx, c)
			defer stage(limited) // also after an observer that panics
			a.record.report(ctx, Progress{Step: StepUnwind, Event: ProgressStage, Text: stageNames[i]})
		}()
	}
}

// destroyGuest calls the Destroy hook after a hook that may have made a guest. It
// runs before the ARQs are deleted: a guest must not run with a device that is free.
func (a *Attempt) destroyGuest(ctx context.Context) {
	destroy := a.Request.Hooks.Destroy
	if !a.guestMade || destroy == nil {
		return
	}
	err := errors.New("the hook Destroy did not return")
	defer func() {
		a.guestMade, a.guestStays = err != nil, err != nil
		a.cleanup.add(LeftoverGuest, a.Request.Instance, err)
	}()
	for pause := retryPause; ; pause = min(2*pause, maxRetryPause) {
		if err = destroy(ctx, a.Result()); err == nil || sleep(ctx, pause) != nil {
			return
		}
	}
}

// removeMdevs removes the definitions of the mediated devices, unless a guest may use them. The next unwinding tries those
// again that could not be removed.
func (a *Attempt) removeMdevs(ctx context.Context, kept map[string]error) {
	if a.guestStays {
		return
	}
	defer func() {
		a.mdevs = slices.DeleteFunc(slices.Clone(a.mdevs), func(arq cyborgclient.ARQ) bool { return kept[arq.UUID] == nil })
	}()
	a.flow.removeMdevs(ctx, a.Request.Hooks.Mdevs, a.instance(), a.mdevs, kept)
}

// errGuestStays is why ARQs and allocation of a guest that could not be destroyed are kept.
var errGuestStays = errors.New("the guest, which could not be destroyed, may use it")

// keepForGuest names what the guest may still use: the next Unwind, or the caller once the
// guest is gone, gives it back.
func (a *Attempt) keepForGuest() {
	for _, uuid := range uuidsOf(a.ARQs) {
		a.cleanup.add(LeftoverARQ, uuid, errGuestStays)
	}
	if a.claim.sent {
		a.cleanup.keep(Leftover{Kind: LeftoverAllocation, ID: a.Request.Instance, Err: errGuestStays}, a.lookAtClaim)
	}
}

// giveBackARQs unbinds the ARQs, or deletes them, but for those that are kept. What another client handed over may be another
// instance's.
func (a *Attempt) giveBackARQs(ctx context.Context, rebind bool, kept map[string]error) {
	maps.Copy(kept, a.readHanded(ctx))
	if !rebind || len(kept) > 0 || !a.unbindARQs(ctx) {
		a.deleteARQs(ctx, kept)
	}
}

// unbindARQs unbinds the ARQs and keeps them for the next host. It reports false
// when they are to be deleted instead: also when not all were created.
func (a *Attempt) unbindARQs(ctx context.Context) bool {
	uuids := uuidsOf(a.ARQs)
	isPart := slices.ContainsFunc(a.sources(), func(from source) bool { return len(a.matchingARQs(from)) < arqCount(from.profile) })
	areSpares := len(a.stuck.arqs) > 0 && len(a.spares) == 0 // of a lost create
	if len(uuids) == 0 || isPart || areSpares {
		return false
	}
	tries := 0
	err := a.flow.retry(ctx, func(ctx context.Context) error {
		tries++
		return a.flow.cyborg.UnbindARQs(ctx, uuids)
	})
	if err != nil || tries > 1 { // one that failed may arrive when they are bound again
		return false
	}
	for _, uuid := range uuids {
		a.cleanup.add("binding of arq", uuid, nil)
	}
	return true
}

// deleteARQs deletes the ARQs by their UUIDs, never by instance: an instance that
// had ARQs before keeps them. Those that are kept are named with their errors.
func (a *Attempt) deleteARQs(ctx context.Context, kept map[string]error) {
	uuids := slices.Concat(uuidsOf(a.ARQs), uuidsOf(a.spares))
	earlier := slices.DeleteFunc(a.cleanup.arqs(), func(uuid string) bool { return slices.Contains(uuids, uuid) }) // of an earlier unwinding
	uuids = slices.Concat(earlier, uuids)
	if len(uuids) == 0 {
		return
	}
	failed := a.flow.deleteARQs(ctx, slices.DeleteFunc(slices.Clone(uuids), func(uuid string) bool { return kept[uuid] != nil }))
	maps.Copy(failed, kept)
	a.cleanup.addARQs(uuids, failed)
	a.ARQs, a.spares = nil, nil
	a.flow.arqs.remove(uuids...)
}
