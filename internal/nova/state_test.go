package nova_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// dumped is the state of a server.
func dumped(t rapid.TB, s *nova.Server) []sim.Record {
	t.Helper()
	records, err := tables.Collect(s.State())
	must(t, err)
	return records
}

// must stops a test at an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withoutRequestID is a header without the one thing that no state has.
func withoutRequestID(h http.Header) http.Header {
	h = h.Clone()
	h.Del(simhttp.RequestIDHeader)
	return h
}

// newDelaying is a strict server that puts events tagged late off for ten minutes, and
// passes all on to the inbox.
func newDelaying(t rapid.TB) (*nova.Server, *inbox) {
	t.Helper()
	box, faults := &inbox{}, fault.NewSet()
	s := nova.New(nova.Config{Seed: 3, StrictInstances: true, Faults: faults})
	must(t, faults.Set(
		fault.Rule{Operation: fault.ExternalEventForward, Subject: "late", Action: fault.Delay, Delay: 10 * time.Minute, Times: -1},
		fault.Rule{Operation: fault.ExternalEventForward, Subject: "lost", Action: fault.Drop, Times: -1},
	))
	s.HandleEvents(box)
	return s, box
}

// postLate posts a delayed event for an instance that it defines.
func postLate(t *testing.T, s *nova.Server, id string) {
	t.Helper()
	must(t, s.DefineGuest(sim.Guest{UUID: id, Host: "cn0"}))
	post(t, s, events(event(id, `,"tag":"late"`)))
}

// history sends one random call to all servers, which answer alike.
func history(t *testing.T, rt *rapid.T, servers ...*nova.Server) {
	id := rapid.SampledFrom([]string{ready, noHost, stranger}).Draw(rt, "server")
	switch rapid.IntRange(0, 4).Draw(rt, "call") {
	case 0:
		guest := sim.Guest{
			UUID: id, Host: rapid.SampledFrom([]string{"", "cn0", "cn1"}).Draw(rt, "host"),
			Domain: rapid.SampledFrom([]string{"", "<domain type='kvm'><name>a &lt; b</name></domain>"}).Draw(rt, "domain"),
		}
		for _, s := range servers {
			must(rt, s.DefineGuest(guest))
		}
	case 1:
		for _, s := range servers {
			s.RemoveGuest(id)
		}
	case 2:
		time.Sleep(time.Duration(rapid.IntRange(0, 6).Draw(rt, "minutes")) * time.Minute)
		synctest.Wait()
	default:
		more := rapid.SampledFrom([]string{``, `,"tag":"late"`, `,"tag":"lost"`, `,"tag":"x","status":"failed"`}).Draw(rt, "more")
		var first string
		for i, s := range servers {
			res := post(t, s, events(event(id, more), event(ready, more)))
			got := fmt.Sprint(res.StatusCode, withoutRequestID(res.Header), res.body)
			if i == 0 {
				first = got
			} else if diff := cmp.Diff(first, got); diff != "" {
				rt.Fatalf("answers (-kept +loaded):\n%s", diff)
			}
		}
	}
}

// The loaded service runs in parallel with the original. Answers, events, guests and the times of
// forwarded events, including delayed ones, are the same.
func TestALoadedServiceBehavesLikeTheOriginal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s, box := newDelaying(rt)
			defer s.Close()
			for range rapid.IntRange(0, 12).Draw(rt, "before") {
				history(t, rt, s)
			}
			data, before := dumped(rt, s), len(box.got())
			other, otherBox := newDelaying(rt)
			defer other.Close()
			must(rt, sim.Replace(t.Context(), other.State(), data))
			if diff := cmp.Diff(data, dumped(rt, other)); diff != "" {
				rt.Fatalf("the dump of what was loaded (-want +got):\n%s", diff)
			}
			other.Resume()
			for range rapid.IntRange(0, 8).Draw(rt, "after") {
				history(t, rt, s, other)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if diff := cmp.Diff(dumped(rt, s), dumped(rt, other)); diff != "" {
				rt.Fatalf("dumps at the end (-kept +loaded):\n%s", diff)
			}
			if diff := cmp.Diff(s.Events(), other.Events()); diff != "" {
				rt.Fatalf("events (-kept +loaded):\n%s", diff)
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(box.got()[before:])), slices.Sorted(slices.Values(otherBox.got()))); diff != "" {
				rt.Fatalf("passed on (-kept +loaded):\n%s", diff)
			}
		})
	})
}

