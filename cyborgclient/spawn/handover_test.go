package spawn_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// conduct walks the conductor's side and returns the JSON that it passes on.
func (w *world) conduct(t *testing.T, req spawn.Request) []byte {
	t.Helper()
	a, err := w.flow.Begin(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Handover(); !errors.Is(err, spawn.ErrOrder) {
		t.Errorf("handover before the bind: got error %v, want ErrOrder", err)
	}
	for _, step := range []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind,
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	handover, err := a.Handover()
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
				a, err := w.flow.Resume(handover, nil)
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
	req := request("gpu")
	req.Running = true
	handover, err := parseHandover(w.conduct(t, req))
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.flow.Resume(handover, nil)
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
	arq := w.cloud.Cyborg.ARQs()[0].UUID
	tests := map[string]string{
		"no object":          "[" + good + "]",
		"unknown field":      strings.Replace(good, `"host"`, `"hots"`, 1),
		"no host":            strings.Replace(good, `"host":"cn0"`, `"host":""`, 1),
		"instance":           strings.Replace(good, instance, "vm1", 1),
		"ARQ":                strings.Replace(good, arq, "x", 1),
		"profile and ARQs":   strings.Replace(good, `"device_profile":"gpu"`, `"device_profile":""`, 1),
		"the same ARQ twice": strings.Replace(good, `"arqs":[`, `"arqs":[{"arq":"`+arq+`","group":0,"device_rp":"`+instance+`"},`, 1),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if text == good {
				t.Fatal("the case changes nothing")
			}
			if _, err := parseHandover([]byte(text)); !errors.Is(err, spawn.ErrRequest) {
				t.Errorf("got error %v, want ErrRequest", err)
			}
		})
	}
	handover, err := parseHandover([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.flow.Resume(handover, []byte("<network/>")); !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("bad domain: got error %v, want ErrRequest", err)
	}
}
