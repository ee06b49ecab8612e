package externalevent_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

func train(tag, status string) string {
	if status != "" {
		status = `,"status":"` + status + `"`
	}
	return `{"name":"arq_resolved","server_uuid":"` + instance + `","tag":"` + tag + `"` + status + `}`
}

func ussuri(profile, status string) string {
	return `{"name":"accelerator-requests-bound","server_uuid":"` + instance + `","tag":"` + profile + `","status":"` + status + `"}`
}

// accepting is a registry that accepts events of the specifications.
func accepting(names ...string) *externalevent.Registry {
	return externalevent.NewRegistry(externalevent.WithAccept(names...))
}

// prepareTwo expects two requests of the profile gpu and one of fpga.
func prepareTwo(t *testing.T, r *externalevent.Registry) *externalevent.Waiter {
	t.Helper()
	w, err := r.PrepareExpected(instance, externalevent.Expected{ARQ: arq1, DeviceProfile: "gpu"},
		externalevent.Expected{ARQ: arq2, DeviceProfile: "fpga"}, externalevent.Expected{ARQ: arq3, DeviceProfile: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestFormsAreDecoded(t *testing.T) {
	t.Parallel()
	name := "accelerator-request-bound-"
	received, missing, unread := ": received after waiting 0.00 seconds", ": timed out after 300.00 seconds", ": received but not processed"
	tests := []struct {
		name   string
		forms  []string
		body   string
		code   int
		states []string // nil: all have arrived well
	}{
		{"train", []string{"arq_resolved"}, events(train(arq1, "ok"), train(arq2, "ok"), train(arq3, "")), 200, nil},
		{"train in another case", []string{"arq_resolved"}, events(train("AAAAAAAA-0000-4000-8000-000000000001", "ok"), train(arq2, "ok"), train(arq3, "ok")), 200, nil},
		{"train failed", []string{"arq_resolved"}, events(train(arq1, "ok"), train(arq2, "failed")), 200,
			[]string{name + arq1 + received, name + arq2 + received, name + arq3 + ": expected but not received"}},
		{"ussuri for all", []string{"accelerator-requests-bound"}, events(ussuri("gpu", "completed"), ussuri("fpga", "completed")), 200, nil},
		{"ussuri for one profile", []string{"accelerator-requests-bound"}, events(ussuri("gpu", "completed")), 200,
			[]string{name + arq1 + received, name + arq2 + missing, name + arq3 + unread}},
		{"ussuri failed", []string{"accelerator-requests-bound"}, events(ussuri("gpu", "failed")), 200,
			[]string{name + arq1 + received, name + arq2 + ": expected but not received", name + arq3 + unread}},
		{"ussuri of a foreign profile", []string{"accelerator-requests-bound"}, events(ussuri("GPU", "completed")), 200,
			[]string{name + arq1 + missing, name + arq2 + ": expected but not received", name + arq3 + ": expected but not received"}},
		{"all forms at once", []string{"arq_resolved", "accelerator-requests-bound"}, events(train(arq2, "ok"), ussuri("gpu", "completed"), tagged(arq3)), 200, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := accepting(tt.forms...)
				w := prepareTwo(t, r)
				if got := answer(r.Handler(), request(tt.body)); got.Code != tt.code {
					t.Fatalf("answer %d %s, want %d", got.Code, got.Body, tt.code)
				}
				err := w.Wait(t.Context(), timeout)
				if (err == nil) != (tt.states == nil) {
					t.Fatalf("Wait = %v", err)
				}
				if diff := cmp.Diff(tt.states, texts(w.States())); tt.states != nil && diff != "" {
					t.Errorf("states (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFormsThatAreNotEnabledAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		forms []string
		body  string
	}{
		"train, as with Nova":    {nil, events(tagged(arq1), train(arq2, "ok"))},
		"ussuri, as with Nova":   {nil, events(tagged(arq1), ussuri("gpu", "completed"))},
		"train where ussuri is":  {[]string{"accelerator-requests-bound"}, events(train(arq1, "ok"))},
		"train's status on ours": {[]string{"arq_resolved"}, events(item(`,"tag":"` + arq1 + `","status":"ok"`))},
		"our status on train":    {[]string{"arq_resolved"}, events(train(arq1, "completed"))},
		"train's status, ussuri": {[]string{"accelerator-requests-bound"}, events(ussuri("gpu", "ok"))},
		"an unknown name":        {[]string{"bound"}, events(item(`,"tag":"` + arq1 + `","name":"bound"`))},
	} {
		r := accepting(tt.forms...)
		prepareTwo(t, r)
		if got := answer(r.Handler(), request(tt.body)); got.Code != http.StatusBadRequest {
			t.Errorf("%s: answer %d %s, want 400", name, got.Code, got.Body)
		}
		wantPending(t, r, 3)
	}
}

func TestFormsNeedATagAndNoMicroversion(t *testing.T) {
	t.Parallel()
	r := accepting(externalevent.ARQResolved, externalevent.ARQsBound)
	prepareTwo(t, r)
	for _, name := range []string{"arq_resolved", "accelerator-requests-bound"} {
		got := answer(r.Handler(), request(events(`{"name":"`+name+`","server_uuid":"`+instance+`"}`), withoutVersion))
		if got.Code != http.StatusMultiStatus {
			t.Errorf("%s without a tag: answer %d %s, want 207", name, got.Code, got.Body)
		}
	}
	got := answer(r.Handler(), request(events(ussuri("gpu", "completed")), withoutVersion))
	if got.Code != http.StatusOK {
		t.Errorf("without a microversion: answer %d %s", got.Code, got.Body)
	}
	wantPending(t, r, 1)
}

// Without profiles one event of Ussuri is for all that the instance waits for, as it
// is one event per instance there.
func TestUssuriWithoutProfilesIsForTheWholeInstance(t *testing.T) {
	t.Parallel()
	r := accepting(externalevent.ARQsBound)
	w := prepare(t, r, arq1, arq2)
	all := externalevent.Event{Name: externalevent.ARQsBound, ServerUUID: instance, Tag: "gpu"}
	if !r.Deliver(all) || r.Deliver(all) {
		t.Error("want the first to be taken and the second dropped")
	}
	if err := w.Wait(t.Context(), timeout); err != nil {
		t.Error(err)
	}
	foreign := all
	foreign.ServerUUID = instance2
	prepare(t, r, arq1)
	if r.Deliver(foreign) {
		t.Error("the event of another instance was taken")
	}
	wantPending(t, r, 1)
}

// TestDeliveredEventsOfAllForms compares the registry with a set of what is expected.
func TestDeliveredEventsOfAllForms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := accepting(externalevent.ARQResolved, externalevent.ARQsBound)
		profiles := rapid.SampledFrom([]string{"", "gpu", "fpga"})
		expected := map[string]string{} // ARQ to profile
		for _, arq := range []string{arq1, arq2, arq3, arq4} {
			expected[arq] = profiles.Draw(rt, "profile")
			w, err := r.PrepareExpected(instance, externalevent.Expected{ARQ: arq, DeviceProfile: expected[arq]})
			if err != nil {
				rt.Fatal(err)
			}
			defer w.Close()
		}
		for range rapid.IntRange(0, 8).Draw(rt, "events") {
			e := externalevent.Event{ServerUUID: rapid.SampledFrom([]string{instance, instance2}).Draw(rt, "instance"), Status: externalevent.StatusCompleted}
			e.Name = rapid.SampledFrom([]string{externalevent.ARQBound, externalevent.ARQResolved, externalevent.ARQsBound, "power-update"}).Draw(rt, "name")
			e.Tag = rapid.SampledFrom([]string{arq1, arq2, arq3, arq4, arq5, "gpu", "fpga"}).Draw(rt, "tag")
			want := false
			for arq, profile := range expected {
				one := e.Name == externalevent.ARQBound || e.Name == externalevent.ARQResolved
				if e.ServerUUID == instance && (one && e.Tag == arq || e.Name == externalevent.ARQsBound && (profile == "" || profile == e.Tag)) {
					delete(expected, arq)
					want = true
				}
			}
			if got := r.Deliver(e); got != want {
				rt.Fatalf("%+v: taken %t, want %t", e, got, want)
			}
			if r.Pending() != len(expected) {
				rt.Fatalf("%+v: %d events pending, want %d", e, r.Pending(), len(expected))
			}
		}
	})
}

// FuzzEventsBody sends any body to a registry of any forms: nothing is delivered by a
// refused one, and what is answered is repeated.
func FuzzEventsBody(f *testing.F) {
	f.Add([]byte(events(tagged(arq1))), uint8(0))
	f.Add([]byte(events(train(arq1, "ok"), train(arq2, "failed"))), uint8(1))
	f.Add([]byte(events(ussuri("gpu", "completed"), ussuri("", "failed"))), uint8(2))
	f.Add([]byte(events(train(arq1, ""), ussuri("fpga", "in-progress"), item(""))), uint8(3))
	f.Add([]byte(`{"events":[{"name":"arq_resolved","server_uuid":null,"tag":7}]}`), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		var forms []string
		if which&1 != 0 {
			forms = append(forms, externalevent.ARQResolved)
		}
		if which&2 != 0 {
			forms = append(forms, externalevent.ARQsBound)
		}
		r := accepting(forms...)
		prepareTwo(t, r)
		got := answer(r.Handler(), request(string(body)))
		switch got.Code {
		case http.StatusOK, http.StatusMultiStatus:
			if diff := cmp.Diff(eventsOf(t, body), eventsOf(t, got.Body.Bytes())); diff != "" {
				t.Errorf("events (-sent +echoed):\n%s", diff)
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			wantPending(t, r, 3)
		default:
			t.Fatalf("status %d for %q", got.Code, body)
		}
	})
}
