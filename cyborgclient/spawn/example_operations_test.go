package spawn_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

// An agent keeps the instance of a spawn and runs the operations that Nova's users request.
func ExampleOperations() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	hypervisor := guests.New(cloud) // a real one calls libvirt
	flow, err := exampleFlow(ctx, cloud, spawn.WithHypervisor(hypervisor))
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

	// The host restarts and loses its mediated devices. Cyborg's agent creates them again. Nova would start the guest
	// without its vGPU.
	hypervisor.PowerOff(server.Host)
	if err := cloud.RebootHost(ctx, server.Host); err != nil {
		fmt.Println(err)
		return
	}
	hypervisor.PowerOn(server.Host)
	fmt.Println("resumed:", operations.ResumeAfterHostReboot(ctx, server))
	domain, running, _ := hypervisor.Domain(ctx, server)
	devices, _ := domainxml.Read(domain)
	fmt.Println("runs:", running, "with devices:", len(devices))

	fmt.Println(spawn.Permit(spawn.OpSuspend, server))
	fmt.Println("deleted:", operations.Delete(ctx, server), len(cloud.Cyborg.ARQs()))
	// Output:
	// resumed: <nil>
	// runs: true with devices: 1
	// spawn: suspend of instance 2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001: operation blocked: Feature not supported with instances that have accelerators.
	// deleted: <nil> 0
}
