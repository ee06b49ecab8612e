package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
)

// classVGPU is the resource class of Nova's vGPUs, and of Cyborg's.
const classVGPU = "VGPU"

// OwnershipChange transfers the vGPU of an instance from Nova to Cyborg.
type OwnershipChange struct {
	Instance Instance
	// Flavor is the instance's new flavor: its device profile requests one vGPU of
	// Cyborg's, in place of the resources:VGPU of the old flavor.
	Flavor requestspec.Flavor
	// Mdev is the UUID of Nova's mediated device. Empty means the only one in the
	// domain.
	Mdev string
	// Provider is the UUID of the resource provider of Nova's vGPU. Empty means the
	// only one of which the instance holds VGPU.
	Provider string
	// Release removes Nova's mediated device from the host, after the guest has
	// started without it, as Nova's libvirt driver does. Nil leaves the device.
	Release func(ctx context.Context, mdev string) error
	// Options shape the request to Placement.
	Options requestspec.Options
}

// TakeOver changes the owner of an instance's vGPU from Nova to Cyborg. The
// specification (Wallaby, vGPU) uses a resize, which Nova blocks. On the host of
// the instance TakeOver
//
//   - claims Cyborg's vGPU beside Nova's, creates and binds its ARQ and waits for
//     it (the mdev tag changes from COMPUTE to ACCELERATOR);
//   - powers the guest off, replaces exactly Nova's mediated device in its domain by
//     Cyborg's, and starts it again if it ran;
//   - releases Nova's vGPU in Placement, and with Release on the host.
//
// After a failure before or at the start with the new domain, the instance is as it
// was: the same domain, running if it ran, and nothing of Cyborg's; the error is a
// [*Error]. When only the release of Nova's vGPU failed, both the result and an
// error that matches ErrLeftover are returned.
func (o *Operations) TakeOver(ctx context.Context, change OwnershipChange) (*Result, error) {
	i := change.Instance
	var result *Result
	err := o.do(OpTakeOver, i, func() error {
		saved, running, err := o.domain(ctx, i)
		if err != nil {
			return err
		}
		if change.Mdev, err = novaMdev(saved, change.Mdev); err != nil {
			return err
		}
		request := Request{
			Instance: i.UUID, Flavor: change.Flavor, Image: i.Image, ProjectID: i.ProjectID, UserID: i.UserID, Options: change.Options, Running: true,
		}
		a, err := o.flow.attempt(ctx, request, func(a *Attempt) (Step, error) { return o.takeOver(ctx, a, change, saved, running) })
		if err != nil {
			return err
		}
		a.end()
		result = a.Result()
		return o.releaseNova(ctx, a, change)
	})
	return result, err
}

// novaMdev returns the mediated device that is to be replaced.
func novaMdev(domain []byte, mdev string) (string, error) {
	if mdev != "" {
		diff, err := domainxml.Diff(domain, []domainxml.Device{{MDEV: mdev}})
		if len(diff.Missing) > 0 {
			err = fmt.Errorf("%w: the domain has no mediated device %s", ErrRequest, mdev)
		}
		return mdev, err
	}
	devices, err := domainxml.Read(domain)
	if err != nil {
		return "", err
	}
	var mdevs []string
	for _, d := range devices {
		if d.MDEV != "" {
			mdevs = append(mdevs, d.MDEV)
		}
	}
	if len(mdevs) != 1 {
		return "", fmt.Errorf("%w: the domain has %s; set OwnershipChange.Mdev", ErrRequest, count(len(mdevs), "mediated device"))
	}
	return mdevs[0], nil
}

// takeOver claims, binds and replaces.
func (o *Operations) takeOver(ctx context.Context, a *Attempt, change OwnershipChange, saved []byte, running bool) (Step, error) {
	step, err := a.walk(ctx, StepProfile, StepPrepare, func(next Step) (err error) {
		switch {
		case next == StepSelect:
			_, err = novaProvider(a.before.Resources, change.Provider)
		case next == StepClaim && change.Instance.Host != "" && !sameHost(a.Host, change.Instance.Host):
			err = fmt.Errorf("%w: the instance is on host %s, its allocation on %s", ErrRequest, change.Instance.Host, a.Host)
		}
		return err
	})
	if err != nil {
		return step, err
	}
	fresh, err := a.replaceMdev(saved, change.Mdev)
	if err != nil {
		return StepCompose, err
	}
	a.guestMade = true // with Cyborg's device; the unwinding restores the old one before it is freed
	a.Request.Hooks.Destroy = func(ctx context.Context, _ *Result) error {
		return o.restore(ctx, change.Instance, saved, fresh, running)
	}
	if err := o.change(ctx, change.Instance, a.ARQs, saved, fresh, running); err != nil {
		return StepStart, err
	}
	return 0, nil
}

