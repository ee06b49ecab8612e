package externalevent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

const timeout = 300 * time.Second

// after delivers an event at a time of the bubble.
func after(r *externalevent.Registry, d time.Duration, e externalevent.Event) {
	go func() {
		time.Sleep(d)
		r.Deliver(e)
	}()
}

func texts(states []externalevent.EventState) []string {
	list := []string{}
	for _, s := range states {
		list = append(list, s.String())
	}
	return list
}

// wantStates checks that err is a WaitError of kind with the given texts.
func wantStates(t *testing.T, err, kind error, want ...string) {
	t.Helper()
	var wait *externalevent.WaitError
	if !errors.Is(err, kind) || !errors.As(err, &wait) || wait.Instance != instance {
		t.Fatalf("error = %v; want a WaitError of instance %s that is %v", err, instance, kind)
	}
	if diff := cmp.Diff(want, texts(wait.Events)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

const (
	bound1 = "accelerator-request-bound-" + arq1
	bound2 = "accelerator-request-bound-" + arq2
	bound3 = "accelerator-request-bound-" + arq3
	bound4 = "accelerator-request-bound-" + arq4
	bound5 = "accelerator-request-bound-" + arq5
)

// inBubble runs a test with virtual time and a waiter for the tags.
func inBubble(t *testing.T, tags []string, test func(*testing.T, *externalevent.Registry, *externalevent.Waiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		test(t, r, prepare(t, r, tags...))
	})
}

// arrival is an event that comes at a time of the bubble.
type arrival struct {
	tag    string
	at     time.Duration
	status externalevent.Status
}

// waitRow is one Wait: its events, the events that are early, those that come, and how it ends.
type waitRow struct {
	row    string
	tags   []string
	early  []string
	comes  []arrival
	limit  time.Duration
	want   error
	took   time.Duration
	states []string
}

// run returns the states at the end.
func (tt waitRow) run(t *testing.T) (states []externalevent.EventState) {
	t.Helper()
	inBubble(t, tt.tags, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		for _, a := range tt.comes {
			if a.at == 0 {
				r.Deliver(bound(a.tag, a.status))
				continue
			}
			after(r, a.at, bound(a.tag, a.status))
		}
		w.Early(tt.early...)
		start := time.Now()
		err := w.Wait(t.Context(), tt.limit)
		if took := time.Since(start); !errors.Is(err, tt.want) || took != tt.took {
			t.Errorf("got error %v after %s, want %v after %s", err, took, tt.want, tt.took)
		}
		if tt.want != nil {
			wantStates(t, err, tt.want, tt.states...)
		}
		states = w.States()
		if failure := new(externalevent.WaitError); errors.As(err, &failure) {
			if diff := cmp.Diff(states, failure.Events); diff != "" {
				t.Errorf("states in the error (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff(tt.states, texts(states)); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		w.Close()
		wantPending(t, r, 0)
		time.Sleep(timeout) // until all events were sent
	})
	return states
}

func TestWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []waitRow{
		{row: "it ends when all events are completed", tags: []string{arq1, arq2, arq3},
			comes: []arrival{{arq3, 0, "completed"}, {arq1, 299 * time.Second, "completed"}, {arq2, 10 * time.Second, ""}},
			limit: timeout, took: 299 * time.Second, states: []string{bound1 + ": received after waiting 299.00 seconds",
				bound2 + ": received after waiting 0.00 seconds", bound3 + ": received after waiting 0.00 seconds"}},
		{row: "it times out at the timeout", tags: []string{arq1, arq2}, comes: []arrival{{arq1, 301 * time.Second, "completed"}},
			limit: timeout, want: externalevent.ErrTimeout, took: timeout,
			states: []string{bound1 + ": timed out after 300.00 seconds", bound2 + ": expected but not received"}},
		{row: "without time left an arrived event times out", tags: []string{arq1, arq2}, comes: []arrival{{arq1, 0, "completed"}},
			want: externalevent.ErrTimeout, states: []string{bound1 + ": received but not processed", bound2 + ": expected but not received"}},
		{row: "the timeout is for all events together", tags: []string{arq1, arq2},
			comes: []arrival{{arq1, 200 * time.Second, "completed"}, {arq2, 400 * time.Second, "completed"}},
			limit: timeout, want: externalevent.ErrTimeout, took: timeout,
			states: []string{bound1 + ": received after waiting 200.00 seconds", bound2 + ": timed out after 100.00 seconds"}},
	} {
		t.Run(tt.row, func(t *testing.T) {
			t.Parallel()
			tt.run(t)
		})
	}
}

func TestTimeoutListsTheFiveStates(t *testing.T) {
	t.Parallel()
	states := waitRow{tags: []string{arq1, arq2, arq3, arq4, arq5}, early: []string{arq2},
		comes: []arrival{{arq1, 1250 * time.Millisecond, "completed"}, {arq4, 0, "failed"}}, limit: timeout,
		want: externalevent.ErrTimeout, took: timeout, states: []string{
			bound1 + ": received after waiting 1.25 seconds", bound2 + ": received early",
			bound3 + ": timed out after 298.75 seconds", bound4 + ": received but not processed", bound5 + ": expected but not received",
		}}.run(t)
	want := externalevent.EventState{Name: externalevent.ARQBound, Tag: arq1, State: externalevent.StateReceived,
		Waited: 1250 * time.Millisecond, Status: externalevent.StatusCompleted}
	if diff := cmp.Diff(want, states[0]); diff != "" {
		t.Errorf("first state as data (-want +got):\n%s", diff)
	}
}

func TestTheTimeoutCountsFromWait(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1}, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		after(r, 500*time.Second, completed(arq1))
		time.Sleep(400 * time.Second)
		if err := w.Wait(t.Context(), timeout); err != nil {
			t.Error(err)
		}
	})
}

