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
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// notingService is a service with one route that calls do.
func notingService(do func(context.Context)) *Service {
	return &Service{
		Name: "test", Clock: Wall{}, IDs: NewIDs(1, "test"),
		Router: NewRouter(Route{Operation: "test.do", Method: "POST", Pattern: "/do"}),
		Handler: func(c *Call) error {
			do(c.Context())
			return c.Empty(http.StatusNoContent)
		},
		WriteError: func(c *Call, err error) { c.W.WriteHeader(AsError(err).Status) },
	}
}

func post(h http.Handler) {
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/do", nil))
}

func TestChangesAreOfTheExchangeThatIsBeingServed(t *testing.T) {
	t.Parallel()
	var inner, outer sim.Exchange
	note := func(ctx context.Context, id string) {
		ChangeLogOf(ctx).Add(sim.Change{Action: sim.Created, Kind: "thing", ID: id})
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
		note(context.WithoutCancel(ctx), "after")
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
	if ChangeLogOf(t.Context()) != nil {
		t.Error("there is a log outside of an exchange")
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
		s, recorder := notingService(func(ctx context.Context) {
			ChangeLogOf(ctx).Add(sim.Change{Action: sim.Created, Kind: "thing", ID: "1"})
		}), NewRecorder(1)
		s.Faults = new(fault.Set)
		s.Faults.Register("test.do")
		tt.rule.Operation = "test.do"
		if err := s.Faults.Set(tt.rule); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }() // a dropped connection
			post(Recording(s, recorder))
		}()
		if e := recorder.Exchanges(); len(e) != 1 || len(e[0].Changes) != tt.want || e[0].Fault != string(tt.rule.Action) {
			t.Errorf("%+v: recorded %+v", tt.rule, e)
		}
	}
}

func TestChangesAreLimited(t *testing.T) {
	t.Parallel()
	const maxChanges = 1000 // of one exchange
	n := 0
	service, recorder := notingService(func(ctx context.Context) {
		for i := range n {
			ChangeLogOf(ctx).Add(sim.Change{Action: sim.Created, Kind: "thing", ID: fmt.Sprint(i)})
		}
	}), NewRecorder(500)
	s := Recording(service, recorder)
	n = maxChanges + 5
	post(s)
	changes := recorder.Exchanges()[0].Changes
	if len(changes) != maxChanges+1 || changes[maxChanges].Kind != tables.KindMore || !strings.HasPrefix(changes[maxChanges].What, "5 more changes") {
		t.Errorf("%d changes are kept, the last of them %+v", len(changes), changes[len(changes)-1])
	}
	n = maxChanges
	recorder.maxBytes = 4 << 20
	for range 100 {
		post(s)
	}
	kept, told := 0, 0
	all := recorder.Exchanges()
	for _, e := range all {
		kept += len(e.Changes)
		if len(e.Changes) == 1 && e.Changes[0].Kind == tables.KindMore {
			told++
		}
	}
	if len(all) != 101 || kept > 60*maxChanges || len(all[len(all)-1].Changes) != maxChanges || told == 0 {
		t.Errorf("%d requests, %d changes in all, the newest request has %d, %d whose changes were dropped", len(all), kept, len(all[len(all)-1].Changes), told)
	}
	recorder.Reset()
	if post(s); len(recorder.Exchanges()[0].Changes) != maxChanges {
		t.Error("after a reset changes are not kept")
	}
}
