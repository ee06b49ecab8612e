package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// slowModel binds after a delay. Cyborg's own bind timeout is longer.
func slowModel(delay time.Duration) *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.BindDelay, model.Cyborg.BindTimeout = delay, time.Hour
	return &model
}

func TestTheBindingTimeoutCountsFromTheEndOfTheBind(t *testing.T) {
	t.Parallel()
	const slowPatch = 40 * time.Second // must not count
	tests := []struct {
		name   string
		config spawn.Config
		delay  time.Duration
		poll   bool
		wantOK bool
	}{
		{"299 s", spawn.Config{}, 299 * time.Second, false, true},
		{"301 s", spawn.Config{}, 301 * time.Second, false, false},
		{"299 s polled", spawn.Config{}, 299 * time.Second, true, true},
		{"301 s polled", spawn.Config{}, 301 * time.Second, true, false},
		{"configured, within", spawn.Config{ARQBindingTimeout: 10 * time.Second}, 9 * time.Second, false, true},
		{"configured, over", spawn.Config{ARQBindingTimeout: 10 * time.Second}, 11 * time.Second, false, false},
		{"301 s resolved by the server", spawn.Config{Compat: spawn.Compat{ResolvedByServer: true}}, 301 * time.Second, true, false},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: slowModel(tt.delay + slowPatch), config: tt.config, poll: tt.poll})
			w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Delay, When: fault.After, Delay: slowPatch})
			result, err := w.flow.Run(t.Context(), request("mixed"))
			if (err == nil) != tt.wantOK {
				t.Errorf("got error %v, want success %v", err, tt.wantOK)
			}
			if err != nil {
				checkTimeout(t, err, 4)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// A Cyborg that no longer answers does not prolong the wait by more than the last read.
func TestTheBindingTimeoutIncludesASilentCyborg(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(time.Hour), config: spawn.Config{ARQBindingTimeout: 20 * time.Second}})
		a := w.arqsFor(t, request("gpu"))
		bound := time.Now()
		w.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Delay, Delay: time.Hour, Times: -1})
		err := a.WaitBound(t.Context())
		if took := time.Since(bound); !errors.Is(err, externalevent.ErrTimeout) || took > 30*time.Second {
			t.Errorf("it ended after %v: %v", took, err)
		}
		settled(t, w.cloud.Faults().Set())
		if _, left := a.Unwind(t.Context()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func checkTimeout(t *testing.T, err error, arqs int) {
	t.Helper()
	var notBound *spawn.NotBoundError
	if !errors.As(err, &notBound) || !errors.Is(err, spawn.ErrNotBound) || !errors.Is(err, externalevent.ErrTimeout) {
		t.Fatalf("got error %v, want a NotBoundError that is ErrTimeout", err)
	}
	if len(notBound.ARQs) != arqs {
		t.Errorf("the error tells of %d ARQs, want %d", len(notBound.ARQs), arqs)
	}
	for _, arq := range notBound.ARQs {
		if arq.State != cyborgclient.StateBindStarted || notBound.Problems[arq.UUID] == "" || !strings.Contains(err.Error(), arq.UUID) {
			t.Errorf("ARQ not told apart: %+v in %q", arq, err)
		}
	}
}

// With a registry that never receives Nova's events, as next to a real Nova, the polls find the Bound ARQ, even at
// the last moment.
func TestALostEventIsNotALostDevice(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{time.Second, 10 * time.Second, 100 * time.Second, 299 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: slowModel(delay)})
			w.cloud.HandleEvents(http.NotFoundHandler())
			start := time.Now()
			result, err := w.flow.Run(t.Context(), request("gpu"))
			if took := time.Since(start); err != nil || took > 2*delay+time.Second || took > delay+40*time.Second || took > 300*time.Second {
				t.Errorf("bound after %s: got error %v after %s, want success soon after", delay, err, took)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// Polling causes little load: the pauses grow, and the polls of instances that start together spread.
func TestPollsAreFewAndSpread(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"beside events": 20, "without events": 50} {
		bubble(t, name, func(t *testing.T) {
			longest := 38 * time.Second
			if name == "without events" {
				longest = 13 * time.Second
			}
			w := newWorld(t, worldOpts{model: slowModel(time.Hour), poll: name == "without events"})
			var done sync.WaitGroup
			const spawns = 4
			for i := range spawns {
				done.Go(func() {
					req := request("vgpu") // a provider has room for all
					req.Instance = fmt.Sprintf("2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2c%03d", i)
					if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, externalevent.ErrTimeout) {
						t.Errorf("got error %v, want the timeout", err)
					}
				})
			}
			done.Wait()
			if n := w.lists(); n > spawns*most {
				t.Errorf("%d lists of ARQs, want at most %d of each wait", n, most)
			}
			at, last := map[time.Time]int{}, map[string]time.Time{}
			for _, r := range w.cloud.Requests() {
				if strings.Contains(r.Query, "bind_state") {
					t.Errorf("a filter of the server's without Compat.ResolvedByServer: %s", r.Query)
				}
				d := r.Started.Sub(w.cloud.Requests()[0].Started)
				if r.Operation == fault.ARQList {
					if pause := r.Started.Sub(last[r.Query]); pause > longest && !last[r.Query].IsZero() {
						t.Errorf("a pause of %s", pause)
					}
					if last[r.Query].Equal(r.Started) && d < 300*time.Second { // after the timeout the unwinding asks
						t.Errorf("asked twice at %s", r.Started)
					}
					last[r.Query] = r.Started
				}
				if r.Operation == fault.ARQList && d > 0 && d < 290*time.Second {
					at[r.Started]++
				}
			}
			for when, n := range at {
				if n > 1 {
					t.Errorf("%d lists at %s", n, when)
				}
			}
		})
	}
}

