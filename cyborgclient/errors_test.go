package cyborgclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/jarcoal/httpmock"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// allSentinels, with the names to show.
func allSentinels() map[string]error {
	return map[string]error{
		"Invalid": cyborgclient.ErrInvalid, "Unauthorized": cyborgclient.ErrUnauthorized,
		"Forbidden": cyborgclient.ErrForbidden, "ServiceToken": cyborgclient.ErrServiceToken,
		"NotFound": cyborgclient.ErrNotFound, "NoFreeHandle": cyborgclient.ErrNoFreeHandle,
		"Conflict": cyborgclient.ErrConflict, "RegionRefused": cyborgclient.ErrRegionRefused,
		"EventRefused": cyborgclient.ErrEventRefused,
		"NotResolved":  cyborgclient.ErrNotResolved, "Microversion": cyborgclient.ErrMicroversion,
		"Unavailable": cyborgclient.ErrUnavailable, "ReplyLost": cyborgclient.ErrReplyLost,
		"Malformed": cyborgclient.ErrMalformed,
	}
}

// kinds are the names of the sentinels that err matches.
func kinds(err error) map[string]bool {
	matched := map[string]bool{}
	for name, sentinel := range allSentinels() {
		if errors.Is(err, sentinel) {
			matched[name] = true
		}
	}
	return matched
}

func set(names ...string) map[string]bool {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	return wanted
}

