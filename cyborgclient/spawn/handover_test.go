package spawn_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/simcloud"
)

// conduct runs the conductor's steps and returns the JSON of the handover.
func (w *world) conduct(t *testing.T, req spawn.Request) []byte {
	t.Helper()
	a, err := w.flow.Begin(t.Context(), req)
	settled(t, err)
	return conducted(t, a)
}

// conducted runs the steps of a conductor.
func conducted(t *testing.T, a *spawn.Attempt) []byte {
	t.Helper()
	if _, err := a.Handover(t.Context()); !errors.Is(err, spawn.ErrOrder) {
		t.Errorf("handover before the bind: got error %v, want ErrOrder", err)
	}
	settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind))
	handover, err := a.Handover(t.Context())
	settled(t, err)
	data, err := json.Marshal(handover)
	settled(t, err)
	return data
}

func parseHandover(data []byte) (h spawn.Handover, err error) {
	err = json.Unmarshal(data, &h)
	return h, err
}

// The request group for the memory that the regions of a card share has no ARQ, so no ARQ names its provider.
func TestAHandoverOfSharedMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: cardModel(1)})
		data := w.conduct(t, request("card"))
		w.restart(t)
		a, err := w.resume(t, data)
		settled(t, err)
		settled(t, walk(t.Context(), a.WaitBound, a.Compose))
		w.checkPromise(t, a.Result(), nil)
	})
}

func TestTheComputeSideContinuesFromTheHandover(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		profile string
		delay   time.Duration
		wantErr error
	}{
		{"bound before the handover", "mixed", 0, nil},
		{"bound while the compute side waits", "mixed", 100 * time.Second, nil},
		{"never bound in time", "mixed", 400 * time.Second, externalevent.ErrTimeout},
		{"no device profile", "", 0, nil},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: slowModel(tt.delay)})
			data := w.conduct(t, request(tt.profile))
			if pending := w.events.Pending(); pending != 0 {
				t.Errorf("the conductor's side still waits for %d events", pending)
			}
			w.restart(t) // the compute side is another process
			a, err := w.resume(t, data)
			settled(t, err)
			err = walk(t.Context(), a.WaitBound, a.Compose)
			if !errors.Is(err, tt.wantErr) || (err == nil) != (tt.wantErr == nil) {
				t.Errorf("got error %v, want %v", err, tt.wantErr)
			}
			if err != nil {
				unwindAll(t, a)
				w.checkPromise(t, nil, err)
				return
			}
			w.checkPromise(t, a.Result(), nil)
		})
	}
}

func TestTheComputeSideKeepsTheAllocationOfARunningInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	w.spawned(t, spawn.Request{Instance: instance, Flavor: plainFlavor()})
	held := w.cloud.Placement.Allocations()
	adding, err := w.flow.BeginAdding(t.Context(), request("gpu"))
	settled(t, err)
	a, err := w.resume(t, conducted(t, adding))
	settled(t, err)
	unwindAll(t, a)
	if diff := cmp.Diff(held, w.cloud.Placement.Allocations()); diff != "" {
		t.Errorf("allocations (-before +after):\n%s", diff)
	}
}

func TestABadHandoverIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: portModel()})
	req := request("mixed")
	req.Ports = []spawn.Port{acceleratedPort(port1, "nic", "52:54:00:1e:59:c3")}
	good := w.conduct(t, req)
	unknownProvider := map[string]map[string]int{"x": {"VCPU": 1}}
	for name, edit := range map[string]func(h *spawn.Handover){
		"version":                      func(h *spawn.Handover) { h.Version = 1 },
		"instance":                     func(h *spawn.Handover) { h.Instance = "vm1" },
		"no host":                      func(h *spawn.Handover) { h.Host = "" },
		"image":                        func(h *spawn.Handover) { h.Image = "x" },
		"port":                         func(h *spawn.Handover) { h.Ports[0].UUID = "x" },
		"ARQ":                          func(h *spawn.Handover) { h.ARQs[0].ARQ = "x" },
		"kept ARQ":                     func(h *spawn.Handover) { h.Kept = []spawn.KeptARQ{{ARQ: "x", Host: "cn9"}} },
		"root of the claim":            func(h *spawn.Handover) { h.Chosen.Root = "x" },
		"nothing claimed":              func(h *spawn.Handover) { h.Chosen.Allocations = nil },
		"claimed of no provider":       func(h *spawn.Handover) { h.Chosen.Allocations = unknownProvider },
		"claimed a negative amount":    func(h *spawn.Handover) { h.Chosen.Allocations[h.Chosen.Root]["VCPU"] = -1 },
		"claimed nothing of a class":   func(h *spawn.Handover) { h.Chosen.Allocations[h.Chosen.Root]["VCPU"] = 0 },
		"held before of no provider":   func(h *spawn.Handover) { h.Before = unknownProvider },
		"an alternate's root":          func(h *spawn.Handover) { h.Alternates[0].Root = "x" },
		"an alternate of nothing":      func(h *spawn.Handover) { h.Alternates[0].Allocations = nil },
		"an alternate of no provider":  func(h *spawn.Handover) { h.Alternates[0].Allocations = unknownProvider },
		"no device profiles":           func(h *spawn.Handover) { h.Profiles = nil },
		"no device profile of a port":  func(h *spawn.Handover) { h.Profiles = h.Profiles[:1] },
		"one ARQ less":                 func(h *spawn.Handover) { h.ARQs = h.ARQs[1:] },
		"no ARQ of the port":           func(h *spawn.Handover) { h.ARQs = h.ARQs[:len(h.ARQs)-1] },
		"an ARQ twice":                 func(h *spawn.Handover) { h.ARQs = append(h.ARQs, h.ARQs[0]) },
		"an ARQ in place of another":   func(h *spawn.Handover) { h.ARQs[0].ARQ = h.ARQs[1].ARQ },
		"ARQs of no device profile":    func(h *spawn.Handover) { h.Flavor.ExtraSpecs = nil },
		"an ARQ of an unknown port":    func(h *spawn.Handover) { h.ARQs[len(h.ARQs)-1].Port = secondInstance },
		"an ARQ of an unknown group":   func(h *spawn.Handover) { h.ARQs[0].Group = 99 },
		"an ARQ of a negative group":   func(h *spawn.Handover) { h.ARQs[0].Group = -1 },
		"another device profile":       func(h *spawn.Handover) { h.Flavor.ExtraSpecs = map[string]string{"accel:device_profile": "nic"} },
		"a group without its provider": func(h *spawn.Handover) { h.Chosen.Mappings = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := parseHandover(good)
			settled(t, err)
			edit(&h)
			text, err := json.Marshal(h)
			settled(t, err)
			if bytes.Equal(text, good) {
				t.Error("the case changes nothing")
			}
			if a, err := w.resume(t, text); !errors.Is(err, spawn.ErrRequest) {
				a.Unwind(t.Context())
				t.Fatalf("got error %v, want ErrRequest", err)
			}
			if _, err := w.flow.Resume(t.Context(), h, nil); !errors.Is(err, spawn.ErrRequest) {
				t.Errorf("without JSON: got error %v, want ErrRequest", err)
			}
		})
	}
	for name, tt := range map[string]struct{ text, want string }{
		"no object":          {"[" + string(good) + "]", "cannot unmarshal array"},
		"unknown field":      {strings.Replace(string(good), `"host"`, `"hots"`, 1), `unknown field "hots"`},
		"an earlier version": {`{"instance":"` + instance + `","device_profile":"gpu"}`, "handover of version 0, want 2"},
	} {
		if _, err := parseHandover([]byte(tt.text)); !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want ErrRequest and %s", name, err, tt.want)
		}
	}
	handover, err := parseHandover(good)
	settled(t, err)
	if _, err := w.flow.Resume(t.Context(), handover, []byte("<network/>")); !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("bad domain: got error %v, want ErrRequest", err)
	}
}