// novaProvider returns the provider of Nova's vGPU among what the instance holds.
func novaProvider(held map[string]map[string]int, provider string) (string, error) {
	var found []string
	for candidate, resources := range held {
		if resources[classVGPU] > 0 && (provider == "" || candidate == provider) {
			found = append(found, candidate)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%w: the instance holds %s of %s; set OwnershipChange.Provider", ErrRequest, classVGPU, count(len(found), "provider"))
	}
	return found[0], nil
}

// replaceMdev replaces Nova's mediated device by that of the one ARQ.
func (a *Attempt) replaceMdev(saved []byte, old string) ([]byte, error) {
	handles := make([]domainxml.Handle, len(a.ARQs))
	for n, arq := range a.ARQs {
		handles[n] = HandleOf(arq)
	}
	if len(handles) != 1 || handles[0].Type != domainxml.HandleMDEV {
		return nil, fmt.Errorf("%w: device profile %s gives %s, want one mediated device", ErrProfile, a.Profile.Name, count(len(handles), "device"))
	}
	if tag := domainxml.MdevTag(handles); tag != domainxml.TagAccelerator {
		return nil, fmt.Errorf("%w: ARQ %s has the mdev tag %s: its handle names no asked_type", ErrNotBound, handles[0].ARQ, tag)
	}
	fresh, err := domainxml.ReplaceMDEV(saved, old, handles[0].UUID)
	if err != nil {
		return nil, err
	}
	devices, _, err := domainxml.Hostdevs(handles)
	if err != nil {
		return nil, err
	}
	a.Devices, a.Domain = devices, fresh
	return fresh, nil
}

// swap gives the guest its new domain. After a failure the guest has the old one,
// and runs if it ran.
func (o *Operations) swap(ctx context.Context, i Instance, mdevs []cyborgclient.ARQ, old, fresh []byte, running bool) error {
	return o.orRestore(ctx, i, old, fresh, running, func() error { return o.change(ctx, i, mdevs, old, fresh, running) })
}

// change powers the guest off if it runs, and starts it with its new domain.
func (o *Operations) change(ctx context.Context, i Instance, mdevs []cyborgclient.ARQ, old, fresh []byte, running bool) error {
	if running {
		if err := o.powerOff(ctx, i); err != nil {
			return err
		}
	}
	return o.boot(ctx, i, mdevs, old, fresh, running)
}

// releaseNova releases Nova's vGPU in Placement and on the host.
func (o *Operations) releaseNova(ctx context.Context, a *Attempt, change OwnershipChange) error {
	provider, err := novaProvider(a.before.Resources, change.Provider)
	if err != nil {
		return err // unreachable: checked before the claim
	}
	claimed := a.claim.wanted.Resources[provider][classVGPU]
	kept := a.Chosen.Allocations[provider][classVGPU]
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	return a.record.cleanUp(ctx, "Nova's vGPU could not be released", func(ctx context.Context, c *cleanup) {
		o.flow.reduceAllocation(ctx, a.Request.Instance, c, func(held placement.Resources) placement.Resources {
			if held[provider][classVGPU] != claimed {
				return held // released already
			}
			next := placement.Add(held, nil) // a copy
			if next[provider][classVGPU] = kept; kept == 0 {
				delete(next[provider], classVGPU)
			}
			if len(next[provider]) == 0 {
				delete(next, provider)
			}
			return next
		})
		if change.Release != nil {
			c.add(LeftoverMdev, change.Mdev, o.flow.retry(ctx, func(ctx context.Context) error { return change.Release(ctx, change.Mdev) }))
		}
	})
}
