package spawn_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient"
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

// unavailable is the rule of a service that answers 503 to an operation.
func unavailable(operation sim.OperationName) fault.Rule {
	return fault.Rule{Operation: operation, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable}
}

// A handover that names the ARQ of another instance with a running guest does not release that ARQ.
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
			a, err := s.flow.Resume(t.Context(), h, nil)
			settled(t, err)
			if tt.waits {
				if err := a.WaitBound(t.Context()); !errors.Is(err, spawn.ErrNotBound) {
					t.Errorf("wait: got error %v, want ErrNotBound", err)
				}
			}
			if tt.down {
				s.fail(t, unavailable(fault.ARQList), unavailable(fault.ARQGet))
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
				victim.ARQs[0]: "not deleted: it belongs to instance " + victim.UUID,
				own:            "the ARQ belongs to the instance but is not part of the handover",
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

// A handover that names the ARQ of another instance as kept does not release that ARQ, with any host name.
func TestTheARQOfAnotherInstanceIsNotKept(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", "cn0", "cn1", "cn9"} {
		bubble(t, "host "+host, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			victim := s.spawn(t, "gpu")
			h, err := parseHandover(s.conduct(t, secondInstanceRequest("gpu")))
			settled(t, err)
			h.Kept = append(h.Kept, spawn.KeptARQ{ARQ: victim.ARQs[0], Host: host, Reason: "the agent is down"})
			s.restart(t)
			a, err := s.flow.Resume(t.Context(), h, nil)
			settled(t, err)
			_ = a.Reschedule(t.Context())
			for range 2 {
				a.Unwind(t.Context())
			}
			s.running(t, victim, true)
			s.sound(t)
		})
	}
}

// A handover with one damaged value is refused, still works, or fails. In no case does another instance lose a
// resource, or the instance get fewer devices than requested.
func TestADamagedHandoverDoesNoHarm(t *testing.T) {
	t.Parallel()
	var good []byte
	pool := []any{nil, "", "x", "cn0", "cn1", 0, -1, 1, 1 << 40, 0.5, true, []any{}, map[string]any{}}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		victim := s.spawn(t, "mixed")
		good = s.conduct(t, secondInstanceRequest("mixed"))
		pool = append(pool, victim.UUID, s.held(victim.UUID))
		for _, arq := range victim.ARQs {
			pool = append(pool, arq)
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		var h map[string]any
		if err := json.Unmarshal(good, &h); err != nil {
			rt.Fatal(err)
		}
		damage(rt, h, pool)
		text, err := json.Marshal(h)
		if err != nil {
			rt.Fatal(err)
		}
		config := spawn.Config{PlacementOrder: true, Compat: spawn.Compat{
			Rebind: rapid.Bool().Draw(rt, "rebind"), UnbindFirst: rapid.Bool().Draw(rt, "unbind first"),
		}}
		moves := rapid.Bool().Draw(rt, "moves")
		var problem error
		synctest.Test(t, func(t *testing.T) { problem = continueDamaged(t, text, config, moves) })
		if problem != nil {
			rt.Fatalf("%v with %s", problem, text)
		}
	})
}

// damage changes one value at some depth of a document.
func damage(rt *rapid.T, in map[string]any, pool []any) {
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(in))).Draw(rt, "key")
	isWhole := rapid.IntRange(0, 3).Draw(rt, "whole") == 0
	switch value := in[key].(type) {
	case map[string]any:
		if len(value) > 0 && !isWhole {
			damage(rt, value, pool)
			return
		}
	case []any:
		if len(value) > 0 && !isWhole {
			i := rapid.IntRange(0, len(value)-1).Draw(rt, "element")
			if inner, ok := value[i].(map[string]any); ok && len(inner) > 0 {
				damage(rt, inner, pool)
				return
			}
			value[i] = rapid.SampledFrom(pool).Draw(rt, "value")
			return
		}
		if len(value) > 1 && rapid.Bool().Draw(rt, "shorter") {
			in[key] = value[1:]
			return
		}
		if len(value) > 0 && rapid.Bool().Draw(rt, "longer") {
			in[key] = append(value, value[0])
			return
		}
	}
	if delete(in, key); rapid.Bool().Draw(rt, "replaced") {
		in[key] = rapid.SampledFrom(pool).Draw(rt, "value")
	}
}

