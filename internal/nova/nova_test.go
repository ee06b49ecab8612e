package nova_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

const (
	ready    = "11111111-1111-4111-8111-111111111111"
	noHost   = "22222222-2222-4222-8222-222222222222"
	stranger = "33333333-3333-4333-8333-333333333333"
	arq      = "44444444-4444-4444-8444-444444444444"
)

// inbox is a nova-compute that records events.
type inbox struct {
	mu     sync.Mutex
	events []string
	at     []time.Time
	status int
}

func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Events []sim.Event }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("OpenStack-API-Version") != "compute 2.82" {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range body.Events {
		tag := "-"
		if e.Tag != nil {
			tag = *e.Tag
		}
		i.events = append(i.events, e.Name+" "+e.ServerUUID[:4]+" "+tag+" "+e.Status)
		i.at = append(i.at, time.Now())
	}
	if i.status != 0 {
		w.WriteHeader(i.status)
	}
}

func (i *inbox) got() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.events)
}

type answer struct {
	*http.Response
	body string
}

func post(t testing.TB, h http.Handler, body string, header ...string) answer {
	t.Helper()
	return send(t, h, "POST", "/compute/v2.1/os-server-external-events", body,
		append([]string{"X-Auth-Token", "admin", "OpenStack-API-Version", "compute 2.82", "Content-Type", "application/json"}, header...)...)
}

func send(t testing.TB, h http.Handler, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://cloud.example"+path, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	res, err := (&http.Client{Transport: simhttp.NewTransport(h)}).Do(req)
	must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	return answer{res, string(data)}
}

func event(server, fields string) string {
	return `{"name":"accelerator-request-bound","server_uuid":"` + server + `"` + fields + `}`
}

func events(list ...string) string { return `{"events":[` + strings.Join(list, ",") + `]}` }

func strictServer(t *testing.T) *nova.Server {
	t.Helper()
	server := nova.New(nova.Config{StrictInstances: true})
	for _, g := range []sim.Guest{{UUID: ready, Host: "cn0"}, {UUID: noHost}} {
		must(t, server.DefineGuest(g))
	}
	return server
}

func TestDeliveryStatusPerEvent(t *testing.T) {
	t.Parallel()
	const tag = `,"tag":"` + arq + `"`
	tests := []struct {
		name       string
		events     []string
		wantStrict int
		strict     string // code and delivery status of each event
		wantLoose  int
		loose      string
		forwarded  []string // with StrictInstances
	}{
		{"completed", []string{event(ready, tag)}, 200, "200 completed", 200, "200 completed", []string{"accelerator-request-bound 1111 " + arq + " completed"}},
		{"failed is delivered too", []string{event(ready, tag+`,"status":"failed"`)}, 200, "200 completed", 200, "200 completed", []string{"accelerator-request-bound 1111 " + arq + " failed"}},
		{"unknown instance", []string{event(stranger, tag)}, 207, "404 failed", 200, "200 completed", nil},
		{"no host", []string{event(noHost, tag)}, 207, "422 failed", 200, "200 completed", nil},
		{"no tag", []string{event(ready, "")}, 207, "400 failed", 207, "400 failed", nil},
		{"unknown instance wins over no tag", []string{event(stranger, "")}, 207, "404 failed", 207, "400 failed", nil},
		{"no tag wins over no host", []string{event(noHost, "")}, 207, "400 failed", 207, "400 failed", nil},
		{"empty tag passes", []string{event(ready, `,"tag":""`)}, 200, "200 completed", 200, "200 completed", []string{"accelerator-request-bound 1111  completed"}},
		{"tag not needed", []string{`{"name":"network-changed","server_uuid":"` + ready + `"}`}, 200, "200 completed", 200, "200 completed", []string{"network-changed 1111 - completed"}},
		{"uuid in capitals", []string{event(strings.ToUpper(ready), tag)}, 200, "200 completed", 200, "200 completed", []string{"accelerator-request-bound 1111 " + arq + " completed"}},
		{"mixed", []string{event(ready, tag), event(noHost, tag)}, 207, "200 completed 422 failed", 200, "200 completed 200 completed", []string{"accelerator-request-bound 1111 " + arq + " completed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			strict, box := strictServer(t), &inbox{}
			strict.HandleEvents(box)
			check := func(server *nova.Server, wantStatus int, want string) {
				t.Helper()
				res := post(t, server, events(tt.events...))
				if got := codes(t, res.body); res.StatusCode != wantStatus || got != want {
					t.Errorf("got %d %q, want %d %q", res.StatusCode, got, wantStatus, want)
				}
			}
			check(strict, tt.wantStrict, tt.strict)
			check(nova.New(nova.Config{}), tt.wantLoose, tt.loose)
			if diff := cmp.Diff(tt.forwarded, box.got()); diff != "" {
				t.Errorf("passed on (-want +got):\n%s", diff)
			}
			lost := 0
			strict.EachLostEvent(func(text string) bool {
				lost++
				return regexp.MustCompile(`: answered code 4\d\d: (it|the instance) .`).MatchString(text)
			})
			if refused := strings.Count(tt.strict, "failed"); lost != refused {
				t.Errorf("%d lost events have a reason, want %d", lost, refused)
			}
		})
	}
}

