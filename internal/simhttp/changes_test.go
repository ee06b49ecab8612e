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
)

// noting is a service whose one route does what it is told.
func notingService(do func(context.Context)) *Service {
	return &Service{
		Name: "test", Clock: Wall{}, IDs: NewIDs(1, "test"),
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
	c := func(action, what string) Change { return Change{action, "thing", "1", what} }
	for _, tt := range []struct {
		name string
		do   func(*Notes)
		want []Change
	}{
		{"nothing", func(*Notes) {}, nil},
		{"made and changed", func(n *Notes) { n.Add(c(Created, "new"), c(Changed, "more")) }, []Change{c(Created, "new")}},
		{"made and unmade", func(n *Notes) { n.Add(c(Created, "new"), c(Deleted, "gone")) }, nil},
		{"made, unmade and made", func(n *Notes) { n.Add(c(Created, "new"), c(Deleted, "gone"), c(Created, "again")) }, []Change{c(Created, "again")}},
		{"changed and unmade", func(n *Notes) {
			n.AddSteps("thing", "1", "", Step{"state", "a", "b"})
			n.Add(c(Deleted, "gone"))
		}, []Change{c(Deleted, "gone")}},
		{"replaced", func(n *Notes) { n.Add(c(Deleted, "old"), c(Created, "new")) }, []Change{c(Changed, "new")}},
		{"unmade and touched", func(n *Notes) { n.Add(c(Deleted, "old"), c(Changed, "no")) }, []Change{c(Deleted, "old")}},
		{"two steps", func(n *Notes) {
			n.AddSteps("thing", "1", "it", Step{"state", "a", "b"}, Step{"host", "", "cn0"}, Step{"same", "x", "x"})
			n.AddSteps("thing", "1", "it", Step{"state", "b", "c"}, Step{"size", "1", ""})
		}, []Change{c(Changed, "it: state a -> c, host none -> cn0, size 1 -> none")}},
		{"there and back", func(n *Notes) {
			n.AddSteps("thing", "1", "", Step{"state", "a", "b"})
			n.AddSteps("thing", "1", "", Step{"state", "b", "a"})
		}, nil},
		{"nowhere", func(n *Notes) { n.AddSteps("thing", "1", "", Step{"state", "a", "a"}) }, nil},
		{"two things", func(n *Notes) {
			n.Add(c(Created, ""), Change{Created, "thing", "2", ""}, Change{Created, "other", "1", ""})
		}, []Change{c(Created, ""), {Created, "thing", "2", ""}, {Created, "other", "1", ""}}},
		{"long", func(n *Notes) { n.Add(c(Created, strings.Repeat("ü", maxNoteText))) }, []Change{c(Created, strings.Repeat("ü", maxNoteText/2)+"…")}},
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
	var inner, outer Exchange
	note := func(ctx context.Context, id string) { Note(ctx, Change{Created, "thing", id, ""}) }
	below := notingService(func(ctx context.Context) { note(ctx, "below") })
	below.Observe = func(e Exchange) { inner = e }
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
	above.Observe = func(e Exchange) { outer = e }
	note(t.Context(), "nobody's")
	post(above)
	note(late, "late")
	if diff := cmp.Diff([]Change{{Created, "thing", "below", ""}}, inner.Changes); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Change{{Created, "thing", "before", ""}, {Created, "thing", "after", ""}}, outer.Changes); diff != "" {
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
		s, recorder := notingService(func(ctx context.Context) { Note(ctx, Change{Created, "thing", "1", ""}) }), NewRecorder(1)
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
			Note(ctx, Change{Created, "thing", fmt.Sprint(n, len(NotesOf(ctx).list), NotesOf(ctx).more), ""})
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