// continueDamaged continues a damaged handover and returns the harm that it does.
func continueDamaged(t *testing.T, text []byte, config spawn.Config, moves bool) error {
	s := newSite(t, worldOpts{})
	victim := s.spawn(t, "mixed")
	s.conduct(t, secondInstanceRequest("mixed"))
	held := s.held(victim.UUID)
	s.connect(t, s.cloud.Provider(t), spawn.WithConfig(config))
	a, err := s.resume(t, text)
	if errors.Is(err, spawn.ErrRequest) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if moves && a.Reschedule(t.Context()) == nil {
		err = walk(t.Context(), a.Claim, a.CreateARQs, a.Match, a.Bind)
	}
	if err == nil {
		err = walk(t.Context(), a.WaitBound, a.Compose)
	}
	if err != nil {
		a.Unwind(t.Context())
		a.Unwind(t.Context())
	}
	for _, leak := range s.cloud.Leaks() {
		if strings.Contains(leak.Text, victim.UUID) {
			return fmt.Errorf("the other guest: %s", leak.Text)
		}
	}
	if diff := cmp.Diff(held, s.held(victim.UUID)); diff != "" {
		return fmt.Errorf("the allocation of the other guest (-before +after):\n%s", diff)
	}
	if got := a.Result(); err == nil && len(got.Devices)+len(got.Skipped) != len(victim.ARQs) {
		return fmt.Errorf("success with %d devices, want %d", len(got.Devices)+len(got.Skipped), len(victim.ARQs))
	}
	return s.runs(victim, true)
}

// An external agent creates the ARQs, and the attempt binds them. After a failure they are deleted.
func TestARQsThatAnotherClientCreated(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rules    []fault.Rule
		take     int // how many of the ARQs
		wantStep string
	}{
		"bound":      {take: 4},
		"too few":    {take: 3, wantStep: "match"},
		"bind fails": {take: 4, rules: []fault.Rule{{Operation: fault.ARQBind, Action: fault.Status, Status: http.StatusNotFound}}, wantStep: "bind"},
		"wait times out": {take: 4, rules: []fault.Rule{{Operation: fault.ARQList, Times: -1, Action: fault.Status, Status: http.StatusForbidden}},
			wantStep: "wait"},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			arqs, err := w.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "mixed"})
			settled(t, err)
			for _, arq := range arqs[tt.take:] {
				settled(t, w.cyborg.DeleteARQs(t.Context(), []string{arq.UUID}))
			}
			a, err := w.flow.Begin(t.Context(), request("mixed"))
			settled(t, err)
			settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim))
			a.ARQs = arqs[:tt.take]
			w.fail(t, tt.rules...)
			err = walk(t.Context(), a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose)
			if err == nil {
				result := a.Result()
				for i, arq := range result.ARQs {
					if arq.UUID != arqs[i].UUID {
						t.Errorf("ARQ %d is %s, want %s", i, arq.UUID, arqs[i].UUID)
					}
				}
				w.checkPromise(t, result, nil)
			} else {
				settled(t, w.cloud.Faults().Set())
				if _, left := a.Unwind(t.Context()); len(left) > 0 || len(w.cloud.Cyborg.ARQs()) > 0 {
					t.Errorf("leftovers %v, and ARQs %v", left, w.cloud.Cyborg.ARQs())
				}
			}
			steps := a.Trace()
			failed := ""
			for _, step := range steps {
				if step.Error != "" {
					failed = step.Step.String()
				}
			}
			if failed != tt.wantStep {
				t.Errorf("failed in step %q (%v), want %q", failed, err, tt.wantStep)
			}
		})
	}
}

// An ARQ of another instance in Attempt.ARQs is not released.
func TestTheARQOfAnotherInstanceIsNotReleased(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"at once": false, "after Cyborg was down": true} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			victim := s.spawn(t, "gpu")
			a, err := s.flow.Begin(t.Context(), secondInstanceRequest("gpu"))
			settled(t, err)
			settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim))
			a.ARQs = s.arqs(t, victim)
			if err := walk(t.Context(), a.Match, a.Bind); !errors.Is(err, cyborgclient.ErrConflict) {
				t.Errorf("got error %v, want ErrConflict", err)
			}
			if down {
				s.fail(t, unavailable(fault.ARQList), unavailable(fault.ARQGet))
				a.Unwind(t.Context())
				settled(t, s.cloud.Faults().Set())
			}
			_, left := a.Unwind(t.Context())
			if want := "not deleted: it belongs to instance " + victim.UUID; len(left) != 1 || left[0].ID != victim.ARQs[0] || left[0].Err.Error() != want {
				t.Errorf("leftovers %v, want ARQ %s: %s", left, victim.ARQs[0], want)
			}
			s.running(t, victim, true)
			s.sound(t)
		})
	}
}
