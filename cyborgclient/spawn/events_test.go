package spawn_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// eventForms are the values of fakecyborg.Config.EventForm.
var eventForms = []fakecyborg.EventForm{fakecyborg.EventFormShipped, fakecyborg.EventFormTrain, fakecyborg.EventFormUssuri}

// eventWorld is a slow world whose Cyborg sends one form of event, and whose registry accepts it.
func eventWorld(t *testing.T, form fakecyborg.EventForm, opts worldOpts) *world {
	t.Helper()
	if opts.model == nil {
		opts.model = slowModel(10 * time.Second)
	}
	opts.model.Cyborg.EventForm = form
	w := newWorld(t, opts)
	w.events = externalevent.NewRegistry(externalevent.WithAccept(externalevent.ARQResolved, externalevent.ARQsBound))
	w.cloud.HandleEvents(w.events.Handler())
	w.connect(t, w.cloud.Provider(t), spawn.WithConfig(opts.config))
	return w
}

// knownARQs returns the ARQs of request("mixed") in a world with the default seed.
func knownARQs(t *testing.T) []cyborgclient.ARQ {
	t.Helper()
	w := newWorld(t, worldOpts{})
	result, err := w.flow.Run(t.Context(), request("mixed"))
	settled(t, err)
	return result.ARQs
}

// TestEventsOnTheirWay spawns while events are lost, late or reordered between Cyborg and the registry, in each form.
// The ARQs are Bound after 10 s. An event only makes the flow notice sooner: the polls find the Bound ARQs without
// it.
func TestEventsOnTheirWay(t *testing.T) {
	t.Parallel()
	const (
		bound  = 10 * time.Second
		polled = 20 * time.Second // the poll after it
	)
	tests := []struct {
		name string
		rule fault.Rule // for the first event, or for all events if it has Times
		by   time.Duration
	}{
		{"all well", fault.Rule{}, bound},
		{"one lost", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Drop}, polled},
		{"all lost before Nova", fault.Rule{Operation: fault.EventSend, Action: fault.Drop, Times: -1}, polled},
		{"all lost after Nova", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Drop, Times: -1}, polled},
		{"one late", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Delay, Delay: 100 * time.Second}, polled},
		{"one later than the timeout", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Delay, Delay: 400 * time.Second}, polled},
		{"one twice", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Duplicate}, bound},
		{"all twice", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Duplicate, Times: -1}, bound},
		{"one last", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Reorder}, bound},
		{"backwards", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Reorder, Times: -1}, bound},
		{"one says failed", fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Status}, bound + time.Second}, // in Train's form it comes while others are on their way
	}
	for _, form := range eventForms {
		for _, tt := range tests {
			bubble(t, string(form)+"/"+tt.name, func(t *testing.T) {
				first := knownARQs(t)[0].UUID
				if form == "ussuri" {
					first = "mixed"
				}
				w := eventWorld(t, form, worldOpts{})
				if tt.rule.Times == 0 {
					tt.rule.Subject = first
				}
				if tt.rule.Action != "" {
					w.fail(t, tt.rule)
				}
				start := time.Now()
				result, err := w.flow.Run(t.Context(), request("mixed"))
				if took := time.Since(start); err != nil || took < bound || took > tt.by {
					t.Errorf("got error %v after %s, want success after %s to %s", err, took, bound, tt.by)
				}
				if err == nil && strings.HasSuffix(result.Trace[8].Decision, " before the wait; not every event came") != (tt.by == polled) {
					t.Errorf("decision %q", result.Trace[8].Decision)
				}
				for _, rule := range w.cloud.Faults().Rules() {
					if rule.Hits == 0 {
						t.Errorf("the fault never struck: %+v", rule.Rule)
					}
				}
				time.Sleep(500 * time.Second) // whatever is still on its way changes nothing
				w.checkPromise(t, result, err)
			})
		}
	}
}