// mocked makes a client on an httpmock transport of its own that gives one
// answer to everything.
func mocked(t *testing.T, respond httpmock.Responder) *cyborgclient.Client {
	t.Helper()
	mock := httpmock.NewMockTransport()
	mock.RegisterNoResponder(respond)
	client, err := cyborgclient.NewWithEndpoint(endpoint, "", cyborgclient.WithTransport(mock),
		cyborgclient.WithRetry(cyborgclient.RetryOpts{Max: -1}))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func quoted(name string) string { return `{"error_message": "{\"faultstring\": \"` + name + `\"}"}` }

func TestErrorBodiesAreDecodedAndClassified(t *testing.T) {
	t.Parallel()
	const page = "<html>\n <head>\n  <title>502 Bad Gateway</title>\n </head>\n <body>\n  <h1>502 Bad Gateway</h1>\n  The &lt;server&gt; is down.<br /><br />\n\n </body>\n</html>"
	tests := []struct {
		name   string
		status int
		body   string
		call   call
		detail string
		kinds  map[string]bool
	}{
		{"doubly encoded fault", 409, string(answer(t, "error_409")), create, "A device_profile with name dp-pgpu already exists.", set("Conflict")},
		{"fault of a microversion", 406, string(answer(t, "error_406_fault")), bind, "Request not acceptable. The minimal required API version should be 2.2", set("Microversion")},
		{"router fault", 406, string(answer(t, "error_406_router")), bind, "Version 2.99 was requested but the minor version is not supported by this service. The supported version range is: [2.0, 2.3].", set("Microversion")},
		{"router fault without text", 404, string(answer(t, "error_404_router")), bind, "", set("NotFound")},
		{"router fault as markup", 404, `{"error_message": "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  The resource could not be found.<br /><br />\n\n\n\n </body>\n</html>"}`, bind, "404 Not Found The resource could not be found.", set("NotFound")},
		{"router fault as text", 406, `{"error_message": "406 Not Acceptable\n\nVersion 2.4"}`, bind, "406 Not Acceptable\n\nVersion 2.4", set("Microversion")},
		{"keystonemiddleware", 401, string(answer(t, "error_401")), create, "The request you have made requires authentication.", set("Unauthorized")},
		{"unresolved", 423, string(answer(t, "error_423")), listARQs, "", set("NotResolved")},
		{"service token", 403, string(answer(t, "error_403_service_token")), bind, "This operation requires a service token. Use the Compute API to manage instance accelerators.", set("Forbidden", "ServiceToken")},
		{"bound ARQ", 403, string(answer(t, "error_403_bound")), listARQs, "ARQ " + arq1 + " is bound to instance " + server1 + ". Use the Compute API to manage instance accelerators.", set("Forbidden", "ServiceToken")},
		{"policy", 403, quoted("Access was denied to the following resource: cyborg:arq:update"), bind, "Access was denied to the following resource: cyborg:arq:update", set("Forbidden")},
		{"no free handle", 404, string(answer(t, "error_404_handle")), bind, "AttachHandle not found Matching deployable_id 1", set("NotFound", "NoFreeHandle")},
		{"wrong state without quirks", 409, quoted("Bad state: Bound for ARQ: " + arq1 + ". Expected state(s): ['Initial', 'Unbound']"), bind, "Bad state: Bound for ARQ: " + arq1 + ". Expected state(s): ['Initial', 'Unbound']", set("Conflict")},
		{"wrong state", 500, string(answer(t, "error_500_state")), bind, "Bad state: Bound for ARQ: " + arq1 + ". Expected state(s): ['Initial', 'Unbound']", set("Conflict")},
		{"instance has ARQs", 400, string(answer(t, "error_400_instance")), bind, "Couldn't apply patch. Reason: Instance " + server1 + " already has accelerator requests. Cannot bind additional ARQs.", set("Conflict")},
		{"Nova refused the event", 400, quoted("Bad API response from Nova for os-server-external-events API. Details: 404"), bind, "Bad API response from Nova for os-server-external-events API. Details: 404", set("EventRefused")},
		{"plain bad request", 400, quoted("Request is not in valid JSON format"), bind, "Request is not in valid JSON format", set("Invalid")},
		{"wrapped object instead of text", 400, `{"error_message": {"faultstring": "x"}}`, bind, "x", set("Invalid")},
		{"error of another service", 409, `{"errors": [{"status": 409, "title": "Conflict", "detail": "no", "code": "placement.undefined_code"}]}`, bind, "no", set("Conflict")},
		{"gateway page, read", 502, page, listARQs, "502 Bad Gateway The <server> is down.", set("Unavailable")},
		{"gateway page, create", 502, page, create, "502 Bad Gateway The <server> is down.", set("Unavailable", "ReplyLost")},
		{"gateway gave up, bind", 504, "", bind, "", set("Unavailable", "ReplyLost")},
		{"create failing half-way", 500, quoted("Remote error: Timeout"), create, "Remote error: Timeout", set("Unavailable", "ReplyLost")},
		{"too many requests", 429, "slow down", listARQs, "slow down", set("Unavailable")},
		{"too many requests, bind", 429, "slow down", bind, "slow down", set("Unavailable")},
		{"balancer gave up, read", 408, "slow", listARQs, "slow", set("Unavailable")},
		{"balancer gave up, create", 408, "slow", create, "slow", set("Unavailable", "ReplyLost")},
		{"balancer gave up, bind", 408, "slow", bind, "slow", set("Unavailable", "ReplyLost")},
		{"transformed by a proxy, read", 203, `{"arqs": []}`, listARQs, "", set("Malformed")},
		{"transformed by a proxy, create", 203, `{"arqs": []}`, create, "", set("Malformed", "ReplyLost")},
		{"partial, create", 206, `{"arqs": []}`, create, "", set("Malformed", "ReplyLost")},
		{"partial, bind", 206, "", bind, "", set("Malformed", "ReplyLost")},
		{"not modified, create", 304, "", create, "answered without a redirect", set("Malformed", "ReplyLost")},
		{"redirect, read", 302, "", listARQs, "answered without a redirect", set("Malformed")},
		{"wrapped too often", 409, strings.Repeat(`{"error": `, 9) + `"x"` + strings.Repeat("}", 9), bind, "", set("Conflict")},
		{"teapot", 418, `{"error_message": 7}`, listARQs, "7", set()},
	}
	for _, why := range []string{
		" is in use by ARQ " + arq1 + " and cannot be programmed", " is being programmed", " is being programmed for ARQ " + arq1,
		" has been programmed with another function", " is pre-programmed and cannot be programmed",
		" has no known function: programming it failed, or its host has restarted since", " no longer has trait CUSTOM_A",
	} {
		detail := "deployable cn0_0000:5e:00.0" + why
		test := tests[0]
		test.name, test.body, test.call, test.detail, test.kinds = "region"+why, quoted(detail), bind, detail, set("Conflict", "RegionRefused")
		tests = append(tests, test)
	}
	for _, test := range tests { // Cyborg after 2026.2 puts the fault in as an object
		if body := unwrapped(test.body); body != "" {
			test.name, test.body = test.name+", as an object", body
			tests = append(tests, test)
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"X-Openstack-Request-Id": {"req-42"}}
			client := mocked(t, httpmock.NewStringResponder(test.status, test.body).HeaderSet(header))
			err := test.call(t.Context(), client)
			var got *cyborgclient.APIError
			if !errors.As(err, &got) {
				t.Fatalf("err = %v (%T), want *APIError", err, err)
			}
			if got.Detail != test.detail || got.Status != test.status || got.RequestID != "req-42" || got.Service != "accelerator" {
				t.Errorf("APIError = %+v, want detail %q", got, test.detail)
			}
			if diff := cmp.Diff(test.kinds, kinds(err)); diff != "" {
				t.Errorf("errors.Is (-want +got):\n%s", diff)
			}
			if !gophercloud.ResponseCodeIs(err, test.status) {
				t.Errorf("gophercloud.ResponseCodeIs does not know %v", err)
			}
		})
	}
}

