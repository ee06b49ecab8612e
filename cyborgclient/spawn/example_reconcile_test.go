package spawn_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/simcloud"
)

// reconcile frees the resources that this agent leaked in a crash. It runs at the start and every hour.
func reconcile(ctx context.Context, flow *spawn.Flow, host string, existsHere func(ctx context.Context, instance string) (bool, error)) error {
	orphans, err := flow.Reconcile(ctx, spawn.ReconcileOpts{
		Hosts:  []string{host},
		Living: existsHere, // on these hosts, also while it is being built
		Free:   true,       // without it the orphans are listed
	})
	for _, orphan := range orphans {
		fmt.Printf("%s of instance %s: %v\n", orphan.Kind, orphan.Instance, orphan.Err)
	}
	return err
}

func ExampleFlow_Reconcile() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	crashed, err := exampleFlow(ctx, cloud)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := crashed.Run(ctx, spawn.Request{Instance: instance, Flavor: flavor("gpu")})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The agent crashes here. The next one knows nothing of the instance, and no guest
	// was started.
	flow, err := exampleFlow(ctx, cloud)
	if err != nil {
		fmt.Println(err)
		return
	}
	noGuest := func(context.Context, string) (bool, error) { return false, nil }
	fmt.Println(reconcile(ctx, flow, result.Host, noGuest), len(cloud.Leaks()))
	// Output:
	// arq of instance 2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001: <nil>
	// allocation of instance 2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001: <nil>
	// <nil> 0
}
