package main

import (
	"context"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

func TestDrill(t *testing.T) {
	drill.Run(t, spawnOne, drill.Config{Names: named, Recover: restart})
}

// newFlow returns the agent's flow for a simulated cloud.
func newFlow(ctx context.Context, cloud *simcloud.Cloud, store journal.Store, hypervisor spawn.Hypervisor) (*spawn.Flow, error) {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := cloud.ProviderClient(ctx, "nova") // a user with the role service
	if err != nil {
		return nil, err
	}
	return spawn.NewFromProvider(provider, spawn.WithServiceProvider(service), spawn.WithJournal(store), spawn.WithHypervisor(hypervisor))
}

// process is an agent with what outlives it: the journal and the guests.
type process struct {
	flow   *spawn.Flow
	store  *journal.Memory
	guests *guests.Hypervisor
}

// processes are the agents of the runs, by their clouds.
var processes sync.Map

// spawnOne is the flow that the drill runs again and again.
func spawnOne(ctx context.Context, cloud *simcloud.Cloud) error {
	p := &process{store: journal.NewMemory(), guests: guests.New(cloud)}
	var err error
	if p.flow, err = newFlow(ctx, cloud, p.store, p.guests); err != nil {
		return err
	}
	processes.Store(cloud, p)
	_, err = spawnInstance(ctx, p.flow, "0a1b2c3d-0000-4000-8000-000000000002", "gpu")
	return err
}

// named reports whether the agent knows that something may be left.
func named(cloud *simcloud.Cloud, _ error, _ simcloud.Leak) bool {
	p, ok := processes.Load(cloud)
	return ok && len(p.(*process).flow.Suspects()) > 0
}

// restart is an agent that starts again after a failed spawn, and frees what that left. It ends the run.
func restart(ctx context.Context, cloud *simcloud.Cloud) error {
	earlier, ok := processes.LoadAndDelete(cloud)
	if !ok {
		return nil // it did not begin
	}
	p := earlier.(*process)
	flow, err := newFlow(ctx, cloud, p.store, p.guests)
	if err != nil {
		return err
	}
	if err := recoverAll(ctx, flow); err != nil {
		return err
	}
	// ARQs of a create whose reply was lost, which may be of another agent.
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
