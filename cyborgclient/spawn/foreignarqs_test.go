package spawn_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// portWithARQ is a port without an accelerator whose binding profile names an ARQ.
func portWithARQ(arq string) []spawn.Port {
	return []spawn.Port{{
		Port:           requestspec.Port{UUID: "ce531f90-199f-48c0-816c-13e38010b442", VNICType: "normal"},
		BindingProfile: map[string]any{"arq_uuid": arq},
	}}
}

func TestAStalePortDoesNotFreeTheARQOfAnotherInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		first := s.spawn(t, "gpu")
		req := secondInstanceRequest("gpu")
		result, err := s.flow.Run(t.Context(), req)
		settled(t, err)
		second := spawn.InstanceOf(req, result)
		second.Ports = portWithARQ(first.ARQs[0])
		for range 2 {
			err = s.ops.Delete(t.Context(), second)
			if err == nil || !strings.Contains(err.Error(), first.ARQs[0]) || !strings.Contains(err.Error(), first.UUID) {
				t.Errorf("error %v, want one that names the ARQ and its instance", err)
			}
			if got := s.arqs(t, first); len(got) != 1 {
				t.Errorf("the first instance, which runs, has %d ARQs", len(got))
			}
			if left := s.arqs(t, second); len(left) > 0 {
				t.Errorf("the second instance still has %v", left)
			}
		}
	})
}

func TestAPortWithAMalformedARQIsRefusedBeforeAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		i.Ports = portWithARQ("stale")
		if err := s.ops.Delete(t.Context(), i); !errors.Is(err, spawn.ErrRequest) || len(s.guests.calls) > 0 {
			t.Errorf("error %v after %v, want ErrRequest before anything", err, s.guests.calls)
		}
		s.running(t, i, true)
	})
}
