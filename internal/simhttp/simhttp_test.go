package simhttp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// counterService counts PUTs, so that a test sees whether a change was
// applied.
type counterService struct{ applied atomic.Int64 }

func (c *counterService) service(faults *fault.Set) *simhttp.Service {
	router := simhttp.NewRouter(
		simhttp.Route{Operation: "counter.get", Method: "GET", Pattern: "/counters/{name}", Handler: c.get},
		simhttp.Route{Operation: "counter.put", Method: "PUT", Pattern: "/counters/{name}", Handler: c.put},
	)
	return &simhttp.Service{
		Name: "counter", Prefixes: []string{"/count"}, Router: router,
		Handler: func(c *simhttp.Call) error {
			if c.Route != nil {
				c.W.Header().Set("X-Version", "counter 1.2")
			}
			return c.Dispatch()
		},
		WriteError: func(c *simhttp.Call, err error) {
			e := simhttp.AsError(err)
			http.Error(c.W, e.Text+" "+e.Code, e.Status)
		},
		VersionHeader: "X-Version", Faults: faults, Clock: simhttp.Wall{}, IDs: simhttp.NewIDs(1, "counter"),
	}
}

func (c *counterService) get(call *simhttp.Call) error {
	return call.JSON(http.StatusOK, map[string]any{"name": call.PathValue("name"), "applied": c.applied.Load()})
}

func (c *counterService) put(call *simhttp.Call) error {
	c.applied.Add(1)
	return c.get(call)
}

// faulty is a counter with a fault.
func faulty(t *testing.T, rule fault.Rule) (*counterService, *simhttp.Service) {
	t.Helper()
	counter := &counterService{}
	service := counter.service(fault.NewSet("counter.get", "counter.put"))
	if err := service.Faults.Set(rule); err != nil {
		t.Fatal(err)
	}
	return counter, service
}

func request(ctx context.Context, t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func do(t *testing.T, client *http.Client, method, url string) (status int, body string, err error) {
	t.Helper()
	res, err := client.Do(request(t.Context(), t, method, url, ""))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

func TestFaultsActAlikeOnSocketAndInProcess(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		rule        fault.Rule
		wantStatus  int
		wantBody    string
		wantErr     bool
		wantApplied int64
	}{
		{"none", fault.Rule{Operation: "counter.get", Action: fault.Drop}, 200, `{"applied":1,"name":"a"}`, false, 1},
		{"status before", fault.Rule{Action: fault.Status, Status: 503, Code: "x"}, 503, "injected fault x\n", false, 0},
		{"status after", fault.Rule{Action: fault.Status, When: fault.After}, 500, "injected fault \n", false, 1},
		{"drop before", fault.Rule{Action: fault.Drop}, 0, "", true, 0},
		{"drop after", fault.Rule{Action: fault.Drop, When: fault.After}, 0, "", true, 1},
		{"truncate", fault.Rule{Action: fault.Truncate}, 200, `{"applied":1`, true, 1},
		{"malformed", fault.Rule{Action: fault.Malformed}, 200, `{"malformed": `, false, 1},
		{"delay", fault.Rule{Action: fault.Delay, Delay: time.Nanosecond}, 200, `{"applied":1,"name":"a"}`, false, 1},
		{"delay after", fault.Rule{Action: fault.Delay, Delay: time.Nanosecond, When: fault.After}, 200, `{"applied":1,"name":"a"}`, false, 1},
		{"proxy", fault.Rule{Action: fault.Proxy}, 502, page("502 Bad Gateway"), false, 0},
		{"proxy after", fault.Rule{Action: fault.Proxy, Status: 504, When: fault.After}, 504, page("504 Gateway Timeout"), false, 1},
		{"late behind a proxy", fault.Rule{Action: fault.Late, Status: 504, Delay: time.Hour}, 504, page("504 Gateway Timeout"), false, 0},
		{"late", fault.Rule{Action: fault.Late, Delay: time.Hour}, 0, "", true, 0},
		{"slow body", fault.Rule{Action: fault.SlowBody, Delay: time.Nanosecond}, 200, `{"applied":1,"name":"a"}`, false, 1},
	}
	for _, tt := range tests {
		for _, wire := range []string{"socket", "in process"} {
			t.Run(tt.name+"/"+wire, func(t *testing.T) {
				t.Parallel()
				rule := tt.rule
				rule.Operation = cmp.Or(rule.Operation, "counter.put")
				counter, service := faulty(t, rule)
				t.Cleanup(service.Close)
				client, url := clientFor(t, wire, service)
				status, body, err := do(t, client, "PUT", url+"/count/counters/a")
				if status != tt.wantStatus || body != tt.wantBody || (err != nil) != tt.wantErr {
					t.Errorf("answer: got %d %q %v, want %d %q error %v", status, body, err, tt.wantStatus, tt.wantBody, tt.wantErr)
				}
				if counter.applied.Load() != tt.wantApplied {
					t.Errorf("applied: got %d, want %d", counter.applied.Load(), tt.wantApplied)
				}
			})
		}
	}
}

func page(title string) string {
	return fmt.Sprintf("<html>\n<head><title>%[1]s</title></head>\n<body>\n<center><h1>%[1]s</h1></center>\n</body>\n</html>\n", title)
}

func clientFor(t *testing.T, wire string, handler http.Handler) (*http.Client, string) {
	t.Helper()
	if wire == "in process" {
		return &http.Client{Transport: simhttp.NewTransport(handler)}, "http://sim.invalid"
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport.(*http.Transport).DisableKeepAlives = true // net/http would retry on a reused connection
	return client, server.URL
}

func TestRouting(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, path string
		want         int
		wantAllow    string
	}{
		{"GET", "/counters/a", 200, ""},
		{"GET", "/count/counters/a%2Fb", 200, ""},
		{"HEAD", "/counters/a", 405, "GET, PUT"},
		{"GET", "/counters/a/", 404, ""},
		{"GET", "//counters/a", 404, ""},
		{"GET", "/counters/", 404, ""},
		{"GET", "/counter/counters/a", 404, ""},
	}
	client := &http.Client{Transport: simhttp.NewTransport((&counterService{}).service(nil))}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			t.Parallel()
			res, err := client.Do(request(t.Context(), t, tt.method, "http://sim.invalid"+tt.path, ""))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != tt.want || res.Header.Get("Allow") != tt.wantAllow {
				t.Errorf("got %d, Allow %q; want %d, %q", res.StatusCode, res.Header.Get("Allow"), tt.want, tt.wantAllow)
			}
			if !strings.HasPrefix(res.Header.Get(simhttp.RequestIDHeader), "req-") {
				t.Errorf("no request id: %v", res.Header)
			}
			if res.Request == nil {
				t.Error("response without its request: pagers need it")
			}
		})
	}
}