func TestOverdueEventsArePassedOnInOrderOnceTheServiceGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := newDelaying(t)
		for _, id := range []string{ready, noHost, stranger} {
			postLate(t, s, id)
			time.Sleep(2 * time.Minute)
		}
		data := dumped(t, s)
		s.Close()
		time.Sleep(7 * time.Minute) // the first two are due, the third is not
		other, box := newDelaying(t)
		defer other.Close()
		for range 2 { // a second load is in place of the first
			must(t, sim.Replace(t.Context(), other.State(), data))
			synctest.Wait()
			if len(box.got()) != 0 {
				t.Fatalf("passed on before Resume: %v", box.got())
			}
		}
		other.Resume()
		other.Resume()
		synctest.Wait()
		want := []string{"accelerator-request-bound 1111 late completed", "accelerator-request-bound 2222 late completed"}
		if diff := cmp.Diff(want, box.got()); diff != "" {
			t.Errorf("overdue (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff(append(want, "accelerator-request-bound 3333 late completed"), box.got()); diff != "" {
			t.Errorf("in the end (-want +got):\n%s", diff)
		}
	})
}

func TestALoadDiscardsDelayedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, box := newDelaying(t)
		defer s.Close()
		empty := dumped(t, s)
		postLate(t, s, ready)
		must(t, sim.Replace(t.Context(), s.State(), empty))
		time.Sleep(time.Hour)
		if len(box.got())+len(s.Events())+len(s.Guests()) != 0 {
			t.Errorf("left: passed on %v, events %v, guests %v", box.got(), s.Events(), s.Guests())
		}
		postLate(t, s, ready)
		time.Sleep(time.Hour)
		if len(box.got()) != 1 {
			t.Errorf("events put off after the load: %v", box.got())
		}
	})
}

// Each dump is consistent: it can be loaded regardless of concurrent work.
func TestADumpIsOfOneMoment(t *testing.T) {
	t.Parallel()
	s, _ := newDelaying(t)
	defer s.Close()
	var group sync.WaitGroup
	for worker := range 3 {
		group.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("%08d-1111-4111-8111-%012d", worker, i)
				if err := s.DefineGuest(sim.Guest{UUID: id, Host: "cn0"}); err != nil {
					t.Error(err)
				}
				post(t, s, events(event(id, `,"tag":"late"`), event(id, `,"tag":"x"`)))
				s.RemoveGuest(id)
			}
		})
	}
	group.Go(func() {
		for range 40 {
			other := nova.New(nova.Config{})
			if err := sim.Replace(t.Context(), other.State(), dumped(t, s)); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
}

func TestTheOldestEventsGo(t *testing.T) {
	t.Parallel()
	s := nova.New(nova.Config{})
	const batch = 500
	list := slices.Repeat([]string{event(ready, `,"tag":"x"`)}, batch)
	for range 10000/batch + 1 {
		post(t, s, events(list...))
	}
	if n := len(s.Events()); n != 10000 {
		t.Errorf("%d events, want 10000", n)
	}
	other := nova.New(nova.Config{})
	must(t, sim.Replace(t.Context(), other.State(), dumped(t, s)))
	var last sim.Exchange
	other.Service.Observe = func(e sim.Exchange) { last = e }
	post(t, other, events(event(ready, `,"tag":"x"`)))
	if len(last.Changes) != 1 || last.Changes[0].ID != fmt.Sprint(10000+batch) || len(other.Events()) != 10000 {
		t.Errorf("the next event is %v of %d", last.Changes, len(other.Events()))
	}
}

func TestARefusedStateLeavesDelayedEventsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, box := newDelaying(t)
		defer s.Close()
		postLate(t, s, ready)
		if err := sim.Replace(t.Context(), s.State(), []sim.Record{{Table: "compute.servers", Key: "x", Row: []byte("{}")}}); !errors.Is(err, sim.ErrRecords) {
			t.Fatalf("%v, want ErrRecords", err)
		}
		time.Sleep(time.Hour)
		if len(box.got()) != 1 {
			t.Errorf("forwarded %v, want the event", box.got())
		}
	})
}
