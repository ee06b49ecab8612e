package spawn_test

import (
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
)

// An admin's token lists the ARQs of all projects. ExclusiveProject is about its own.
func TestALostCreateLeavesTheARQsOfOtherProjects(t *testing.T) {
	t.Parallel()
	for _, applied := range []fault.When{fault.Before, fault.After} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1, ExclusiveProject: true}})
			theirs, err := w.cloud.Cyborg.CreateARQs("gpu", w.cloud.ProjectID("demo"))
			if err != nil {
				t.Fatal(err)
			}
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: applied})
			if _, err := w.flow.Run(t.Context(), request("gpu")); err == nil || len(certainlyLeft(err)) > 0 {
				t.Errorf("got error %v, want one without leftovers", err)
			}
			if left := w.cloud.Cyborg.ARQs(); len(left) != 1 || left[0].UUID != theirs[0].UUID {
				t.Errorf("got ARQs %v, want only that of the other project", left)
			}
		})
	}
}