func codes(t *testing.T, body string) string {
	t.Helper()
	var got struct {
		Events []struct {
			Code   json.Number
			Status string
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	var words []string
	for _, e := range got.Events {
		words = append(words, e.Code.String(), e.Status)
	}
	return strings.Join(words, " ")
}

func TestBadRequestsDeliverNothing(t *testing.T) {
	t.Parallel()
	good := event(ready, `,"tag":"x"`)
	tests := []struct {
		name, body string
		header     []string
		want       int
		text       string
	}{
		{"not JSON", `{"events"`, nil, 400, "Malformed request body"},
		{"two documents", events(good) + `{}`, nil, 400, "Malformed request body"},
		{"not an object", `[]`, nil, 400, "object"},
		{"null", `null`, nil, 400, "object"},
		{"no events", `{}`, nil, 400, "'events' is a required property"},
		{"events null", `{"events":null}`, nil, 400, "array"},
		{"events no list", `{"events":{}}`, nil, 400, "array"},
		{"no event", `{"events":[]}`, nil, 400, "non-empty"},
		{"extra key", `{"events":[` + good + `],"x":1}`, nil, 400, "x"},
		{"extra key in an event", events(good, event(ready, `,"tag":"x","code":200`)), nil, 400, "events/1"},
		{"key in capitals", events(`{"Name":"network-changed","server_uuid":"` + ready + `"}`), nil, 400, "Name"},
		{"event null", events("null"), nil, 400, "object"},
		{"unknown name", events(good, `{"name":"arq_resolved","server_uuid":"`+ready+`"}`), nil, 400, "arq_resolved"},
		{"no name", events(`{"server_uuid":"` + ready + `"}`), nil, 400, "'name' is a required"},
		{"no server", events(`{"name":"network-changed"}`), nil, 400, "'server_uuid' is a required"},
		{"bad server", events(event("12", "")), nil, 400, "server_uuid"},
		{"status ok", events(event(ready, `,"tag":"x","status":"ok"`)), nil, 400, "status"},
		{"status null", events(event(ready, `,"tag":"x","status":null`)), nil, 400, "status"},
		{"tag a number", events(event(ready, `,"tag":7`)), nil, 400, "tag"},
		{"tag null", events(event(ready, `,"tag":null`)), nil, 400, "tag"},
		{"long tag", events(event(ready, `,"tag":"`+strings.Repeat("é", 256)+`"`)), nil, 400, "255"},
		{"too large", events(event(ready, `,"tag":"`+strings.Repeat("x", simhttp.MaxBody)+`"`)), nil, 413, "too large"},
		{"low microversion", events(good), []string{"OpenStack-API-Version", "compute 2.81"}, 400, "accelerator-request-bound"},
		{"no microversion", events(good), []string{"OpenStack-API-Version", ""}, 400, "accelerator-request-bound"},
		{"high microversion", events(good), []string{"OpenStack-API-Version", "compute 2.999"}, 406, "2.999 is not supported"},
		{"API 3", events(good), []string{"OpenStack-API-Version", "compute 3.1"}, 406, "not supported"},
		{"malformed microversion", events(good), []string{"OpenStack-API-Version", "compute two"}, 400, "invalid format"},
		{"form", events(good), []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type"},
		{"no token", events(good), []string{"X-Auth-Token", ""}, 401, "requires authentication"},
		{"member", events(good), []string{"X-Roles", "member,reader"}, 403, "os-server-external-events:create"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, box := strictServer(t), &inbox{}
			server.HandleEvents(box)
			res := post(t, server, tt.body, tt.header...)
			if res.StatusCode != tt.want || !strings.Contains(res.body, tt.text) || !json.Valid([]byte(res.body)) {
				t.Errorf("got %d %s, want %d with %q", res.StatusCode, res.body, tt.want, tt.text)
			}
			if got := box.got(); got != nil || len(server.Events()) != 0 {
				t.Errorf("delivered %v, kept %v", got, server.Events())
			}
		})
	}
}

func TestAcceptedVersionHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		header []string
		want   string
	}{
		{"new", []string{"OpenStack-API-Version", "compute 2.82"}, "compute 2.82"},
		{"among others", []string{"OpenStack-API-Version", "placement 1.2, compute 2.90"}, "compute 2.90"},
		{"old", []string{"OpenStack-API-Version", "", "X-OpenStack-Nova-API-Version", "2.82"}, "compute 2.82"},
		{"latest", []string{"OpenStack-API-Version", "compute latest"}, "compute 2.104"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := post(t, nova.New(nova.Config{}), events(event(ready, `,"tag":"x"`)), tt.header...)
			if res.StatusCode != 200 || res.Header.Get("OpenStack-API-Version") != tt.want {
				t.Errorf("got %d, version %q", res.StatusCode, res.Header.Get("OpenStack-API-Version"))
			}
		})
	}
}

