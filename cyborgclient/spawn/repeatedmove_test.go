package spawn_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
)

// Without accelerators only the allocation shows the host of the guest.
func TestAMoveWithoutAcceleratorsThatIsRepeatedLeavesTheGuestAlone(t *testing.T) {
	t.Parallel()
	evacuate := func(o *spawn.Operations, ctx context.Context, i spawn.Instance) (*spawn.Result, error) {
		return o.Evacuate(ctx, i, spawn.MoveOpts{})
	}
	unshelve := func(o *spawn.Operations, ctx context.Context, i spawn.Instance) (*spawn.Result, error) {
		i.Host = ""
		return o.Unshelve(ctx, i, spawn.MoveOpts{})
	}
	for name, tt := range map[string]struct {
		move    func(*spawn.Operations, context.Context, spawn.Instance) (*spawn.Result, error)
		left    bool // the old host's allocation could not be given up
		answers bool // the new host
	}{
		"evacuate": {evacuate, false, true}, "evacuate, with leftovers": {evacuate, true, true}, "evacuate, no answer": {evacuate, false, false},
		"unshelve": {unshelve, false, true}, "unshelve, no answer": {unshelve, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: raceModel(4, 1)})
			i := s.spawn(t, "")
			if strings.HasPrefix(name, "unshelve") {
				settled(t, s.ops.ShelveOffload(t.Context(), i))
			} else {
				s.loseHost(t, i.Host)
			}
			s.guests.hook = func(int) {
				if tt.left && s.guests.calls[len(s.guests.calls)-1] == "start" {
					s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 503, Times: -1})
				}
			}
			first, err := tt.move(s.ops, t.Context(), i)
			if first == nil || errors.Is(err, spawn.ErrLeftover) != tt.left {
				t.Fatalf("%s: got %v, %v", name, first, err)
			}
			s.guests.hook = nil
			s.cloud.Faults().Clear()
			s.guests.down[first.Host] = !tt.answers
			runs, held := maps.Clone(s.guests.runs), s.held(instance)
			again, err := tt.move(s.ops, t.Context(), i)
			if again != nil || err == nil || errors.Is(err, spawn.ErrMoved) != tt.answers || !strings.Contains(err.Error(), "host "+first.Host) {
				t.Errorf("%s: got %v, %v; want a refusal that names host %s", name, again, err, first.Host)
			}
			if diff := cmp.Diff(runs, s.guests.runs); diff != "" {
				t.Errorf("%s: guests (-before +after):\n%s", name, diff)
			}
			if diff := cmp.Diff(held, s.held(instance)); diff != "" {
				t.Errorf("%s: allocation (-before +after):\n%s", name, diff)
			}
		})
	}
}

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