// unwrapped is a body whose error_message holds JSON, with that JSON as a value instead of a text, or "".
func unwrapped(body string) string {
	var outer struct {
		Message string `json:"error_message"`
	}
	if json.Unmarshal([]byte(body), &outer) != nil || !json.Valid([]byte(outer.Message)) {
		return ""
	}
	return `{"error_message": ` + outer.Message + "}"
}

func listARQs(ctx context.Context, client *cyborgclient.Client) error {
	_, err := client.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: server1, Resolved: true})
	return err
}

func TestProfileInUseIsAConflict(t *testing.T) {
	t.Parallel()
	client := mocked(t, httpmock.NewBytesResponder(500, answer(t, "error_500_in_use")))
	err := client.DeleteDeviceProfile(t.Context(), "dp-fpga2")
	if !errorsIs(err, cyborgclient.ErrConflict) || strings.Contains(err.Error(), "\n") {
		t.Errorf("err = %v, want one line, ErrConflict", err)
	}
}

func TestErrorTextNamesOperationSubjectAndCause(t *testing.T) {
	t.Parallel()
	client := mocked(t, httpmock.NewBytesResponder(403, answer(t, "error_403_service_token")).
		HeaderSet(http.Header{"X-Openstack-Request-Id": {"req-42"}}))
	err := bind(t.Context(), client)
	want := "cyborgclient: accelerator.arq.bind " + arq1 + ": 403 Forbidden: This operation requires a service token. " +
		"Use the Compute API to manage instance accelerators (req-42)"
	if err == nil || err.Error() != want {
		t.Errorf("err  = %v\nwant = %s", err, want)
	}
}

// A proxy in maintenance, or a dashboard at the address of the API.
func TestAWebPageWithASuccessIsCalledHTML(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"text/html", "text/html; charset=utf-8", "Application/XHTML+XML"} {
		client, transport := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, "<!doctype html><title>Dashboard</title>")
		})
		for _, test := range []struct {
			path string
			call call
			want map[string]bool
		}{
			{"/devices", devices, set("Malformed")},
			{"/accelerator_requests", create, set("Malformed", "ReplyLost")},
			{"/accelerator_requests", bind, set("Malformed", "ReplyLost")},
			{"/attributes/" + arq1, deleteOne, set("Malformed")},
		} {
			err := test.call(t.Context(), client)
			if want := `"` + endpoint + test.path + `": answered 200 with HTML`; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", kind, err, want)
			}
			if diff := cmp.Diff(test.want, kinds(err)); diff != "" {
				t.Errorf("%s: %v: errors.Is (-want +got):\n%s", kind, err, diff)
			}
		}
		if sent := len(transport.requests()); sent != 5 { // and the version document
			t.Errorf("%s: %d requests, want no repetition", kind, sent)
		}
	}
}

func TestTokensNeverReachAnErrorText(t *testing.T) {
	t.Parallel()
	const token, service = userToken, "gAAAA-service-token"
	echo := func(w http.ResponseWriter, r *http.Request) {
		reply(w, 400, `{"error_message": "bad headers `+r.Header.Get("X-Auth-Token")+" "+r.Header.Get("X-Service-Token")+`"}`)
	}
	quote := transportFunc(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("proxy says %v", r.Header)
	})
	serviceToken := cyborgclient.WithServiceProvider(provider(nil, service))
	echoing, _ := newClient(t, echo, serviceToken)
	quoting, _ := newClient(t, echo, serviceToken, cyborgclient.WithTransport(quote))
	for _, client := range []*cyborgclient.Client{echoing, quoting} {
		err := create(t.Context(), client)
		if err == nil {
			t.Fatal("no error")
		}
		texts := err.Error() + fmt.Sprintf("%v %#v", err, err)
		var answered gophercloud.ErrUnexpectedResponseCode
		if errors.As(err, &answered) {
			texts += answered.Error()
		}
		if strings.Contains(texts, token) || strings.Contains(texts, service) {
			t.Errorf("a token is in %q", texts)
		}
	}
}

