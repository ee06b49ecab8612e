package spawn_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			a, err := s.flow.Resume(t.Context(), h, nil)
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

// What flavor, ports and device profiles ask for, and what was claimed, tell that a handover lacks something.
func TestAHandoverThatContradictsItselfIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: portModel()})
	req := request("mixed")
	req.Ports = []spawn.Port{acceleratedPort(port1, "nic", "52:54:00:1e:59:c3")}
	good := w.conduct(t, req)
	for name, edit := range map[string]func(h *spawn.Handover){
		"one ARQ less":           func(h *spawn.Handover) { h.ARQs = h.ARQs[1:] },
		"no ARQ of the port":     func(h *spawn.Handover) { h.ARQs = h.ARQs[:len(h.ARQs)-1] },
		"nothing of the flavor":  func(h *spawn.Handover) { h.DeviceProfile, h.ARQs = "", h.ARQs[len(h.ARQs)-1:] },
		"another device profile": func(h *spawn.Handover) { h.DeviceProfile = "nic" },
		"unknown group":          func(h *spawn.Handover) { h.ARQs[0].Group = 99 },
		"negative group":         func(h *spawn.Handover) { h.ARQs[0].Group, h.Profiles, h.Alternates = -1, nil, nil },
		"claimed no class":       func(h *spawn.Handover) { clear(h.Claimed[h.ARQs[0].DeviceRP]) },
		"claimed another class": func(h *spawn.Handover) {
			clear(h.Claimed[h.ARQs[0].DeviceRP])
			h.Claimed[h.ARQs[0].DeviceRP]["VCPU"] = 9
		},
		"claimed a negative amount": func(h *spawn.Handover) { h.Claimed[h.ARQs[0].DeviceRP]["VCPU"] = -1 },
		"held before, not claimed":  func(h *spawn.Handover) { h.Before = map[string]map[string]int{secondInstance: {"VCPU": 1}} },
		"held by no provider":       func(h *spawn.Handover) { h.Before = map[string]map[string]int{"x": {"VCPU": 1}} },
		"an alternate of nothing": func(h *spawn.Handover) {
			h.Alternates = append(h.Alternates, spawn.Candidate{Root: secondInstance, Allocations: map[string]map[string]int{secondInstance: {"y": -5}}})
		},
		"an alternate of no provider": func(h *spawn.Handover) {
			h.Alternates = append(h.Alternates, spawn.Candidate{Root: secondInstance, Allocations: map[string]map[string]int{"x": {"y": 5}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := parseHandover(good)
			settled(t, err)
			edit(&h)
			text, err := json.Marshal(h)
			settled(t, err)
			if _, err := parseHandover(text); !errors.Is(err, spawn.ErrRequest) {
				t.Errorf("got error %v, want ErrRequest", err)
			}
			if _, err := w.flow.Resume(t.Context(), h, nil); !errors.Is(err, spawn.ErrRequest) {
				t.Errorf("resume: got error %v, want ErrRequest", err)
			}
		})
	}
}

// A handover of an earlier version, which passed the device profiles with alternates only, is not refused when it lacks
// an ARQ: Cyborg tells.
func TestAnARQThatAHandoverForgetsIsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, lacks := range map[string]bool{"whole": false, "lacks one": true} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			h, err := parseHandover(s.conduct(t, request("mixed")))
			settled(t, err)
			h.Profiles, h.Alternates = nil, nil
			forgotten := h.ARQs[0].ARQ
			if lacks {
				h.ARQs = h.ARQs[1:]
			}
			text, err := json.Marshal(h)
			settled(t, err)
			h, err = parseHandover(text)
			settled(t, err)
			s.connect(t, s.cloud.Provider(t))
			a, err := s.flow.Resume(t.Context(), h, nil)
			settled(t, err)
			err = walk(t.Context(), a.WaitBound, a.Compose)
			if !lacks {
				settled(t, err)
				s.checkPromise(t, a.Result(), nil)
				return
			}
			if !errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), "ARQ "+forgotten+" is Bound (not among those that the instance was given)") {
				t.Errorf("got error %v, want ErrNotBound with ARQ %s", err, forgotten)
			}
			_, left := a.Unwind(t.Context())
			if !slices.ContainsFunc(left, func(l spawn.Leftover) bool { return l.Kind == spawn.LeftoverARQ && l.ID == forgotten }) {
				t.Errorf("left behind: %v, want ARQ %s", left, forgotten)
			}
		})
	}
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

// An ARQ that an agent sets and that is another instance's is not taken from that one.
func TestTheARQOfAnotherInstanceIsNotGivenBack(t *testing.T) {
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
				for _, operation := range []sim.OperationName{fault.ARQList, fault.ARQGet} {
					s.fail(t, fault.Rule{Operation: operation, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
				}
				a.Unwind(t.Context())
				settled(t, s.cloud.Faults().Set())
			}
			_, left := a.Unwind(t.Context())
			if want := "is left alone: it belongs to instance " + victim.UUID; len(left) != 1 || left[0].ID != victim.ARQs[0] || left[0].Err.Error() != want {
				t.Errorf("leftovers %v, want ARQ %s: %s", left, victim.ARQs[0], want)
			}
			s.running(t, victim, true)
			s.sound(t)
		})
	}
}
