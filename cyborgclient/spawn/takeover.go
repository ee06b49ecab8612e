package spawn

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
)

// classVGPU is the resource class of Nova's vGPUs, and of Cyborg's.
const classVGPU = "VGPU"

// OwnershipChange passes the vGPU of an instance from Nova to Cyborg.
type OwnershipChange struct {
	Instance Instance
	// Flavor is the one that the instance gets: its device profile asks Cyborg for
	// one vGPU, in place of the resources:VGPU of the instance's flavor.
	Flavor requestspec.Flavor
	// Mdev is the UUID of Nova's mediated device. Empty: the only one in the
	// domain.
	Mdev string
	// Provider is the UUID of the resource provider of Nova's vGPU. Empty: the
	// only one of which the instance holds VGPU.
	Provider string
	// Release removes Nova's mediated device from the host, after the guest runs
	// without it; Nova's driver does so. Nil: it stays.
	Release func(ctx context.Context, mdev string) error
	// Options shape the request to Placement.
	Options requestspec.Options
}

// TakeOver changes the owner of an instance's vGPU from Nova to Cyborg. The
// specification (Wallaby, vGPU) does so by a resize, which Nova blocks. Here, on
// the host where the instance is,
//
//   - Cyborg's vGPU is claimed beside Nova's, its ARQ created, bound and waited
//     for (the mdev tag turns from COMPUTE to ACCELERATOR);
//   - the guest is powered off, exactly Nova's mediated device in its domain is
//     replaced by Cyborg's, and it is started again if it ran;
//   - Nova's vGPU is given back, in Placement and with Release on the host.
//
// When anything fails before the guest has its new domain, and when it does not
// start with it, the instance is as it was: the same domain, running if it ran,
// and nothing of Cyborg's; the error is a [*Error]. When only the giving back of
// Nova's failed, both the result and an error that matches ErrLeftover are
// returned.
func (o *Operations) TakeOver(ctx context.Context, change OwnershipChange) (*Result, error) {
	i := change.Instance
	end, err := o.begin(OpTakeOver, i)
	if err != nil {
		return nil, err
	}
	defer end()
	saved, running, err := o.domain(ctx, i)
	if err != nil {
		return nil, failed(OpTakeOver, i, err)
	}
	if change.Mdev, err = novaMdev(saved, change.Mdev); err != nil {
		return nil, failed(OpTakeOver, i, err)
	}
	a, err := o.flow.Begin(Request{
		Instance: i.UUID, Flavor: change.Flavor, ProjectID: i.ProjectID, UserID: i.UserID, Options: change.Options, Running: true,
	})
	if err != nil {
		return nil, failed(OpTakeOver, i, err)
	}
	done := false
	defer func() {
		if !done {
			a.Unwind(ctx)
		}
	}()
	step, err := o.takeOver(ctx, a, change, saved, running)
	done = true
	if err != nil {
		return nil, failed(OpTakeOver, i, a.fail(ctx, step, err))
	}
	a.end()
	return a.Result(), failed(OpTakeOver, i, o.releaseOld(ctx, a, change))
}

// novaMdev is the mediated device that is to be replaced.
func novaMdev(domain []byte, given string) (string, error) {
	mdevs, err := domainxml.NovaMdevs(domain, nil)
	if err != nil {
		return "", err
	}
	switch {
	case given != "":
		has, err := domainxml.Has(domain, domainxml.Device{MDEV: given})
		if err == nil && !has {
			err = fmt.Errorf("%w: the domain has no mediated device %s", ErrRequest, given)
		}
		return given, err
	case len(mdevs) != 1:
		return "", fmt.Errorf("%w: the domain has %d mediated devices; which one is Nova's must be told", ErrRequest, len(mdevs))
	}
	return mdevs[0], nil
}

// takeOver claims, binds and replaces.
func (o *Operations) takeOver(ctx context.Context, a *Attempt, change OwnershipChange, saved []byte, running bool) (Step, error) {
	for _, step := range a.steps() {
		if step.name == StepCompose {
			break
		}
		if err := step.run(ctx); err != nil {
			return step.name, err
		}
		if step.name == StepSelect && change.Instance.Host != "" && a.Host != change.Instance.Host {
			return StepSelect, fmt.Errorf("%w: the instance is on host %s, its allocation on %s", ErrRequest, change.Instance.Host, a.Host)
		}
		if step.name == StepCandidates {
			if _, err := novaProvider(a.before.Resources, change.Provider); err != nil {
				return StepCandidates, err
			}
		}
	}
	fresh, err := a.replaceMdev(saved, change.Mdev)
	if err != nil {
		return StepCompose, err
	}
	if err := o.swap(ctx, change.Instance, saved, fresh, running); err != nil {
		return StepStart, err
	}
	return 0, nil
}

