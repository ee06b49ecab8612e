package spawn_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// slowModel binds after a delay; the bind timeout of Cyborg itself is out of
// the way.
func slowModel(delay time.Duration) *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.BindDelay = delay
	model.Cyborg.BindTimeout = time.Hour
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOpts{model: slowModel(tt.delay + slowPatch), config: tt.config, poll: tt.poll})
				err := w.cloud.Faults().Set(fault.Rule{
					Operation: "accelerator.arq.bind", Action: fault.Delay, When: fault.After, Delay: slowPatch,
				})
				if err != nil {
					t.Fatal(err)
				}
				result, err := w.flow.Run(t.Context(), request("mixed"))
				if (err == nil) != tt.wantOK {
					t.Errorf("got error %v, want success %v", err, tt.wantOK)
				}
				if err != nil {
					checkTimeout(t, err, 4)
				}
				w.checkPromise(t, result, err)
			})
		})
	}
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

func TestALostEventIsNotALostDevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(10 * time.Second)})
		w.cloud.HandleEvents(http.NotFoundHandler()) // the events never reach the registry
		result, err := w.flow.Run(t.Context(), request("gpu"))
		var notBound *spawn.NotBoundError
		if !errors.As(err, &notBound) || notBound.ARQs[0].State != cyborgclient.StateBound {
			t.Errorf("got %v, want a timeout that tells the ARQ is Bound", err)
		}
		w.checkPromise(t, result, err)
	})
}

func TestEventsBeforeTheWaitAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	w.cloud.HandleEvents(http.NotFoundHandler())
	result, err := w.flow.Run(t.Context(), request("mixed")) // bound inside the PATCH: one GET finds them
	if err != nil {
		t.Fatal(err)
	}
	w.checkPromise(t, result, err)
}

func TestARefusedEventIsSettledByAGet(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.StrictInstances = true // the instance is unknown to Nova: 404 for the event, 400 for the PATCH
	w := newWorld(t, worldOpts{model: &model})
	result, err := w.flow.Run(t.Context(), request("mixed"))
	if err != nil {
		t.Fatal(err)
	}
	bind := result.Trace[7]
	if bind.Step != spawn.StepBind || bind.Requests[0].Status != http.StatusBadRequest || !strings.Contains(bind.Decision, "refused the event") {
		t.Errorf("the trace does not tell what happened: %+v", bind)
	}
	w.checkPromise(t, result, err)
}

func TestAMissingServiceTokenIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	provider := w.cloud.Provider(t)
	cyborg, err := cyborgclient.New(provider) // no service token
	if err != nil {
		t.Fatal(err)
	}
	w.replaceCyborg(t, provider, cyborg)
	result, err := w.flow.Run(t.Context(), request("gpu"))
	var failure *spawn.Error
	if !errors.As(err, &failure) || failure.Step != spawn.StepBind || !errors.Is(err, cyborgclient.ErrServiceToken) {
		t.Errorf("got error %v, want ErrServiceToken in step bind", err)
	}
	w.checkPromise(t, result, err)
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
