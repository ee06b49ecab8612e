package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// progress collects the reports of an observer, one line each.
type progress struct {
	mu    sync.Mutex
	lines []string
	at    []time.Time
}

func (p *progress) observe(_ context.Context, e spawn.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Step, e.Event, e.Text))
	if e.Err != nil && e.Event != spawn.ProgressLeft {
		line += ": " + e.Err.Error()
	}
	p.lines, p.at = append(p.lines, line), append(p.at, time.Now())
}

// observed replaces the flow with one that has an observer.
func (w *world) observed(t *testing.T, opts ...spawn.Option) *progress {
	t.Helper()
	p := &progress{}
	flow, err := spawn.New(w.cyborg, w.placement(t), append(opts, spawn.WithEvents(w.events), spawn.WithObserver(p.observe))...)
	settled(t, err)
	w.flow = flow
	return p
}

func TestTheLogHasNoToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		w := newWorld(t, worldOpts{model: raceModel(1, 1)})
		w.observed(t, spawn.WithLogger(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		w.fail(t,
			fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500},
			fault.Rule{Operation: fault.ARQDelete, Action: fault.Status, Status: 500, Times: -1},
		)
		if _, err := w.flow.Run(t.Context(), request("gpu")); err == nil {
			t.Fatal("no error")
		}
		service, err := w.cloud.ServiceToken(t.Context())
		settled(t, err)
		for _, token := range []string{service, w.cloud.Provider(t).Token()} {
			if strings.Contains(text.String(), token) {
				t.Error("the log has a token")
			}
		}
		for _, want := range []string{
			`level=DEBUG msg="step begins" instance=` + instance + " step=profile\n",
			`level=INFO msg="step ended" instance=` + instance + ` host=cn0 step=claim text="host cn0, 2 providers"`,
			`level=WARN msg="step failed" instance=` + instance + " host=cn0 step=bind",
			`level=WARN msg="trying again" instance=` + instance + " host=cn0 step=unwind duration=",
			`level=ERROR msg="not cleaned up" instance=` + instance + ` host=cn0 step=unwind text="arq `,
			`level=INFO msg=undone instance=` + instance + ` host=cn0 step=unwind text="allocation ` + instance + `"`,
		} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, text.String())
			}
		}
	})
}

func TestAnUnknownStepIsItsNumber(t *testing.T) {
	t.Parallel()
	for step, want := range map[spawn.Step]string{0: "step 0", spawn.StepProfile: "profile", spawn.StepStart: "start", spawn.StepStart + 1: "step 15", -1: "step -1"} {
		if got := step.String(); got != want {
			t.Errorf("step %d: got %q, want %q", int(step), got, want)
		}
	}
}

// An observer that panics does not stop the unwinding. The first stage destroys the guest, because a running guest
// must not lose its devices.
func TestAnObserverThatPanicsDoesNotSpareTheGuest(t *testing.T) {
	t.Parallel()
	for _, stage := range []spawn.LeftoverKind{spawn.LeftoverGuest, spawn.LeftoverARQ, spawn.LeftoverAllocation} {
		for way, leave := range departures() {
			t.Run(string(stage)+"/"+way, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, worldOpts{})
				w.observed(t, spawn.WithObserver(func(_ context.Context, p spawn.Progress) {
					if p.Event == spawn.ProgressStage && p.Text == string(stage) {
						leave()
					}
				}))
				destroyed := 0
				guests := &guestFuncs{
					start: func(_ context.Context, g sim.Guest) error { return errors.Join(errHook, w.cloud.DefineGuest(g)) },
					destroy: func(_ context.Context, g sim.Guest) error {
						destroyed++
						if bound := len(w.cloud.Cyborg.ARQs()); bound != 1 {
							t.Errorf("%d ARQs while the guest was destroyed, want 1", bound)
						}
						w.cloud.RemoveGuest(g.UUID)
						return nil
					},
				}
				depart(t, way, func() { _, _ = w.flow.On(guests).Run(t.Context(), request("gpu")) })
				if destroyed == 0 {
					t.Error("the guest was not destroyed")
				}
				w.cloud.CheckNoLeaks(t)
			})
		}
	}
}

func TestAnObserverThatPanicsLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []spawn.ProgressEvent{spawn.ProgressBegin, spawn.ProgressEnd, spawn.ProgressStage, spawn.ProgressUndone} {
		for _, step := range []spawn.Step{spawn.StepBind, spawn.StepUnwind} {
			w := newWorld(t, worldOpts{model: raceModel(1, 1)})
			w.observed(t, spawn.WithObserver(func(_ context.Context, p spawn.Progress) {
				if p.Event == at && p.Step == step {
					panic("observer")
				}
			}))
			w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 403})
			func() {
				defer func() { _ = recover() }()
				_, _ = w.flow.Run(t.Context(), request("gpu"))
			}()
			w.cloud.CheckNoLeaks(t)
		}
	}
}
