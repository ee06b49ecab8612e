package spawn_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/simcloud"
)

// One process schedules and binds, as Nova's conductor does. Another one waits and composes the domain, as
// nova-compute does. They exchange JSON.
func ExampleAttempt_Handover() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	data, err := conductor(ctx, cloud)
	if err != nil {
		fmt.Println(err)
		return
	}

	flow, err := exampleFlow(ctx, cloud)
	if err != nil {
		fmt.Println(err)
		return
	}
	var handover spawn.Handover
	if err := json.Unmarshal(data, &handover); err != nil {
		fmt.Println(err)
		return
	}
	attempt, err := flow.Resume(ctx, handover, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = attempt.WaitBound(ctx)
	if err == nil {
		err = attempt.Compose(ctx)
	}
	if err != nil {
		_, leftovers := attempt.Unwind(ctx) // also what the conductor created
		fmt.Println(err, leftovers)
		return
	}
	result := attempt.Result()
	fmt.Println(result.Host, len(result.Devices), "device")
	// Output: cn0 1 device
}

// conductor runs the steps up to the bind.
func conductor(ctx context.Context, cloud *simcloud.Cloud) ([]byte, error) {
	flow, err := exampleFlow(ctx, cloud)
	if err != nil {
		return nil, err
	}
	a, err := flow.Begin(ctx, spawn.Request{Instance: instance, Flavor: flavor("gpu")})
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	handover, err := a.Handover(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(handover)
}

// A function is loaded into the FPGA region of a running instance, by the name in the metadata of its image.
func ExampleFlow_Program() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, *programModel())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	flow, err := exampleFlow(ctx, cloud)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := flow.Run(ctx, spawn.Request{Instance: instance, Flavor: flavor("fpga")})
	if err != nil {
		fmt.Println(err)
		return
	}
	done, err := flow.Program(ctx, spawn.ProgramRequest{Instance: instance, ARQ: result.ARQs[0].UUID, FunctionName: "gzip"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Image, *done.After.BitstreamID == done.Image)
	// Output: cccccccc-0000-4000-8000-000000000001 true
}
