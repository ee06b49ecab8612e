package spawn

import (
	"context"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// Release gives back what an instance holds after its guest is gone: first its
// ARQs, with one DELETE by instance, which frees handles and mediated devices,
// then its allocation. Both are idempotent, each is tried a few times, and the
// second also when the first fails.
//
// A failure is an [*Error] that matches ErrLeftover; its Leftovers name every
// ARQ that may still be there, so that the caller can try again.
func (f *Flow) Release(ctx context.Context, instance string) error {
	if err := checkUUID("instance", instance); err != nil {
		return err
	}
	failure := &Error{Instance: instance, Step: StepUnwind}
	var record recorder
	ctx, step := record.open(ctx, StepUnwind)
	failure.Leftovers, failure.Err = f.releaseARQs(ctx, instance)
	if err := f.again(ctx, func(ctx context.Context) error { return f.placement.deleteAllocation(ctx, instance) }); err != nil {
		failure.Leftovers = append(failure.Leftovers, Leftover{Kind: "allocation", ID: instance, Err: err})
		if failure.Err == nil {
			failure.Err = err
		}
	}
	step.close("", failure.Err)
	if failure.Err == nil {
		return nil
	}
	failure.Trace = record.trace()
	return failure
}

func (f *Flow) releaseARQs(ctx context.Context, instance string) ([]Leftover, error) {
	if f.config.Compat.UnbindFirst {
		return f.unbindInstance(ctx, instance)
	}
	err := f.again(ctx, func(ctx context.Context) error { return f.cyborg.DeleteARQsForInstance(ctx, instance) })
	if err != nil {
		return f.arqsLeft(ctx, instance, err), err
	}
	return nil, nil
}

// unbindInstance unbinds all ARQs of an instance and deletes them by their
// UUIDs: unbound ones belong to no instance any more.
func (f *Flow) unbindInstance(ctx context.Context, instance string) (left []Leftover, first error) {
	arqs, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
	if err != nil {
		return []Leftover{{Kind: "arq", ID: "of instance " + instance, Err: err}}, err
	}
	uuids := make([]string, len(arqs))
	for i, arq := range arqs {
		uuids[i] = arq.UUID
	}
	if len(uuids) == 0 {
		return nil, nil
	}
	failed := f.deleteARQs(ctx, uuids)
	for _, uuid := range uuids {
		if cause, ok := failed[uuid]; ok {
			left = append(left, Leftover{Kind: "arq", ID: uuid, Err: cause})
		}
	}
	if len(left) > 0 {
		first = left[0].Err
	}
	return left, first
}

// arqsLeft names the ARQs that an instance still has.
func (f *Flow) arqsLeft(ctx context.Context, instance string, cause error) []Leftover {
	arqs, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
	if err != nil {
		return []Leftover{{Kind: "arq", ID: "of instance " + instance, Err: cause}}
	}
	left := make([]Leftover, len(arqs))
	for i, arq := range arqs {
		left[i] = Leftover{Kind: "arq", ID: arq.UUID, Err: cause}
	}
	return left
}
