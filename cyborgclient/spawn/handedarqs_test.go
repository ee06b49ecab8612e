package spawn_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// secondInstanceRequest is a request for the second instance of a site.
func secondInstanceRequest(profile string) spawn.Request {
	req := request(profile)
	req.Instance = secondInstance
	return req
}

// A handover that names the ARQ of another instance, whose guest runs, takes nothing from that one.
func TestTheARQOfAnotherInstanceInAHandoverIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		waits, moves, down bool
		compat             spawn.Compat
	}{
		"unwound":                     {},
		"waited for":                  {waits: true},
		"rescheduled":                 {moves: true},
		"rescheduled with its ARQs":   {moves: true, compat: spawn.Compat{Rebind: true}},
		"unwound while Cyborg fails":  {down: true},
		"unbound first":               {compat: spawn.Compat{UnbindFirst: true}},
		"rescheduled, Cyborg failing": {moves: true, down: true, compat: spawn.Compat{Rebind: true}},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			victim := s.spawn(t, "gpu")
			h, err := parseHandover(s.conduct(t, secondInstanceRequest("gpu")))
			settled(t, err)
			own := h.ARQs[0].ARQ
			h.ARQs[0].ARQ = victim.ARQs[0]
			s.connect(t, s.cloud.Provider(t), spawn.WithConfig(spawn.Config{PlacementOrder: true, Compat: tt.compat}))
			a, err := s.flow.Resume(h, nil)
			settled(t, err)
			if tt.waits {
				if err := a.WaitBound(t.Context()); !errors.Is(err, spawn.ErrNotBound) {
					t.Errorf("wait: got error %v, want ErrNotBound", err)
				}
			}
			if tt.down {
				for _, operation := range []sim.OperationName{fault.ARQList, fault.ARQGet} {
					s.fail(t, fault.Rule{Operation: operation, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
				}
			}
			if tt.moves {
				_ = a.Reschedule(t.Context())
			}
			a.Unwind(t.Context())
			settled(t, s.cloud.Faults().Set())
			_, left := a.Unwind(t.Context())
			named := map[string]string{}
			for _, l := range left {
				if l.Kind == spawn.LeftoverARQ && !l.Certain {
					named[l.ID] = l.Err.Error()
				}
			}
			want := map[string]string{
				victim.ARQs[0]: "is left alone: it belongs to instance " + victim.UUID,
				own:            "the instance has it, and the handover does not name it",
			}
			if diff := cmp.Diff(want, named); diff != "" {
				t.Errorf("suspects of %v (-want +got):\n%s", left, diff)
			}
			for _, leak := range s.cloud.Leaks() {
				if strings.Contains(leak.Text, victim.UUID) {
					t.Errorf("the other guest: %s", leak.Text)
				}
			}
			if len(s.arqs(t, victim)) != 1 {
				t.Errorf("the other instance has the ARQs %v", s.arqs(t, victim))
			}
		})
	}
}