// TestForgedEvents sends events that Cyborg did not send. The flow trusts only Cyborg's states.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	const other = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b0ff"
	tests := []struct {
		name   string
		server string
		status externalevent.Status
		arqs   int // of the instance, from the first on
		at     []time.Duration
	}{
		{"one failed", instance, externalevent.StatusFailed, 1, []time.Duration{3 * time.Second}},
		{"all failed", instance, externalevent.StatusFailed, 4, []time.Duration{3 * time.Second}},
		{"one in progress", instance, externalevent.StatusInProgress, 1, []time.Duration{3 * time.Second}},
		{"one completed", instance, externalevent.StatusCompleted, 1, []time.Duration{3 * time.Second}},
		{"all completed", instance, externalevent.StatusCompleted, 4, []time.Duration{3 * time.Second}},
		{"before the wait", instance, externalevent.StatusFailed, 4, []time.Duration{0}},
		{"again and again", instance, externalevent.StatusFailed, 4, repeated(10*time.Millisecond, 1000)},
		{"of another instance", other, externalevent.StatusFailed, 4, []time.Duration{3 * time.Second}},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			ours := knownARQs(t)
			w := eventWorld(t, "shipped", worldOpts{})
			req := request("mixed")
			req.Hooks.Claim = func(context.Context, *spawn.Attempt) error { // after the bind, before the wait
				go func() {
					for _, at := range tt.at {
						time.Sleep(at)
						for _, arq := range ours[:tt.arqs] {
							w.events.Deliver(externalevent.Event{Name: externalevent.ARQBound, ServerUUID: tt.server, Tag: arq.UUID, Status: tt.status})
						}
					}
				}()
				synctest.Wait()
				return nil
			}
			start := time.Now()
			result, err := w.flow.Run(t.Context(), req)
			if took := time.Since(start); err != nil || took < 10*time.Second || took > 20*time.Second {
				t.Errorf("got error %v after %s, want success soon after 10 s", err, took)
			}
			if n := w.lists(); n > 12 {
				t.Errorf("%d lists of ARQs within 20 s", n)
			}
			w.checkPromise(t, result, err)
		})
	}
}

func repeated(d time.Duration, n int) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }

// lists counts the lists of the ARQs of an instance.
func (w *world) lists() int { return w.count(fault.ARQList) }

// A failed bind is never a success, in any form of the event.
func TestAFailedBindFailsInEachForm(t *testing.T) {
	t.Parallel()
	for _, form := range eventForms {
		synctest.Test(t, func(t *testing.T) {
			w := eventWorld(t, form, worldOpts{config: spawn.Config{MaxAttempts: 1}})
			w.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status})
			result, err := w.flow.Run(t.Context(), request("mixed"))
			var notBound *spawn.NotBoundError
			if !errors.As(err, &notBound) || !errors.Is(err, spawn.ErrNotBound) || !errors.Is(err, externalevent.ErrFailed) || !strings.Contains(err.Error(), "BindFailed") {
				t.Fatalf("%s: got error %v, want the failed event and the ARQ BindFailed", form, err)
			}
			failed := slices.DeleteFunc(slices.Clone(notBound.ARQs), func(arq cyborgclient.ARQ) bool { return arq.State != cyborgclient.StateBindFailed })
			if len(failed) != 1 || !strings.HasPrefix(notBound.Problems[failed[0].UUID], "not Bound: the log of Cyborg's agent") {
				t.Errorf("%s: the ARQs %v are reported as BindFailed with the problems %v, want one with the log", form, failed, notBound.Problems)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// Cyborg's own filter, which answers 423 while an ARQ is unresolved, works like the filter of the library, with and
// without events.
func TestResolvedByTheServer(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]bool{"events": false, "polling": true} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: slowModel(10 * time.Second), poll: poll, config: spawn.Config{Compat: spawn.Compat{ResolvedByServer: true}}})
			result, err := w.flow.Run(t.Context(), request("mixed"))
			settled(t, err)
			locked := slices.ContainsFunc(w.cloud.Requests(), func(r sim.Exchange) bool {
				return r.Status == http.StatusLocked && strings.Contains(r.Query, "bind_state=resolved")
			})
			if !locked {
				t.Error("the server was never asked for resolved ARQs")
			}
			w.checkPromise(t, result, err)
		})
	}
}

// A registry that is closed ends the waits, as Nova's does at its shutdown.
func TestAClosedRegistryEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(10 * time.Second)})
		time.AfterFunc(3*time.Second, w.events.Close)
		start := time.Now()
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if took := time.Since(start); !errors.Is(err, externalevent.ErrClosed) || took != 3*time.Second {
			t.Errorf("got error %v after %s, want ErrClosed after 3 s", err, took)
		}
		w.checkPromise(t, result, err)
	})
}
