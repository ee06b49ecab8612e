package externalevent_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

const (
	instance  = "3f6c9a0e-6d0f-4d0e-9a52-0d4cf4a1c001"
	instance2 = "3f6c9a0e-6d0f-4d0e-9a52-0d4cf4a1c002"
	arq1      = "aaaaaaaa-0000-4000-8000-000000000001"
	arq2      = "aaaaaaaa-0000-4000-8000-000000000002"
	arq3      = "aaaaaaaa-0000-4000-8000-000000000003"
	arq4      = "aaaaaaaa-0000-4000-8000-000000000004"
	arq5      = "aaaaaaaa-0000-4000-8000-000000000005"
)

func bound(tag string, status externalevent.Status) externalevent.Event {
	return externalevent.Event{Name: externalevent.ARQBound, ServerUUID: instance, Tag: tag, Status: status}
}

func completed(tag string) externalevent.Event { return bound(tag, externalevent.StatusCompleted) }

func prepare(t testing.TB, r *externalevent.Registry, tags ...string) *externalevent.Waiter {
	t.Helper()
	w, err := r.Prepare(instance, tags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func wantPending(t testing.TB, r *externalevent.Registry, want int) {
	t.Helper()
	if got := r.Pending(); got != want {
		t.Errorf("%d events pending, want %d", got, want)
	}
}

func TestUnexpectedEventsAreDroppedWithAWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := externalevent.NewRegistry(externalevent.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	prepare(t, r, arq1)
	foreign := completed(arq1)
	foreign.ServerUUID = instance2
	unknown := completed(arq1)
	unknown.Name = "arq_resolved"
	for name, e := range map[string]externalevent.Event{
		"another tag": completed(arq2), "another instance": foreign, "an unknown name": unknown, "no tag": completed(""),
	} {
		log.Reset()
		if r.Deliver(e) {
			t.Errorf("%s: the event was taken", name)
		}
		if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), e.Name+"-"+e.Tag) {
			t.Errorf("%s: log %q has no warning with the event", name, log.String())
		}
	}
	wantPending(t, r, 1)
}

func TestADroppedEventIsNotKeptForLater(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	r.Deliver(completed(arq1))
	w := prepare(t, r, arq1)
	if err := w.Wait(t.Context(), 0); !errors.Is(err, externalevent.ErrTimeout) {
		t.Errorf("Wait = %v; want ErrTimeout", err)
	}
}

func TestAnEventIsReceivedOnce(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	prepare(t, r, arq1)
	if !r.Deliver(completed(arq1)) || r.Deliver(bound(arq1, externalevent.StatusFailed)) {
		t.Error("want the first event taken and its duplicate dropped")
	}
	wantPending(t, r, 0)
}

func TestUUIDsMatchInAnyCase(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	prepare(t, r, arq1)
	e := completed(strings.ToUpper(arq1))
	e.ServerUUID = strings.ToUpper(e.ServerUUID)
	if !r.Deliver(e) {
		t.Error("the event was dropped")
	}
}

func TestATagGivenTwiceIsOneEvent(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	w := prepare(t, r, arq1, arq2, strings.ToUpper(arq1))
	wantPending(t, r, 2)
	w.Close()
	wantPending(t, r, 0)
}

func TestTwoWaitersShareAnEvent(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	a, b := prepare(t, r, arq1, arq2), prepare(t, r, arq1)
	wantPending(t, r, 2)
	a.Close()
	a.Close()
	wantPending(t, r, 1)
	if !r.Deliver(completed(arq1)) {
		t.Fatal("closing one waiter forgot the event of the other")
	}
	if err := b.Wait(t.Context(), timeout); err != nil {
		t.Errorf("Wait of the other waiter = %v", err)
	}
}

func TestBothSharersReceiveTheEvent(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	a, b := prepare(t, r, arq1), prepare(t, r, arq1)
	r.Deliver(bound(arq1, externalevent.StatusFailed))
	for _, w := range []*externalevent.Waiter{a, b} {
		if err := w.Wait(t.Context(), 1e9); !errors.Is(err, externalevent.ErrFailed) {
			t.Errorf("Wait = %v; want ErrFailed", err)
		}
	}
}

func TestClosingAnOldWaiterLeavesALaterEventOfTheSameKey(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*externalevent.Registry){
		"delivered": func(r *externalevent.Registry) { r.Deliver(completed(arq1)) },
		"cleared":   func(r *externalevent.Registry) { r.Clear(instance) },
	} {
		r := externalevent.NewRegistry()
		old := prepare(t, r, arq1)
		take(r)
		prepare(t, r, arq1)
		old.Close()
		if r.Pending() != 1 || !r.Deliver(completed(arq1)) {
			t.Errorf("%s: closing the old waiter forgot the event of the new one", name)
		}
	}
}

