package spawn_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

// oldHost is a hypervisor that cannot start guests on host cn0.
type oldHost struct{ *guests.Hypervisor }

func (h oldHost) Start(ctx context.Context, i spawn.Instance) error {
	fmt.Println("start on", i.Host)
	if i.Host == "cn0" {
		return errors.New("no such machine type")
	}
	return h.Hypervisor.Start(ctx, i)
}

func (h oldHost) Destroy(ctx context.Context, i spawn.Instance) error {
	fmt.Println("destroy on", i.Host)
	return h.Hypervisor.Destroy(ctx, i)
}

// If a guest does not start on the first host, its accelerators and its allocation there are released, and it is
// started on the next host.
func ExampleFlow_Run() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.DefaultModel())
	if err != nil {
		panic(err)
	}
	defer cloud.Close()
	flow, err := exampleFlow(ctx, cloud, spawn.WithHypervisor(oldHost{guests.New(cloud)}))
	if err != nil {
		panic(err)
	}
	result, err := flow.Run(ctx, spawn.Request{
		Instance: "0a1b2c3d-0000-4000-8000-000000000001",
		Flavor: requestspec.Flavor{Name: "accel.gpu", VCPUs: 4, MemoryMB: 8192, RootGB: 20,
			ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu"}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Devices[0], "on", result.Host)
	fmt.Println(len(cloud.Leaks()), "leaks")
	// Output:
	// start on cn0
	// destroy on cn0
	// start on cn1
	// pci 0000:3b:00.0 on cn1
	// 0 leaks
}

// exampleFlow wires a flow to a cloud.
func exampleFlow(ctx context.Context, cloud *simcloud.Cloud, opts ...spawn.Option) (*spawn.Flow, error) {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := cloud.ProviderClient(ctx, "nova")
	if err != nil {
		return nil, err
	}
	events := externalevent.NewRegistry()
	cloud.HandleEvents(events.Handler())
	opts = append(opts, spawn.WithServiceProvider(service), spawn.WithEvents(events), spawn.WithConfig(spawn.Config{PlacementOrder: true}))
	return spawn.NewFromProvider(provider, opts...)
}
