// Command agent is a small compute agent. It runs operations on an instance with a GPU, one after the other:
//
//	agent spawn reboot delete
//
// It keeps a journal in a file. If it is killed in the middle of an operation, its next start undoes or finishes that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

// accelerated returns a flavor with a device profile.
func accelerated(profile string) requestspec.Flavor {
	return requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}
}

// spawnInstance attaches the accelerators of a device profile to an instance and starts
// its guest on their host. It undoes failures, including failures of the guest, and tries the
// next host where that may help.
func spawnInstance(ctx context.Context, flow *spawn.Flow, instance, profile string) (*spawn.Result, error) {
	return flow.Run(ctx, spawn.Request{Instance: instance, Flavor: accelerated(profile)})
}

// operations are those on an instance that exists. docs/operations.md has all.
var operations = map[string]func(*spawn.Operations, context.Context, spawn.Instance) error{
	"stop":   (*spawn.Operations).Stop,
	"start":  (*spawn.Operations).Start,
	"reboot": (*spawn.Operations).SoftReboot,
	"delete": (*spawn.Operations).Delete,
}

// operate runs an operation by its name. Inspect finds the host and the ARQs of an instance; an agent that stores
// the instances of spawn.InstanceOf needs no Inspect.
func operate(ctx context.Context, flow *spawn.Flow, name, instance, profile string) error {
	if name == "spawn" {
		result, err := spawnInstance(ctx, flow, instance, profile)
		if err != nil {
			return err // err lists what could not be cleaned up
		}
		for _, left := range result.Leftovers { // of a host that was tried before: Reconcile frees it
			fmt.Fprintln(os.Stderr, "agent: not cleaned up:", left)
		}
		return nil
	}
	operation, ok := operations[name]
	if !ok {
		return fmt.Errorf("unknown operation %q", name)
	}
	guests, err := flow.Operations()
	if err != nil {
		return err
	}
	i, err := guests.Inspect(ctx, spawn.Instance{UUID: instance, Flavor: accelerated(profile)})
	if err != nil {
		return err
	}
	return operation(guests, ctx, i)
}

// recoverAll undoes or finishes what an earlier process had begun when it was killed. It runs at the start.
func recoverAll(ctx context.Context, flow *spawn.Flow) error {
	recovery, err := flow.Recover(ctx)
	if err != nil {
		return err
	}
	ended, err := recovery.Wait(ctx) // at most spawn.LateWindow, unless a service is down
	for _, o := range ended {
		fmt.Printf("recover %s: undone %q\n", o.Instance, o.Undone)
		for _, left := range o.Leftovers { // Reconcile frees it
			fmt.Fprintln(os.Stderr, "agent: not cleaned up:", left)
		}
	}
	return err
}

// printed prints where guests start and end.
type printed struct{ spawn.Hypervisor }

// Start implements spawn.Hypervisor.
func (p printed) Start(ctx context.Context, i spawn.Instance) error {
	fmt.Printf("start %s on %s\n", i.UUID, i.Host)
	return p.Hypervisor.Start(ctx, i)
}

// Destroy implements spawn.Hypervisor.
func (p printed) Destroy(ctx context.Context, i spawn.Instance) error {
	fmt.Printf("destroy %s on %s\n", i.UUID, i.Host)
	return p.Hypervisor.Destroy(ctx, i)
}

func run(ctx context.Context) (err error) {
	path := flag.String("journal", "agent.journal", "file of the journal")
	instance := flag.String("instance", "0a1b2c3d-0000-4000-8000-000000000001", "UUID of the instance")
	profile := flag.String("profile", "gpu", "device profile of the instance")
	flag.Parse()

	store, err := journal.Open(*path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if os.Getenv("CYSIM_URL") == "" {
		return errors.New("CYSIM_URL is not set: cysim serve prints it")
	}
	// The guests run in the simulated cloud. A real agent has a hypervisor such as examples/libvirt.
	hypervisor := guests.Remote(sim.Control{URL: os.Getenv("CYSIM_URL")})
	// The clouds are those of clouds.yaml, the second with a user of the role service.
	flow, err := spawn.NewFromCloud(ctx, "sim", spawn.WithServiceCloud("sim-svc"), spawn.WithJournal(store), spawn.WithHypervisor(printed{hypervisor}))
	if err != nil {
		return err
	}
	if err := recoverAll(ctx, flow); err != nil {
		return err
	}
	for _, name := range flag.Args() {
		if err := operate(ctx, flow, name, *instance, *profile); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}
