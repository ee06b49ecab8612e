package fakecyborg_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// formWorld has requests of two profiles: two of "v", one of "w".
func formWorld(t *testing.T, cfg fakecyborg.Config, faults *fault.Set) (*world, []string) {
	t.Helper()
	w, _ := vgpuWorld(t, cfg, 4, 2, fakecyborg.WithFaults(faults))
	w.profile("w", `[{"resources:VGPU":"1"}]`)
	return w, append(w.arqs("v"), w.arqs("w")...)
}

func TestEventsOfEachForm(t *testing.T) {
	t.Parallel()
	event := func(name, tag, status string) sim.Event {
		return sim.Event{Name: name, ServerUUID: instanceA, Tag: &tag, Status: status}
	}
	// The second request fails, if one does.
	want := map[fakecyborg.EventForm]func(arqs []string, failed bool) [][]sim.Event{
		"": func(arqs []string, failed bool) [][]sim.Event {
			name := "accelerator-request-bound"
			return [][]sim.Event{{
				event(name, arqs[0], "completed"), event(name, arqs[1], either(failed, "completed", "failed")), event(name, arqs[2], "completed"),
			}}
		},
		"train": func(arqs []string, failed bool) [][]sim.Event {
			name := "arq_resolved"
			return [][]sim.Event{{
				event(name, arqs[0], "ok"), event(name, arqs[1], either(failed, "ok", "failed")), event(name, arqs[2], "ok"),
			}}
		},
		"ussuri": func(_ []string, failed bool) [][]sim.Event {
			name := "accelerator-requests-bound"
			return [][]sim.Event{{event(name, "v", either(failed, "completed", "failed")), event(name, "w", "completed")}}
		},
	}
	want["shipped"] = want[""]
	for form, posts := range want {
		for name, tt := range map[string]struct{ async, failed bool }{"inline": {}, "background": {async: true}, "one fails": {true, true}} {
			t.Run(string(form)+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					faults := fault.NewSet()
					w, arqs := formWorld(t, fakecyborg.Config{EventForm: form, AsyncBind: tt.async}, faults)
					if tt.failed {
						subject := w.server.AttachHandles()[1].UUID
						settled(t, faults.Set(fault.Rule{Operation: fault.MdevCreate, Subject: subject, Action: fault.Status}))
					}
					w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
					synctest.Wait()
					if diff := cmp.Diff(posts(arqs, tt.failed), w.nova.sent()); diff != "" {
						t.Errorf("posts (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// Events are sent once the last request of the PATCH is resolved, in one POST.
func TestEventsWaitForTheLastBind(t *testing.T) {
	t.Parallel()
	for form, want := range map[fakecyborg.EventForm]int{"shipped": 3, "train": 3, "ussuri": 2} {
		synctest.Test(t, func(t *testing.T) {
			faults := fault.NewSet()
			w, arqs := formWorld(t, fakecyborg.Config{EventForm: form, AsyncBind: true}, faults)
			second := w.server.AttachHandles()[1].UUID
			settled(t, faults.Set(fault.Rule{Operation: fault.MdevCreate, Subject: second, Action: fault.Delay, Delay: 30 * time.Second}))
			w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
			time.Sleep(20 * time.Second)
			if got := w.nova.sent(); len(got) != 0 {
				t.Errorf("%s: after 20 s: %v, want no event", form, got)
			}
			checkStates(t, w, "Bound", "BindStarted", "BindStarted")
			time.Sleep(20 * time.Second)
			if got := w.nova.sent(); len(got) != 1 || len(got[0]) != want {
				t.Errorf("%s: after 40 s: %v, want one post of %d events", form, got, want)
			}
		})
	}
}

// Nova's refusal is the answer to the PATCH, whose requests are bound.
func TestARefusedEventAnswersThePatch(t *testing.T) {
	t.Parallel()
	for _, form := range []fakecyborg.EventForm{"shipped", "train", "ussuri"} {
		w, arqs := formWorld(t, fakecyborg.Config{EventForm: form}, fault.NewSet())
		w.nova.status = 400
		w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 400,
			"Bad API response from Nova for os-server-external-events API. Details: status 400")
		checkStates(t, w, "Bound", "Bound", "Bound")
		if got := len(w.nova.sent()); got != 1 {
			t.Errorf("%s: %d posts, want 1", form, got)
		}
	}
}

func TestEventsOfRestoredRequestsHaveTheForm(t *testing.T) {
	t.Parallel()
	for _, form := range []fakecyborg.EventForm{"shipped", "train", "ussuri"} {
		w, arqs := formWorld(t, fakecyborg.Config{EventForm: form, BindingStates: true}, fault.NewSet())
		w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
		before := len(w.nova.sent())
		settled(t, w.server.StopAgent("cn0"))
		settled(t, w.server.StartAgent(t.Context(), "cn0"))
		got := w.nova.sent()[before:]
		if len(got) != 1 || got[0][0].Name != w.nova.sent()[0][0].Name {
			t.Errorf("%s: posts after the restart %v, want 1", form, got)
		}
	}
}
