package spawn

import (
	"context"
	"fmt"
)

// Hooks are the caller's steps of a build, which nova-compute runs between the ten steps. Each may be nil. When a
// hook fails, the flow releases ARQs, allocation and events; the caller releases what the hook created, such as ports
// and volumes. The [Hypervisor] of the flow starts the guest.
type Hooks struct {
	// Claim is the compute host's own claim (processors, memory, NUMA, late affinity). It runs after the bind and
	// before the wait, as in Nova, where it sets the instance's host. When it fails, the next host is tried, unless
	// the error is an ErrAbort or ErrGone.
	Claim func(ctx context.Context, a *Attempt) error
	// Prepare sets up networks and block devices when every ARQ is Bound. When it fails, no other host is tried, as
	// in Nova.
	Prepare func(ctx context.Context, a *Attempt) error
}

// ClaimHost runs [Hooks.Claim].
func (a *Attempt) ClaimHost(ctx context.Context) error {
	return a.hook(ctx, StepHost, a.Request.Hooks.Claim)
}

// PrepareGuest runs [Hooks.Prepare].
func (a *Attempt) PrepareGuest(ctx context.Context) error {
	return a.hook(ctx, StepPrepare, a.Request.Hooks.Prepare)
}

func (a *Attempt) hook(ctx context.Context, name Step, hook func(context.Context, *Attempt) error) error {
	if hook == nil {
		return nil
	}
	return a.record.step(ctx, name, func(ctx context.Context) (string, error) {
		if err := hook(a.journal.Inside(ctx), a); err != nil {
			return "", fmt.Errorf("host %s: %w", a.Host, err)
		}
		return "done on host " + a.Host, nil
	})
}
