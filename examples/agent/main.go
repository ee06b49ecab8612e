// Command agent is a minimal compute agent: it attaches accelerators to an instance,
// starts its guest, and releases both. It runs against a simulated cloud; newFlow,
// spawnInstance and deleteInstance are the code of a real agent.
//
//	go run ./examples/agent
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// newFlow makes the flow of the process, which serves every instance.
func newFlow(provider, service *gophercloud.ProviderClient, events *externalevent.Registry) (*spawn.Flow, error) {
	return spawn.NewFromProvider(provider, spawn.WithServiceProvider(service), spawn.WithEvents(events))
}

// newEvents makes the registry of Nova's events. Like Nova it accepts them from services and
// administrators. Where they go to a real Nova only, the flow polls Cyborg.
func newEvents(provider *gophercloud.ProviderClient) (*externalevent.Registry, error) {
	identity, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, err
	}
	authorize := externalevent.HasRole(identity, "service", "admin")
	return externalevent.NewRegistry(externalevent.WithAuthorize(authorize)), nil
}

// spawnInstance attaches accelerators to an instance and starts its guest on their
// host. Failures are undone, those of the guest included, and the next host is tried
// where that may help.
func spawnInstance(ctx context.Context, flow *spawn.Flow, instance string, flavor requestspec.Flavor, guests hypervisor) (*spawn.Result, error) {
	return flow.Run(ctx, spawn.Request{
		Instance: instance, Flavor: flavor,
		Hooks: spawn.Hooks{Start: guests.start, Destroy: guests.destroy},
	})
}

// deleteInstance destroys the guest and releases the accelerators.
func deleteInstance(ctx context.Context, flow *spawn.Flow, result *spawn.Result, guests hypervisor) error {
	if err := guests.destroy(ctx, result); err != nil {
		return err
	}
	return flow.Release(ctx, result.Instance)
}

// hypervisor replaces libvirt; its guests are those of the simulated cloud.
type hypervisor struct{ cloud *simcloud.Cloud }

func (h hypervisor) start(_ context.Context, r *spawn.Result) error {
	return h.cloud.DefineGuest(sim.Guest{UUID: r.Instance, Host: r.Host, Domain: string(r.Domain)})
}

func (h hypervisor) destroy(_ context.Context, r *spawn.Result) error {
	h.cloud.RemoveGuest(r.Instance)
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cloud, err := simcloud.New(ctx, simcloud.DefaultModel())
	if err != nil {
		return err
	}
	defer cloud.Close()
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return err
	}
	service, err := cloud.ProviderClient(ctx, "nova") // a user with the role service
	if err != nil {
		return err
	}
	events, err := newEvents(provider)
	if err != nil {
		return err
	}
	cloud.HandleEvents(events.Handler()) // a real agent mounts the handler in its HTTP server

	flow, err := newFlow(provider, service, events)
	if err != nil {
		return err
	}
	const instance = "0a1b2c3d-0000-4000-8000-000000000001"
	flavor := requestspec.Flavor{Name: "accel.gpu", VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu"}}
	guests := hypervisor{cloud}
	result, err := spawnInstance(ctx, flow, instance, flavor, guests)
	if err != nil {
		return err // nothing is left behind, or err lists it
	}
	fmt.Printf("instance %s on %s has %s\n", instance, result.Host, result.Devices[0])
	if err := deleteInstance(ctx, flow, result, guests); err != nil {
		return err
	}
	fmt.Printf("%d leaks\n", len(cloud.Leaks()))
	return nil
}
