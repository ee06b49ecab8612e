package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// ReleaseDevices gives back the accelerators of an instance that goes on, as one that
// got them with Request.Running: its ARQs, and then in its allocation the resources of
// their providers and of others that Cyborg lists. The rest of the allocation is kept.
// Take the devices out of the domain before. It is idempotent; a failure is an [*Error]
// that matches ErrLeftover, as that of Release. The token must be one that may list
// deployables.
func (f *Flow) ReleaseDevices(ctx context.Context, instance string) error {
	if err := checkUUID("instance", instance); err != nil {
		return err
	}
	return f.newRecorder(instance, "").cleanUp(ctx, "not every accelerator could be released", func(ctx context.Context, c *cleanup) {
		devices, err := f.heldDevices(ctx, instance)
		if err != nil {
			c.add(LeftoverAllocation, instance, fmt.Errorf("find the device providers: %w", err))
			return
		}
		if f.releaseARQs(ctx, Instance{UUID: instance}, listed, nil, c); len(c.leftovers) == 0 {
			f.reduceAllocation(ctx, instance, c, func(held placement.Resources) placement.Resources { return placement.Without(held, devices) })
		}
	})
}

// heldDevices returns the providers that an instance's devices may be on. Those without an
// ARQ are left from a release that failed half-way.
func (f *Flow) heldDevices(ctx context.Context, instance string) (devices map[string]bool, err error) {
	err = f.retry(ctx, func(ctx context.Context) error {
		if devices, err = f.cyborgProviders(ctx); err != nil {
			return err
		}
		arqs, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
		for _, arq := range arqs {
			devices[arq.DeviceRPUUID] = true // its device may be gone
		}
		return err
	})
	return devices, err
}

// cyborgProviders returns the resource providers of Cyborg's devices. The trait OWNER_CYBORG
// does not tell: most drivers do not report it.
func (f *Flow) cyborgProviders(ctx context.Context) (map[string]bool, error) {
	deployables, err := f.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
	providers := make(map[string]bool, len(deployables))
	for _, deployable := range deployables {
		providers[deployable.RPUUID] = true
	}
	return providers, err
}
