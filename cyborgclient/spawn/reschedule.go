package spawn

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
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

// walk does the steps from the given one on.
func (a *Attempt) walk(ctx context.Context, from Step) (Step, error) {
	steps := a.steps()
	for len(steps) > 0 && steps[0].name != from {
		steps = steps[1:]
	}
	for _, step := range steps {
		if err := step.run(ctx); err != nil {
			return step.name, err
		}
	}
	return 0, nil
}

// run walks all steps, on as many hosts as it takes. The error is that of the
// last host.
func (a *Attempt) run(ctx context.Context) (Step, error) {
	step, err := a.walk(ctx, StepProfile)
	for err != nil && a.Reschedulable(step, err) && ctx.Err() == nil {
		moved := a.Reschedule(ctx)
		switch {
		case errors.Is(moved, ErrNoAlternate), errors.Is(moved, ErrLeftover):
			return step, err
		case moved != nil:
			return StepSelect, errors.Join(moved, err)
		}
		step, err = a.walk(ctx, StepClaim)
	}
	return step, err
}
