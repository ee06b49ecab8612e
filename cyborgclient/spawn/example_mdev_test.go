package spawn_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

// nodeDevices is a hypervisor with the mediated devices of a simulated host and no memory for guests. A real one
// calls libvirt's node device API, which the printed commands use.
type nodeDevices struct{ guests.Mdevs }

func (n nodeDevices) Start(context.Context, spawn.Instance) error {
	return fmt.Errorf("out of memory: %w", spawn.ErrAbort)
}

func (n nodeDevices) CreateMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	d, err := domainxml.NodeDeviceOf(spawn.HandleOf(arq), "")
	if err != nil {
		return err
	}
	d.Lifetime = domainxml.LifetimeAutostart
	fmt.Println(i.Host, d.Lifetime.Virsh(), d.Parent, d.Type)
	return n.Mdevs.CreateMdev(ctx, i, arq)
}

func (n nodeDevices) RemoveMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	fmt.Println(i.Host, "[nodedev-destroy nodedev-undefine]")
	return n.Mdevs.RemoveMdev(ctx, i, arq)
}

// Like Nova 34 the agent creates the mediated device of a vGPU itself. Unlike Nova it also removes the device if the
// guest does not start.
func ExampleMdevRemover() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{Cyborg: fakecyborg.Config{MdevCreation: fakecyborg.MdevsByNova}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	flow, err := exampleFlow(ctx, cloud, spawn.WithHypervisor(nodeDevices{guests.WithMdevs(cloud)}))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = flow.Run(ctx, spawn.Request{Instance: instance, Flavor: flavor("vgpu")})
	fmt.Println(err)
	fmt.Println("leaks:", len(cloud.Leaks()))
	// Output:
	// cn0 [nodedev-define nodedev-autostart nodedev-start] pci_0000_af_00_0 nvidia-222
	// cn0 [nodedev-destroy nodedev-undefine]
	// spawn: instance 2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001: start: host cn0: out of memory: build aborted
	// leaks: 0
}
