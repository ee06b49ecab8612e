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

const bound1, bound2 = "accelerator-request-bound-" + arq1, "accelerator-request-bound-" + arq2

func TestWaitEndsWhenAllEventsAreCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2, arq3)
		r.Deliver(completed(arq3))
		after(r, 299*time.Second, completed(arq1))
		after(r, 10*time.Second, bound(arq2, ""))
		start := time.Now()
		if err := w.Wait(t.Context(), timeout); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 299*time.Second {
			t.Errorf("Wait took %s, want 299s", took)
		}
		want := []string{bound1 + ": received after waiting 299.00 seconds", bound2 + ": received after waiting 0.00 seconds",
			"accelerator-request-bound-" + arq3 + ": received after waiting 0.00 seconds"}
		if diff := cmp.Diff(want, texts(w.States())); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

func TestWaitTimesOutAtTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2)
		after(r, 301*time.Second, completed(arq1))
		start := time.Now()
		err := w.Wait(t.Context(), timeout)
		if took := time.Since(start); took != timeout {
			t.Errorf("Wait took %s, want %s", took, timeout)
		}
		wantStates(t, err, externalevent.ErrTimeout,
			bound1+": timed out after 300.00 seconds", bound2+": expected but not received")
		w.Close()
		wantPending(t, r, 0)
		time.Sleep(2 * time.Second)
	})
}

func TestTimeoutListsTheFiveStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2, arq3, arq4, arq5)
		w.Early(arq2)
		after(r, 1250*time.Millisecond, completed(arq1))
		r.Deliver(bound(arq4, externalevent.StatusFailed))
		err := w.Wait(t.Context(), timeout)
		name := "accelerator-request-bound-"
		wantStates(t, err, externalevent.ErrTimeout,
			name+arq1+": received after waiting 1.25 seconds",
			name+arq2+": received early",
			name+arq3+": timed out after 298.75 seconds",
			name+arq4+": received but not processed",
			name+arq5+": expected but not received")
		var wait *externalevent.WaitError
		errors.As(err, &wait)
		want := externalevent.EventState{Name: externalevent.ARQBound, Tag: arq1, State: externalevent.StateReceived,
			Waited: 1250 * time.Millisecond, Status: externalevent.StatusCompleted}
		if diff := cmp.Diff(want, wait.Events[0]); diff != "" {
			t.Errorf("first state as data (-want +got):\n%s", diff)
		}
	})
}

func TestWithoutTimeLeftAnArrivedEventTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2)
		r.Deliver(completed(arq1))
		wantStates(t, w.Wait(t.Context(), 0), externalevent.ErrTimeout,
			bound1+": received but not processed", bound2+": expected but not received")
	})
}

func TestTheTimeoutIsForAllEventsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2)
		after(r, 200*time.Second, completed(arq1))
		after(r, 400*time.Second, completed(arq2))
		wantStates(t, w.Wait(t.Context(), timeout), externalevent.ErrTimeout,
			bound1+": received after waiting 200.00 seconds", bound2+": timed out after 100.00 seconds")
		time.Sleep(timeout)
	})
}

func TestTheTimeoutCountsFromWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1)
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
		synctest.Test(t, func(t *testing.T) {
			r := externalevent.NewRegistry()
			w := prepare(t, r, arq1, arq2)
			after(r, 3*time.Second, bound(arq1, status))
			err := w.Wait(t.Context(), timeout)
			wantStates(t, err, externalevent.ErrFailed,
				bound1+": received after waiting 3.00 seconds", bound2+": expected but not received")
			var wait *externalevent.WaitError
			if errors.As(err, &wait); wait.Events[0].Status != status {
				t.Errorf("status = %q, want %q", wait.Events[0].Status, status)
			}
		})
	}
}

func TestEarlyEventsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2)
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
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1)
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
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2)
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
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1)
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
		synctest.Test(t, func(t *testing.T) {
			r := externalevent.NewRegistry()
			w := prepare(t, r, arq1)
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
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1)
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
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1)
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
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1)
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
	synctest.Test(t, func(t *testing.T) {
		r := externalevent.NewRegistry()
		w := prepare(t, r, arq1, arq2)
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
