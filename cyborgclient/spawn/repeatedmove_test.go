package spawn_test

import (
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// The caller knows that the host of an earlier attempt is down, which still has a part of the allocation.
func TestAMoveDoesNotAskAHostThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: raceModel(4, 1)})
		i := s.spawn(t, "")
		s.loseHost(t, i.Host)
		first, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		s.loseHost(t, first.Host)
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{Down: []string{first.Host}})
		settled(t, err)
		if result.Host == i.Host || result.Host == first.Host {
			t.Errorf("on host %s, which is down", result.Host)
		}
		s.checkMoved(t, i, result, result.Host)
	})
}
