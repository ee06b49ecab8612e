package spawn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
)

// OwnershipChange transfers the vGPU of an instance from Nova to Cyborg.
type OwnershipChange struct {
	Instance Instance
	// Flavor is the instance's new flavor. Its device profile requests one vGPU from Cyborg, in place of the
	// resources:VGPU of the old flavor.
	Flavor requestspec.Flavor
	// Mdev is the UUID of Nova's mediated device. Empty means the only one in the domain. Set it to be able to call
	// TakeOver again if the device could not be released.
	Mdev string
	// Provider is the UUID of the resource provider of Nova's vGPU. Empty means the only provider from which the
	// instance holds VGPU.
	Provider string
	// Release removes Nova's mediated device from the host after the guest has started without it, as Nova's libvirt
	// driver does. If nil, the device is not removed. Release may be called again for a device that no longer exists.
	Release func(ctx context.Context, mdev string) error
	// Stopped says, when TakeOver is called again, that the guest was stopped, and is not off because it failed to
	// start.
	Stopped bool
	// Options shape the request to Placement.
	Options requestspec.Options
}

// TakeOver changes the owner of an instance's vGPU from Nova to Cyborg. The specification (Wallaby, vGPU) uses a
// resize, which Nova blocks. On the host of the instance TakeOver
//
//   - claims Cyborg's vGPU beside Nova's, creates and binds its ARQ and waits for
//     it (the mdev tag changes from COMPUTE to ACCELERATOR);
//   - powers the guest off, replaces exactly Nova's mediated device in its domain by
//     Cyborg's, and starts it again if it ran;
//   - releases Nova's vGPU in Placement, and with Release on the host.
//
// If TakeOver fails before the guest has started with the new domain, the instance is restored: the same domain,
// running if it was running, and no Cyborg device; the error is a [*Error]. If only the release of Nova's vGPU
// failed, both the result and an error that matches ErrLeftover are returned. TakeOver releases the vGPU when it is
// called again with the same Mdev. This is rejected (ErrRequest) while the guest is off, unless change.Stopped is
// set: if the guest was running before, and neither started nor could be restored, start it first, with
// [Operations.Start] and the new flavor.
//
// If the process ends during a TakeOver, its claim and its ARQ remain. While the domain has Nova's device and no
// Cyborg device, TakeOver is then rejected (ErrRequest), and [Flow.ReleaseDevices] releases them. TakeOver is also
// rejected for an instance that has another Cyborg device, or several vGPUs from one provider.
func (o *Operations) TakeOver(ctx context.Context, change OwnershipChange) (*Result, error) {
	i := change.Instance
	change.Mdev = strings.ToLower(change.Mdev)
	var result *Result
	err := o.do(ctx, OpTakeOver, i, func(ctx context.Context, r *remover) error {
		saved, running, err := o.domain(ctx, i)
		if err != nil {
			return err
		}
		if result, err = o.takenOver(ctx, &change, saved, running); err != nil {
			return err
		}
		if result == nil {
			result, err = o.takeOverNow(ctx, r, &change, saved, running)
		} else {
			err = o.takeNova(ctx, r, result.ARQs[0].DeviceRPUUID, change)
		}
		if err != nil {
			return err
		}
		return o.releaseNova(ctx, r, change)
	})
	return result, err
}

// takenOver returns the result of an earlier TakeOver whose guest has Cyborg's device in place of Nova's, or nil. It
// is unknown whether a guest that is off was running before it.
func (o *Operations) takenOver(ctx context.Context, change *OwnershipChange, saved []byte, running bool) (*Result, error) {
	arqs, err := o.flow.instanceARQs(ctx, change.Instance.UUID)
	if err != nil || len(arqs) != 1 || arqs[0].State != cyborgclient.StateBound {
		return nil, err
	}
	mdevs, err := mdevsOf(saved)
	handle := HandleOf(arqs[0])
	switch {
	case err != nil, !slices.Contains(mdevs, handle.UUID), slices.Contains(mdevs, change.Mdev), change.Mdev == "" && len(mdevs) > 1:
		return nil, err
	case change.Mdev == "" && change.Release != nil:
		return nil, fmt.Errorf("%w: the domain has Cyborg's mediated device %s already; set OwnershipChange.Mdev", ErrRequest, handle.UUID)
	case !running && !change.Stopped:
		return nil, fmt.Errorf("%w: the guest is off with Cyborg's mediated device %s; start it, or set OwnershipChange.Stopped", ErrRequest, handle.UUID)
	}
	devices, _, err := domainxml.Hostdevs([]domainxml.Handle{handle})
	if err != nil {
		return nil, err
	}
	held, err := o.flow.placement.Allocation(ctx, change.Instance.UUID)
	if err != nil {
		return nil, err
	}
	others := placement.Subtract(held.Resources, placement.Resources{arqs[0].DeviceRPUUID: {classVGPU: 1}})
	if len(novaProviders(others, change.Provider)) > 0 { // not released yet
		if change.Provider, err = novaProvider(others, change.Provider); err != nil {
			return nil, err
		}
	}
	return &Result{
		Instance: change.Instance.UUID, Host: arqs[0].Hostname, Flavor: change.Flavor, ARQs: arqs, Devices: devices, Domain: saved,
	}, nil
}

// takeOverNow replaces Nova's device in the guest with a Cyborg device.
func (o *Operations) takeOverNow(ctx context.Context, r *remover, change *OwnershipChange, saved []byte, running bool) (_ *Result, err error) {
	if change.Mdev, err = novaMdev(saved, change.Mdev); err != nil {
		return nil, err
	}
	i := change.Instance
	request := Request{
		Instance: i.UUID, Flavor: change.Flavor, Image: i.Image, ProjectID: i.ProjectID, UserID: i.UserID, Ports: i.Ports, Options: change.Options,
		running: true,
	}
	a, err := o.attempt(ctx, r, request, func(a *Attempt) (Step, error) { return o.takeOver(ctx, r, a, change, saved, running) })
	if err != nil {
		return nil, err
	}
	return a.Result(), nil
}

