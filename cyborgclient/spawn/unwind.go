package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/requestspec"
)

// ErrNoAlternate: there is no further host that may be tried; see
// Config.MaxAttempts.
var ErrNoAlternate = errors.New("no further host to try")

// Reschedulable reports whether a failure of a step is one that another host may
// mend, and so whether [Flow.Run] tries the next one:
//
//   - the creation of ARQs, when Cyborg did not answer or failed (5xx). A
//     refusal would be the same for every host.
//   - the bind, when it failed for want of a free handle, of the device, or of
//     an answer. Not when the token lacks a role or the instance has ARQs
//     already.
//   - the hooks Claim and Start, unless the error is an ErrAbort or ErrGone.
//
// Everything else is fatal. A refused claim is not among these, because
// [Attempt.Claim] itself moves on; nor is the wait, whose timeout is fatal in
// Nova, too.
func (a *Attempt) Reschedulable(step Step, err error) bool {
	if errors.Is(err, ErrAbort) || errors.Is(err, ErrGone) || errors.Is(err, ErrOrder) {
		return false
	}
	switch step {
	case StepCreate:
		return errors.Is(err, cyborgclient.ErrUnavailable)
	case StepBind:
		return bindMayWorkElsewhere(err)
	case StepHost, StepStart:
		return true
	}
	return false
}