func TestAnyOtherStatusThanCompletedFails(t *testing.T) {
	t.Parallel()
	for _, status := range []externalevent.Status{"failed", "in-progress", "ok"} {
		states := waitRow{tags: []string{arq1, arq2}, comes: []arrival{{arq1, 3 * time.Second, status}}, limit: timeout,
			want: externalevent.ErrFailed, took: 3 * time.Second,
			states: []string{bound1 + ": received after waiting 3.00 seconds", bound2 + ": expected but not received"}}.run(t)
		if states[0].Status != status {
			t.Errorf("status = %q, want %q", states[0].Status, status)
		}
	}
}

func TestEarlyEventsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1, arq2}, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		w.Early(arq1, "a tag of another waiter", arq2)
		w.Early(arq1)
		start := time.Now()
		if err := w.Wait(t.Context(), 0); err != nil || time.Since(start) != 0 {
			t.Errorf("Wait = %v after %s; want nothing at once", err, time.Since(start))
		}
		wantPending(t, r, 2) // until the waiter is closed, so that late events are no surprise
		w.Close()
		wantPending(t, r, 0)
	})
}

func TestEarlyEndsWaitingForTheEvent(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1}, func(t *testing.T, _ *externalevent.Registry, w *externalevent.Waiter) {
		go func() {
			time.Sleep(5 * time.Second)
			w.Early(arq1)
		}()
		start := time.Now()
		if err := w.Wait(t.Context(), timeout); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("Wait = %v after %s; want nothing after 5s", err, time.Since(start))
		}
	})
}

func TestEarlyAfterATimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1, arq2}, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		if err := w.Wait(t.Context(), time.Second); !errors.Is(err, externalevent.ErrTimeout) {
			t.Fatal(err)
		}
		w.Early(arq1)
		time.AfterFunc(5*time.Second, func() { r.Deliver(bound(arq2, "")) })
		start := time.Now()
		if err := w.Wait(t.Context(), timeout); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("Wait = %v after %s; want nothing after 5s", err, time.Since(start))
		}
	})
}

