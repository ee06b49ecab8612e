package spawn_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

// Another client creates the accelerator requests before the instance, as a user creates a port. The attempt binds
// them. After a failure Unwind deletes them with everything else.
func ExampleAttempt_createdARQs() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		panic(err)
	}
	defer cloud.Close()
	flow, err := exampleFlow(ctx, cloud)
	if err != nil {
		panic(err)
	}
	created, err := flow.Cyborg().CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
	if err != nil {
		panic(err)
	}

	a, err := flow.Begin(ctx, spawn.Request{Instance: instance, Flavor: flavor("gpu")})
	if err != nil {
		panic(err)
	}
	a.ARQs = created // in place of Attempt.CreateARQs
	for _, step := range []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.Match, a.Bind, a.WaitBound, a.Compose,
	} {
		if err := step(ctx); err != nil {
			_, leftovers := a.Unwind(ctx)
			fmt.Println(err, leftovers)
			return
		}
	}
	result := a.Result()
	fmt.Println(result.ARQs[0].UUID == created[0].UUID, result.ARQs[0].State, result.Devices[0])
	// Output: true Bound pci 0000:3b:00.0
}

// A GPU is attached to a running instance and detached again. A second request is refused while it has one.
func ExampleFlow_ReleaseDevices() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		panic(err)
	}
	defer cloud.Close()
	flow, err := exampleFlow(ctx, cloud)
	if err != nil {
		panic(err)
	}
	server, err := flow.Run(ctx, spawn.Request{Instance: instance, Flavor: requestspec.Flavor{Name: "small", VCPUs: 1, MemoryMB: 512, RootGB: 1}})
	if err != nil {
		panic(err)
	}

	request := spawn.Request{Instance: instance, Flavor: flavor("gpu"), Domain: server.Domain}
	result, err := flow.AddDevices(ctx, request)
	if err != nil {
		panic(err)
	}
	attach, err := domainxml.AttachXML(result.Devices[0]) // for libvirt's attach-device
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Devices[0], "on", result.Host, "for libvirt:", len(attach) > 0)
	_, err = flow.AddDevices(ctx, request)
	fmt.Println("a second one is refused:", errors.Is(err, spawn.ErrRequest))

	err = flow.ReleaseDevices(ctx, instance) // after libvirt's detach-device
	fmt.Println("released:", err == nil, len(cloud.Cyborg.ARQs()), "ARQs")
	// Output:
	// pci 0000:3b:00.0 on cn0 for libvirt: true
	// a second one is refused: true
	// released: true 0 ARQs
}

// A vGPU that Nova manages is replaced by one that Cyborg manages.
func ExampleOperations_TakeOver() {
	ctx := context.Background()
	model, err := simcloud.ParseModel([]byte(`{
		"hosts": [{
			"name": "cn0",
			"nova": {"vgpus": [{"address": "0000:41:00.0", "total": 4}]},
			"sysfs": {"devices": [{"address": "0000:af:00.0", "vendor": "10de", "product": "1eb8", "class": "0302", "driver": "nvidia",
				"mdev_types": [{"type": "nvidia-222", "name": "GRID T4-1B", "available_instances": 4}]}]},
			"drivers": {"nvidia": {"enabled_vgpu_types": [{"name": "nvidia-222", "device_addresses": ["0000:af:00.0"]}]}}
		}],
		"device_profiles": [{"name": "cyborg-vgpu", "groups": [{"resources:VGPU": "1", "trait:OWNER_CYBORG": "required"}]}]
	}`))
	if err != nil {
		panic(err)
	}
	cloud, err := simcloud.New(ctx, model)
	if err != nil {
		panic(err)
	}
	defer cloud.Close()
	hypervisor := guests.New(cloud)
	flow, err := exampleFlow(ctx, cloud, spawn.WithHypervisor(hypervisor))
	if err != nil {
		panic(err)
	}

	// Nova has spawned the instance: its flavor requests a vGPU, which only Nova's card may serve.
	old := spawn.Request{Instance: instance, Flavor: requestspec.Flavor{Name: "nova-vgpu", VCPUs: 1, MemoryMB: 512, RootGB: 1,
		ExtraSpecs: map[string]string{"resources:VGPU": "1"}}}
	server, err := flow.Run(ctx, old)
	if err != nil {
		panic(err)
	}
	const novasMdev = "91ac1606-427e-44bb-8233-f4ff4bf3d241"
	domain, err := domainxml.Merge(server.Domain, []domainxml.Hostdev{{MDEV: novasMdev}})
	if err != nil {
		panic(err)
	}
	if err := hypervisor.Define(ctx, spawn.InstanceOf(old, server), domain); err != nil {
		panic(err)
	}

	operations, err := flow.Operations()
	if err != nil {
		panic(err)
	}
	result, err := operations.TakeOver(ctx, spawn.OwnershipChange{Instance: spawn.InstanceOf(old, server), Flavor: flavor("cyborg-vgpu")})
	if err != nil {
		panic(err)
	}
	devices, err := domainxml.Read(result.Domain)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(devices), "device, Nova's:", devices[0].MDEV == novasMdev, "Cyborg's:", devices[0].MDEV == result.Devices[0].MDEV)
	for _, held := range cloud.Placement.Allocations() {
		if provider, err := cloud.Placement.ResourceProvider(held.Provider); err == nil && held.Class == "VGPU" {
			fmt.Println("VGPU of", provider.Name)
		}
	}
	// Output:
	// 1 device, Nova's: false Cyborg's: true
	// VGPU of cn0_0000:af:00.0
}
