package main

import (
	"context"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

func TestDrill(t *testing.T) {
	drill.Run(t, spawnOne, drill.Config{Names: named, Recover: reconcile})
}

// newFlow returns the agent's flow for a simulated cloud.
func newFlow(ctx context.Context, cloud *simcloud.Cloud) (*spawn.Flow, error) {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := cloud.ProviderClient(ctx, "nova") // a user with the role service
	if err != nil {
		return nil, err
	}
	return spawn.NewFromProvider(provider, spawn.WithServiceProvider(service))
}

// guestsOf returns hooks whose guests are those of the simulated cloud.
func guestsOf(cloud *simcloud.Cloud) spawn.Hooks {
	return spawn.Hooks{
		Start: func(_ context.Context, r *spawn.Result) error {
			return cloud.DefineGuest(sim.Guest{UUID: r.Instance, Host: r.Host, Domain: string(r.Domain)})
		},
		Destroy: func(_ context.Context, r *spawn.Result) error {
			cloud.RemoveGuest(r.Instance)
			return nil
		},
	}
}

// flows are the flows of the runs, by their clouds.
var flows sync.Map

// spawnOne is the flow that the drill runs again and again.
func spawnOne(ctx context.Context, cloud *simcloud.Cloud) error {
	flow, err := newFlow(ctx, cloud)
	if err != nil {
		return err
	}
	flows.Store(cloud, flow)
	_, err = spawnInstance(ctx, flow, "0a1b2c3d-0000-4000-8000-000000000002", "gpu", guestsOf(cloud))
	return err
}

// named reports whether the agent knows that something may be left.
func named(cloud *simcloud.Cloud, _ error, _ simcloud.Leak) bool {
	flow, ok := flows.Load(cloud)
	return ok && len(flow.(*spawn.Flow).Suspects()) > 0
}

// reconcile frees what a failed spawn left, as an agent does that starts again. It ends the run.
func reconcile(ctx context.Context, cloud *simcloud.Cloud) error {
	flows.Delete(cloud)
	flow, err := newFlow(ctx, cloud)
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
