package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// AddDevices gives accelerators to an instance that exists and has none: its allocation is kept, and only
// the device groups of the flavor are requested, on its host; Options.SameSubtree does not apply to the
// others. Request.Domain is its present domain. The guest is not restarted, also with a hypervisor: attach the
// result's devices to it, or give [Operations.HardReboot] the result's domain.
//
// The error matches ErrRequest if the instance has no allocation, or already has a device of Cyborg's,
// for example after an interrupted attempt: Cyborg binds the ARQs of an instance once, and a flavor names one device profile, from which the
// operations restore the devices. To change the devices, call [Flow.ReleaseDevices] and request all that the instance is to have.
func (f *Flow) AddDevices(ctx context.Context, request Request) (*Result, error) {
	request.running = true
	return f.Run(ctx, request)
}

// BeginAdding is [Flow.Begin] for the steps of AddDevices.
func (f *Flow) BeginAdding(ctx context.Context, request Request) (*Attempt, error) {
	request.running = true
	return f.Begin(ctx, request)
}

// ReleaseDevices gives back the accelerators of an instance that goes on, as one that
// got them from [Flow.AddDevices]: its ARQs, and then in its allocation the resources of
// their providers and of others that Cyborg lists: of a flat host (Compat.FlatProviders) only
// those of the classes of Cyborg's devices. Device memory goes with them, also that which the
// regions of a card share. The rest of the allocation is kept.
// Take the devices out of the domain before. It is idempotent; a failure is an [*Error]
// that matches ErrLeftover, as that of Release. The token must be one that may see the
// ARQs of the instance's project (ErrHidden).
func (f *Flow) ReleaseDevices(ctx context.Context, instance string) error {
	i := Instance{UUID: instance}
	return f.operate(ctx, i, func(ctx context.Context, r *remover) error {
		if err := f.refuseHidden(ctx, i); err != nil {
			return &Error{Instance: instance, Err: err}
		}
		const cause = "not every accelerator could be released"
		held, arqs, devices, err := f.heldDevices(ctx, instance)
		if err != nil {
			err = fmt.Errorf("find the device providers: %w", err)
			r.journal.Settle(r.journal.Take(&ledger.Effect{Kind: ledger.Listed, ID: instance}), ledger.Unknown, err)
			r.journal.Settle(r.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: instance, Amount: &ledger.Amount{}}), ledger.Unknown, err)
			return r.cleanUp(ctx, cause, func(*ledger.Effect) bool { return false })
		}
		rest := placement.WithoutMemory(placement.Without(held, devices))
		part := r.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: instance, Amount: &ledger.Amount{Before: rest, Added: placement.Subtract(held, rest)}})
		r.takeARQs(arqs)
		for _, e := range r.journal.Effects(ledger.ARQ) {
			r.journal.Change(e, func() { e.Holds = []int{part.Seq} })
		}
		return r.cleanUp(ctx, cause, nil)
	})
}

// heldDevices returns what an instance holds, its ARQs, and what of it its devices may hold. Those without an ARQ are left
// from a release that failed half-way.
func (f *Flow) heldDevices(ctx context.Context, instance string) (all placement.Resources, arqs []cyborgclient.ARQ, devices placement.Devices, err error) {
	held, err := f.allocation(ctx, instance)
	if err != nil {
		return nil, nil, nil, err
	}
	err = f.retry(ctx, func(ctx context.Context) error {
		arqs, err = f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
		if err == nil {
			devices, err = f.devices(ctx, held.Resources, arqs)
		}
		return err
	})
	return held.Resources, arqs, devices, err
}

// useDevices reports whether resources are of deployables: all of a provider of their own, and those of their classes of
// a compute node, which is the provider on a flat host.
func useDevices(held placement.Resources, deployables []cyborgclient.Deployable) bool {
	devices := placement.Devices{}
	for _, deployable := range deployables {
		devices[deployable.RPUUID] = map[string]bool{}
	}
	addClasses(devices, deployables)
	return !placement.Equal(held, placement.Without(held, devices))
}
