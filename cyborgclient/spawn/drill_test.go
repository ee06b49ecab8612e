package spawn_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

// agentOn is an agent that lives as long as one flow of a drill.
func agentOn(ctx context.Context, cloud *simcloud.Cloud) (*world, error) {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := cloud.ProviderClient(ctx, "nova")
	if err != nil {
		return nil, err
	}
	w := &world{cloud: cloud, events: externalevent.NewRegistry()}
	if w.cyborg, err = cyborgclient.New(provider, cyborgclient.WithServiceProvider(service)); err != nil {
		return nil, err
	}
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, err
	}
	cloud.HandleEvents(w.events.Handler())
	w.flow, err = spawn.New(w.cyborg, placement, spawn.WithConfig(alone), spawn.WithEvents(w.events))
	return w, err
}

// spawnGuest is a whole spawn, guest included.
func spawnGuest(req spawn.Request) drill.Flow {
	return func(ctx context.Context, cloud *simcloud.Cloud) error {
		w, err := agentOn(ctx, cloud)
		if err != nil {
			return err
		}
		result, err := w.flow.Run(ctx, req)
		if err != nil {
			return err
		}
		return cloud.DefineGuest(sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)})
	}
}

// deleteGuest removes the guest and then releases its accelerators.
func deleteGuest(ctx context.Context, cloud *simcloud.Cloud) error {
	w, err := agentOn(ctx, cloud)
	if err != nil {
		return err
	}
	if err := w.flow.Release(ctx, instance); err != nil {
		return err
	}
	cloud.RemoveGuest(instance)
	return nil
}

// Every flow is drilled with a few faults here, and with all of them under the build
// tag drill.
func TestDrillSpawn(t *testing.T) {
	t.Parallel()
	drill.Run(t, spawnGuest(request("mixed")), drilled(10, 1500))
}

func TestDrillDelete(t *testing.T) {
	t.Parallel()
	config := drilled(4, 500)
	config.Setup = spawnGuest(request("mixed"))
	drill.Run(t, deleteGuest, config)
}

// spawnOnBrokenHost prefers the first host, whose card makes no mediated devices, for
// good.
func spawnOnBrokenHost(ctx context.Context, cloud *simcloud.Cloud) error {
	var rules []fault.Rule
	for _, handle := range cloud.Cyborg.AttachHandles() {
		if handle.Hostname == "cn0" && handle.Type == driver.HandleMDEV {
			rules = append(rules, fault.Rule{Operation: "accelerator.mdev.create", Subject: handle.UUID, Action: fault.Status, Times: -1})
		}
	}
	for _, state := range cloud.Faults().Rules() {
		rules = append(rules, state.Rule)
	}
	if err := cloud.Faults().Set(rules...); err != nil {
		return err
	}
	first := cloud.ProviderUUID("cn0")
	req := request("mixed")
	req.Order = func(candidates []spawn.Candidate) []spawn.Candidate {
		slices.SortStableFunc(candidates, func(a, b spawn.Candidate) int {
			return strings.Compare(strings.TrimPrefix(a.Root, first), strings.TrimPrefix(b.Root, first))
		})
		return candidates
	}
	err := spawnGuest(req)(ctx, cloud)
	for _, guest := range cloud.Guests() {
		if guest.Host != "cn1" {
			panic("the guest is on host " + guest.Host)
		}
	}
	return err
}

// The bind on the first host fails for good; the second host takes the guest.
func TestDrillReschedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t)
		settled(t, spawnOnBrokenHost(t.Context(), cloud))
		var binds []int
		for _, r := range cloud.Requests() {
			if r.Operation == "accelerator.arq.bind" {
				binds = append(binds, r.Status)
			}
		}
		if len(binds) != 2 || binds[0] < 400 || binds[1] >= 400 {
			t.Errorf("binds answered %v, want a failure and a success", binds)
		}
	})
	drill.Run(t, spawnOnBrokenHost, drilled(6, 700))
}