// resume reads a handover and continues it.
func (w *world) resume(t *testing.T, text []byte) (*spawn.Attempt, error) {
	t.Helper()
	h, err := parseHandover(text)
	if err != nil {
		return nil, err
	}
	return w.flow.Resume(t.Context(), h, nil)
}

// The compute side can continue on the next host without the conductor.
func TestTheComputeSideGoesToAnAlternate(t *testing.T) {
	t.Parallel()
	bubble(t, "mapped by Placement", func(t *testing.T) { goToAlternate(t, spawn.Compat{}, spawn.Compat{}) })
	bubble(t, "without mappings", func(t *testing.T) { goToAlternate(t, spawn.Compat{NumericSuffixes: true}, spawn.Compat{}) })
	bubble(t, "with the same ARQs", func(t *testing.T) { goToAlternate(t, spawn.Compat{}, spawn.Compat{Rebind: true}) })
}

func goToAlternate(t *testing.T, conductor, compute spawn.Compat) {
	w := newWorld(t, worldOpts{model: portModel(), config: spawn.Config{Compat: conductor}})
	req := request("mixed")
	req.Ports = []spawn.Port{acceleratedPort(port1, "nic", "52:54:00:1e:59:c3")}
	handover, err := parseHandover(w.conduct(t, req))
	settled(t, err)
	w.connect(t, w.cloud.Provider(t), spawn.WithConfig(spawn.Config{PlacementOrder: true, Compat: compute})) // another process
	a, err := w.flow.Resume(t.Context(), handover, nil)
	settled(t, err)
	old := w.cloud.Cyborg.ARQs()
	settled(t, a.Reschedule(t.Context()))
	settled(t, walk(t.Context(), a.Claim, a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose))
	if a.Host == handover.Host || len(a.ARQs) != len(old) || len(a.Ports) != 1 || (a.ARQs[0].UUID == old[0].UUID) != compute.Rebind {
		t.Errorf("on host %s with %d ARQs and %d ports, before %s with %d", a.Host, len(a.ARQs), len(a.Ports), handover.Host, len(old))
	}
	w.checkPromise(t, a.Result(), nil)
	if err := a.Reschedule(t.Context()); !errors.Is(err, spawn.ErrNoAlternate) {
		t.Errorf("no third host: error %v, want ErrNoAlternate", err)
	}
}

// Like Nova's conductor, the handover has as many alternates as may be tried.
func TestAHandoverHasTheAlternatesThatMayBeTried(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]int{1: 0, 2: 1, 3: 2, 9: 3} {
		model := simcloud.ScaleModel(4, 2)
		w := newWorld(t, worldOpts{model: &model, config: spawn.Config{MaxAttempts: attempts}})
		req := request("gpu")
		req.Ports = []spawn.Port{acceleratedPort(port1, "gpu", "52:54:00:1e:59:c3")}
		handover, err := parseHandover(w.conduct(t, req))
		settled(t, err)
		hosts := map[string]bool{}
		for _, candidate := range handover.Alternates {
			hosts[candidate.Root] = true
		}
		if len(handover.Alternates) != want || len(hosts) != want {
			t.Errorf("%d attempts: %d alternates on %d hosts, want %d", attempts, len(handover.Alternates), len(hosts), want)
		}
		if len(handover.Profiles) != 1 { // flavor and port have the same one
			t.Errorf("%d alternates with the profiles %v", want, handover.Profiles)
		}
	}
}
