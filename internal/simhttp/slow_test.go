package simhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// stepClock lets the test see when the service waits, and go on.
type stepClock struct {
	waits chan time.Duration
	goOn  chan struct{}
}

func (c stepClock) Now() time.Time { return time.Unix(1e9, 0) }

func (c stepClock) Wait(ctx context.Context, d time.Duration) error {
	c.waits <- d
	select {
	case <-c.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func slowly(t *testing.T, clock sim.Clock) (*counterService, *http.Client, string) {
	t.Helper()
	counter, service := faulty(t, fault.Rule{Operation: "counter.put", Action: fault.SlowBody, Delay: time.Minute})
	service.Clock = clock
	client, url := clientFor(t, "socket", service)
	return counter, client, url + "/counters/a"
}

func TestASlowBodyComesLittleByLittleAfterItsHeaders(t *testing.T) {
	t.Parallel()
	clock := stepClock{make(chan time.Duration), make(chan struct{})}
	counter, client, url := slowly(t, clock)
	answered := make(chan *http.Response, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", url, nil)
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
		}
		answered <- res
	}()
	var total time.Duration
	total += <-clock.waits
	res := <-answered // while the body is still away
	if res == nil {
		t.FailNow()
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || counter.applied.Load() != 1 {
		t.Errorf("headers: status %d, applied %d", res.StatusCode, counter.applied.Load())
	}
	piece := make([]byte, 2) // of 24 bytes in ten pieces the first has two
	clock.goOn <- struct{}{}
	if _, err := io.ReadFull(res.Body, piece); err != nil || string(piece) != `{"` {
		t.Errorf("first piece %q, %v", piece, err)
	}
	for range 9 {
		total += <-clock.waits
		clock.goOn <- struct{}{}
	}
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(piece)+string(rest) != `{"applied":1,"name":"a"}` || total != time.Minute {
		t.Errorf("body %q after %s, %v", string(piece)+string(rest), total, err)
	}
}

func TestACallerMayGiveUpInASlowBody(t *testing.T) {
	t.Parallel()
	clock := stepClock{make(chan time.Duration), make(chan struct{})}
	counter, client, url := slowly(t, clock)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-clock.waits
		clock.goOn <- struct{}{}
		<-clock.waits // until the caller gives up
	}()
	res, err := client.Do(request(ctx, t, "PUT", url, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if body, err := io.ReadAll(res.Body); !errors.Is(err, context.Canceled) || counter.applied.Load() != 1 {
		t.Errorf("got %q, %v, applied %d", body, err, counter.applied.Load())
	}
}

func TestInProcessASlowBodyIsALateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, service := faulty(t, fault.Rule{Operation: "counter.put", Action: fault.SlowBody, Delay: time.Minute})
		start := time.Now()
		status, body, err := do(t, &http.Client{Transport: simhttp.NewTransport(service)}, "PUT", "http://sim.invalid/counters/a")
		if took := time.Since(start); err != nil || status != 200 || body == "" || took != time.Minute {
			t.Errorf("got %d %q %v after %s", status, body, err, took)
		}
	})
}

func TestRoutesTellWhatFaultRulesCanDo(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet("counter.get")
	faults.RegisterWork(fault.Operation{
		Name: "counter.tell", Subject: "the counter",
		Actions: []fault.Action{fault.Status, fault.Drop, fault.Delay, fault.Duplicate, fault.Reorder},
	})
	control := simhttp.Control{Faults: faults, Recorder: simhttp.NewRecorder(1)}
	_, body, err := do(t, &http.Client{Transport: simhttp.NewTransport(control.Handler())}, "GET", "http://sim.invalid/_sim/routes")
	want := `{"operation":"counter.tell","subject":"the counter","actions":["status","drop","delay","duplicate","reorder"]}`
	if err != nil || !strings.Contains(body, want) || !strings.Contains(body, `"operation":"counter.get"`) {
		t.Errorf("got %s, %v; want it to have %s", body, err, want)
	}
}