// novaMdev returns the mediated device to replace.
func novaMdev(domain []byte, mdev string) (string, error) {
	mdevs, err := mdevsOf(domain)
	switch {
	case err != nil:
		return "", err
	case mdev != "" && !slices.Contains(mdevs, mdev):
		return "", fmt.Errorf("%w: the domain has no mediated device %s", ErrRequest, mdev)
	case mdev == "" && len(mdevs) != 1:
		return "", fmt.Errorf("%w: the domain has %s; set OwnershipChange.Mdev", ErrRequest, count(len(mdevs), "mediated device"))
	case mdev == "":
		mdev = mdevs[0]
	}
	return mdev, nil
}

// mdevsOf returns the mediated devices of a domain.
func mdevsOf(domain []byte) (mdevs []string, err error) {
	devices, err := domainxml.Read(domain)
	for _, d := range devices {
		if d.MDEV != "" {
			mdevs = append(mdevs, d.MDEV)
		}
	}
	return mdevs, err
}

// takeOver claims and binds Cyborg's vGPU, and replaces Nova's in the domain.
func (o *Operations) takeOver(ctx context.Context, r *remover, a *Attempt, change *OwnershipChange, saved []byte, running bool) (Step, error) {
	step, err := a.walk(ctx, StepProfile, StepPrepare, func(next Step) (err error) {
		switch {
		case next == StepSelect:
			change.Provider, err = novaProvider(a.before.Resources, change.Provider)
		case next == StepClaim && change.Instance.Host != "" && !holding.SameHost(a.Host, change.Instance.Host):
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
	if err := o.takeNova(ctx, r, a.Bindings[0].DeviceRP, *change); err != nil {
		return StepStart, err
	}
	guest := &ledger.Effect{
		Kind: ledger.Guest, ID: change.Instance.UUID, Host: a.Host, Holds: r.journal.Numbers(ledger.ARQ, ledger.Claim),
		Saved: &ledger.Saved{Domain: saved, Running: running}, // it is restored before Cyborg's device is freed
	}
	err = r.journal.Do(ctx, guest, func(ctx context.Context) error {
		return o.replace(ctx, r, change.Instance, a.ARQs, saved, fresh, running)
	})
	if err == nil {
		err = r.journal.Commit(ctx)
	}
	if err != nil {
		return StepStart, err
	}
	return 0, nil
}

// novaProvider returns the provider of Nova's vGPU in the allocation.
func novaProvider(held placement.Resources, provider string) (string, error) {
	found := novaProviders(held, provider)
	if len(found) != 1 {
		return "", fmt.Errorf("%w: the instance holds %s of %s; set OwnershipChange.Provider", ErrRequest, classVGPU, count(len(found), "provider"))
	}
	if amount := held[found[0]][classVGPU]; amount > 1 {
		return "", fmt.Errorf("%w: the instance holds %d %s of provider %s; only one can be taken over", ErrRequest, amount, classVGPU, found[0])
	}
	return found[0], nil
}

func novaProviders(held placement.Resources, provider string) (found []string) {
	for candidate, resources := range held {
		if resources[classVGPU] > 0 && (provider == "" || candidate == provider) {
			found = append(found, candidate)
		}
	}
	return found
}

// replaceMdev replaces Nova's mediated device with the device of the only ARQ, and sets its alias.
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
	devices, _, err := domainxml.Hostdevs(handles)
	if err != nil {
		return nil, err
	}
	fresh, err := domainxml.ReplaceMDEV(saved, old, handles[0].UUID)
	if err != nil {
		return nil, err
	}
	if fresh, err = domainxml.Complete(fresh, devices); err != nil { // the alias of the ARQ
		return nil, err
	}
	a.Devices, a.Domain = devices, fresh
	return fresh, nil
}

// replace powers a running guest off, saves the new domain, and starts the guest if it was running.
func (o *Operations) replace(ctx context.Context, r *remover, i Instance, mdevs []cyborgclient.ARQ, old, fresh []byte, running bool) error {
	if running {
		if err := o.powerOff(ctx, r); err != nil {
			return err
		}
	}
	return o.boot(ctx, r, i, mdevs, old, fresh, running)
}

// takeNova adds Nova's vGPU in Placement and on the host to the journal, to be released. If Nova and Cyborg share the
// provider, Cyborg's vGPU is kept.
func (o *Operations) takeNova(ctx context.Context, r *remover, cyborgs string, change OwnershipChange) error {
	held, err := o.flow.allocation(ctx, change.Instance.UUID)
	novas := held.Resources[change.Provider][classVGPU]
	if change.Provider == cyborgs {
		novas--
	}
	if err == nil && novas > 0 {
		r.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: change.Instance.UUID, Amount: &ledger.Amount{
			Added: placement.Resources{change.Provider: {classVGPU: novas}},
		}})
	}
	if change.Release != nil {
		r.journal.Take(&ledger.Effect{Kind: ledger.NovaMdev, ID: change.Mdev})
	}
	return err
}

// releaseNova releases Nova's vGPU.
func (o *Operations) releaseNova(ctx context.Context, r *remover, change OwnershipChange) error {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	r.removeNovaMdev = change.Release
	return r.cleanUp(ctx, "Nova's vGPU could not be released", func(e *ledger.Effect) bool {
		return e.Kind == ledger.NovaMdev || e.Kind == ledger.Part
	})
}