func TestForwardingErrorsAreRecordedAndNotAnswered(t *testing.T) {
	t.Parallel()
	outside, broken := &inbox{}, &inbox{status: 500}
	listener := httptest.NewServer(outside)
	defer listener.Close()
	server := nova.New(nova.Config{})
	defer server.Close()
	server.HandleEvents(broken)
	must(t, server.ForwardTo(listener.URL+"/events"))
	if err := server.ForwardTo("events"); !errors.Is(err, nova.ErrURL) {
		t.Errorf("relative URL: %v", err)
	}
	if err := server.ForwardTo("http://u:hunter2@host/events"); !errors.Is(err, nova.ErrURL) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("URL with a password: %v", err)
	}
	res := post(t, server, events(event(ready, `,"tag":"x"`)))
	if res.StatusCode != 200 || len(outside.got()) != 1 {
		t.Errorf("got %d, outside %v", res.StatusCode, outside.got())
	}
	kept := server.Events()[0]
	if diff := cmp.Diff([]string{"in process: answered 500 Internal Server Error"}, kept.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{listener.URL + "/events"}, kept.Forwarded); diff != "" {
		t.Errorf("forwarded (-want +got):\n%s", diff)
	}
}

// Two listeners that differ by the query alone both get the event, and nothing has their queries.
func TestTheQueryOfAListenerIsNotShown(t *testing.T) {
	t.Parallel()
	var got []string
	listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
		got = append(got, r.URL.RawQuery)
	}))
	defer listener.Close()
	var logged bytes.Buffer
	server := nova.New(nova.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	defer server.Close()
	must(t, server.ForwardTo(listener.URL+"?token=hunter2", listener.URL+"?token=hunter3", listener.URL+"/broken?token=hunter4"))
	post(t, server, events(event(ready, `,"tag":"x"`)))
	if diff := cmp.Diff([]string{"token=hunter2", "token=hunter3"}, got); diff != "" {
		t.Errorf("posted to (-want +got):\n%s", diff)
	}
	kept := server.Events()[0]
	if diff := cmp.Diff([]string{listener.URL + "?***", listener.URL + "?***, number 2"}, kept.Forwarded); diff != "" || len(kept.Problems) != 1 {
		t.Errorf("problems %q, forwarded (-want +got):\n%s", kept.Problems, diff)
	}
	if text := fmt.Sprint(kept, logged.String()); strings.Contains(text, "hunter") || !strings.Contains(logged.String(), listener.URL+"/broken?***") {
		t.Errorf("a query is shown: %s", text)
	}
}