func TestEarlyAfterTheEventIsWithoutEffect(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1}, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		r.Deliver(bound(arq1, externalevent.StatusFailed))
		if err := w.Wait(t.Context(), timeout); !errors.Is(err, externalevent.ErrFailed) {
			t.Fatal(err)
		}
		w.Early(arq1)
		wantStates(t, w.Wait(t.Context(), timeout), externalevent.ErrFailed, bound1+": received after waiting 0.00 seconds")
	})
}

func TestWaitWithoutEventsReturnsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := prepare(t, externalevent.NewRegistry()).Wait(ctx, 0); err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user pressed a key")
	tests := map[string]struct {
		ctx  func(context.Context) (context.Context, func())
		want []error
	}{
		"deadline": {func(c context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(c, 7*time.Second)
			return ctx, cancel
		}, []error{context.DeadlineExceeded}},
		"cancel with a cause": {func(c context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(c)
			time.AfterFunc(7*time.Second, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, []error{context.Canceled, cause}},
	}
	for name, tt := range tests {
		inBubble(t, []string{arq1}, func(t *testing.T, _ *externalevent.Registry, w *externalevent.Waiter) {
			ctx, cancel := tt.ctx(t.Context())
			defer cancel()
			start := time.Now()
			err := w.Wait(ctx, timeout)
			if took := time.Since(start); took != 7*time.Second {
				t.Errorf("%s: Wait took %s, want 7s", name, took)
			}
			for _, want := range tt.want {
				wantStates(t, err, want, bound1+": expected but not received")
			}
		})
	}
}

func TestAnArrivedEventTakesPrecedenceOverACancelledContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1)
		r.Deliver(completed(arq1))
		if err := w.Wait(ctx, timeout); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClosingTheWaiterEndsItsWait(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1}, func(t *testing.T, _ *externalevent.Registry, w *externalevent.Waiter) {
		go func() {
			time.Sleep(time.Second)
			w.Close()
		}()
		wantStates(t, w.Wait(t.Context(), timeout), externalevent.ErrClosed, bound1+": expected but not received")
	})
}

func TestClosingTheRegistryFailsEveryWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		errs := make(chan error)
		for range 3 {
			w := prepare(t, r, arq1, arq2)
			go func() { errs <- w.Wait(t.Context(), timeout) }()
		}
		synctest.Wait()
		start := time.Now()
		r.Close()
		for range 3 {
			err := <-errs
			wantStates(t, err, externalevent.ErrFailed,
				bound1+": received after waiting 0.00 seconds", bound2+": received but not processed")
			if !errors.Is(err, externalevent.ErrClosed) {
				t.Errorf("got error %v, want ErrClosed", err)
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("the waits ended %s after Close", time.Since(start))
		}
	})
}

func TestClearDoesNotWakeTheWait(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1}, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		go func() {
			time.Sleep(time.Second)
			r.Clear(instance)
			r.Deliver(completed(arq1))
		}()
		wantStates(t, w.Wait(t.Context(), timeout), externalevent.ErrTimeout, bound1+": timed out after 300.00 seconds")
	})
}

func TestStatesWhileWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1}, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		done := make(chan error)
		go func() { done <- w.Wait(t.Context(), timeout) }()
		synctest.Wait()
		if diff := cmp.Diff([]string{bound1 + ": waiting"}, texts(w.States())); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		r.Deliver(completed(arq1))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWaitAgainAfterATimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, []string{arq1, arq2}, func(t *testing.T, r *externalevent.Registry, w *externalevent.Waiter) {
		r.Deliver(completed(arq1))
		after(r, 350*time.Second, completed(arq2))
		if err := w.Wait(t.Context(), timeout); !errors.Is(err, externalevent.ErrTimeout) {
			t.Fatal(err)
		}
		if err := w.Wait(t.Context(), timeout); err != nil {
			t.Error(err)
		}
	})
}
