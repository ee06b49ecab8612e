package spawn_test

import (
	"context"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg/simcloud"
)

// agentOn is an agent that lives as long as one flow of a drill.
func agentOn(ctx context.Context, cloud *simcloud.Cloud) (*spawn.Flow, error) {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	cyborg, err := cyborgclient.New(provider, cyborgclient.WithServiceToken(cloud.ServiceToken))
	if err != nil {
		return nil, err
	}
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, err
	}
	events := externalevent.NewRegistry()
	cloud.HandleEvents(events.Handler())
	return spawn.New(spawn.Config{}, cyborg, placement, events)
}

// spawnGuest is a whole spawn, guest included.
func spawnGuest(profile string) simcloud.Flow {
	return func(ctx context.Context, cloud *simcloud.Cloud) error {
		flow, err := agentOn(ctx, cloud)
		if err != nil {
			return err
		}
		result, err := flow.Run(ctx, request(profile))
		if err != nil {
			return err
		}
		return cloud.DefineGuest(simcloud.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)})
	}
}

// deleteGuest removes the guest and then gives back what it had.
func deleteGuest(ctx context.Context, cloud *simcloud.Cloud) error {
	flow, err := agentOn(ctx, cloud)
	if err != nil {
		return err
	}
	if err := flow.Release(ctx, instance); err != nil {
		return err
	}
	cloud.RemoveGuest(instance)
	return nil
}

// Every flow is drilled with a few faults here, and with all of them under the build
// tag drill.
func TestDrillSpawn(t *testing.T) {
	t.Parallel()
	simcloud.Drill(t, spawnGuest("mixed"), drilled(20, 4000)...)
}

func TestDrillDelete(t *testing.T) {
	t.Parallel()
	simcloud.Drill(t, deleteGuest, append(drilled(10, 1200), simcloud.DrillSetup(spawnGuest("mixed")))...)
}
