package simhttp_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// lateCounter applies a PUT an hour late and sends its body to the channel.
func lateCounter(t *testing.T) (counter *counterService, service *simhttp.Service, bodies chan string) {
	t.Helper()
	counter, service = faulty(t, fault.Rule{Operation: "counter.put", Action: fault.Late, Delay: time.Hour})
	bodies = make(chan string, 1)
	handle := service.Handler
	service.Handler = func(c *simhttp.Call) error {
		data, err := simhttp.ReadBody(c.Request)
		if err != nil || c.Context().Err() != nil {
			t.Errorf("the handler reads %q, %v, and its context ended with %v", data, err, c.Context().Err())
		}
		defer func() { bodies <- string(data) }()
		return handle(c)
	}
	return counter, service, bodies
}

func TestALateRequestIsAppliedAfterItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counter, service, bodies := lateCounter(t)
		defer service.Close()
		recorder := simhttp.NewRecorder(1)
		ctx, cancel := context.WithCancel(t.Context())
		req := request(ctx, t, "PUT", "http://sim.invalid/counters/a", "one")
		client := &http.Client{Transport: simhttp.NewTransport(simhttp.Recording(service, recorder))}
		start := time.Now()
		if res, err := client.Do(req); err == nil || time.Since(start) != 0 {
			t.Errorf("answer %v after %s, want none at once", res.Status, time.Since(start))
		}
		cancel()
		time.Sleep(time.Hour - 1)
		if counter.applied.Load() != 0 {
			t.Error("applied before its time")
		}
		if body := <-bodies; body != "one" || counter.applied.Load() != 1 || time.Since(start) != time.Hour {
			t.Errorf("applied %d times after %s with the body %q, want once with the body that was sent", counter.applied.Load(), time.Since(start), body)
		}
		synctest.Wait()
		got := recorder.Exchanges()
		if len(got) != 1 || got[0].Fault != "late" || got[0].Status != 0 || got[0].Duration != time.Hour || got[0].Microversion != "1.2" {
			t.Errorf("recorded %+v, want one exchange of an hour without a status", got)
		}
	})
}

// A state that is loaded is not changed by a request to the one before.
func TestALateRequestIsDroppedWithItsState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counter, service, bodies := lateCounter(t)
		defer service.Close()
		state := simhttp.Recorded{Recorded: tables.New("counter"), Service: service}
		send := func(path string) {
			client := &http.Client{Transport: simhttp.NewTransport(service)}
			if res, err := client.Do(request(t.Context(), t, "PUT", "http://sim.invalid"+path, "one")); err == nil {
				t.Fatalf("answer %s, want none", res.Status)
			}
		}
		send("/counters/a")
		if err := sim.Replace(t.Context(), state, []sim.Record{{Table: "counter.none"}}); err == nil {
			t.Fatal("a table that is not there was loaded")
		}
		<-bodies
		synctest.Wait()
		if n := counter.applied.Load(); n != 1 {
			t.Errorf("applied %d times after a refused state, want once", n)
		}
		send("/counters/b")
		if err := sim.Replace(t.Context(), state, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if n := counter.applied.Load(); n != 1 {
			t.Errorf("applied %d times, want that the second is dropped", n)
		}
	})
}

func TestALateRequestOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	clock := stepClock{make(chan time.Duration), make(chan struct{})}
	counter, service, bodies := lateCounter(t)
	service.Clock = clock
	client, url := clientFor(t, "socket", service)
	if res, err := client.Do(request(t.Context(), t, "PUT", url+"/counters/a", "two")); err == nil {
		t.Errorf("answer %s, want none", res.Status)
	}
	if d := <-clock.waits; d != time.Hour || counter.applied.Load() != 0 {
		t.Errorf("waits for %s, applied %d", d, counter.applied.Load())
	}
	client.CloseIdleConnections()
	clock.goOn <- struct{}{}
	if body := <-bodies; body != "two" || counter.applied.Load() != 1 {
		t.Errorf("applied %d times with the body %q", counter.applied.Load(), body)
	}
	service.Close()
}

func TestALateRequestIsLostWhenTheServiceIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counter, service, _ := lateCounter(t)
		if _, _, err := do(t, &http.Client{Transport: simhttp.NewTransport(service)}, "PUT", "http://sim.invalid/counters/a"); err == nil {
			t.Error("answered")
		}
		service.Close()
		time.Sleep(2 * time.Hour)
		if counter.applied.Load() != 0 {
			t.Error("applied by a service that is closed")
		}
	})
}
