package spawn_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/simcloud"
)

// notebook is a hypervisor of one guest that only takes notes; a real one calls
// libvirt's domain API.
type notebook struct {
	domain  []byte
	running bool
}

func (n *notebook) Domain(context.Context, spawn.Instance) ([]byte, bool, error) {
	if n.domain == nil {
		return nil, false, spawn.ErrNoGuest
	}
	return n.domain, n.running, nil
}

func (n *notebook) Define(_ context.Context, _ spawn.Instance, domain []byte) error {
	n.domain = domain
	return nil
}

func (n *notebook) Start(context.Context, spawn.Instance) error { n.running = true; return nil }

func (n *notebook) Shutdown(context.Context, spawn.Instance) error { n.running = false; return nil }

func (n *notebook) Destroy(context.Context, spawn.Instance) error { n.running = false; return nil }

func (n *notebook) Undefine(context.Context, spawn.Instance) error { n.domain = nil; return nil }

// An agent keeps the instance of a spawn, and does with it what Nova's users ask
// for.
func ExampleOperations() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	guests := &notebook{}
	flow, err := exampleFlow(ctx, cloud, spawn.WithHypervisor(guests))
	if err != nil {
		fmt.Println(err)
		return
	}
	operations, err := flow.Operations()
	if err != nil {
		fmt.Println(err)
		return
	}

	request := spawn.Request{Instance: instance, Flavor: flavor("vgpu")}
	result, err := flow.Run(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := spawn.InstanceOf(request, result)

	// The host restarts: mediated devices are gone, and Cyborg's agent makes them
	// again. Nova would start the guest without its vGPU.
	guests.running = false
	if err := cloud.RebootHost(ctx, server.Host); err != nil {
		fmt.Println(err)
		return
	}
	err = operations.ResumeAfterHostReboot(ctx, server)
	devices, _ := domainxml.Read(guests.domain)
	fmt.Println("runs:", guests.running, "with devices:", len(devices), err)

	fmt.Println(spawn.Permit(spawn.OpSuspend, server))
	fmt.Println("deleted:", operations.Delete(ctx, server), len(cloud.Cyborg.ARQs()))
	// Output:
	// runs: true with devices: 1 <nil>
	// spawn: suspend of instance 2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001: operation blocked: Feature not supported with instances that have accelerators.
	// deleted: <nil> 0
}