// A listener that moved keeps its token to itself: the redirect is its answer.
func TestAForwardedEventCarriesNoTokenToAnotherServer(t *testing.T) {
	t.Parallel()
	other, token := &inbox{}, ""
	elsewhere := httptest.NewServer(other)
	defer elsewhere.Close()
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("X-Auth-Token")
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer listener.Close()
	server := nova.New(nova.Config{Token: func(context.Context) (string, error) { return "secret", nil }})
	defer server.Close()
	must(t, server.ForwardTo(listener.URL))
	post(t, server, events(event(ready, `,"tag":"x"`)))
	if got := other.got(); token != "secret" || got != nil {
		t.Errorf("the listener got token %q, the other server %v", token, got)
	}
	if diff := cmp.Diff([]string{listener.URL + ": answered 307 Temporary Redirect"}, server.Events()[0].Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestFaultsOfForwarding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, faults := &inbox{}, fault.NewSet()
		server := nova.New(nova.Config{Faults: faults})
		faults.Register(server.Operations()...)
		server.HandleEvents(box)
		forward := func(tag string, action fault.Action) fault.Rule {
			return fault.Rule{Operation: fault.ExternalEventForward, Subject: tag, Action: action, Delay: time.Minute, Times: -1}
		}
		must(t, faults.Set(forward("late", fault.Delay), forward("lost", fault.Drop), forward("bad", fault.Status), forward("never", fault.Delay)))
		start := time.Now()
		tagged := func(tag string) string { return event(ready, `,"tag":"`+tag+`"`) }
		res := post(t, server, events(tagged("late"), tagged("lost"), tagged("bad"), tagged("fine")))
		if res.StatusCode != 200 || time.Since(start) != 0 {
			t.Errorf("got %d after %s", res.StatusCode, time.Since(start))
		}
		want := []string{"accelerator-request-bound 1111 bad failed", "accelerator-request-bound 1111 fine completed"}
		if diff := cmp.Diff(want, box.got()); diff != "" {
			t.Errorf("at once (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff(append(want, "accelerator-request-bound 1111 late completed"), box.got()); diff != "" {
			t.Errorf("later (-want +got):\n%s", diff)
		}
		post(t, server, events(tagged("never")))
		server.Close()
		post(t, server, events(tagged("never"), tagged("after close")))
		time.Sleep(time.Hour)
		if got := len(box.got()); got != 4 {
			t.Errorf("after Close: %v", box.got())
		}
	})
}

func TestEventsArePassedOnTwiceOrLast(t *testing.T) {
	t.Parallel()
	box, faults := &inbox{}, fault.NewSet()
	server := nova.New(nova.Config{Faults: faults})
	defer server.Close()
	server.HandleEvents(box)
	var rules []fault.Rule
	for tag, action := range map[string]fault.Action{"twice": fault.Duplicate, "last": fault.Reorder, "but one": fault.Reorder} {
		rules = append(rules, fault.Rule{Operation: fault.ExternalEventForward, Subject: tag, Action: action})
	}
	must(t, faults.Set(rules...))
	tagged := func(tag string) string { return event(ready, `,"tag":"`+tag+`"`) }
	all := events(tagged("last"), tagged("but one"), tagged("twice"), tagged("fine"))
	if res := post(t, server, all); res.StatusCode != 200 || codes(t, res.body) != "200 completed 200 completed 200 completed 200 completed" {
		t.Errorf("answer %d %s", res.StatusCode, res.body)
	}
	var want []string
	for _, tag := range []string{"twice", "twice", "fine", "but one", "last"} {
		want = append(want, "accelerator-request-bound 1111 "+tag+" completed")
	}
	if diff := cmp.Diff(want, box.got()); diff != "" {
		t.Errorf("passed on (-want +got):\n%s", diff)
	}
	for _, state := range faults.Rules() {
		if state.Hits != 1 {
			t.Errorf("hits of %+v: %d", state.Rule, state.Hits)
		}
	}
	if err := faults.Set(fault.Rule{Operation: fault.ExternalEventForward, Action: fault.Truncate}); !errors.Is(err, fault.ErrRule) {
		t.Errorf("truncated event: got error %v, want ErrRule", err)
	}
}