// novaProvider is the provider of Nova's vGPU among what the instance holds.
func novaProvider(held map[string]map[string]int, given string) (string, error) {
	var found []string
	for provider, resources := range held {
		if resources[classVGPU] > 0 && (given == "" || provider == given) {
			found = append(found, provider)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%w: the instance holds %s of %d providers; which one is Nova's must be told", ErrRequest, classVGPU, len(found))
	}
	return found[0], nil
}

// replaceMdev puts the one vGPU of the ARQ in the place of Nova's.
func (a *Attempt) replaceMdev(saved []byte, old string) ([]byte, error) {
	handles := make([]domainxml.Handle, len(a.ARQs))
	for n, arq := range a.ARQs {
		handles[n] = handleOf(arq)
	}
	if len(handles) != 1 || handles[0].Type != domainxml.HandleMDEV {
		return nil, fmt.Errorf("%w: device profile %s gives %d devices; one mediated device is to take the place of one",
			ErrProfile, a.Profile.Name, len(handles))
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

// swap gives the guest its new domain. After a failure it has the old one again,
// and runs if it ran.
func (o *Operations) swap(ctx context.Context, i Instance, old, fresh []byte, running bool) error {
	if running {
		if err := o.off(ctx, i); err != nil {
			return errors.Join(err, o.revive(ctx, i, old, true))
		}
	}
	if err := o.driver.Define(ctx, i.guest(), fresh); err != nil {
		return errors.Join(fmt.Errorf("define: %w", err), o.revive(ctx, i, old, running))
	}
	if !running {
		return nil
	}
	if err := o.driver.Start(ctx, i.guest()); err != nil {
		return errors.Join(fmt.Errorf("start: %w", err), o.revive(ctx, i, old, true))
	}
	return nil
}

// revive brings the guest back as it was.
func (o *Operations) revive(ctx context.Context, i Instance, old []byte, running bool) error {
	if err := o.redefine(ctx, i, old, nil); err != nil {
		return err
	}
	if !running {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.flow.config.UnwindTimeout)
	defer cancel()
	if err := o.flow.again(ctx, func(ctx context.Context) error { return o.driver.Start(ctx, i.guest()) }); err != nil {
		return fmt.Errorf("%w: the guest could not be started again: %w", ErrLeftover, err)
	}
	return nil
}

// releaseOld gives Nova's vGPU back.
func (o *Operations) releaseOld(ctx context.Context, a *Attempt, change OwnershipChange) error {
	provider, err := novaProvider(a.before.Resources, change.Provider)
	if err != nil {
		return err // cannot be: it was looked for before the claim
	}
	was := a.claim.wanted.Resources[provider][classVGPU]
	mine := a.Chosen.Allocations[provider][classVGPU]
	drop := a.before.Resources[provider][classVGPU]
	err = o.rewrite(ctx, a, func(held allocation) map[string]map[string]int {
		if held.Resources[provider][classVGPU] != was {
			return held.Resources // it was given back already
		}
		next := cloneResources(held.Resources)
		if next[provider][classVGPU] -= drop; mine == 0 {
			delete(next[provider], classVGPU)
		}
		if len(next[provider]) == 0 {
			delete(next, provider)
		}
		return next
	})
	if change.Release == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.flow.config.UnwindTimeout)
	defer cancel()
	removal := o.flow.again(ctx, func(ctx context.Context) error { return change.Release(ctx, change.Mdev) })
	if removal == nil {
		return err
	}
	left := Leftover{Kind: "mdev", ID: change.Mdev, Err: removal}
	return errors.Join(err, &Error{
		Instance: a.Request.Instance, Step: StepUnwind, Err: errors.New("the mediated device of Nova could not be removed"),
		Leftovers: []Leftover{left}, Trace: a.Trace(),
	})
}
