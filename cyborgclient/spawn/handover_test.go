package spawn_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/simcloud"
)

// conduct walks the conductor's side and returns the JSON that it passes on.
func (w *world) conduct(t *testing.T, req spawn.Request) []byte {
	t.Helper()
	a, err := w.flow.Begin(t.Context(), req)
	settled(t, err)
	return conducted(t, a)
}

// conducted does the steps of a conductor.
func conducted(t *testing.T, a *spawn.Attempt) []byte {
	t.Helper()
	if _, err := a.Handover(t.Context()); !errors.Is(err, spawn.ErrOrder) {
		t.Errorf("handover before the bind: got error %v, want ErrOrder", err)
	}
	for _, step := range []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind,
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	handover, err := a.Handover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(handover)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parseHandover(data []byte) (h spawn.Handover, err error) {
	err = json.Unmarshal(data, &h)
	return h, err
}

// The group of memory that the regions of a card share has no ARQ, which would tell its provider.
func TestAHandoverOfSharedMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: cardModel(1)})
		data := w.conduct(t, request("card"))
		w.restart(t)
		h, err := parseHandover(data)
		if err != nil {
			t.Fatal(err)
		}
		a, err := w.flow.Resume(t.Context(), h, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.WaitBound(t.Context()), a.Compose(t.Context())); err != nil {
			t.Fatal(err)
		}
		w.checkPromise(t, a.Result(), nil)

		for _, classes := range h.Claimed {
			delete(classes, sharedMemory)
		}
		maps.DeleteFunc(h.Claimed, func(_ string, classes map[string]int) bool { return len(classes) == 0 })
		if _, err := w.flow.Resume(t.Context(), h, nil); !errors.Is(err, spawn.ErrRequest) || !errors.Is(err, matching.ErrNoMapping) {
			t.Errorf("without the memory in the claim: got error %v, want ErrRequest and ErrNoMapping", err)
		}
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
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOpts{model: slowModel(tt.delay)})
				data := w.conduct(t, request(tt.profile))
				if pending := w.events.Pending(); pending != 0 {
					t.Errorf("the conductor's side still waits for %d events", pending)
				}
				w.restart(t) // the compute side is another process
				handover, err := parseHandover(data)
				if err != nil {
					t.Fatal(err)
				}
				a, err := w.flow.Resume(t.Context(), handover, nil)
				if err != nil {
					t.Fatal(err)
				}
				err = a.WaitBound(t.Context())
				if err == nil {
					err = a.Compose(t.Context())
				}
				if !errors.Is(err, tt.wantErr) || (err == nil) != (tt.wantErr == nil) {
					t.Errorf("got error %v, want %v", err, tt.wantErr)
				}
				if err != nil {
					if _, leftovers := a.Unwind(t.Context()); len(leftovers) > 0 {
						t.Errorf("left behind: %v", leftovers)
					}
					w.checkPromise(t, nil, err)
					return
				}
				w.checkPromise(t, a.Result(), nil)
			})
		})
	}
}

func TestTheComputeSideKeepsTheAllocationOfARunningInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	plain := flavor("gpu")
	plain.ExtraSpecs = nil
	if _, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plain}); err != nil {
		t.Fatal(err)
	}
	held := w.cloud.Placement.Allocations()
	adding, err := w.flow.BeginAdding(t.Context(), request("gpu"))
	settled(t, err)
	handover, err := parseHandover(conducted(t, adding))
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.flow.Resume(t.Context(), handover, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, leftovers := a.Unwind(t.Context()); len(leftovers) > 0 {
		t.Errorf("left behind: %v", leftovers)
	}
	if diff := cmp.Diff(held, w.cloud.Placement.Allocations()); diff != "" {
		t.Errorf("allocations (-before +after):\n%s", diff)
	}
}

func TestABadHandoverIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	good := string(w.conduct(t, request("gpu")))
	arq, provider := w.cloud.Cyborg.ARQs()[0].UUID, w.cloud.Cyborg.ARQs()[0].DeviceRPUUID
	root := w.cloud.ProviderUUID("cn1")
	tests := map[string]string{
		"no object":          "[" + good + "]",
		"unknown field":      strings.Replace(good, `"host"`, `"hots"`, 1),
		"no host":            strings.Replace(good, `"host":"cn0"`, `"host":""`, 1),
		"instance":           strings.Replace(good, instance, "vm1", 1),
		"ARQ":                strings.Replace(good, arq, "x", 1),
		"profile and ARQs":   strings.Replace(good, `"device_profile":"gpu"`, `"device_profile":""`, 1),
		"alternate's root":   strings.Replace(good, `"root":"`+root, `"root":"x`, 1),
		"no allocations":     strings.Replace(good, `"alternates":[`, `"alternates":[{"root":"`+root+`"},`, 1),
		"image":              strings.Replace(good, `"host":`, `"image":"x","host":`, 1),
		"the same ARQ twice": strings.Replace(good, `"arqs":[`, `"arqs":[{"arq":"`+arq+`","group":0,"device_rp":"`+provider+`"},`, 1),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := parseHandover([]byte(text))
			if !errors.Is(err, spawn.ErrRequest) {
				t.Errorf("got error %v, want ErrRequest", err)
			}
			if name == "profile and ARQs" && !strings.HasSuffix(err.Error(), `device profile "" with 1 ARQ`) {
				t.Errorf("got error %v, want both", err)
			}
			if name == "the same ARQ twice" && !strings.HasSuffix(err.Error(), "names ARQ "+arq+" twice") {
				t.Errorf("got error %v, want what is there twice", err)
			}
		})
	}
	handover, err := parseHandover([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	nameless := handover
	nameless.Profiles = nil
	if _, err := w.flow.Resume(t.Context(), nameless, nil); !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), `device profile "gpu"`) {
		t.Errorf("alternates without profiles: got error %v, want ErrRequest", err)
	}
	if _, err := w.flow.Resume(t.Context(), handover, []byte("<network/>")); !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("bad domain: got error %v, want ErrRequest", err)
	}
}

// The compute side has all that it needs to go to the next host by itself.
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
	if err != nil {
		t.Fatal(err)
	}
	w.connect(t, w.cloud.Provider(t), spawn.WithConfig(spawn.Config{PlacementOrder: true, Compat: compute})) // another process
	a, err := w.flow.Resume(t.Context(), handover, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := w.cloud.Cyborg.ARQs()
	if err := a.Reschedule(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := walk(t.Context(), a.Claim, a.CreateARQs, a.Match, a.Bind, a.WaitBound, a.Compose); err != nil {
		t.Fatal(err)
	}
	if a.Host == handover.Host || len(a.ARQs) != len(old) || len(a.Ports) != 1 || (a.ARQs[0].UUID == old[0].UUID) != compute.Rebind {
		t.Errorf("on host %s with %d ARQs and %d ports, before %s with %d", a.Host, len(a.ARQs), len(a.Ports), handover.Host, len(old))
	}
	w.checkPromise(t, a.Result(), nil)
	if err := a.Reschedule(t.Context()); !errors.Is(err, spawn.ErrNoAlternate) {
		t.Errorf("no third host: error %v, want ErrNoAlternate", err)
	}
}

// As Nova's conductor, the handover gives as many alternates as may be tried.
func TestAHandoverHasTheAlternatesThatMayBeTried(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]int{1: 0, 2: 1, 3: 2, 9: 3} {
		model := simcloud.ScaleModel(4, 2)
		w := newWorld(t, worldOpts{model: &model, config: spawn.Config{MaxAttempts: attempts}})
		req := request("gpu")
		req.Ports = []spawn.Port{acceleratedPort(port1, "gpu", "52:54:00:1e:59:c3")}
		handover, err := parseHandover(w.conduct(t, req))
		if err != nil {
			t.Fatal(err)
		}
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
