package externalevent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

// The instances of Nova's API tests.
const (
	novaUnknown = "00000000-0000-4000-8000-00000000dead"
	novaNoHost  = "00000000-0000-4000-8000-00000000beef"
)

// novaAPI is a registry that expects arq1, behind an API that knows an instance, one
// without a host, and no others.
func novaAPI(t *testing.T) (*externalevent.Registry, http.Handler) {
	t.Helper()
	r := externalevent.NewRegistry(externalevent.WithInstances(func(uuid string) (host string, known bool) {
		host, known = map[string]string{instance: "cn0", novaNoHost: ""}[uuid]
		return host, known
	}))
	prepare(t, r, arq1)
	return r, r.Handler()
}

// TestNovaEventsAPI has the rows of Nova's own tests of the API (test_server_external_events).
func TestNovaEventsAPI(t *testing.T) {
	t.Parallel()
	of := func(server string) string { return strings.Replace(tagged(arq1), instance, server, 1) }
	for _, tt := range []struct {
		row, body string
		status    int
		codes     []int
		pending   int
	}{
		{"create", events(of(instance), of(instance)), 200, []int{200, 200}, 0},
		{"create_one_bad_instance", events(of(instance), of(novaUnknown)), 207, []int{200, 404}, 0},
		{"create_event_instance_has_no_host", events(of(novaNoHost), of(instance)), 207, []int{422, 200}, 0},
		{"create_no_good_instances", events(of(novaUnknown), of(novaNoHost)), 207, []int{404, 422}, 1},
		{"create_bad_status", events(of(instance), item(`,"tag":"`+arq1+`","status":"foo"`)), 400, nil, 1},
		{"create_extra_gorp", strings.Replace(events(of(instance)), "{", `{"foobar":"bad",`, 1), 400, nil, 1},
		{"create_bad_events", `{"events":"foo"}`, 400, nil, 1},
		{"create_bad_body", `{"foo":"bar"}`, 400, nil, 1},
		{"create_unknown_events", events(of(instance), `{"name":"unkown_event","server_uuid":"`+instance+`"}`), 400, nil, 1},
		{"accelerator_request_bound_event", events(of(instance), item("")), 207, []int{200, 400}, 0},
	} {
		t.Run(tt.row, func(t *testing.T) {
			t.Parallel()
			r, api := novaAPI(t)
			got := answer(api, request(tt.body))
			var body struct{ Events []externalevent.Event }
			if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			var codes []int
			for _, e := range body.Events {
				codes = append(codes, e.Code)
			}
			if got.Code != tt.status || !slices.Equal(codes, tt.codes) {
				t.Errorf("got %d %v, want %d %v", got.Code, codes, tt.status, tt.codes)
			}
			wantPending(t, r, tt.pending) // what was not delivered is still expected
		})
	}
}

// TestNovaEventsRegistry has the rows of Nova's own tests of the waiter registry
// (ComputeManagerInstanceEvents and ComputeManagerUnitTestCase in test_compute_mgr).
func TestNovaEventsRegistry(t *testing.T) {
	t.Parallel()
	rows := map[string]func(*testing.T, *externalevent.Registry){
		"prepare": func(t *testing.T, r *externalevent.Registry) {
			prepare(t, r, arq1)
			wantPending(t, r, 1)
		},
		"prepare_again_same_event": func(t *testing.T, r *externalevent.Registry) {
			first, second := prepare(t, r, arq1), prepare(t, r, arq1)
			wantPending(t, r, 1)
			r.Deliver(completed(arq1))
			if err := errors.Join(first.Wait(t.Context(), timeout), second.Wait(t.Context(), timeout)); err != nil {
				t.Errorf("the event is not the same for both: %v", err)
			}
		},
		"pop": func(t *testing.T, r *externalevent.Registry) {
			prepare(t, r, arq1)
			if !r.Deliver(completed(arq1)) || r.Deliver(completed(arq1)) {
				t.Error("want the event to be taken once")
			}
			wantPending(t, r, 0)
		},
		"clear": func(t *testing.T, r *externalevent.Registry) {
			prepare(t, r, arq1, arq2)
			if n := r.Clear(instance); n != 2 || r.Deliver(completed(arq1)) {
				t.Errorf("%d events cleared, want 2 and none to arrive", n)
			}
		},
		"process": func(t *testing.T, r *externalevent.Registry) {
			w := prepare(t, r, arq1)
			answer(r.Handler(), request(events(tagged(arq1))))
			if err := w.Wait(t.Context(), timeout); err != nil {
				t.Error(err)
			}
		},
		"process_unexpected": func(t *testing.T, r *externalevent.Registry) {
			prepare(t, r, arq1)
			if r.Deliver(completed(arq2)) {
				t.Error("an unexpected event was delivered")
			}
			wantPending(t, r, 1)
		},
		"cancel_all": func(t *testing.T, r *externalevent.Registry) {
			w := prepare(t, r, arq1)
			r.Close()
			r.Close() // twice
			if err := w.Wait(t.Context(), timeout); !errors.Is(err, externalevent.ErrFailed) {
				t.Errorf("got error %v, want ErrFailed", err)
			}
		},
		"cleanup_blocks_new_events": func(t *testing.T, r *externalevent.Registry) {
			r.Close()
			_, err := r.Prepare(instance, arq1)
			if !errors.Is(err, externalevent.ErrClosed) || !strings.Contains(err.Error(), "In shutdown, no new events can be scheduled") {
				t.Errorf("got error %v, want ErrClosed with Nova's words", err)
			}
		},
		"pop_and_clear_after_shutdown": func(t *testing.T, r *externalevent.Registry) {
			prepare(t, r, arq1)
			r.Close()
			if r.Deliver(completed(arq1)) || r.Clear(instance) != 0 {
				t.Error("a closed registry still has events")
			}
		},
		"concurrent_set": func(t *testing.T, r *externalevent.Registry) {
			w := prepare(t, r, arq1)
			var taken atomic.Int32
			var senders sync.WaitGroup
			for i := range 16 {
				senders.Go(func() {
					if r.Deliver(bound(arq1, externalevent.Status(fmt.Sprint("result ", i)))) {
						taken.Add(1)
					}
				})
			}
			senders.Wait()
			if taken.Load() != 1 || w.States()[0].Status == "" {
				t.Errorf("%d of 16 results were taken, want one", taken.Load())
			}
		},
	}
	for row, test := range rows {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			test(t, externalevent.NewRegistry())
		})
	}
}

