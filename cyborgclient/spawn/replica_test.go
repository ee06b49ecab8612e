package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// replicaModel is a cloud whose Cyborg lists ARQs from a replica of its database that lags behind.
func replicaModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.ReadLag = 300 * time.Millisecond
	return &model
}

// ARQs that an operation has deleted, and that a replica still lists, do not belong to another agent. After a failure
// the claim is released, and the operation can be repeated at once.
func TestAnOperationWithAStaleReplicaReleasesItsClaim(t *testing.T) {
	t.Parallel()
	for _, e := range exercises() {
		if e.name != "unshelve" && e.name != "evacuate" {
			continue
		}
		e.model = replicaModel
		for _, rule := range []fault.Rule{
			{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After},
			{Operation: fault.ARQCreate, Action: fault.Status, Status: 403},
			{Operation: fault.ARQBind, Action: fault.Status, Status: 403},
			{Operation: fault.ARQBind, Action: fault.Drop, When: fault.After},
		} {
			e.perform(t, fmt.Sprintf("%s: %s %s", e.name, rule.Operation, rule.Action), func(t *testing.T, s *site) { s.fail(t, rule) })
		}
	}
}

// The same applies to ARQs that an earlier attempt of the flow has released.
func TestARepeatedSpawnWithAStaleReplicaReleasesItsClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: replicaModel(), config: spawn.Config{MaxAttempts: 1, ExclusiveProject: true}})
		flow := w.flow.On(&guestFuncs{start: func(context.Context, sim.Guest) error {
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 403})
			return errors.New("the hypervisor is down")
		}})
		for range 2 {
			result, err := flow.Run(t.Context(), request("gpu"))
			if result != nil || errors.Is(err, spawn.ErrLeftover) || len(leftoversOf(err)) > 0 {
				t.Errorf("got %v, want an error without leftovers", err)
			}
			w.cloud.CheckNoLeaks(t)
		}
	})
}