func TestLostReplyOfACreateIsRecognised(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	truncated := func(*http.Request) (*http.Response, error) {
		body := io.MultiReader(strings.NewReader(`{"arqs": [{"uu`), errorReader{io.ErrUnexpectedEOF})
		return &http.Response{StatusCode: 201, Header: http.Header{}, Body: io.NopCloser(body)}, nil
	}
	tests := []struct {
		name    string
		respond httpmock.Responder
		want    map[string]bool
	}{
		{"connection broke", httpmock.NewErrorResponder(io.EOF), set("ReplyLost", "Unavailable")},
		{"connection refused", httpmock.NewErrorResponder(dial), set("Unavailable")},
		{"answer cut off", truncated, set("ReplyLost", "Unavailable")},
		{"answer not JSON", httpmock.NewStringResponder(201, "<html>"), set("ReplyLost", "Malformed")},
		{"answer cut off, length unknown", httpmock.NewStringResponder(201, `{"arqs": [{"uuid": "`), set("ReplyLost", "Malformed")},
		{"answer empty", httpmock.NewStringResponder(201, ""), set("ReplyLost", "Malformed")},
		{"answer too large", hugeAnswer, set("ReplyLost", "Malformed")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := create(t.Context(), mocked(t, test.respond))
			if diff := cmp.Diff(test.want, kinds(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// hugeAnswer is valid, but announces more than a client reads.
func hugeAnswer(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 201, ContentLength: httpbounds.AnswerLimit + 1, Body: io.NopCloser(strings.NewReader(`{"arqs": []}`))}, nil
}

func TestErrReplyLostIsNotSetWhenNothingWasSent(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, fixed(201, `{"arqs": []}`))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err := create(over, client)
	if !errors.Is(err, context.Canceled) || errors.Is(err, cyborgclient.ErrReplyLost) || len(transport.requests()) != 0 {
		t.Errorf("err = %v after %d requests", err, len(transport.requests()))
	}
}

func TestCancelDuringACreateLosesTheReply(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	client, _ := newClient(t, nil, cyborgclient.WithTransport(transportFunc(func(r *http.Request) (*http.Response, error) {
		cancel() // the server has the request by now
		<-r.Context().Done()
		return nil, r.Context().Err()
	})))
	if err := create(ctx, client); !errors.Is(err, context.Canceled) || !errors.Is(err, cyborgclient.ErrReplyLost) {
		t.Errorf("err = %v, want Canceled and ErrReplyLost", err)
	}
}

func TestBadServiceTokenStopsTheCallBeforeItIsSent(t *testing.T) {
	t.Parallel()
	broken := errors.New("keystone is down")
	tests := []struct {
		name, token string
		err         error
	}{
		{"error", "", broken}, {"empty", "", nil}, {"line break", "gAAA\r\nX-Roles: admin", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var calls recorder
			service := provider(nil, test.token)
			if test.err != nil {
				service.ReauthFunc = func(context.Context) error { return test.err }
			}
			client, transport := newClient(t, fixed(201, `{"arqs": []}`), cyborgclient.WithServiceProvider(service))
			err := create(cyborgclient.Observe(t.Context(), calls.observe), client)
			if !errorsIs(err, cyborgclient.ErrUnauthorized) || errors.Is(err, cyborgclient.ErrReplyLost) {
				t.Errorf("err = %v", err)
			}
			if test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("err = %v does not say %v", err, test.err)
			}
			if len(transport.requests()) != 0 || len(calls.calls) != 1 || calls.calls[0].Err == nil || calls.calls[0].Attempts != 0 {
				t.Errorf("%d requests, calls %+v", len(transport.requests()), calls.calls)
			}
			if strings.Contains(err.Error(), "gAAA") {
				t.Errorf("the token is in %v", err)
			}
		})
	}
}

func TestRedirectsKeepTheMethodAndLeakNoTokens(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, location string
		status         int
		call           call
		requests       int
		ok             bool
	}{
		{"read, same server", "/accelerator/v2/moved", 302, listARQs, 2, true},
		{"read, other server", "http://evil.example/", 302, listARQs, 1, false},
		{"read, other port", "http://cyborg.example:6666/accelerator/v2/moved", 302, listARQs, 1, false},
		{"read, other scheme", "https://cyborg.example/accelerator/v2/moved", 302, listARQs, 1, false},
		{"create turned into a read", "/accelerator/v2/moved", 302, create, 1, false},
		{"create kept", "/accelerator/v2/moved", 307, create, 2, true},
		{"create to another server", "http://evil.example/", 308, create, 1, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, transport := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/moved") {
					reply(w, 200, `{"arqs": []}`)
					return
				}
				http.Redirect(w, r, test.location, test.status)
			})
			err := test.call(t.Context(), client)
			if (err == nil) != test.ok || len(transport.requests()) != test.requests {
				t.Errorf("err = %v after %v", err, transport.lines())
			}
			if !test.ok && !gophercloud.ResponseCodeIs(err, test.status) {
				t.Errorf("err = %v, want status %d", err, test.status)
			}
		})
	}
}