// TestNovaEventsWait has the rows of Nova's own tests of wait_for_instance_event and
// _wait_for_instance_events. Events come at their time in seconds, with their status.
func TestNovaEventsWait(t *testing.T) {
	t.Parallel()
	type arrival struct {
		tag    string
		at     time.Duration
		status externalevent.Status
	}
	name := "accelerator-request-bound-"
	tests := []struct {
		row    string
		tags   []string
		early  []string
		comes  []arrival
		limit  time.Duration
		want   error
		took   time.Duration
		states []string
	}{
		{row: "wait_completed", tags: []string{arq1}, comes: []arrival{{arq1, 0, "completed"}}, limit: timeout,
			states: []string{name + arq1 + ": received after waiting 0.00 seconds"}},
		{row: "wait_failed", tags: []string{arq1}, comes: []arrival{{arq1, 2 * time.Second, "failed"}}, limit: timeout,
			want: externalevent.ErrFailed, took: 2 * time.Second, states: []string{name + arq1 + ": received after waiting 2.00 seconds"}},
		{row: "wait_timeout", tags: []string{arq1}, limit: timeout, want: externalevent.ErrTimeout, took: timeout,
			states: []string{name + arq1 + ": timed out after 300.00 seconds"}},
		{row: "wait_one_received_one_timed_out", tags: []string{arq1, arq2}, comes: []arrival{{arq1, time.Second, "completed"}}, limit: timeout,
			want: externalevent.ErrTimeout, took: timeout,
			states: []string{name + arq1 + ": received after waiting 1.00 seconds", name + arq2 + ": timed out after 299.00 seconds"}},
		{row: "wait_mix_of_five_states", tags: []string{arq1, arq2, arq3, arq4, arq5}, early: []string{arq2},
			comes: []arrival{{arq1, time.Second, "completed"}, {arq4, 2 * time.Second, "completed"}}, limit: timeout,
			want: externalevent.ErrTimeout, took: timeout, states: []string{
				name + arq1 + ": received after waiting 1.00 seconds", name + arq2 + ": received early",
				name + arq3 + ": timed out after 299.00 seconds", name + arq4 + ": received but not processed", name + arq5 + ": expected but not received",
			}},
		{row: "wait_exit_early", tags: []string{arq1, arq2}, early: []string{arq1, arq2, arq5}, limit: timeout,
			states: []string{name + arq1 + ": received early", name + arq2 + ": received early"}},
		{row: "events_all_completed", tags: []string{arq1, arq2}, comes: []arrival{{arq2, 0, "completed"}, {arq1, 4 * time.Second, ""}}, limit: timeout,
			took: 4 * time.Second, states: []string{name + arq1 + ": received after waiting 4.00 seconds", name + arq2 + ": received after waiting 0.00 seconds"}},
		{row: "events_early_skipped", tags: []string{arq1, arq2}, early: []string{arq1}, comes: []arrival{{arq2, time.Second, "completed"}}, limit: timeout,
			took: time.Second, states: []string{name + arq1 + ": received early", name + arq2 + ": received after waiting 1.00 seconds"}},
		{row: "events_timeout", tags: []string{arq1, arq2}, limit: 10 * time.Second, want: externalevent.ErrTimeout, took: 10 * time.Second,
			states: []string{name + arq1 + ": timed out after 10.00 seconds", name + arq2 + ": expected but not received"}},
		{row: "events_no_time_left_without_waiting", tags: []string{arq1}, comes: []arrival{{arq1, 0, "completed"}}, limit: 0,
			want: externalevent.ErrTimeout, states: []string{name + arq1 + ": received but not processed"}},
		{row: "events_mixed", tags: []string{arq1, arq2, arq3}, early: []string{arq3}, comes: []arrival{{arq1, time.Second, "completed"}, {arq2, 2 * time.Second, "failed"}},
			limit: timeout, want: externalevent.ErrFailed, took: 2 * time.Second, states: []string{
				name + arq1 + ": received after waiting 1.00 seconds", name + arq2 + ": received after waiting 1.00 seconds", name + arq3 + ": received early",
			}},
		{row: "events_none", limit: 0, states: []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.row, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := externalevent.NewRegistry()
				w := prepare(t, r, tt.tags...)
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
				if diff := cmp.Diff(tt.states, texts(w.States())); diff != "" {
					t.Errorf("states (-want +got):\n%s", diff)
				}
				time.Sleep(10 * time.Second) // until all events were sent
			})
		})
	}
}