func bindMayWorkElsewhere(err error) bool {
	for _, kind := range []error{cyborgclient.ErrNotFound, cyborgclient.ErrUnavailable, cyborgclient.ErrReplyLost} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Reschedule moves on to the next host after a step failed: it gives back what
// was made on the failed one, guest and ARQs first and the allocation after
// them, and chooses the first candidate of the next host. Claim and the steps
// after it follow. With Compat.Rebind the ARQs are unbound and kept.
//
// The error matches ErrNoAlternate when there is no host left, before anything
// is given back, and ErrLeftover when something could not be given back: a
// second bind would be refused then, so the attempt is to be unwound.
func (a *Attempt) Reschedule(ctx context.Context) error {
	next, ok := a.nextHost()
	if !ok {
		return fmt.Errorf("%w: instance %s after %s", ErrNoAlternate, a.Request.Instance, count(len(a.tried), "host"))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	undone, leftovers := a.giveBack(ctx, true)
	a.undone, a.leftovers = append(a.undone, undone...), leftovers
	if len(leftovers) > 0 {
		return fmt.Errorf("%w: instance %s on host %s", ErrLeftover, a.Request.Instance, a.Host)
	}
	return a.step(ctx, StepSelect, func(ctx context.Context) (string, error) {
		return a.choose(ctx, next)
	})
}

// nextHost is the first candidate of the first host that was not tried yet.
func (a *Attempt) nextHost() (Candidate, bool) {
	if len(a.tried) >= a.flow.config.MaxAttempts {
		return Candidate{}, false
	}
	for _, candidate := range firstOfEachHost(a.Candidates) {
		if !a.tried[candidate.Root] {
			return candidate, true
		}
	}
	return Candidate{}, false
}

// How the unwinding tries one thing again. Nothing that hangs may keep the rest from
// being tried at all: each of the three stages ends after its third of the whole time,
// and one request has a third of that.
const (
	unwindStages   = 3
	unwindPause    = 200 * time.Millisecond
	unwindMaxPause = 2 * time.Second
)

// Unwind gives back everything that the attempt made, in reverse: guest,
// events, ARQs (which frees handles and mediated devices), allocation. It runs
// on a context of its own, bounded by Config.UnwindTimeout, so that a cancelled
// caller still leaves nothing behind; what fails is tried again a few times.
// It may be called after any step, more than once.
func (a *Attempt) Unwind(ctx context.Context) (undone []string, leftovers []Leftover) {
	defer a.end()
	return a.giveBack(ctx, false)
}

// giveBack gives back what was made on one host. With moving another host
// follows, for which Compat.Rebind keeps the ARQs.
func (a *Attempt) giveBack(ctx context.Context, moving bool) (undone []string, leftovers []Leftover) {
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	ctx, step := a.record.open(ctx, StepUnwind)
	a.forgetEvents()
	u := &unwinding{attempt: a}
	stages := [unwindStages]func(context.Context){
		func(ctx context.Context) { u.destroyGuest(ctx); u.findLostARQs(ctx) },
		func(ctx context.Context) { u.giveBackARQs(ctx, moving) },
		u.releaseClaim,
	}
	for i, stage := range stages {
		limited, cancel := context.WithDeadline(ctx, began.Add(time.Duration(i+1)*a.flow.config.UnwindTimeout/unwindStages))
		stage(limited)
		cancel()
	}
	step.close(fmt.Sprintf("%d undone, %d left behind", len(u.undone), len(u.leftovers)), nil)
	a.bound, a.Bindings, a.Devices, a.Skipped, a.Ports, a.Domain = time.Time{}, nil, nil, nil, nil, nil
	return u.undone, u.leftovers
}

type unwinding struct {
	attempt   *Attempt
	undone    []string
	leftovers []Leftover
}

// destroyGuest has the caller remove what its hooks may have made. It comes
// before the ARQs: a guest must not run with a device that is free.
func (u *unwinding) destroyGuest(ctx context.Context) {
	a := u.attempt
	destroy := a.Request.Hooks.Destroy
	if !a.touched || destroy == nil {
		return
	}
	if err := destroy(ctx, a.Result()); err != nil {
		u.leftovers = append(u.leftovers, Leftover{Kind: "guest", ID: a.Request.Instance, Err: err})
		return
	}
	a.touched = false
	u.undone = append(u.undone, "guest "+a.Request.Instance)
}

// giveBackARQs deletes the ARQs, or keeps them unbound for the next host.
func (u *unwinding) giveBackARQs(ctx context.Context, moving bool) {
	if moving && u.attempt.flow.config.Compat.Rebind && u.unbind(ctx) {
		return
	}
	u.deleteARQs(ctx)
}

// unbind takes the devices from the ARQs and keeps them for the next host.
func (u *unwinding) unbind(ctx context.Context) bool {
	uuids := u.attempt.arqUUIDs()
	if len(uuids) == 0 {
		return false
	}
	if err := u.attempt.flow.again(ctx, func(ctx context.Context) error { return u.attempt.flow.cyborg.UnbindARQs(ctx, uuids) }); err != nil {
		return false // then they are deleted
	}
	for _, uuid := range uuids {
		u.undone = append(u.undone, "binding of arq "+uuid)
	}
	return true
}

// again tries until it works, the context ends or the time of a stage is over.
func (f *Flow) again(ctx context.Context, try func(ctx context.Context) error) error {
	stage := f.config.UnwindTimeout / unwindStages
	ctx, cancel := context.WithTimeout(ctx, stage)
	defer cancel()
	for pause := unwindPause; ; pause = min(2*pause, unwindMaxPause) {
		limited, cancel := context.WithTimeout(ctx, stage/3)
		err := try(limited)
		cancel()
		if err == nil || errors.Is(err, cyborgclient.ErrForbidden) || errors.Is(err, cyborgclient.ErrUnauthorized) {
			return err
		}
		if sleepErr := sleep(ctx, pause); sleepErr != nil {
			return err
		}
	}
}

// deleteARQs deletes the ARQs by their UUIDs, never by instance: an instance
// that had ARQs before keeps them.
func (u *unwinding) deleteARQs(ctx context.Context) {
	a := u.attempt
	uuids := append(slices.Clone(a.stale), a.arqUUIDs()...)
	if len(uuids) == 0 {
		return
	}
	failed := a.flow.deleteARQs(ctx, uuids)
	a.ARQs, a.stale = nil, nil
	for _, uuid := range uuids {
		if cause, ok := failed[uuid]; ok {
			u.leftovers = append(u.leftovers, Leftover{Kind: "arq", ID: uuid, Err: cause})
			a.stale = append(a.stale, uuid) // another unwinding tries again
			continue
		}
		u.undone = append(u.undone, "arq "+uuid)
	}
	a.flow.letGo(uuids)
}

// deleteARQs deletes ARQs and tells which are still there, and why.
func (f *Flow) deleteARQs(ctx context.Context, uuids []string) map[string]error {
	if f.config.Compat.UnbindFirst {
		_ = f.cyborg.UnbindARQs(ctx, uuids) // should it fail, the deletion unbinds, too
	}
	err := f.again(ctx, func(ctx context.Context) error { return f.cyborg.DeleteARQs(ctx, uuids) })
	failed := map[string]error{}
	var partial *cyborgclient.DeleteError
	switch {
	case errors.As(err, &partial):
		for _, failure := range partial.Failed {
			failed[failure.ARQ] = failure.Err
		}
	case err != nil:
		for _, uuid := range uuids {
			failed[uuid] = err
		}
	}
	return failed
}

// findLostARQs looks for what a create made whose reply was lost. ARQs carry
// no mark of their creator, so those count that are Initial, unbound, of this
// profile, made since the create began by the server's clock, and held by no
// other attempt of this flow. Exactly one create's worth of them is taken as
// ours. Any other number may be somebody else's: they are named, not deleted.
func (u *unwinding) findLostARQs(ctx context.Context) {
	a := u.attempt
	if !a.create.lost {
		return
	}
	var suspects []cyborgclient.ARQ
	err := u.attempt.flow.again(ctx, func(ctx context.Context) (err error) {
		suspects, err = a.suspects(ctx)
		return err
	})
	if err != nil {
		u.leftovers = append(u.leftovers, Leftover{Kind: "suspect arq", ID: "of device profile " + a.create.from.profile.Name, Err: err})
		return
	}
	a.create.lost = false
	if len(suspects) == a.expectedARQs() {
		a.own(suspects, a.create.from)
		return
	}
	for _, arq := range suspects {
		u.leftovers = append(u.leftovers, Leftover{
			Kind: "suspect arq", ID: arq.UUID,
			Err: fmt.Errorf("%d unbound ARQs of device profile %s are as young, one create makes %d", len(suspects), a.create.from.profile.Name, a.expectedARQs()),
		})
	}
}

// suspects lists the ARQs that a create with a lost reply may have made.
func (a *Attempt) suspects(ctx context.Context) ([]cyborgclient.ARQ, error) {
	var listed cyborgclient.Call
	observed := cyborgclient.Observe(ctx, func(call cyborgclient.Call) { listed = call })
	all, err := a.flow.cyborg.ListARQs(observed, cyborgclient.ListARQsOpts{})
	if err != nil {
		return nil, err
	}
	since := a.createBegan(listed)
	var suspects []cyborgclient.ARQ
	for _, arq := range all {
		if a.suspect(arq, since) {
			suspects = append(suspects, arq)
		}
	}
	return suspects, nil
}

// createBegan is when the create began by the server's clock, whose reading
// came with the list. Dates and creation times have whole seconds, hence the
// slack.
func (a *Attempt) createBegan(listed cyborgclient.Call) time.Time {
	const slack = 2 * time.Second
	if listed.Date.IsZero() {
		return a.create.began.Add(-slack)
	}
	return listed.Date.Add(-time.Since(a.create.began) - slack)
}

func (a *Attempt) suspect(arq cyborgclient.ARQ, since time.Time) bool {
	project := a.Request.ProjectID
	return arq.State == cyborgclient.StateInitial && arq.Hostname == "" && arq.InstanceUUID == "" &&
		arq.DeviceProfileName == a.create.from.profile.Name &&
		(arq.ProjectID == "" || arq.ProjectID == project) &&
		(arq.CreatedAt.IsZero() || !arq.CreatedAt.Before(since)) &&
		!a.flow.holds(arq.UUID)
}

// expectedARQs is how many ARQs one create makes.
func (a *Attempt) expectedARQs() int {
	total := 0
	for _, group := range a.create.from.profile.Groups {
		count, err := requestspec.ARQCount(group)
		if err != nil {
			return -1 // cannot be: the profile was judged in step 2
		}
		total += count
	}
	return total
}

// releaseClaim gives the allocation back. With Request.Running that means
// writing what the instance held before.
func (u *unwinding) releaseClaim(ctx context.Context) {
	a := u.attempt
	if !a.claim.sent {
		return
	}
	released := false
	err := u.attempt.flow.again(ctx, func(ctx context.Context) (err error) {
		released, err = a.release(ctx)
		return err
	})
	if err != nil {
		u.leftovers = append(u.leftovers, Leftover{Kind: "allocation", ID: a.Request.Instance, Err: err})
		return
	}
	a.claim = claimState{}
	if released {
		u.undone = append(u.undone, "allocation "+a.Request.Instance)
	}
}

// release reads before it writes when it is not certain that what the instance
// holds is this attempt's claim: the reply may have been lost before or after
// it was made, and somebody else may own what is there.
func (a *Attempt) release(ctx context.Context) (released bool, err error) {
	p, instance := a.flow.placement, a.Request.Instance
	if a.claim.certain && len(a.before.Resources) == 0 {
		return true, p.deleteAllocation(ctx, instance)
	}
	held, err := p.getAllocation(ctx, instance)
	if err != nil {
		return false, err
	}
	if !equalResources(held.Resources, a.claim.wanted.Resources) {
		return false, nil // the claim was never made, or is not there any more
	}
	if len(a.before.Resources) == 0 {
		return true, p.deleteAllocation(ctx, instance)
	}
	before := a.before
	before.Generation = held.Generation
	return true, p.putAllocation(ctx, instance, before)
}

func equalResources(a, b map[string]map[string]int) bool {
	return maps.EqualFunc(a, b, func(x, y map[string]int) bool { return maps.Equal(x, y) })
}
