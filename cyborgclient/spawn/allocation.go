package spawn

import (
	"context"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// verdict is what is to happen to an allocation.
type verdict int

const (
	leave        verdict = iota // it is as it is to be
	replace                     // by another one
	replaceFirst                // by another one, which may still change
	await                       // it may still change
)

// allocation reads what an instance holds.
func (f *Flow) allocation(ctx context.Context, instance string) (held placement.Allocation, err error) {
	err = f.retry(ctx, func(ctx context.Context) (err error) {
		held, err = f.placement.Allocation(ctx, instance)
		return err
	})
	return held, err
}

// changeAllocation replaces what an instance holds, with the generation that was read,
// so that a request that arrives late changes nothing. The function returns what the
// instance is to hold, of which nothing deletes the allocation. When the outcome of a
// change is unknown, it is not sent again within LateWindow. Settled reports that the
// function left the allocation or that the change was done, changed that one was.
func (f *Flow) changeAllocation(
	ctx context.Context, instance string, decide func(held placement.Allocation) (next placement.Allocation, v verdict),
) (settled, changed bool, err error) {
	var unknown error   // the outcome of a change
	var since time.Time // the change was sent
	settled, err = f.settle(ctx, func(ctx context.Context) (bool, error) {
		held, err := f.placement.Allocation(ctx, instance)
		if err != nil {
			return false, err
		}
		next, v := decide(held)
		switch {
		case v != replace && v != replaceFirst:
			changed = changed || unknown != nil
			return v == leave, nil
		case time.Since(since) < LateWindow:
			return false, unknown
		}
		next.Generation = held.Generation
		if next.Project == "" {
			next.Project, next.User = held.Project, held.User
		}
		if err = f.setAllocation(ctx, instance, next); err == nil {
			changed, unknown = true, nil
			return v == replace, nil
		}
		if !placement.Refused(err) {
			unknown, since = err, time.Now()
		}
		return false, err
	})
	return settled, changed, err
}

// setAllocation writes what an instance holds. A change whose outcome is unknown may still
// arrive: see outdate.
func (f *Flow) setAllocation(ctx context.Context, instance string, next placement.Allocation) error {
	err := f.placement.SetAllocation(ctx, instance, next)
	if err != nil && !placement.Refused(err) && next.Generation != nil {
		f.unanswered.addChange(instance, *next.Generation)
	}
	return err
}

// outdate writes a claim again until its generation is beyond those of all changes of the
// instance that may still arrive. The consumers of one instance begin with the same
// generation, so that a change of an earlier one would fit this one, too.
func (f *Flow) outdate(ctx context.Context, instance string, claim placement.Allocation) error {
	newest, found := f.unanswered.newestChange(instance)
	for found {
		held, err := f.placement.Allocation(ctx, instance)
		if err != nil {
			return err
		}
		isNewer := held.Generation != nil && *held.Generation > newest
		if isNewer && placement.Equal(held.Resources, claim.Resources) {
			break
		}
		claim.Generation = held.Generation
		if err := f.setAllocation(ctx, instance, claim); err != nil {
			return err
		}
	}
	return nil
}

// deleteAllocation deletes what an instance holds. If that is no longer what was read, and checked, another agent has
// claimed for the instance since: it is left, and named. Nil is for what was not checked.
func (f *Flow) deleteAllocation(ctx context.Context, instance string, read *placement.Allocation, c *cleanup) {
	isOthers := false
	_, _, err := f.changeAllocation(ctx, instance, func(held placement.Allocation) (placement.Allocation, verdict) {
		isOthers = len(held.Resources) > 0 && read != nil && !unchanged(held, *read)
		if isOthers || len(held.Resources) == 0 {
			return held, leave
		}
		return placement.Allocation{}, replace
	})
	if isOthers {
		c.suspect(Leftover{Kind: LeftoverAllocation, ID: instance, Instance: instance, Err: errChanged})
		return
	}
	c.add(LeftoverAllocation, instance, err)
}

// unchanged reports whether an allocation is the one that was read before.
func unchanged(held, read placement.Allocation) bool {
	if (held.Generation == nil) != (read.Generation == nil) || held.Generation != nil && *held.Generation != *read.Generation {
		return false
	}
	return placement.Equal(held.Resources, read.Resources)
}

// reduceAllocation replaces what an instance holds by a part of it, if it is not so already.
func (f *Flow) reduceAllocation(ctx context.Context, instance string, c *cleanup, part func(held placement.Resources) placement.Resources) {
	_, changed, err := f.changeAllocation(ctx, instance, func(held placement.Allocation) (placement.Allocation, verdict) {
		next := held
		if next.Resources = part(held.Resources); placement.Equal(held.Resources, next.Resources) {
			return held, leave
		}
		return next, replace
	})
	switch {
	case err != nil:
		c.keep(Leftover{Kind: LeftoverAllocation, ID: instance, Err: err}, func(ctx context.Context) (bool, error) {
			held, err := f.placement.Allocation(ctx, instance)
			return !placement.Equal(held.Resources, part(held.Resources)), err
		})
	case changed:
		c.add("part of allocation", instance, nil)
	}
}
