package externalevent_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

// TestNovaEventsAPI has the rows of Nova's own tests of the API (test_server_external_events).
func TestNovaEventsAPI(t *testing.T) {
	t.Parallel()
	of := func(server string) string { return strings.Replace(tagged(arq1), instance, server, 1) }
	for _, tt := range []apiRow{
		{"create", events(of(instance), of(instance)), 200, []int{200, 200}, 0},
		{"create_one_bad_instance", events(of(instance), of(unknown)), 207, []int{200, 404}, 0},
		{"create_event_instance_has_no_host", events(of(noHost), of(instance)), 207, []int{422, 200}, 0},
		{"create_no_good_instances", events(of(unknown), of(noHost)), 207, []int{404, 422}, 1},
		{"create_bad_status", events(of(instance), item(`,"tag":"`+arq1+`","status":"foo"`)), 400, nil, 1},
		{"create_extra_gorp", strings.Replace(events(of(instance)), "{", `{"foobar":"bad",`, 1), 400, nil, 1},
		{"create_bad_events", `{"events":"foo"}`, 400, nil, 1},
		{"create_bad_body", `{"foo":"bar"}`, 400, nil, 1},
		{"create_unknown_events", events(of(instance), `{"name":"unkown_event","server_uuid":"`+instance+`"}`), 400, nil, 1},
		{"accelerator_request_bound_event", events(of(instance), item("")), 207, []int{200, 400}, 0},
	} {
		tt.run(t)
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
	for _, tt := range []waitRow{
		{row: "wait_completed", tags: []string{arq1}, comes: []arrival{{arq1, 0, "completed"}}, limit: timeout,
			states: []string{bound1 + ": received after waiting 0.00 seconds"}},
		{row: "wait_failed", tags: []string{arq1}, comes: []arrival{{arq1, 2 * time.Second, "failed"}}, limit: timeout,
			want: externalevent.ErrFailed, took: 2 * time.Second, states: []string{bound1 + ": received after waiting 2.00 seconds"}},
		{row: "wait_timeout", tags: []string{arq1}, limit: timeout, want: externalevent.ErrTimeout, took: timeout,
			states: []string{bound1 + ": timed out after 300.00 seconds"}},
		{row: "wait_one_received_one_timed_out", tags: []string{arq1, arq2}, comes: []arrival{{arq1, time.Second, "completed"}}, limit: timeout,
			want: externalevent.ErrTimeout, took: timeout,
			states: []string{bound1 + ": received after waiting 1.00 seconds", bound2 + ": timed out after 299.00 seconds"}},
		{row: "wait_mix_of_five_states", tags: []string{arq1, arq2, arq3, arq4, arq5}, early: []string{arq2},
			comes: []arrival{{arq1, time.Second, "completed"}, {arq4, 2 * time.Second, "completed"}}, limit: timeout,
			want: externalevent.ErrTimeout, took: timeout, states: []string{
				bound1 + ": received after waiting 1.00 seconds", bound2 + ": received early",
				bound3 + ": timed out after 299.00 seconds", bound4 + ": received but not processed", bound5 + ": expected but not received",
			}},
		{row: "wait_exit_early", tags: []string{arq1, arq2}, early: []string{arq1, arq2, arq5}, limit: timeout,
			states: []string{bound1 + ": received early", bound2 + ": received early"}},
		{row: "events_all_completed", tags: []string{arq1, arq2}, comes: []arrival{{arq2, 0, "completed"}, {arq1, 4 * time.Second, ""}}, limit: timeout,
			took: 4 * time.Second, states: []string{bound1 + ": received after waiting 4.00 seconds", bound2 + ": received after waiting 0.00 seconds"}},
		{row: "events_early_skipped", tags: []string{arq1, arq2}, early: []string{arq1}, comes: []arrival{{arq2, time.Second, "completed"}}, limit: timeout,
			took: time.Second, states: []string{bound1 + ": received early", bound2 + ": received after waiting 1.00 seconds"}},
		{row: "events_timeout", tags: []string{arq1, arq2}, limit: 10 * time.Second, want: externalevent.ErrTimeout, took: 10 * time.Second,
			states: []string{bound1 + ": timed out after 10.00 seconds", bound2 + ": expected but not received"}},
		{row: "events_no_time_left_without_waiting", tags: []string{arq1}, comes: []arrival{{arq1, 0, "completed"}}, limit: 0,
			want: externalevent.ErrTimeout, states: []string{bound1 + ": received but not processed"}},
		{row: "events_mixed", tags: []string{arq1, arq2, arq3}, early: []string{arq3}, comes: []arrival{{arq1, time.Second, "completed"}, {arq2, 2 * time.Second, "failed"}},
			limit: timeout, want: externalevent.ErrFailed, took: 2 * time.Second, states: []string{
				bound1 + ": received after waiting 1.00 seconds", bound2 + ": received after waiting 1.00 seconds", bound3 + ": received early",
			}},
		{row: "events_none", limit: 0, states: []string{}},
	} {
		t.Run(tt.row, func(t *testing.T) {
			t.Parallel()
			tt.run(t)
		})
	}
}
