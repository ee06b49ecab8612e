package spawn_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
)

// More instances than devices are spawned in parallel. Each gets all of its devices or none, and a failure does not
// affect another instance.
func TestParallelSpawnsShareTheDevicesWithoutLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	profiles := []string{"gpu", "vgpu", "mixed", "fake"}
	const rounds, workers = 3, 24
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				id := fmt.Sprintf("00000000-0000-4000-8000-%012d", round*workers+i)
				result, err := w.flow.Run(t.Context(), spawn.Request{Instance: id, Flavor: flavor(profiles[i%len(profiles)])})
				if err != nil {
					if !errors.Is(err, spawn.ErrNoCandidates) && !errors.Is(err, spawn.ErrClaim) {
						t.Errorf("instance %s: %v", id, err)
					}
					return
				}
				guest := sim.Guest{UUID: id, Host: result.Host, Domain: string(result.Domain)}
				if err := w.cloud.DefineGuest(guest); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.cloud.CheckNoLeaks(t)
		if len(w.cloud.Guests()) == 0 {
			t.Error("no spawn succeeded")
		}
		for _, guest := range w.cloud.Guests() {
			w.cloud.RemoveGuest(guest.UUID)
			settled(t, w.flow.Release(t.Context(), guest.UUID))
		}
		w.cloud.CheckNoLeaks(t)
	}
	if pending := w.events.Pending(); pending != 0 {
		t.Errorf("%d events are still registered", pending)
	}
}
