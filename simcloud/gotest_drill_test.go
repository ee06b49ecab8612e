//go:build drill

package simcloud_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A spawn and a delete in the default world, in real time, with binds that take a while
// and a service that fails at first, become a test that passes.
func TestTheRecordOfASpawnPassesAsATest(t *testing.T) {
	model := simcloud.Model{}
	model.Cyborg.BindDelay = 50 * time.Millisecond
	cloud := simcloud.Run(t, model)
	if err := cloud.Faults().Set(fault.Rule{Operation: "placement.allocation_candidates.list", Action: fault.Status, Status: 503}); err != nil {
		t.Fatal(err)
	}
	provider := cloud.Provider(t)
	cyborg, err := cyborgclient.New(provider, cyborgclient.WithServiceToken(cloud.ServiceToken))
	if err != nil {
		t.Fatal(err)
	}
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	events := externalevent.NewRegistry()
	cloud.HandleEvents(events.Handler())
	flow, err := spawn.New(spawn.Config{}, cyborg, placement, events)
	if err != nil {
		t.Fatal(err)
	}
	for i, profile := range []string{"mixed", "vgpu", "gpu"} {
		request := spawn.Request{Instance: instance(i), Flavor: requestspec.Flavor{
			Name: profile, VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
		}}
		if _, err := flow.Run(t.Context(), request); err != nil {
			if _, err = flow.Run(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		if err := flow.Release(t.Context(), instance(i)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("testdata", "replay-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, err := os.Create(filepath.Join(dir, "replay_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.WriteGoTest(file, "replay_test"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=all", "-count=3", "./"+dir).CombinedOutput()
	if err != nil {
		text, _ := os.ReadFile(file.Name()) // to look at
		t.Fatalf("%v\n%s\n%s", err, out, text[len(text)/2:])
	}
}
