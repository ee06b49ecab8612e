package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// MdevCreator is a [Hypervisor] that creates the mediated devices of ARQs instead of Cyborg's agent. A spawn calls it
// in Compose, and the operations call it before each start of a guest.
//
// With Nova 34 and the 2026.2 vGPU specification Cyborg's agent creates no mediated device, and no released Cyborg
// recreates one after a reboot of the host: without this interface such a guest stays off. Cyborg's agent removes the
// device with the ARQ in any case.
type MdevCreator interface {
	// CreateMdev creates the mediated device of a Bound ARQ of type MDEV. Its UUID is the ARQ's AttachHandleUUID, its
	// parent and type are in AttachHandleInfo: [HandleOf] and [domainxml.NodeDeviceOf] convert them to libvirt's name
	// and document. Host of the instance is the ARQ's host, also while the instance is moved. CreateMdev is called
	// before each start of a guest with such an ARQ. A device that exists is not an error; a definition without a
	// running device must be started.
	CreateMdev(ctx context.Context, i Instance, arq cyborgclient.ARQ) error
}

// MdevRemover is an [MdevCreator] whose devices are persistent, as Nova 34 defines and autostarts them in libvirt.
// Cyborg's agent removes the device, but not the definition. When the host restarts, it would create the device again
// from the definition, in a place that Cyborg may have given to another instance. Nova does not remove the
// definition.
//
// RemoveMdev is called by a spawn that fails, [Operations.Delete], [Operations.LocalDelete],
// [Operations.ShelveOffload], [Operations.Unshelve] of an instance with leftovers, [Flow.Release],
// [Flow.ReleaseDevices], [Flow.Recover] and [Flow.Reconcile], after the guest was destroyed and before the ARQ is
// deleted. On a host that is down it fails, and the ARQ is kept until the host is back. [Operations.Evacuate] does
// not call it: remove the definition with the guest when the host is back.
type MdevRemover interface {
	MdevCreator
	// RemoveMdev removes the definition of the mediated device of an ARQ. It may remove the device itself or leave it
	// to Cyborg's agent. A missing definition is not an error. After an error RemoveMdev is called again, a few
	// times. If it still fails, the ARQ is kept, because it is the only record of the device, and a [Leftover] names
	// it.
	RemoveMdev(ctx context.Context, i Instance, arq cyborgclient.ARQ) error
}

// createMdevs creates the mediated devices of ARQs if the hypervisor is an [MdevCreator].
func (f *Flow) createMdevs(ctx context.Context, journal *ledger.Journal, i Instance, arqs []cyborgclient.ARQ) error {
	creator, creates := f.hypervisor.(MdevCreator)
	if !creates {
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

// where returns the instance with the host of an ARQ, because an instance that moves may try several hosts. If the
// instance is on that host, its own name for it, which may be short, is kept.
func (i Instance) where(arq cyborgclient.ARQ) Instance {
	if !i.isOn(arq.Hostname) {
		i.Host = arq.Hostname
	}
	return i
}
