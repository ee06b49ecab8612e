package main

import (
	"context"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

const drilled = "0a1b2c3d-0000-4000-8000-000000000002"

func TestDrill(t *testing.T) {
	drill.Run(t, spawnOne, drill.Config{Singles: 40, Names: named, Recover: reconcile})
}

// flowOn makes the agent's flow for a cloud.
func flowOn(ctx context.Context, cloud *simcloud.Cloud) (*spawn.Flow, error) {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := cloud.ProviderClient(ctx, "nova")
	if err != nil {
		return nil, err
	}
	events, err := newEvents(provider)
	if err != nil {
		return nil, err
	}
	cloud.HandleEvents(events.Handler())
	return newFlow(provider, service, events)
}

func spawnOne(ctx context.Context, cloud *simcloud.Cloud) error {
	flow, err := flowOn(ctx, cloud)
	if err != nil {
		return err
	}
	flavor := requestspec.Flavor{Name: "accel.gpu", VCPUs: 4, MemoryMB: 8192, RootGB: 20, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu"}}
	agents.Store(cloud, flow)
	_, err = spawnInstance(ctx, flow, drilled, flavor, hypervisor{cloud})
	return err
}

// agents are the flows of the runs, by their clouds.
var agents sync.Map

// named reports whether the agent knows that something of its instance, or a request without one, may be left.
func named(cloud *simcloud.Cloud, _ error, _ simcloud.Leak) bool {
	flow, ok := agents.Load(cloud)
	return ok && len(flow.(*spawn.Flow).Suspects()) > 0
}

// reconcile frees what a failed spawn left, as an agent does that starts again.
func reconcile(ctx context.Context, cloud *simcloud.Cloud) error {
	flow, err := flowOn(ctx, cloud)
	if err != nil {
		return err
	}
	living := func(_ context.Context, instance string) (bool, error) {
		for _, guest := range cloud.Guests() {
			if guest.UUID == instance {
				return true, nil
			}
		}
		return false, nil
	}
	_, err = flow.Reconcile(ctx, spawn.ReconcileOpts{Living: living, Hosts: cloud.HostNames(), Free: true})
	return err
}
