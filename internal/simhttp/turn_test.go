package simhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// A route handler runs in the turn of its request; what a fault rule waits for is outside of it.
func TestATurnIsAsLongAsTheHandler(t *testing.T) {
	t.Parallel()
	for _, when := range []fault.When{fault.Before, fault.After} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var spent time.Duration
			turns := 0
			turn := func(context.Context) (func(), error) {
				turns++
				start := time.Now()
				return func() { spent += time.Since(start) }, nil
			}
			faults := fault.NewSet("op")
			if err := faults.Set(fault.Rule{Operation: "op", Action: fault.Delay, Delay: time.Minute, When: when}); err != nil {
				t.Fatal(err)
			}
			service := turnService(faults)
			r := simhttp.WithTurn(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/list", http.NoBody), turn)
			service.ServeHTTP(httptest.NewRecorder(), r)
			if spent != time.Second || time.Since(begin) != time.Minute+time.Second || turns != 1 {
				t.Errorf("%s: %d turns took %v of %v, want 1s of 1m1s", when, turns, spent, time.Since(begin))
			}
		})
	}
}

func TestARequestWithoutATurnIsRefused(t *testing.T) {
	t.Parallel()
	turn := func(context.Context) (func(), error) {
		return nil, simhttp.Refuse(http.StatusInsufficientStorage, "full")
	}
	w := httptest.NewRecorder()
	turnService(nil).ServeHTTP(w, simhttp.WithTurn(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/list", http.NoBody), turn))
	if w.Code != http.StatusInsufficientStorage || w.Body.String() != "full\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Requests that services send each other are part of the turn of their sender.
func TestRequestsBetweenServicesHaveNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inside := &http.Client{Transport: simhttp.NewTransport(turnService(nil)).Internal()}
		turn := func(context.Context) (func(), error) {
			return nil, simhttp.Refuse(http.StatusInsufficientStorage, "full")
		}
		sender := simhttp.WithTurn(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), turn)
		r, err := http.NewRequestWithContext(sender.Context(), http.MethodGet, "http://service/list", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := inside.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("got %s", answer.Status)
		}
	})
}

// turnService answers a list in a second.
func turnService(faults *fault.Set) *simhttp.Service {
	return &simhttp.Service{
		Router: simhttp.NewRouter(simhttp.Route{Operation: "op", Method: http.MethodGet, Pattern: "/list", Handler: func(c *simhttp.Call) error {
			time.Sleep(time.Second)
			return c.Empty(http.StatusOK)
		}}),
		Handler: (*simhttp.Call).Dispatch, Clock: simhttp.Wall{}, IDs: simhttp.NewIDs(0, "request"), Faults: faults,
		WriteError: func(c *simhttp.Call, err error) { http.Error(c.W, err.Error(), simhttp.AsError(err).Status) },
	}
}

// TestLongControlAnswersHaveATurn: those that may be long wait for it, the others do not.
func TestLongControlAnswersHaveATurn(t *testing.T) {
	t.Parallel()
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	control := simhttp.Control{More: []simhttp.ControlRoute{{Pattern: "GET /long", Long: true, Handler: ok}, {Pattern: "GET /short", Handler: ok}}}.Handler()
	for path, want := range map[string][2]int{"/long": {1, 0}, "/short": {0, 0}, "/long full": {1, http.StatusServiceUnavailable}} {
		path, full, _ := strings.Cut(path, " ")
		begun, ended := 0, 0
		turn := func(context.Context) (func(), error) {
			begun++
			if full != "" {
				return nil, simhttp.Refuse(http.StatusServiceUnavailable, "%s", full)
			}
			return func() { ended++ }, nil
		}
		w := httptest.NewRecorder()
		control.ServeHTTP(w, simhttp.WithTurn(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody), turn))
		if status := max(want[1], http.StatusOK); w.Code != status || begun != want[0] || full == "" && ended != begun {
			t.Errorf("%s %s: status %d, %d turns begun, %d ended", path, full, w.Code, begun, ended)
		}
	}
}
