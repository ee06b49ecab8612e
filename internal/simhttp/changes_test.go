package simhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// noting is a service whose one route does what it is told.
func notingService(do func(context.Context)) *Service {
	return &Service{
		Name: "test", Clock: sim.Wall{}, IDs: NewIDs(1, "test"),
		Router: NewRouter(Route{Operation: "test.do", Method: "POST", Pattern: "/do"}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			do(r.Context())
			w.WriteHeader(http.StatusNoContent)
		}),
		WriteFault: func(w http.ResponseWriter, _ *http.Request, status int, _ string) { w.WriteHeader(status) },
	}
}

func post(h http.Handler) {
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/do", nil))
}

func TestOneChangeIsToldOfEachThing(t *testing.T) {
	t.Parallel()
	c := func(action, what string) sim.Change {
		return sim.Change{Action: action, Kind: "thing", ID: "1", What: what}
	}
	for _, tt := range []struct {
		name string
		do   func(*Notes)
		want []sim.Change
	}{
		{"nothing", func(*Notes) {}, nil},
		{"made and changed", func(n *Notes) { n.Add(c(sim.Created, "new"), c(sim.Changed, "more")) }, []sim.Change{c(sim.Created, "new")}},
		{"made and unmade", func(n *Notes) { n.Add(c(sim.Created, "new"), c(sim.Deleted, "gone")) }, nil},
		{"made, unmade and made", func(n *Notes) { n.Add(c(sim.Created, "new"), c(sim.Deleted, "gone"), c(sim.Created, "again")) }, []sim.Change{c(sim.Created, "again")}},
		{"changed and unmade", func(n *Notes) {
			n.AddSteps("thing", "1", "", Step{"state", "a", "b"})
			n.Add(c(sim.Deleted, "gone"))
		}, []sim.Change{c(sim.Deleted, "gone")}},
		{"replaced", func(n *Notes) { n.Add(c(sim.Deleted, "old"), c(sim.Created, "new")) }, []sim.Change{c(sim.Changed, "new")}},
		{"unmade and touched", func(n *Notes) { n.Add(c(sim.Deleted, "old"), c(sim.Changed, "no")) }, []sim.Change{c(sim.Deleted, "old")}},
		{"two steps", func(n *Notes) {
			n.AddSteps("thing", "1", "it", Step{"state", "a", "b"}, Step{"host", "", "cn0"}, Step{"same", "x", "x"})
			n.AddSteps("thing", "1", "it", Step{"state", "b", "c"}, Step{"size", "1", ""})
		}, []sim.Change{c(sim.Changed, "it: state a -> c, host none -> cn0, size 1 -> none")}},
		{"there and back", func(n *Notes) {
			n.AddSteps("thing", "1", "", Step{"state", "a", "b"})
			n.AddSteps("thing", "1", "", Step{"state", "b", "a"})
		}, nil},
		{"nowhere", func(n *Notes) { n.AddSteps("thing", "1", "", Step{"state", "a", "a"}) }, nil},
		{"two things", func(n *Notes) {
			n.Add(c(sim.Created, ""), sim.Change{Action: sim.Created, Kind: "thing", ID: "2"}, sim.Change{Action: sim.Created, Kind: "other", ID: "1"})
		}, []sim.Change{c(sim.Created, ""), {Action: sim.Created, Kind: "thing", ID: "2"}, {Action: sim.Created, Kind: "other", ID: "1"}}},
		{"long", func(n *Notes) { n.Add(c(sim.Created, strings.Repeat("ü", maxNoteText))) }, []sim.Change{c(sim.Created, strings.Repeat("ü", maxNoteText/2)+"…")}},
	} {
		n := new(Notes)
		tt.do(n)
		if diff := cmp.Diff(tt.want, n.end()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestChangesAreOfTheExchangeThatIsBeingServed(t *testing.T) {
	t.Parallel()
	var inner, outer sim.Exchange
	note := func(ctx context.Context, id string) {
		Note(ctx, sim.Change{Action: sim.Created, Kind: "thing", ID: id})
	}
	below := notingService(func(ctx context.Context) { note(ctx, "below") })
	below.Observe = func(e sim.Exchange) { inner = e }
	silent := notingService(func(ctx context.Context) { note(ctx, "unheard") })
	var late context.Context
	above := notingService(func(ctx context.Context) {
		note(ctx, "before")
		for _, s := range []*Service{below, silent} {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/do", nil).WithContext(ctx))
		}
		note(WithNotesOf(context.Background(), ctx), "after")
		foreign := NewTransport(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { note(r.Context(), "foreign") }))
		if _, err := foreign.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)); err != nil {
			t.Error(err)
		}
		late = ctx
	})
	above.Observe = func(e sim.Exchange) { outer = e }
	note(t.Context(), "nobody's")
	post(above)
	note(late, "late")
	if diff := cmp.Diff([]sim.Change{{Action: sim.Created, Kind: "thing", ID: "below"}}, inner.Changes); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sim.Change{{Action: sim.Created, Kind: "thing", ID: "before"}, {Action: sim.Created, Kind: "thing", ID: "after"}}, outer.Changes); diff != "" {
		t.Errorf("outer (-want +got):\n%s", diff)
	}
	if NotesOf(WithNotesOf(t.Context(), t.Context())) != nil {
		t.Error("notes from nowhere")
	}
}

func TestChangesUnderFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule fault.Rule
		want int
	}{
		{fault.Rule{Action: fault.Status}, 0},
		{fault.Rule{Action: fault.Status, When: fault.After}, 1},
		{fault.Rule{Action: fault.Drop}, 0},
		{fault.Rule{Action: fault.Drop, When: fault.After}, 1},
		{fault.Rule{Action: fault.Malformed}, 1},
		{fault.Rule{Action: fault.Delay, Delay: 1}, 1},
	} {
		s, recorder := notingService(func(ctx context.Context) { Note(ctx, sim.Change{Action: sim.Created, Kind: "thing", ID: "1"}) }), NewRecorder(1)
		s.Recorder, s.Faults = recorder, new(fault.Set)
		s.Faults.Register("test.do")
		tt.rule.Operation = "test.do"
		if err := s.Faults.Set(tt.rule); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }() // a dropped connection
			post(s)
		}()
		if e := recorder.Exchanges(); len(e) != 1 || len(e[0].Changes) != tt.want || e[0].Fault != string(tt.rule.Action) {
			t.Errorf("%+v: recorded %+v", tt.rule, e)
		}
	}
}

func TestChangesAreLimited(t *testing.T) {
	t.Parallel()
	n := 0
	s, recorder := notingService(func(ctx context.Context) {
		for range n {
			Note(ctx, sim.Change{Action: sim.Created, Kind: "thing", ID: fmt.Sprint(n, len(NotesOf(ctx).list), NotesOf(ctx).more)})
		}
	}), NewRecorder(500)
	s.Recorder = recorder
	n = maxNotes + 5
	post(s)
	changes := recorder.Exchanges()[0].Changes
	if len(changes) != maxNotes+1 || changes[maxNotes].Kind != KindMore || !strings.HasPrefix(changes[maxNotes].What, "5 more changes") {
		t.Errorf("%d changes are kept, the last of them %+v", len(changes), changes[len(changes)-1])
	}
	n = maxNotes
	for range 2 * maxKeptNotes / maxNotes {
		post(s)
	}
	kept, told := 0, 0
	all := recorder.Exchanges()
	for _, e := range all {
		kept += len(e.Changes)
		if len(e.Changes) == 1 && e.Changes[0].Kind == KindMore {
			told++
		}
	}
	if kept > maxKeptNotes || len(all[len(all)-1].Changes) != maxNotes || told == 0 {
		t.Errorf("%d changes in all, the newest request has %d, %d tell that theirs are not kept", kept, len(all[len(all)-1].Changes), told)
	}
	recorder.Reset()
	if post(s); len(recorder.Exchanges()[0].Changes) != maxNotes {
		t.Error("after a reset changes are not kept")
	}
}