func TestClearForgetsOneInstanceOnly(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	prepare(t, r, arq1, arq2)
	other, err := r.Prepare(instance2, arq3)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if n := r.Clear(strings.ToUpper(instance)); n != 2 {
		t.Errorf("Clear forgot %d events, want 2", n)
	}
	if r.Deliver(completed(arq1)) {
		t.Error("a cleared event was taken")
	}
	wantPending(t, r, 1)
}

func TestAClosedRegistryRefusesNewEvents(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	w := prepare(t, r, arq1)
	r.Close()
	r.Close()
	if _, err := r.Prepare(instance, arq2); !errors.Is(err, externalevent.ErrClosed) ||
		!strings.Contains(err.Error(), "In shutdown, no new events can be scheduled") {
		t.Errorf("Prepare = %v; want ErrClosed with Nova's words", err)
	}
	if r.Deliver(completed(arq1)) {
		t.Error("a closed registry took an event")
	}
	r.Clear(instance)
	if err := w.Wait(t.Context(), 1e9); !errors.Is(err, externalevent.ErrFailed) {
		t.Errorf("Wait = %v; want ErrFailed", err)
	}
	wantPending(t, r, 0)
}

func TestPrepareRefusesEmptyNames(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	if _, err := r.Prepare("", arq1); !errors.Is(err, externalevent.ErrInvalid) {
		t.Errorf("no instance: %v; want ErrInvalid", err)
	}
	if _, err := r.Prepare(instance, arq1, ""); !errors.Is(err, externalevent.ErrInvalid) {
		t.Errorf("empty tag: %v; want ErrInvalid", err)
	}
	wantPending(t, r, 0)
}

func TestParallelUseLosesNoEvent(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	var group sync.WaitGroup
	for i := range 50 {
		server := fmt.Sprintf("server-%d", i%5)
		tag := fmt.Sprintf("arq-%d", i)
		w, err := r.Prepare(server, tag, "shared")
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer w.Close()
			if err := w.Wait(t.Context(), 1<<40); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			r.Deliver(externalevent.Event{Name: externalevent.ARQBound, ServerUUID: server, Tag: tag})
			_, _ = w.States(), r.Pending()
		})
	}
	for i := range 5 {
		group.Go(func() {
			r.Deliver(externalevent.Event{Name: externalevent.ARQBound, ServerUUID: fmt.Sprintf("server-%d", i), Tag: "shared"})
		})
	}
	group.Wait()
	wantPending(t, r, 0)
}

// A model of the registry: which keys are held by which open waiters.
func TestPendingIsWhatOpenWaitersStillExpect(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := externalevent.NewRegistry()
		tags := []string{arq1, arq2, arq3}
		expects := map[*externalevent.Waiter]map[string]bool{}
		open := []*externalevent.Waiter{}
		union := func() map[string]bool {
			all := map[string]bool{}
			for _, w := range open {
				for tag := range expects[w] {
					all[tag] = true
				}
			}
			return all
		}
		rt.Repeat(map[string]func(*rapid.T){
			"prepare": func(rt *rapid.T) {
				chosen := rapid.SliceOfDistinct(rapid.SampledFrom(tags), rapid.ID).Draw(rt, "tags")
				w, err := r.Prepare(instance, chosen...)
				if err != nil {
					rt.Fatal(err)
				}
				expects[w] = map[string]bool{}
				for _, tag := range chosen {
					expects[w][tag] = true
				}
				open = append(open, w)
			},
			"deliver": func(rt *rapid.T) {
				tag := rapid.SampledFrom(tags).Draw(rt, "tag")
				if want, got := union()[tag], r.Deliver(completed(tag)); got != want {
					rt.Fatalf("Deliver(%s) = %v, want %v", tag, got, want)
				}
				for _, w := range open {
					delete(expects[w], tag)
				}
			},
			"close": func(rt *rapid.T) {
				if len(open) == 0 {
					rt.Skip("none open")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(rt, "waiter")
				open[i].Close()
				open = append(open[:i], open[i+1:]...)
			},
			"": func(rt *rapid.T) {
				if got, want := r.Pending(), len(union()); got != want {
					rt.Fatalf("%d pending, want %d", got, want)
				}
			},
		})
	})
}