func TestAnswersOfStatus3xxAreReportedUnchanged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status         int
		location, want string
	}{
		{304, "", "304 Not Modified: answered without a redirect"},
		{300, "", "300 Multiple Choices: answered without a redirect"},
		{302, "", "302 Found: answered without a redirect"},
		{307, "http://evil.example/?token=" + userToken, "307 Temporary Redirect: redirected to http://evil.example/?token=***, which is not followed"},
		{304, "http://evil.example/", "304 Not Modified: answered without a redirect"},
	} {
		client, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			if test.location != "" {
				w.Header().Set("Location", test.location)
			}
			w.WriteHeader(test.status)
		})
		err := listARQs(t.Context(), client)
		if err == nil || !strings.HasSuffix(err.Error(), ": "+test.want) {
			t.Errorf("%d to %q: %v, want %s", test.status, test.location, err, test.want)
		}
	}
}

func TestErrorTextsDoNotActOnATerminal(t *testing.T) {
	t.Parallel()
	const hostile = "x\x1b[2J\r\u009b\u202e"
	body, err := json.Marshal(map[string]any{"error_message": map[string]string{"title": hostile, "faultstring": hostile, "faultcode": hostile}})
	if err != nil {
		t.Fatal(err)
	}
	refusing := mocked(t, httpmock.NewBytesResponder(400, body).HeaderSet(http.Header{"X-Openstack-Request-Id": {hostile}}))
	redirecting := mocked(t, httpmock.NewBytesResponder(307, nil).HeaderSet(http.Header{"Location": {hostile}}))
	lost := mocked(t, httpmock.NewErrorResponder(errors.New(hostile)))
	for _, client := range []*cyborgclient.Client{refusing, redirecting, lost} {
		for _, err := range []error{listARQs(t.Context(), client), client.DeleteARQs(t.Context(), []string{arq1})} {
			if err == nil || strings.ContainsAny(err.Error(), "\x1b\r\n\u009b\u202e") {
				t.Errorf("the text is %q", err)
			}
		}
	}
	var answered *cyborgclient.APIError
	if err := listARQs(t.Context(), refusing); !errors.As(err, &answered) || answered.Detail != hostile {
		t.Errorf("the detail is %q, want it as it was sent", answered.Detail)
	}
}

// A proxy in maintenance answers with its page and 200.
func TestOnlyTheStatusOfCyborgConfirmsACall(t *testing.T) {
	t.Parallel()
	const page = "<html><body>Down for maintenance.</body></html>"
	deletes, patches := set("Malformed"), set("Malformed", "ReplyLost")
	for _, call := range []struct {
		name    string
		run     call
		answers map[int]string // status and body
		want    map[string]bool
	}{
		{"bind", bind, map[int]string{200: page, 201: page, 204: ""}, patches},
		{"unbind", tell((*cyborgclient.Client).UnbindARQs, []string{arq1}), map[int]string{200: page, 201: page, 204: ""}, patches},
		{"delete ARQs", tell((*cyborgclient.Client).DeleteARQs, []string{arq1, arq2}), map[int]string{200: page, 201: "", 202: page}, deletes},
		{"delete the ARQs of an instance", tell((*cyborgclient.Client).DeleteARQsForInstance, server1), map[int]string{200: page, 201: "", 202: page}, deletes},
		{"delete a device profile", tell((*cyborgclient.Client).DeleteDeviceProfile, "gpu"), map[int]string{200: page, 201: "", 202: page}, deletes},
		{"delete an attribute", tell((*cyborgclient.Client).DeleteAttribute, arq1), map[int]string{200: page, 201: "", 202: page}, deletes},
		{"disable a device", tell((*cyborgclient.Client).DisableDevice, arq1), map[int]string{200: page, 201: "", 202: ""}, patches},
	} {
		for status, body := range call.answers {
			client, _ := newClient(t, fixed(status, body))
			err := call.run(t.Context(), client)
			if diff := cmp.Diff(call.want, kinds(err)); diff != "" {
				t.Errorf("%s: %d: %v; sentinels (-want +got):\n%s", call.name, status, err, diff)
			}
		}
	}
	client, _ := newClient(t, fixed(200, ""))
	if err := client.EnableDevice(t.Context(), arq1); err != nil {
		t.Errorf("enable a device: 200, as documented: %v", err)
	}
}
