package externalevent_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

const path = "/v2.1/os-server-external-events"

// request is a POST as Cyborg sends it, changed by each edit.
func request(body string, edits ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("OpenStack-API-Version", "compute 2.82")
	r.Header.Set("X-OpenStack-Nova-API-Version", "2.82")
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func withoutVersion(r *http.Request) {
	r.Header.Del("OpenStack-API-Version")
	r.Header.Del("X-OpenStack-Nova-API-Version")
}

func answer(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func item(fields string) string {
	return `{"name":"accelerator-request-bound","server_uuid":"` + instance + `"` + fields + `}`
}

func events(items ...string) string { return `{"events":[` + strings.Join(items, ",") + `]}` }

func tagged(tag string) string { return item(`,"tag":"` + tag + `"`) }

func TestHandlerDeliversAndEchoes(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	w := prepare(t, r, arq1, arq2)
	got := answer(r.Handler(), request(events(tagged(arq1), item(`,"tag":"`+arq2+`","status":"failed"`))))
	want := `{"events":[{"name":"accelerator-request-bound","server_uuid":"` + instance + `","tag":"` + arq1 + `","status":"completed","code":200},` +
		`{"name":"accelerator-request-bound","server_uuid":"` + instance + `","tag":"` + arq2 + `","status":"completed","code":200}]}`
	if got.Code != http.StatusOK || got.Body.String() != want {
		t.Errorf("answer %d %s\nwant 200 %s", got.Code, got.Body, want)
	}
	for name, value := range map[string]string{"Content-Type": "application/json",
		"OpenStack-API-Version": "compute 2.82", "X-OpenStack-Nova-API-Version": "2.82"} {
		if got.Header().Get(name) != value {
			t.Errorf("header %s = %q, want %q", name, got.Header().Get(name), value)
		}
	}
	if err := w.Wait(t.Context(), timeout); !errors.Is(err, externalevent.ErrFailed) || !strings.Contains(err.Error(), arq2) {
		t.Errorf("Wait = %v; want the failure of the second request", err)
	}
}

// The instances that an apiRow does not know, and knows without a host.
const (
	unknown = "00000000-0000-4000-8000-00000000dead"
	noHost  = "00000000-0000-4000-8000-00000000beef"
)

// apiRow is one request to an API that knows an instance and one without a host, and expects arq1.
type apiRow struct {
	row, body string
	status    int
	codes     []int
	pending   int
}

func (tt apiRow) run(t *testing.T) {
	t.Run(tt.row, func(t *testing.T) {
		t.Parallel()
		r := externalevent.NewRegistry(externalevent.WithInstances(func(uuid string) (host string, known bool) {
			host, known = map[string]string{instance: "cn0", noHost: ""}[uuid]
			return host, known
		}))
		prepare(t, r, arq1)
		got := answer(r.Handler(), request(tt.body))
		var body struct{ Events []externalevent.Event }
		if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		var codes []int
		for _, e := range body.Events {
			codes = append(codes, e.Code)
			if want := map[bool]externalevent.Status{true: "completed", false: "failed"}[e.Code == 200]; e.Status != want {
				t.Errorf("status of code %d = %s, want %s", e.Code, e.Status, want)
			}
		}
		if got.Code != tt.status || !slices.Equal(codes, tt.codes) {
			t.Errorf("answer %d with codes %v, want %d with %v", got.Code, codes, tt.status, tt.codes)
		}
		wantPending(t, r, tt.pending) // what was not delivered is still expected
	})
}

// TestHandlerAnswersEachEventByItsState has what the rows of TestNovaEventsAPI do not.
func TestHandlerAnswersEachEventByItsState(t *testing.T) {
	t.Parallel()
	of := func(server, fields string) string { return strings.Replace(item(fields), instance, server, 1) }
	tag := `,"tag":"` + arq1 + `"`
	for _, tt := range []apiRow{
		{"delivered", events(of(instance, tag)), 200, []int{200}, 0},
		{"not expected", events(tagged(arq5)), 200, []int{200}, 1},
		{"all without a host", events(of(noHost, tag), of(noHost, tag)), 207, []int{422, 422}, 1},
		{"empty tag", events(of(instance, `,"tag":""`)), 200, []int{200}, 1},
		{"unknown comes before the tag", events(of(unknown, "")), 207, []int{404}, 1},
		{"the tag comes before the host", events(of(noHost, "")), 207, []int{400}, 1},
		{"names of earlier versions", events(`{"name":"network-changed","server_uuid":"`+instance+`"}`, `{"name":"power-update","tag":"POWER_ON","server_uuid":"`+instance+`"}`), 200, []int{200, 200}, 1},
		{"another name needs no tag", events(`{"name":"network-changed","server_uuid":"` + instance + `"}`), 200, []int{200}, 1},
		{"volume-extended needs one", events(`{"name":"volume-extended","server_uuid":"` + instance + `"}`), 207, []int{400}, 1},
	} {
		tt.run(t)
	}
}

func TestHandlerRefusesTheWholeRequest(t *testing.T) {
	t.Parallel()
	good := events(tagged(arq1))
	deliver := func(extra string) string { return events(tagged(arq1), extra) }
	tests := []struct {
		name   string
		req    *http.Request
		status int
		fault  string
		text   string
	}{
		{"GET", request("", func(r *http.Request) { r.Method = http.MethodGet }), 405, "badMethod", "not allowed"},
		{"PUT", request(good, func(r *http.Request) { r.Method = http.MethodPut }), 405, "badMethod", "not allowed"},
		{"empty body", request(""), 400, "badRequest", "malformed"},
		{"not JSON", request("{"), 400, "badRequest", "malformed"},
		{"JSON and junk", request(good + "x"), 400, "badRequest", "malformed"},
		{"two documents", request(good + good), 400, "badRequest", "malformed"},
		{"not UTF-8", request(events(tagged("\xff"))), 400, "badRequest", "UTF-8"},
		{"null", request("null"), 400, "badRequest", "null"},
		{"a list", request("[" + good + "]"), 400, "badRequest", "array"},
		{"no events key", request("{}"), 400, "badRequest", "events"},
		{"another key", request(`{"events":[` + tagged(arq1) + `],"x":1}`), 400, "badRequest", `"x"`},
		{"key in another case", request(strings.Replace(good, "events", "Events", 1)), 400, "badRequest", `"Events"`},
		{"joined keys", request(deliver(item(`,"tag,status":"a"`))), 400, "badRequest", "tag,status"},
		{"events null", request(`{"events":null}`), 400, "badRequest", "not a list"},
		{"events an object", request(`{"events":{}}`), 400, "badRequest", "not a list"},
		{"no events", request(events()), 400, "badRequest", "empty"},
		{"event no object", request(deliver("1")), 400, "badRequest", "events[1]: want an object"},
		{"event null", request(deliver("null")), 400, "badRequest", "events[1]"},
		{"extra key", request(deliver(item(`,"tag":"a","code":200`))), 400, "badRequest", `"code"`},
		{"no name", request(deliver(`{"server_uuid":"` + instance + `"}`)), 400, "badRequest", "name is a required"},
		{"name no text", request(deliver(`{"name":1,"server_uuid":"` + instance + `"}`)), 400, "badRequest", "name is not a string"},
		{"no server", request(deliver(`{"name":"network-changed"}`)), 400, "badRequest", "server_uuid is a required"},
		{"server no uuid", request(deliver(strings.Replace(tagged(arq1), instance, "inst1", 1))), 400, "badRequest", "inst1"},
		{"unknown name", request(deliver(strings.Replace(tagged(arq1), "request-bound", "requests-bound", 1))), 400, "badRequest", "unknown event name"},
		{"status of the Train text", request(deliver(item(`,"status":"ok"`))), 400, "badRequest", `"ok"`},
		{"status empty", request(deliver(item(`,"status":""`))), 400, "badRequest", "status"},
		{"status null", request(deliver(item(`,"status":null`))), 400, "badRequest", "status"},
		{"tag null", request(deliver(item(`,"tag":null`))), 400, "badRequest", "tag is not a string"},
		{"tag too long", request(deliver(tagged(strings.Repeat("ä", 256)))), 400, "badRequest", "255"},
		{"no microversion", request(good, withoutVersion), 400, "badRequest", "2.82"},
		{"name of a later version", request(strings.Replace(good, "accelerator-request-bound", "volume-reimaged", 1)), 400, "badRequest", "2.93"},
		{"lower microversion", request(good, header("OpenStack-API-Version", "compute 2.81")), 400, "badRequest", "2.82"},
		{"of another service", request(good, withoutVersion, header("OpenStack-API-Version", "placement 2.90")), 400, "badRequest", "2.82"},
		{"common header wins", request(good, header("OpenStack-API-Version", "compute 2.1")), 400, "badRequest", "2.82"},
		{"bad microversion", request(good, header("OpenStack-API-Version", "compute 2.x")), 400, "badRequest", "invalid format"},
		{"major alone", request(good, header("OpenStack-API-Version", "compute 2")), 400, "badRequest", "invalid format"},
		{"padded microversion", request(good, header("OpenStack-API-Version", "compute 2.082")), 400, "badRequest", "invalid format"},
		{"major 3", request(good, header("OpenStack-API-Version", "compute 3.1")), 406, "computeFault", "not supported"},
		{"2.0", request(good, header("OpenStack-API-Version", "compute 2.0")), 406, "computeFault", "not supported"},
		{"content type", request(good, header("Content-Type", "application/xml")), 415, "badMediaType", "Content-Type"},
		{"broken content type", request(good, header("Content-Type", "application/json; =")), 415, "badMediaType", "Content-Type"},
		{"over 1 MiB", request(good + strings.Repeat(" ", 1<<20)), 413, "overLimit", "too large"},
		{"broken body", request("", func(r *http.Request) { r.Body = io.NopCloser(brokenReader{}) }), 400, "badRequest", "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := externalevent.NewRegistry()
			prepare(t, r, arq1)
			got := answer(r.Handler(), tt.req)
			var body map[string]struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
				t.Fatalf("body %q: %v", got.Body, err)
			}
			if fault := body[tt.fault]; got.Code != tt.status || fault.Code != tt.status || !strings.Contains(fault.Message, tt.text) {
				t.Errorf("answer %d %s; want %d with a %s that says %q", got.Code, got.Body, tt.status, tt.fault, tt.text)
			}
			if tt.status == 405 && got.Header().Get("Allow") != "POST" {
				t.Errorf("Allow = %q, want POST", got.Header().Get("Allow"))
			}
			wantPending(t, r, 1) // nothing was delivered
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestHandlerAcceptsEveryGoodForm(t *testing.T) {
	t.Parallel()
	good := events(tagged(arq1))
	tests := map[string]*http.Request{
		"common header only":          request(good, withoutVersion, header("OpenStack-API-Version", "compute 2.82")),
		"older header only":           request(good, withoutVersion, header("X-OpenStack-Nova-API-Version", "2.82")),
		"latest":                      request(good, header("OpenStack-API-Version", "compute latest")),
		"several services":            request(good, header("OpenStack-API-Version", "placement 1.36, compute 2.90")),
		"several headers":             request(good, header("OpenStack-API-Version", "compute 2.82", "identity 3.14")),
		"another service, then older": request(good, header("OpenStack-API-Version", "placement 1.36")),
		"charset":                     request(good, header("Content-Type", "application/json; charset=utf-8")),
		"Nova's own type":             request(good, header("Content-Type", "application/vnd.openstack.compute+json")),
		"no content type":             request(good, header("Content-Type")),
		"undashed server":             request(strings.ReplaceAll(good, instance, strings.ToUpper(instance))),
		"in-progress":                 request(events(item(`,"tag":"` + arq1 + `","status":"in-progress"`))),
		"white space":                 request("\n " + good + "\n"),
		"almost 1 MiB":                request(good + strings.Repeat(" ", 1<<20-len(good))),
	}
	for name, req := range tests {
		r := externalevent.NewRegistry()
		prepare(t, r, arq1)
		if got := answer(r.Handler(), req); got.Code != http.StatusOK {
			t.Errorf("%s: answer %d %s; want 200", name, got.Code, got.Body)
		}
		wantPending(t, r, 0)
	}
}

func TestHandlerEchoesLatestAsAWord(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	got := answer(r.Handler(), request(events(tagged(arq1)), header("OpenStack-API-Version", "compute latest")))
	if v := got.Header().Get("OpenStack-API-Version"); v != "compute latest" {
		t.Errorf("version header = %q", v)
	}
}

func TestHandlerAsksForAuthorizationFirst(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry(externalevent.WithAuthorize(func(r *http.Request) bool {
		return r.Header.Get("X-Auth-Token") == "service-token"
	}))
	prepare(t, r, arq1)
	h := r.Handler()
	for name, req := range map[string]*http.Request{
		"good": request(events(tagged(arq1))), "malformed": request("{"), "GET": httptest.NewRequest("GET", path, nil),
		"another token": request(events(tagged(arq1)), header("X-Auth-Token", "guessed")),
	} {
		got := answer(h, req)
		if got.Code != http.StatusUnauthorized || strings.Contains(got.Body.String(), "guessed") {
			t.Errorf("%s: answer %d %s; want 401 without the token", name, got.Code, got.Body)
		}
	}
	wantPending(t, r, 1)
	if got := answer(h, request(events(tagged(arq1)), header("X-Auth-Token", "service-token"))); got.Code != http.StatusOK {
		t.Errorf("answer %d with the token, want 200", got.Code)
	}
	wantPending(t, r, 0)
}

// FuzzHandler sends any body with any microversion. The answer is always one of
// Nova's, only whole good requests deliver, and the answer has an event for each.
func FuzzHandler(f *testing.F) {
	f.Add([]byte(events(tagged(arq1))), "compute 2.82")
	f.Add([]byte(events(tagged(arq1), item(""), item(`,"tag":"`+arq2+`","status":"failed"`))), "compute latest")
	f.Add([]byte(`{"events":[]}`), "compute 2.1")
	f.Add([]byte(`{"Events":[{"NAME":"x"}]}`), "")
	f.Add([]byte("\xef\xbb\xbf{}"), "compute 2.82,compute 3")
	f.Fuzz(func(t *testing.T, body []byte, version string) {
		r := externalevent.NewRegistry()
		prepare(t, r, arq1)
		got := answer(r.Handler(), request(string(body), withoutVersion, header("OpenStack-API-Version", version)))
		if !slices.Contains([]int{200, 207, 400, 406, 413}, got.Code) {
			t.Fatalf("status %d for %q", got.Code, body)
		}
		if got.Code >= 400 {
			wantPending(t, r, 1)
			return
		}
		if diff := cmp.Diff(eventsOf(t, body), eventsOf(t, got.Body.Bytes())); diff != "" {
			t.Errorf("events (-sent +echoed):\n%s", diff)
		}
	})
}

// eventsOf gives the events of a body without what the handler sets. The last of two equal keys
// wins; decoding straight into a struct would mix the two.
func eventsOf(t *testing.T, body []byte) []map[string]any {
	t.Helper()
	var root map[string]json.RawMessage
	var list []map[string]any
	if err := json.Unmarshal(body, &root); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(root["events"], &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		delete(e, "code")
		delete(e, "status")
	}
	return list
}