func TestFormsOfTheSpecificationsMustBeEnabled(t *testing.T) {
	t.Parallel()
	train := `{"name":"arq_resolved","server_uuid":"` + ready + `","tag":"` + arq + `","status":"ok"}`
	ussuri := `{"name":"accelerator-requests-bound","server_uuid":"` + ready + `","tag":"gpu","status":"failed"}`
	tests := []struct {
		name, form, body string
		want             int
		passed           []string
	}{
		{"train in train", "train", train, 200, []string{"arq_resolved 1111 " + arq + " ok"}},
		{"ussuri in ussuri", "ussuri", ussuri, 200, []string{"accelerator-requests-bound 1111 gpu failed"}},
		{"train in nova", "", train, 400, nil},
		{"ussuri in nova", "", ussuri, 400, nil},
		{"train in ussuri", "ussuri", train, 400, nil},
		{"ussuri in train", "train", ussuri, 400, nil},
		{"shipped in train", "train", event(ready, `,"tag":"x"`), 200, []string{"accelerator-request-bound 1111 x completed"}},
		{"train with the shipped status", "train", strings.Replace(train, `"ok"`, `"completed"`, 1), 400, nil},
		{"train without a status", "train", strings.Replace(train, `,"status":"ok"`, "", 1), 200, []string{"arq_resolved 1111 " + arq + " ok"}},
		{"train without a tag", "train", strings.Replace(train, `"tag":"`+arq+`",`, "", 1), 207, nil},
		{"ussuri with the status of train", "ussuri", strings.Replace(ussuri, `"failed"`, `"ok"`, 1), 400, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, box := nova.New(nova.Config{EventForm: tt.form}), &inbox{}
			server.HandleEvents(box)
			if res := post(t, server, events(tt.body)); res.StatusCode != tt.want {
				t.Errorf("got %d %s, want %d", res.StatusCode, res.body, tt.want)
			}
			if diff := cmp.Diff(tt.passed, box.got()); diff != "" {
				t.Errorf("passed on (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNovaEventsAPI has the rows of Nova's own tests of the API (test_server_external_events),
// each by its name.
func TestNovaEventsAPI(t *testing.T) {
	t.Parallel()
	const tag = `,"tag":"` + arq + `"`
	for _, tt := range []struct {
		row, body string
		status    int
		codes     string
		passed    int
	}{
		{"create", events(event(ready, tag), event(ready, tag)), 200, "200 completed 200 completed", 2},
		{"create_one_bad_instance", events(event(ready, tag), event(stranger, tag)), 207, "200 completed 404 failed", 1},
		{"create_event_instance_has_no_host", events(event(noHost, tag), event(ready, tag)), 207, "422 failed 200 completed", 1},
		{"create_no_good_instances", events(event(stranger, tag), event(noHost, tag)), 207, "404 failed 422 failed", 0},
		{"create_bad_status", events(event(ready, tag), event(ready, tag+`,"status":"foo"`)), 400, "", 0},
		{"create_extra_gorp", strings.Replace(events(event(ready, tag)), "{", `{"foobar":"bad",`, 1), 400, "", 0},
		{"create_bad_events", `{"events":"foo"}`, 400, "", 0},
		{"create_bad_body", `{"foo":"bar"}`, 400, "", 0},
		{"create_unknown_events", events(event(ready, tag), `{"name":"unkown_event","server_uuid":"`+ready+`"}`), 400, "", 0},
		{"accelerator_request_bound_event", events(event(ready, tag), event(ready, "")), 207, "200 completed 400 failed", 1},
	} {
		t.Run(tt.row, func(t *testing.T) {
			t.Parallel()
			server, box := strictServer(t), &inbox{}
			server.HandleEvents(box)
			res := post(t, server, tt.body)
			if got := codes(t, res.body); res.StatusCode != tt.status || got != tt.codes || len(box.got()) != tt.passed {
				t.Errorf("got %d %q, %d passed on; want %d %q, %d", res.StatusCode, got, len(box.got()), tt.status, tt.codes, tt.passed)
			}
		})
	}
}

func TestVersionDocuments(t *testing.T) {
	t.Parallel()
	for path, self := range map[string]string{
		"/compute": "/compute/v2.1/", "/compute/": "/compute/v2.1/", "/compute/v2.1": "/compute/v2.1/", "/compute/v2.1/": "/compute/v2.1/", "/v2.1": "/v2.1/",
	} {
		res := send(t, nova.New(nova.Config{}), "GET", path, "")
		if res.StatusCode != 200 || !strings.Contains(res.body, `"href":"http://cloud.example`+self+`"`) || !strings.Contains(res.body, `"id":"v2.1"`) {
			t.Errorf("%s: %d %s", path, res.StatusCode, res.body)
		}
	}
	for _, tt := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/compute/v2.1/servers", "admin", 404},
		{"GET", "/compute/v2.1/servers", "", 401},
		{"GET", "/compute/v2.1/os-server-external-events", "admin", 405},
		{"DELETE", "/compute/v2.1", "admin", 405},
	} {
		if res := send(t, nova.New(nova.Config{}), tt.method, tt.path, "", "X-Auth-Token", tt.token); res.StatusCode != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.path, res.StatusCode, tt.want)
		}
	}
}

func TestGuests(t *testing.T) {
	t.Parallel()
	server := nova.New(nova.Config{})
	for _, bad := range []sim.Guest{
		{UUID: "x"}, {}, {UUID: "urn:uuid:" + ready}, {UUID: ready, Domain: "hello"}, {UUID: ready, Domain: "<domain>"},
		{UUID: ready, Domain: "<network/>"}, {UUID: ready, Domain: "<domain>&nope;</domain>"},
		{UUID: ready, Domain: "<domain><devices>" + strings.Repeat("<hostdev type='pci'><source><address bus='1'/></source></hostdev>", 2) + "</devices></domain>"},
	} {
		if err := server.DefineGuest(bad); !errors.Is(err, nova.ErrGuest) {
			t.Errorf("%+v: got error %v, want ErrGuest", bad, err)
		}
	}
	for _, good := range []sim.Guest{
		{UUID: noHost, Host: "cn0"}, {UUID: ready}, {UUID: strings.ToUpper(ready), Domain: "<?xml version='1.0'?><!-- a --><domain type='kvm'/>"},
	} {
		if err := server.DefineGuest(good); err != nil {
			t.Error(err)
		}
	}
	want := []nova.Guest{{Guest: sim.Guest{UUID: ready, Domain: "<?xml version='1.0'?><!-- a --><domain type='kvm'/>"}}, {Guest: sim.Guest{UUID: noHost, Host: "cn0"}}}
	if diff := cmp.Diff(want, server.Guests()); diff != "" {
		t.Errorf("guests (-want +got):\n%s", diff)
	}
	if !server.RemoveGuest(strings.ToUpper(ready)) || server.RemoveGuest(ready) || len(server.Guests()) != 1 {
		t.Errorf("after removal: %v", server.Guests())
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(events(event(ready, `,"tag":"x","status":"in-progress"`)), "")
	f.Add(events(`{"name":"arq_resolved","server_uuid":"`+ready+`","tag":"x","status":"ok"}`), "train")
	f.Add(events(`{"name":"accelerator-requests-bound","server_uuid":"`+ready+`","tag":"gpu"}`), "ussuri")
	f.Add(`{"events":[{"name":"network-changed","server_uuid":"{11111111-1111-4111-8111-111111111111}"}]}`, "")
	f.Add(`{"events":[7]}`, "train")
	f.Fuzz(func(t *testing.T, body, form string) {
		server := nova.New(nova.Config{StrictInstances: true, EventForm: form})
		res := post(t, server, body)
		if res.StatusCode != 207 && (res.StatusCode != 400 || len(server.Events()) != 0) {
			t.Errorf("%q: %d %s, kept %v", body, res.StatusCode, res.body, server.Events())
		}
		if !json.Valid([]byte(res.body)) {
			t.Errorf("%q: the answer is not JSON: %s", body, res.body)
		}
	})
}
