// Command agent attaches a GPU to an instance, starts its guest, and releases both.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
)

// spawnInstance attaches the accelerators of a device profile to an instance and starts
// its guest on their host. It undoes failures, those of the guest included, and tries
// the next host where that may help.
func spawnInstance(ctx context.Context, flow *spawn.Flow, instance, profile string, guests spawn.Hooks) (*spawn.Result, error) {
	flavor := requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}
	return flow.Run(ctx, spawn.Request{Instance: instance, Flavor: flavor, Hooks: guests})
}

// deleteInstance destroys the guest and releases its accelerators.
func deleteInstance(ctx context.Context, flow *spawn.Flow, result *spawn.Result, guests spawn.Hooks) error {
	if err := guests.Destroy(ctx, result); err != nil {
		return err
	}
	return flow.Release(ctx, result.Instance)
}

// simGuests returns hooks that register the guests with the simulated cloud: a leak is a
// resource that belongs to no registered guest. A real agent's hooks call libvirt.
func simGuests(cloud sim.Control) spawn.Hooks {
	return spawn.Hooks{
		Start: func(ctx context.Context, r *spawn.Result) error {
			fmt.Printf("start %s on %s with %s\n", r.Instance, r.Host, r.Devices)
			return cloud.DefineGuest(ctx, sim.Guest{UUID: r.Instance, Host: r.Host, Domain: string(r.Domain)})
		},
		Destroy: func(ctx context.Context, r *spawn.Result) error {
			fmt.Printf("destroy %s on %s\n", r.Instance, r.Host)
			return cloud.RemoveGuest(ctx, r.Instance)
		},
	}
}

func run(ctx context.Context) error {
	// The clouds are those of clouds.yaml, the second with a user of the role service.
	flow, err := spawn.NewFromCloud(ctx, "sim", spawn.WithServiceCloud("sim-svc"))
	if err != nil {
		return err
	}
	guests := simGuests(sim.Control{URL: os.Getenv("CYSIM_URL")})
	const instance = "0a1b2c3d-0000-4000-8000-000000000001"
	result, err := spawnInstance(ctx, flow, instance, "gpu", guests)
	if err != nil {
		return err // nothing is left behind, or err lists it
	}
	for _, left := range result.Leftovers { // of a host that was tried before: Reconcile frees it
		fmt.Fprintln(os.Stderr, "agent: not cleaned up:", left)
	}
	return deleteInstance(ctx, flow, result, guests)
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}
