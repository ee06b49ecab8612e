package nova_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables/tablestest"
	"github.com/gocyborg/gocyborg/sim"
)

// dumped is the state of a server as JSON.
func dumped(t tablestest.TB, s *nova.Server) []byte { return tablestest.Dump(t, s.State()) }

// load gives a server a state.
func load(s *nova.Server, data []byte) error { return tablestest.Load(s.State(), data) }

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
	if err := faults.Set(
		fault.Rule{Operation: "compute.external_event.forward", Subject: "late", Action: fault.Delay, Delay: 10 * time.Minute, Times: -1},
		fault.Rule{Operation: "compute.external_event.forward", Subject: "lost", Action: fault.Drop, Times: -1},
	); err != nil {
		t.Fatal(err)
	}
	s.HandleEvents(box)
	return s, box
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
			if err := s.DefineGuest(guest); err != nil {
				rt.Fatal(err)
			}
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

// The loaded service runs beside the one that was dumped: answers, events, guests, and
// what is passed on when are the same, delayed events included.
func TestALoadedServiceBehavesAsTheOneThatWasDumped(t *testing.T) {
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
			if err := load(other, data); err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(string(data), string(dumped(rt, other))); diff != "" {
				rt.Fatalf("the dump of what was loaded (-want +got):\n%s", diff)
			}
			other.Resume()
			for range rapid.IntRange(0, 8).Draw(rt, "after") {
				history(t, rt, s, other)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if diff := cmp.Diff(string(dumped(rt, s)), string(dumped(rt, other))); diff != "" {
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
			if err := s.DefineGuest(sim.Guest{UUID: id, Host: "cn0"}); err != nil {
				t.Fatal(err)
			}
			post(t, s, events(event(id, `,"tag":"late"`)))
			time.Sleep(2 * time.Minute)
		}
		data := dumped(t, s)
		s.Close()
		time.Sleep(7 * time.Minute) // the first two are due, the third is not
		other, box := newDelaying(t)
		defer other.Close()
		for range 2 { // a second load is in place of the first
			if err := load(other, data); err != nil {
				t.Fatal(err)
			}
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

func TestALoadTakesDelayedEventsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, box := newDelaying(t)
		defer s.Close()
		empty := dumped(t, s)
		if err := s.DefineGuest(sim.Guest{UUID: ready, Host: "cn0"}); err != nil {
			t.Fatal(err)
		}
		post(t, s, events(event(ready, `,"tag":"late"`)))
		if err := load(s, empty); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if len(box.got())+len(s.Events())+len(s.Guests()) != 0 {
			t.Errorf("left: passed on %v, events %v, guests %v", box.got(), s.Events(), s.Guests())
		}
		if err := s.DefineGuest(sim.Guest{UUID: ready, Host: "cn0"}); err != nil {
			t.Fatal(err)
		}
		post(t, s, events(event(ready, `,"tag":"late"`)))
		time.Sleep(time.Hour)
		if len(box.got()) != 1 {
			t.Errorf("events put off after the load: %v", box.got())
		}
	})
}

// whole is the dump of a server with a guest and an event of each fate.
func whole(t testing.TB) (*nova.Server, string) {
	t.Helper()
	s, _ := newDelaying(t)
	if err := s.DefineGuest(sim.Guest{UUID: ready, Host: "cn0", Domain: "<domain/>"}); err != nil {
		t.Fatal(err)
	}
	post(t, s, events(event(ready, `,"tag":"late"`), event(ready, `,"tag":"lost"`), event(ready, `,"tag":"x"`), event(stranger, `,"tag":"y"`)))
	return s, string(dumped(t, s))
}

func TestABadDumpIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	s, before := whole(t)
	defer s.Close()
	replaced := func(old, new string) string { return tablestest.Replaced(t, before, old, new) }
	for _, tt := range []struct{ name, text, want string }{
		{"unknown table", replaced(`"compute.guests"`, `"compute.servers"`), "compute.servers"},
		{"unknown field", replaced(`"domain"`, `"xml"`), `unknown field "xml"`},
		{"guest under another key", replaced(`"key": "1111`, `"key": "2222`), "the row's key is 1111"},
		{"guest without uuid", strings.ReplaceAll(before, ready, ""), "is not a UUID"},
		{"guest with a bad domain", replaced(`\u003cdomain/\u003e`, `\u003cguest/\u003e`), "not domain"},
		{"event above the sequence", replaced(`"last": 4`, `"last": 2`), "the sequence events is at 2 only"},
		{"event of no server", replaced(`"server_uuid": "`, `"server_uuid": "x`), `server_uuid "x1111`},
		{"event of no name", replaced(`"name": "accelerator-request-bound"`, `"name": ""`), "name or status is missing"},
		{"code", replaced(`"code": 404`, `"code": 500`), "code 500"},
		{"refused and to be forwarded", replaced(`"code": 404,`, `"code": 404, "forward_at": "2026-01-01T00:00:00Z",`), "it was refused"},
		{"time out of range", replaced(`"forward_at": "`, `"forward_at": "9999-12-31T23:59:59-12:00", "problems": [], "forwarded": [], "tag": "`), "repeated"},
	} {
		tablestest.CheckRefused(t, s.State(), tt.name, tt.text, tt.want)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`[]`))
	s, text := whole(f)
	s.Close()
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, data []byte) { tablestest.CheckLoad(t, nova.New(nova.Config{}).State(), data) })
}

// Each dump is of one moment: it is loaded whatever was going on.
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
			if err := load(other, dumped(t, s)); err != nil {
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
	if err := load(other, dumped(t, s)); err != nil {
		t.Fatal(err)
	}
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
		if err := s.DefineGuest(sim.Guest{UUID: ready, Host: "cn0"}); err != nil {
			t.Fatal(err)
		}
		post(t, s, events(event(ready, `,"tag":"late"`)))
		if err := load(s, []byte(`[{"table": "compute.servers", "key": "x", "row": {}}]`)); !errors.Is(err, sim.ErrRecords) {
			t.Fatalf("%v, want ErrRecords", err)
		}
		time.Sleep(time.Hour)
		if len(box.got()) != 1 {
			t.Errorf("forwarded %v, want the event", box.got())
		}
	})
}
