// Command lostreply attaches a GPU to an instance twice, with plain code and with package
// spawn, in a simulated cloud that loses the reply to one request after the service has
// applied it. It prints what each program has leaked:
//
//	go run ./examples/lostreply
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

const instance = "0a1b2c3d-0000-4000-8000-000000000001"

// attach attaches a GPU to the instance and starts its guest, with the clients of an
// administrator and of a user with the role service. The cloud has the guests.
type attach func(ctx context.Context, admin, service *gophercloud.ProviderClient, cloud *simcloud.Cloud) error

// attachWithSpawn is the program with package spawn.
func attachWithSpawn(ctx context.Context, admin, service *gophercloud.ProviderClient, cloud *simcloud.Cloud) error {
	// The flow alone creates accelerator requests in its project, so it deletes those whose reply was lost.
	config := spawn.Config{ExclusiveProject: true}
	flow, err := spawn.NewFromProvider(admin, spawn.WithServiceProvider(service), spawn.WithConfig(config), spawn.WithHypervisor(guests.New(cloud)))
	if err != nil {
		return err
	}
	flavor := requestspec.Flavor{
		Name: "accel.gpu", VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu"},
	}
	_, err = flow.Run(ctx, spawn.Request{Instance: instance, Flavor: flavor})
	return err
}

// outcome runs a program in a new cloud that loses the reply to an operation, once.
func outcome(ctx context.Context, program attach, lost sim.OperationName) (string, error) {
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		return "", err
	}
	defer cloud.Close()
	admin, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return "", err
	}
	service, err := cloud.ProviderClient(ctx, "nova")
	if err != nil {
		return "", err
	}
	if err := cloud.Faults().Set(fault.Rule{Operation: lost, When: fault.After, Action: fault.Drop}); err != nil {
		return "", err
	}
	got := ending(program(ctx, admin, service, cloud), cloud.Guests())
	leaks := cloud.Leaks()
	for _, leak := range leaks {
		got += "; leaked: " + leak.Text
	}
	if len(leaks) == 0 {
		got += "; nothing leaked"
	}
	return got, nil
}

// ending describes how a program ended.
func ending(err error, guests []sim.Guest) string {
	var failure *spawn.Error
	switch {
	case err == nil:
		return "attached, on host " + guests[0].Host
	case errors.As(err, &failure):
		return fmt.Sprintf("failed; undone: %s", strings.Join(failure.Undone, ", "))
	}
	return "failed"
}

// requests are the requests that write.
var requests = []struct {
	name string
	sim.OperationName
}{
	{"PUT /allocations/" + instance, fault.AllocationsPut},
	{"POST /accelerator_requests", fault.ARQCreate},
	{"PATCH /accelerator_requests", fault.ARQBind},
}

var programs = []struct {
	name string
	attach
}{{"plain code", attachPlain}, {"gocyborg", attachWithSpawn}}

// compare prints the outcomes of both programs.
func compare(ctx context.Context, w io.Writer) error {
	fmt.Fprintln(w, "Two programs attach a GPU to an instance. The cloud loses the reply to one request, after it has\n"+
		"applied the request. What belongs to no running instance afterwards has leaked.")
	for _, request := range requests {
		fmt.Fprintf(w, "\nThe reply to %s is lost:\n", request.name)
		for _, program := range programs {
			got, err := outcome(ctx, program.attach, request.OperationName)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "  %-12s%s\n", program.name, wrap(got))
		}
	}
	return nil
}

// wrap breaks a text into lines that begin below each other.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+len(word) < 84:
			b.WriteByte(' ')
		default:
			b.WriteString("\n              ")
			column = 0
		}
		b.WriteString(word)
		column += len(word) + 1
	}
	return b.String()
}

func main() {
	if err := compare(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lostreply:", err)
		os.Exit(1)
	}
}
