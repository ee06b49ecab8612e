package spawn

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// traitOwnerCyborg is the trait of the providers that Cyborg makes; Zed cannot set it.
const traitOwnerCyborg = "OWNER_CYBORG"

// ReleaseDevices gives back the accelerators of an instance that goes on, as one that
// got them with Request.Running: its ARQs, and then in its allocation the resources of
// their providers and of others with the trait OWNER_CYBORG. The rest of the allocation
// is kept. Take the devices out of the domain before. It is idempotent; a failure is an
// [*Error] that matches ErrLeftover, as that of Release.
func (f *Flow) ReleaseDevices(ctx context.Context, instance string) error {
	if err := checkUUID("instance", instance); err != nil {
		return err
	}
	record := f.newRecorder(instance, "")
	ctx, end := record.open(ctx, StepUnwind)
	var c cleanup
	devices, err := f.heldDevices(ctx, instance)
	if err != nil {
		err = fmt.Errorf("find the device providers: %w", err)
		c.add(LeftoverAllocation, instance, err)
	} else if f.releaseARQs(ctx, Instance{UUID: instance}, listed, &c); len(c.leftovers) == 0 {
		c.add(LeftoverAllocation, instance, f.releaseProviders(ctx, instance, devices))
	}
	end(fmt.Sprintf("%d undone, %d left behind", len(c.undone), len(c.leftovers)), err)
	return c.err(instance, "not every accelerator could be released", record)
}

// heldDevices returns the providers of an instance's devices. Those without an ARQ are
// left from a release that failed half-way.
func (f *Flow) heldDevices(ctx context.Context, instance string) (map[string]bool, error) {
	devices := make(map[string]bool)
	err := f.retry(ctx, func(ctx context.Context) error {
		arqs, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
		if err != nil {
			return err
		}
		for _, arq := range arqs {
			devices[arq.DeviceRPUUID] = true
		}
		held, err := f.placement.Allocation(ctx, instance)
		if err != nil {
			return err
		}
		for provider := range held.Resources {
			traits, err := f.placement.Traits(ctx, provider)
			if err != nil {
				return err
			}
			devices[provider] = devices[provider] || slices.Contains(traits, traitOwnerCyborg)
		}
		return nil
	})
	return devices, err
}

// releaseProviders takes the resources of device providers out of an allocation.
func (f *Flow) releaseProviders(ctx context.Context, instance string, devices map[string]bool) error {
	_, _, err := f.changeAllocation(ctx, instance, func(held placement.Allocation) (placement.Allocation, verdict) {
		kept := placement.Without(held.Resources, devices)
		if placement.Equal(kept, held.Resources) {
			return held, leave
		}
		return placement.Allocation{Resources: kept, Project: held.Project, User: held.User}, replace
	})
	return err
}
