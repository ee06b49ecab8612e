package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/requestspec"
)

// How the unwinding tries one thing again. Nothing that hangs may keep the rest from
// being tried at all: each of the three stages ends after its third of the whole time,
// and one request has a third of that.
const (
	unwindStages   = 3
	unwindPause    = 200 * time.Millisecond
	unwindMaxPause = 2 * time.Second
)

// Unwind gives back everything that the attempt made, in reverse: events,
// ARQs (which frees handles and mediated devices), allocation. It runs on a
// context of its own, bounded by Config.UnwindTimeout, so that a cancelled
// caller still leaves nothing behind; what fails is tried again a few times.
// It may be called after any step, more than once.
func (a *Attempt) Unwind(ctx context.Context) (undone []string, leftovers []Leftover) {
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	step := a.trace.open(StepUnwind)
	ctx = cyborgclient.Observe(ctx, step.cyborg)
	a.forgetEvents()
	defer a.end()
	u := &unwinding{attempt: a, step: step}
	for i, stage := range [unwindStages]func(context.Context){u.findLostARQs, u.deleteARQs, u.releaseClaim} {
		limited, cancel := context.WithDeadline(ctx, began.Add(time.Duration(i+1)*a.flow.config.UnwindTimeout/unwindStages))
		stage(limited)
		cancel()
	}
	step.close(fmt.Sprintf("%d undone, %d left behind", len(u.undone), len(u.leftovers)), nil)
	return u.undone, u.leftovers
}

type unwinding struct {
	attempt   *Attempt
	step      *StepTrace
	undone    []string
	leftovers []Leftover
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
	uuids := u.attempt.arqUUIDs()
	if len(uuids) == 0 {
		return
	}
	err := u.attempt.flow.again(ctx, func(ctx context.Context) error { return u.attempt.flow.cyborg.DeleteARQs(ctx, uuids) })
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
	for _, uuid := range uuids {
		if cause, ok := failed[uuid]; ok {
			u.leftovers = append(u.leftovers, Leftover{Kind: "arq", ID: uuid, Err: cause})
			continue
		}
		u.undone = append(u.undone, "arq "+uuid)
	}
	u.attempt.flow.letGo(uuids)
	u.attempt.ARQs, u.attempt.Bindings = nil, nil
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
		u.leftovers = append(u.leftovers, Leftover{Kind: "suspect arq", ID: "of device profile " + a.Profile.Name, Err: err})
		return
	}
	a.create.lost = false
	if len(suspects) == a.expectedARQs() {
		a.ARQs = suspects
		return
	}
	for _, arq := range suspects {
		u.leftovers = append(u.leftovers, Leftover{
			Kind: "suspect arq", ID: arq.UUID,
			Err: fmt.Errorf("%d unbound ARQs of device profile %s are as young, one create makes %d", len(suspects), a.Profile.Name, a.expectedARQs()),
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
		arq.DeviceProfileName == a.Profile.Name &&
		(arq.ProjectID == "" || arq.ProjectID == project) &&
		(arq.CreatedAt == nil || !arq.CreatedAt.Before(since)) &&
		!a.flow.holds(arq.UUID)
}

// expectedARQs is how many ARQs one create makes.
func (a *Attempt) expectedARQs() int {
	total := 0
	for _, group := range a.Profile.Groups {
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
		released, err = a.release(ctx, u.step)
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
func (a *Attempt) release(ctx context.Context, step *StepTrace) (released bool, err error) {
	p, instance := a.flow.placement, a.Request.Instance
	if a.claim.certain && len(a.before.Resources) == 0 {
		return true, p.deleteAllocation(ctx, step, instance)
	}
	held, err := p.getAllocation(ctx, step, instance)
	if err != nil {
		return false, err
	}
	if !equalResources(held.Resources, a.claim.wanted.Resources) {
		return false, nil // the claim was never made, or is not there any more
	}
	if len(a.before.Resources) == 0 {
		return true, p.deleteAllocation(ctx, step, instance)
	}
	before := a.before
	before.Generation = held.Generation
	return true, p.putAllocation(ctx, step, instance, before)
}

func equalResources(a, b map[string]map[string]int) bool {
	return maps.EqualFunc(a, b, func(x, y map[string]int) bool { return maps.Equal(x, y) })
}
