package nova_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// api is a nova-api whose answers to posts of events are scripted.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	posts []string // the token of each
	got   []string // the statuses of the events of each
}

func (a *api) tokens() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.posts)
}

func newAPI(t *testing.T, answers ...string) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		answer := answers[min(len(a.posts), len(answers)-1)]
		a.posts = append(a.posts, r.Header.Get("X-Auth-Token"))
		var sent struct{ Events []sim.Event }
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		var statuses []string
		for _, e := range sent.Events {
			statuses = append(statuses, e.Status)
		}
		a.got = append(a.got, strings.Join(statuses, " "))
		status := 0
		_, _ = fmt.Sscan(answer, &status)
		_, body, _ := strings.Cut(answer, " ")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(a.Close)
	return a
}

// forwarded posts an event to a server that forwards it, and lets the pauses between the posts pass until it is
// known what became of it. It returns the tokens of the posts.
func forwarded(t *testing.T, a *api, config nova.Config) (*nova.Server, []string) {
	t.Helper()
	clock := sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	config.Clock = clock
	server := nova.New(config)
	t.Cleanup(server.Close)
	must(t, server.ForwardTo(a.URL))
	if res := post(t, server, events(event(ready, `,"tag":"x"`))); res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	for {
		if e := server.Events()[0]; len(e.Forwarded)+len(e.Problems) > 0 {
			server.Close() // it logs after it has noted
			return server, a.tokens()
		}
		clock.Advance(time.Second)
		runtime.Gosched()
	}
}

func TestAPostOfEventsIsRepeatedWhereThatHelps(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers   []string
		posts     int
		forwarded bool
		problem   string
		code      int
	}{
		"at once":            {[]string{"200"}, 1, true, "", 200},
		"behind a proxy":     {[]string{"502", "503", "504", "200"}, 4, true, "", 200},
		"never":              {[]string{"503"}, 6, false, "answered 503 Service Unavailable", 503},
		"refused":            {[]string{"403"}, 1, false, "answered 403 Forbidden", 403},
		"a server's error":   {[]string{"500"}, 1, false, "answered 500 Internal Server Error", 500},
		"no host yet":        {[]string{`207 {"events":[{"code":422}]}`}, 1, false, "answered code 422: the instance has no host yet; this is known, and Cyborg does not send the event again", 422},
		"207 of good events": {[]string{`207 {"events":[{"code":200}]}`}, 1, true, "", 200},
		"207 of nothing":     {[]string{`207 {}`}, 1, false, "answered 207 without the 1 events", 200},
		"401 twice":          {[]string{"401"}, 2, false, "answered 401 Unauthorized", 401},
		"401 once":           {[]string{"401", "200"}, 2, true, "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			issued := 0
			a := newAPI(t, tt.answers...)
			server, tokens := forwarded(t, a, nova.Config{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Token: func(context.Context) (string, error) {
					issued++
					return fmt.Sprint("token", issued), nil
				},
			})
			if len(tokens) != tt.posts {
				t.Errorf("%d posts, want %d", len(tokens), tt.posts)
			}
			for i, token := range tokens {
				if want := fmt.Sprint("token", i+1); token != want {
					t.Errorf("post %d with %q, want %q", i, token, want)
				}
			}
			got := server.Events()[0]
			var lost []string
			server.EachLostEvent(func(text string) bool { lost = append(lost, text); return true })
			if len(lost) != min(len(tt.problem), 1) || len(lost) > 0 && !strings.HasSuffix(lost[0], "tag x: "+a.URL+": "+tt.problem) {
				t.Errorf("lost events: %q", lost)
			}
			if got.Code != tt.code {
				t.Errorf("code %d, want %d", got.Code, tt.code)
			}
			var problems []string
			if tt.problem != "" {
				problems = []string{a.URL + ": " + tt.problem}
			}
			if diff := cmp.Diff(problems, got.Problems); diff != "" || slices.Contains(got.Forwarded, a.URL) != tt.forwarded {
				t.Errorf("forwarded to %v; problems (-want +got):\n%s", got.Forwarded, diff)
			}
			if logged := strings.Contains(log.String(), `msg="event not forwarded"`) && strings.Contains(log.String(), tt.problem); logged != (tt.problem != "") || strings.Contains(log.String(), "token") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

// An event that a rule lets arrive as failed, or twice, arrives so with each post.
func TestARepeatedPostIsAsTheRuleOfItsEventSays(t *testing.T) {
	t.Parallel()
	for action, want := range map[fault.Action]string{fault.Status: "failed", fault.Duplicate: "completed completed"} {
		for last, posts := range map[string]int{"200": 3, "503": 6} {
			faults := fault.NewSet()
			faults.RegisterWork(fault.Operation{Name: fault.ExternalEventForward, Actions: []fault.Action{action}})
			must(t, faults.Set(fault.Rule{Operation: fault.ExternalEventForward, Action: action}))
			a := newAPI(t, "503", "503", last)
			server, _ := forwarded(t, a, nova.Config{Faults: faults})
			if diff := cmp.Diff(slices.Repeat([]string{want}, posts), a.got); diff != "" {
				t.Errorf("%s, %s in the end: the posts (-want +got):\n%s", action, last, diff)
			}
			if n := len(server.Events()[0].Problems); last == "503" && n != 1 {
				t.Errorf("%s: %d problems, want 1", action, n)
			}
		}
	}
}

// A listener that is not up yet gets the event once it is, also from a server that was made of the state of the first, and
// whether or not another one has refused it.
func TestAnEventWaitsForItsListener(t *testing.T) {
	t.Parallel()
	for answer, code := range map[string]int{"200": 200, `207 {"events":[{"code":422}]}`: 422} {
		a, b := newAPI(t, answer), newAPI(t, "200")
		down := httptest.NewServer(nil)
		down.Close() // its port refuses connections
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		first := nova.New(nova.Config{Clock: sim.NewManualClock(start)})
		must(t, first.ForwardTo(down.URL, a.URL))
		post(t, first, events(event(ready, `,"tag":"x"`)))
		first.Close()
		if got := first.Events()[0]; got.Code != code || len(got.Problems)+len(got.Forwarded) != 1 {
			t.Errorf("%s: while it is down: %+v", answer, got)
		}

		records, err := tables.Collect(first.State())
		must(t, err)
		up := httptest.NewUnstartedServer(b.Config.Handler)
		clock := sim.NewManualClock(start)
		second := nova.New(nova.Config{Clock: clock})
		t.Cleanup(second.Close)
		must(t, sim.Replace(t.Context(), second.State(), records))
		listener, err := net.Listen("tcp", strings.TrimPrefix(down.URL, "http://"))
		if err != nil {
			t.Skip("the port is taken: ", err)
		}
		up.Listener.Close()
		up.Listener = listener
		up.Start()
		t.Cleanup(up.Close)
		must(t, second.ForwardTo(down.URL, a.URL))
		second.Resume()
		for len(b.tokens()) < 1 {
			clock.Advance(time.Second)
			runtime.Gosched()
		}
		second.Close()
		got := second.Events()[0]
		if got.Code != code || !slices.Contains(got.Forwarded, down.URL) || slices.Contains(got.Forwarded, a.URL) != (code == 200) || len(a.tokens()) != 1 {
			t.Errorf("%s: once it is up: %+v, %d posts", answer, got, len(a.tokens()))
		}
	}
}