func TestRecorderKeepsTheNewest(t *testing.T) {
	t.Parallel()
	recorder := simhttp.NewRecorder(2)
	_, service := faulty(t, fault.Rule{Operation: "counter.get", Subject: "c", Action: fault.Drop})
	client := &http.Client{Transport: simhttp.NewTransport(simhttp.Recording(service, recorder))}
	for _, name := range []string{"a", "b", "c"} {
		_, _, err := do(t, client, "GET", "http://sim.invalid/counters/"+name+"?q="+name)
		if (err != nil) != (name == "c") {
			t.Fatal(err)
		}
	}
	type brief struct {
		Subject                            string
		Operation                          sim.OperationName
		Query, Microversion, Fault, Status string
	}
	var got []brief
	for _, e := range recorder.Exchanges() {
		got = append(got, brief{e.Subject, e.Operation, e.Query, e.Microversion, e.Fault, fmt.Sprint(e.Status)})
	}
	want := []brief{{"b", "counter.get", "q=b", "1.2", "", "200"}, {"c", "counter.get", "q=c", "", "drop", "0"}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

func TestRecordingKeepsTheOrderOfStartsInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		recorder := simhttp.NewRecorder(10)
		inner := (&counterService{}).service(nil)
		outer := (&counterService{}).service(nil)
		outer.Handler = func(c *simhttp.Call) error {
			_, _, err := do(t, &http.Client{Transport: simhttp.NewTransport(simhttp.Recording(inner, recorder))}, "GET", "http://sim.invalid/counters/inner")
			if err != nil {
				t.Error(err)
			}
			return c.Dispatch()
		}
		client := &http.Client{Transport: simhttp.NewTransport(simhttp.Recording(outer, recorder))}
		if _, _, err := do(t, client, "GET", "http://sim.invalid/counters/outer"); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range recorder.Exchanges() {
			got = append(got, e.Subject)
		}
		if diff := gocmp.Diff([]string{"outer", "inner"}, got); diff != "" {
			t.Errorf("order of starts (-want +got):\n%s", diff)
		}
	})
}

func TestACallerThatGivesUpNeverSeesTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counter, service := faulty(t, fault.Rule{Operation: "counter.put", Action: fault.Delay, Delay: time.Minute, When: fault.After})
		client := &http.Client{Transport: simhttp.NewTransport(service)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		res, err := client.Do(request(ctx, t, "PUT", "http://sim.invalid/counters/a", ""))
		if err == nil {
			res.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second || counter.applied.Load() != 1 {
			t.Errorf("got error %v after %s, applied %d; want the deadline after 1s, applied 1", err, time.Since(start), counter.applied.Load())
		}
	})
}

func TestControlRefusesBadFaultsAndChangesNothing(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet("counter.get")
	control := simhttp.Control{Faults: faults, Recorder: simhttp.NewRecorder(10)}
	client := &http.Client{Transport: simhttp.NewTransport(control.Handler())}
	send := func(method, body string) int {
		res, err := client.Do(request(t.Context(), t, method, "http://sim.invalid/_sim/faults", body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if status := send("PUT", `[{"operation":"counter.get","action":"drop"}]`); status != 200 {
		t.Fatalf("good rule: got %d", status)
	}
	for _, body := range []string{``, `{}`, `[{"operation":"nope","action":"drop"}]`, `[{"operation":"counter.get","action":"drop","x":1}]`, `[] []`} {
		for _, method := range []string{"PUT", "POST"} {
			if status := send(method, body); status != 400 {
				t.Errorf("%s of %q: got %d, want 400", method, body, status)
			}
		}
	}
	if got := len(faults.Rules()); got != 1 {
		t.Errorf("rules after refused bodies: got %d, want 1", got)
	}
	if status := send("POST", `[{"operation":"counter.get","action":"truncate"}]`); status != 200 || len(faults.Rules()) != 2 {
		t.Errorf("one more rule: got %d and %d rules, want 200 and 2", status, len(faults.Rules()))
	}
}

// A list of all that are set would be as long as all bodies before it.
func TestChangesOfFaultRulesAnswerThem(t *testing.T) {
	t.Parallel()
	handler := simhttp.Control{Faults: fault.NewSet("counter.get"), Recorder: simhttp.NewRecorder(10)}.Handler()
	for _, method := range []string{"PUT", "POST"} {
		for _, action := range []fault.Action{fault.Drop, fault.Truncate} {
			w := httptest.NewRecorder()
			body := fmt.Sprintf(`[{"operation":"counter.get","action":%q}]`, action)
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/_sim/faults", strings.NewReader(body)))
			var answer struct{ Rules []fault.State }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			want := []fault.State{{Rule: fault.Rule{Operation: "counter.get", Action: action}}}
			if diff := gocmp.Diff(want, answer.Rules); diff != "" {
				t.Errorf("%s: rules (-want +got):\n%s", method, diff)
			}
		}
	}
}

func TestNoAuthConventions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		header http.Header
		want   simhttp.Identity
		wantOK bool
	}{
		{"no token", http.Header{"X-Roles": {"admin"}}, simhttp.Identity{}, false},
		{"admin", http.Header{"X-Auth-Token": {"admin"}}, simhttp.Identity{User: "admin", Project: "admin", Roles: []string{"admin", "manager", "member", "reader"}}, true},
		{"user and project", http.Header{"X-Auth-Token": {"u:p"}}, simhttp.Identity{User: "u", Project: "p"}, true},
		{"roles win", http.Header{"X-Auth-Token": {"admin"}, "X-Roles": {"reader, member"}}, simhttp.Identity{User: "admin", Project: "admin", Roles: []string{"reader", "member"}}, true},
		{"project header wins", http.Header{"X-Auth-Token": {"u:p"}, "X-Project-Id": {"q"}}, simhttp.Identity{User: "u", Project: "q"}, true},
		{"system scope", http.Header{"X-Auth-Token": {"admin"}, "Openstack-System-Scope": {"all"}}, simhttp.Identity{User: "admin", Project: "admin", Roles: []string{"admin", "manager", "member", "reader"}, SystemScope: true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			call := simhttp.Call{Request: &http.Request{Header: tt.header}}
			ok := call.Authenticate(nil) == nil
			if diff := gocmp.Diff(tt.want, call.Identity); diff != "" || ok != tt.wantOK {
				t.Errorf("identity, ok %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// keys verifies tokens that are the user's name; "stale" is not valid.
type keys struct{}

// VerifyToken implements sim.TokenVerifier.
func (keys) VerifyToken(token string) (http.Header, error) {
	if token == "stale" {
		return nil, errors.New("expired")
	}
	return http.Header{"X-User-Id": {token}, "X-Roles": {"member, reader"}}, nil
}

func TestAuthenticateAsksTheVerifierIfThereIsOne(t *testing.T) {
	t.Parallel()
	known := simhttp.Identity{User: "demo", Roles: []string{"member", "reader"}}
	tests := []struct {
		name     string
		verifier sim.TokenVerifier
		header   http.Header
		roles    []string // of services
		user     simhttp.Identity
		ok       bool
	}{
		{"no verifier", nil, http.Header{"X-Auth-Token": {"demo"}, "X-Roles": {"admin"}}, nil, simhttp.Identity{User: "demo", Project: "demo", Roles: []string{"admin"}}, true},
		{"no token", keys{}, http.Header{"X-Roles": {"admin"}}, nil, simhttp.Identity{}, false},
		{"bad tokens", keys{}, http.Header{"X-Auth-Token": {"stale"}, "X-Service-Token": {"stale"}}, nil, simhttp.Identity{}, false},
		{"the verifier's roles count", keys{}, http.Header{"X-Auth-Token": {"demo"}, "X-Roles": {"admin"}}, []string{"service"}, known, true},
		{"bad token of a service's user", keys{}, http.Header{"X-Auth-Token": {"stale"}, "X-Service-Token": {"demo"}}, nil, simhttp.Identity{}, false},
		{"service token alone", keys{}, http.Header{"X-Service-Token": {"demo"}}, []string{"member"}, simhttp.Identity{}, false},
		{"service token", keys{}, http.Header{"X-Auth-Token": {"demo"}, "X-Service-Token": {"demo"}}, nil, known, true},
		{"bad service token", keys{}, http.Header{"X-Auth-Token": {"demo"}, "X-Service-Token": {"stale"}}, nil, known, false},
		{"service token with a role", keys{}, http.Header{"X-Auth-Token": {"demo"}, "X-Service-Token": {"demo"}}, []string{"x", "member"}, known, true},
		{"service token without the role", keys{}, http.Header{"X-Auth-Token": {"demo"}, "X-Service-Token": {"demo"}}, []string{"service"}, known, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			call := simhttp.Call{Request: &http.Request{Header: tt.header}}
			err := call.Authenticate(tt.verifier, tt.roles...)
			if (err == nil) != tt.ok || err != nil && simhttp.AsError(err).Status != http.StatusUnauthorized {
				t.Errorf("got %v, want success: %t", err, tt.ok)
			}
			if diff := gocmp.Diff(tt.user, call.Identity); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIDsAreTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	a, b, c := simhttp.NewIDs(1, "x"), simhttp.NewIDs(1, "x"), simhttp.NewIDs(2, "x")
	first := a.UUID()
	if first != b.UUID() || first == c.UUID() || first == a.UUID() {
		t.Errorf("ids are not a function of seed, name and position: %s", first)
	}
}

func TestWatchRecordingSeesTheRecorderOfARequest(t *testing.T) {
	service := new(counterService).service(nil)
	recorder := simhttp.NewRecorder(1)
	for name, tt := range map[string]struct {
		handler http.Handler
		pause   bool
		want    bool
	}{
		"no recorder":     {handler: service},
		"recorder":        {handler: simhttp.Recording(service, recorder), want: true},
		"paused recorder": {handler: simhttp.Recording(service, recorder), pause: true},
	} {
		if recorder.Reset(); tt.pause {
			recorder.Pause()
		}
		ctx, recorded := simhttp.WatchRecording(t.Context())
		res, err := simhttp.NewTransport(tt.handler).RoundTrip(request(ctx, t, http.MethodGet, "http://sim/counters/a", ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := recorded.Load(); got != tt.want {
			t.Errorf("%s: recorded %t, want %t", name, got, tt.want)
		}
	}
}

func TestControlRoutesRefuseUnknownQueryKeys(t *testing.T) {
	t.Parallel()
	control := simhttp.Control{Faults: fault.NewSet(), Recorder: simhttp.NewRecorder(1)}
	for _, route := range control.All() {
		method, path, _ := strings.Cut(route.Pattern, " ")
		w := httptest.NewRecorder()
		control.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path+"?limit=1&colour=red", nil))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "unknown query ") || !strings.Contains(w.Body.String(), route.Pattern+" reads ") {
			t.Errorf("%s with an unknown key: %d %s", route.Pattern, w.Code, w.Body)
		}
	}
}
