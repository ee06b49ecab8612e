package drill_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// check is a flow that makes an accelerator request and deletes it. If it fails in between, it does not
// delete it.
func check(ctx context.Context, cloud *simcloud.Cloud) error {
	provider, err := cloud.ProviderClient(ctx, "demo")
	if err != nil {
		return err
	}
	cyborg, err := cyborgclient.New(provider)
	if err != nil {
		return err
	}
	arqs, err := cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
	if err != nil {
		return err
	}
	if _, err := cyborg.ListDevices(ctx, cyborgclient.ListDevicesOpts{}); err != nil {
		return err
	}
	return cyborg.DeleteARQs(ctx, []string{arqs[0].UUID})
}

// A drill runs a flow with each fault that can happen to it:
//
//	func TestCheckLeavesNothing(t *testing.T) { drill.Run(t, check, drill.Config{}) }
//
// This is one of its cases, and what it finds.
func Example() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cloud.Close()
	fmt.Println(check(ctx, cloud), len(cloud.Leaks()))

	err = cloud.Faults().Set(fault.Rule{Operation: fault.DeviceList, Action: fault.Status, Status: 500})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(check(ctx, cloud) != nil)
	for _, leak := range cloud.Leaks() {
		fmt.Println(leak.Text)
	}
	// Output:
	// <nil> 0
	// true
	// ARQ 4de5a783-2291-5018-807b-d986b0757ed1 (Initial, device profile gpu) belongs to no instance
}