// The wait continues while Cyborg answers with errors or not at all.
func TestAnOutageDuringTheWait(t *testing.T) {
	t.Parallel()
	tests := map[string]fault.Rule{
		"500":       {Action: fault.Status, Status: 500, Times: 3},
		"503":       {Action: fault.Status, Status: 503, Times: 9},
		"dropped":   {Action: fault.Drop, Times: 9},
		"truncated": {Action: fault.Truncate, Times: 3},
		"silent":    {Action: fault.Delay, Delay: 10 * time.Hour, Times: 2},
	}
	for name, rule := range tests {
		for _, poll := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s/poll=%t", name, poll), func(t *testing.T) {
				w := newWorld(t, worldOpts{model: slowModel(10 * time.Second), poll: poll})
				ofLists := rule
				ofLists.Operation = fault.ARQList
				w.fail(t, ofLists)
				start := time.Now()
				result, err := w.flow.Run(t.Context(), request("mixed"))
				if took := time.Since(start); err != nil || took > 2*time.Minute {
					t.Errorf("got error %v after %s, want success", err, took)
				}
				w.checkPromise(t, result, err)
			})
		}
	}
}

func TestARefusedEventIsSettledByAGet(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.StrictInstances = true // the instance is unknown to Nova: 404 for the event, 400 for the PATCH
	w := newWorld(t, worldOpts{model: &model})
	result := w.spawned(t, request("mixed"))
	bind := result.Trace[7]
	if bind.Step != spawn.StepBind || bind.Requests[0].Status != http.StatusBadRequest || !strings.Contains(bind.Decision, "refused the event") {
		t.Errorf("the trace does not have the refused event: %+v", bind)
	}
}

// The error of a canceled wait has the states at the cancellation, not the states of the last poll.
func TestACancelledWaitReadsTheStatesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(41 * time.Second)})
		w.cloud.HandleEvents(http.NotFoundHandler())
		w.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status})
		ctx, cancel := context.WithTimeout(t.Context(), 42*time.Second)
		defer cancel()
		_, err := w.flow.Run(ctx, request("vgpu"))
		var notBound *spawn.NotBoundError
		if !errors.As(err, &notBound) || !errors.Is(err, context.DeadlineExceeded) || notBound.ARQs[0].State != cyborgclient.StateBindFailed {
			t.Errorf("got %v, want the deadline with the state BindFailed", err)
		}
	})
}

func TestACancelledWaitReportsTheStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(100 * time.Second)})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		result, err := w.flow.Run(ctx, request("gpu"))
		var notBound *spawn.NotBoundError
		if !errors.As(err, &notBound) || !errors.Is(err, context.DeadlineExceeded) || notBound.ARQs[0].State != cyborgclient.StateBindStarted {
			t.Errorf("got %v, want the deadline with the state BindStarted", err)
		}
		w.checkPromise(t, result, err)
	})
}
