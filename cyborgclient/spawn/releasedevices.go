package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// AddDevices adds accelerators to an existing instance that has none. Its allocation is kept, and only the device
// groups of the flavor are requested, on its host; Options.SameSubtree does not apply to the others. Request.Domain
// is its present domain. The guest is not restarted, even with a hypervisor: attach the result's devices to it, or
// pass the result's domain to [Operations.HardReboot].
//
// The error matches ErrRequest if the instance has no allocation, or already has a Cyborg device, for example after
// an interrupted attempt: Cyborg binds the ARQs of an instance once, and a flavor names one device profile, from
// which the operations restore the devices. To change the devices, call [Flow.ReleaseDevices] and request all devices
// again.
func (f *Flow) AddDevices(ctx context.Context, request Request) (*Result, error) {
	request.running = true
	return f.Run(ctx, request)
}

// BeginAdding is [Flow.Begin] for the steps of AddDevices.
func (f *Flow) BeginAdding(ctx context.Context, request Request) (*Attempt, error) {
	request.running = true
	return f.Begin(ctx, request)
}

// ReleaseDevices releases the accelerators of an instance that continues to exist, such as one with accelerators from
// [Flow.AddDevices]: its ARQs, and then from its allocation the resources of their providers and of other providers
// that Cyborg lists. On a flat host (Compat.FlatProviders) only the resource classes of Cyborg's devices are
// released. Device memory is released with them, including memory that the regions of a card share. The rest of the
// allocation is kept.
//
// Remove the devices from the domain first. ReleaseDevices is idempotent. A failure is an [*Error] that matches
// ErrLeftover, as for Release. The token must be able to see the ARQs of the instance's project (ErrHidden).
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

// heldDevices returns the allocation of an instance, its ARQs, and the resources that belong to devices. Devices
// without an ARQ remain from a release that failed halfway.
func (f *Flow) heldDevices(ctx context.Context, instance string) (all placement.Resources, arqs []cyborgclient.ARQ, devices placement.Devices, err error) {
	held, err := f.allocation(ctx, instance)
	if err != nil {
		return nil, nil, nil, err
	}
	devices, err = retry(ctx, f, func(ctx context.Context) (_ placement.Devices, err error) {
		if arqs, err = f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance}); err != nil {
			return nil, err
		}
		return f.devices(ctx, held.Resources, arqs)
	})
	return held.Resources, arqs, devices, err
}

// useDevices reports whether resources include devices: anything of a deployable's own provider, or, on a flat host,
// its classes on the compute node.
func useDevices(held placement.Resources, deployables []cyborgclient.Deployable) bool {
	devices := placement.Devices{}
	for _, deployable := range deployables {
		devices[deployable.RPUUID] = map[string]bool{}
	}
	addClasses(devices, deployables)
	return !placement.Equal(held, placement.Without(held, devices))
}
