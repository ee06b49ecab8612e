package guests

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Mdevs is a [Hypervisor] that defines the mediated devices of guests in libvirt and removes them, as a compute agent has to next to
// a Cyborg that does not (fakecyborg.MdevsByNova). It implements [spawn.MdevRemover], and is for a cloud in this process.
type Mdevs struct {
	*Hypervisor
	cloud *simcloud.Cloud
}

// WithMdevs returns a hypervisor without guests that defines mediated devices.
func WithMdevs(c *simcloud.Cloud) Mdevs { return Mdevs{New(c), c} }

// CreateMdev implements [spawn.MdevCreator].
func (m Mdevs) CreateMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	device, err := domainxml.NodeDeviceOf(spawn.HandleOf(arq), "")
	if err != nil {
		return err
	}
	return m.call(ctx, i, func(at place) error {
		return m.cloud.DefineMdev(ctx, at.host, driver.Mdev{UUID: device.UUID, Parent: parentOf(arq), Type: device.Type})
	})
}

// parentOf returns the PCI address of the device that a mediated device belongs to.
func parentOf(arq cyborgclient.ARQ) string {
	info := arq.AttachHandleInfo
	return fmt.Sprintf("%v:%v:%v.%v", info["domain"], info["bus"], info["device"], info["function"])
}

// RemoveMdev implements [spawn.MdevRemover].
func (m Mdevs) RemoveMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	return m.call(ctx, i, func(at place) error { return m.cloud.RemoveMdev(ctx, at.host, arq.AttachHandleUUID) })
}
