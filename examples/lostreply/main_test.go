package main

import (
	"context"
	"os"
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

func Example() {
	_ = compare(context.Background(), os.Stdout)
	// Output:
	// Two programs attach a GPU to an instance. The cloud loses the reply to one request, after it has
	// applied the request. What belongs to no running instance afterwards has leaked.
	//
	// The reply to PUT /allocations/0a1b2c3d-0000-4000-8000-000000000001 is lost:
	//   plain code  failed; leaked: consumer 0a1b2c3d-0000-4000-8000-000000000001, which is not a
	//               registered guest, has allocated DISK_GB:20 on cn0, MEMORY_MB:8192 on cn0, VCPU:4 on
	//               cn0, PGPU:1 on cn0_0000:3b:00.0
	//   gocyborg    failed; undone: allocation 0a1b2c3d-0000-4000-8000-000000000001; nothing leaked
	//
	// The reply to POST /accelerator_requests is lost:
	//   plain code  failed; leaked: ARQ 525476e8-0978-5739-8f63-43c21bf616ee (Initial, device profile
	//               gpu) belongs to no instance
	//   gocyborg    attached, on host cn1; nothing leaked
	//
	// The reply to PATCH /accelerator_requests is lost:
	//   plain code  failed; nothing leaked
	//   gocyborg    attached, on host cn1; nothing leaked
}

// TestWithoutAFaultBothAttach: plain code is a program that works.
func TestWithoutAFaultBothAttach(t *testing.T) {
	for _, program := range programs {
		cloud := simcloud.Run(t)
		if err := program.attach(t.Context(), cloud.Provider(t), cloud.ServiceProvider(t), cloud); err != nil || len(cloud.Guests()) != 1 {
			t.Errorf("%s: %d guests, %v", program.name, len(cloud.Guests()), err)
		}
		cloud.CheckNoLeaks(t)
	}
}
