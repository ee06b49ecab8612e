package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// MdevCreator is a [Hypervisor] that creates the mediated devices of ARQs, in place of Cyborg's agent: a spawn calls it in
// Compose, and the operations before each start of a guest.
//
// With Nova 34 and the 2026.2 vGPU specification Cyborg's agent creates no mediated device, and no released Cyborg
// creates one again after a reboot of the host: without this interface such a guest stays off. Cyborg's agent
// removes the device with the ARQ in any case.
type MdevCreator interface {
	// CreateMdev creates the mediated device of a Bound ARQ of type MDEV. Its UUID is the ARQ's AttachHandleUUID,
	// its parent and type are in AttachHandleInfo: [HandleOf] and [domainxml.NodeDeviceOf] make libvirt's name and
	// document of them. Host of the instance is the ARQ's host, also while the instance is moved. It is called before each
	// start of a guest with such an ARQ; a device that exists is not an error, a definition of
	// it without the device has to be started.
	CreateMdev(ctx context.Context, i Instance, arq cyborgclient.ARQ) error
}

// MdevRemover is an [MdevCreator] whose devices are persistent, as those that Nova 34 defines and autostarts in libvirt:
// Cyborg's agent removes the device, and the definition remains, with which the host makes the device again when it
// restarts, in a place that Cyborg has given to another instance. Nova leaves it.
//
// A spawn that fails, [Operations.Delete], [Operations.LocalDelete], [Operations.ShelveOffload], [Operations.Unshelve] of an
// instance with remains of an earlier one, [Flow.Release], [Flow.ReleaseDevices], [Flow.Recover] and [Flow.Reconcile] call RemoveMdev, after the guest was
// destroyed and before the ARQ is deleted. On a host that is down it fails, and the ARQ stays until the host is back.
// [Operations.Evacuate] does not call it: remove the definition with the guest when the host is back.
type MdevRemover interface {
	MdevCreator
	// RemoveMdev removes the definition of the mediated device of an ARQ; the device itself, if it exists, may be left to
	// Cyborg's agent or removed. A missing definition is not an error. After an error it is called again, a few times; then the ARQ,
	// without which no one would know the device, stays, and a [Leftover] names it.
	RemoveMdev(ctx context.Context, i Instance, arq cyborgclient.ARQ) error
}

// mdevCreator returns the hypervisor if it creates mediated devices, or nil.
func (f *Flow) mdevCreator() MdevCreator {
	creator, _ := f.hypervisor.(MdevCreator)
	return creator
}

// createMdevs creates the mediated devices of ARQs of an instance, if the hypervisor does.
func (f *Flow) createMdevs(ctx context.Context, journal *ledger.Journal, i Instance, arqs []cyborgclient.ARQ) error {
	creator := f.mdevCreator()
	if creator == nil {
		return nil
	}
	for _, arq := range arqs {
		mdev := journal.Find(ledger.Mdev, arq.UUID)
		if mdev == nil || !mdev.Pending() {
			mdev = &ledger.Effect{Kind: ledger.Mdev, ID: arq.UUID, ARQ: &arq}
			if e := journal.Find(ledger.ARQ, arq.UUID); e != nil {
				mdev.Holds = []int{e.Seq}
			}
		}
		err := journal.Do(ctx, mdev, func(ctx context.Context) error { return creator.CreateMdev(journal.Inside(ctx), i.where(arq), arq) })
		if err != nil {
			return fmt.Errorf("mediated device of ARQ %s: %w", arq.UUID, err)
		}
	}
	return nil
}

// where returns the instance on the host of an ARQ: one that moves may try several. An instance on that host keeps
// its own name of it, which may be short.
func (i Instance) where(arq cyborgclient.ARQ) Instance {
	if !i.isOn(arq.Hostname) {
		i.Host = arq.Hostname
	}
	return i
}
