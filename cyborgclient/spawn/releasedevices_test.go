package spawn_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestARunningInstanceGivesItsDevicesBackAndGoesOn(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]string{"OWNER_CYBORG": "mixed", "no trait": "fake"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runningInstanceGivesBack(t, profile) })
		})
	}
}

// Most drivers of upstream report no trait that names the owner, so that nothing but Cyborg's
// own list tells its providers once the ARQs are deleted.
func runningInstanceGivesBack(t *testing.T, profile string) {
	model := simcloud.DefaultModel()
	model.Cyborg.UpstreamQuirks = true
	w := newWorld(t, worldOpts{model: &model})
	plain := flavor("gpu")
	plain.ExtraSpecs = nil
	if _, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plain}); err != nil {
		t.Fatal(err)
	}
	held := w.cloud.Placement.Allocations()
	req := request(profile)
	req.Running = true
	if _, err := w.flow.Run(t.Context(), req); err != nil {
		t.Fatal(err)
	}

	// Its ARQs are deleted, but Placement does not answer.
	if err := w.cloud.Faults().Set(fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 403, Times: -1}); err != nil {
		t.Fatal(err)
	}
	var failure *spawn.Error
	err := w.flow.ReleaseDevices(t.Context(), instance)
	if !errors.As(err, &failure) || len(failure.Leftovers) != 1 || failure.Leftovers[0].Kind != spawn.LeftoverAllocation {
		t.Fatalf("err = %v", err)
	}
	w.cloud.Faults().Clear()

	for range 2 {
		if err := w.flow.ReleaseDevices(t.Context(), instance); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(held, w.cloud.Placement.Allocations()); diff != "" || len(w.cloud.Cyborg.ARQs()) > 0 {
			t.Errorf("%d ARQs; allocations (-want +got):\n%s", len(w.cloud.Cyborg.ARQs()), diff)
		}
	}
}

func TestARunningInstanceThatHoldsNothingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	req := request("gpu")
	req.Running = true
	_, err := w.flow.Run(t.Context(), req)
	if !errors.Is(err, spawn.ErrRequest) || len(w.cloud.Placement.Allocations()) > 0 {
		t.Errorf("err = %v, allocations %v", err, w.cloud.Placement.Allocations())
	}
	w.checkPromise(t, nil, err)
}
