package cyborgclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

const (
	endpoint = "http://cyborg.example/accelerator/v2"
	arq1     = "21a4eb48-b76a-4610-9630-795e92a507ef"
	arq2     = "9632d04f-2466-4011-a44d-826a6ab1a5e0"
	arq3     = "37bf7af1-c05c-4dd1-ac17-2703ce9bb719"
	rp1      = "3d54f526-da50-3c18-9863-bc90aabf71e0"
	rp2      = "bc65c872-6c23-3545-8206-18cd374d2bb3"
	server1  = "bbbbbbbb-0000-4000-8000-000000000001"
	server2  = "bbbbbbbb-0000-4000-8000-000000000002"
	project1 = "c0590302ca0948e0b3fe4f8ca9bbd799"

	userToken = "t0ken"
)

// sent is one request that reached the transport.
type sent struct {
	Method, URL, Body string
	Header            http.Header
}

// wire is an in-memory transport: it records each request and has a handler
// answer it on the caller's goroutine.
type wire struct {
	handler http.Handler

	mu   sync.Mutex
	seen []sent
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body.Close()
	}
	w.mu.Lock()
	w.seen = append(w.seen, sent{req.Method, req.URL.String(), string(body), req.Header.Clone()})
	w.mu.Unlock()
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	copied := req.Clone(req.Context())
	copied.Body = io.NopCloser(strings.NewReader(string(body)))
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, copied)
	return recorder.Result(), nil
}

func (w *wire) requests() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]sent(nil), w.seen...)
}

// lines are the requests as "METHOD path?query".
func (w *wire) lines() []string {
	var lines []string
	for _, request := range w.requests() {
		lines = append(lines, request.Method+" "+strings.TrimPrefix(request.URL, endpoint))
	}
	return lines
}

// newClient makes a client whose requests handler answers.
func newClient(t *testing.T, handler http.HandlerFunc, opts ...cyborgclient.Option) (*cyborgclient.Client, *wire) {
	t.Helper()
	transport := &wire{handler: handler}
	client, err := cyborgclient.NewWithEndpoint(endpoint, userToken,
		append([]cyborgclient.Option{cyborgclient.WithTransport(transport)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client, transport
}

// answer returns the body of a recorded answer.
func answer(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "answers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// reply writes a JSON body with a status.
func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Openstack-Request-Id", "req-0001")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// fixed answers everything the same.
func fixed(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { reply(w, status, body) }
}

// transportFunc is a function that is a transport.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// recorder is an observer that keeps the calls.
type recorder struct {
	mu    sync.Mutex
	calls []cyborgclient.Call
}

func (r *recorder) observe(call cyborgclient.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

// call is one use of a client.
type call func(context.Context, *cyborgclient.Client) error

// ask calls a method that returns more than an error.
func ask[A, R any](method func(*cyborgclient.Client, context.Context, A) (R, error), argument A) call {
	return func(ctx context.Context, client *cyborgclient.Client) error {
		_, err := method(client, ctx, argument)
		return err
	}
}

// tell calls a method that returns only an error.
func tell[A any](method func(*cyborgclient.Client, context.Context, A) error, argument A) call {
	return func(ctx context.Context, client *cyborgclient.Client) error { return method(client, ctx, argument) }
}

// create makes ARQs, for tests that need any POST.
func create(ctx context.Context, client *cyborgclient.Client) error {
	_, err := client.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: "dp-pgpu"})
	return err
}

// bind binds one ARQ, for tests that need any PATCH.
func bind(ctx context.Context, client *cyborgclient.Client) error {
	return client.BindARQs(ctx, []cyborgclient.Binding{
		{ARQ: arq1, Host: "compute-a", DeviceRP: rp1, Instance: server1},
	})
}

// errorsIs is errors.Is, to be used where a nil error must read as "no".
func errorsIs(err, target error) bool { return err != nil && errors.Is(err, target) }

// wantIs checks an error, its kind, and what it says.
func wantIs(t *testing.T, err, kind error, says ...string) {
	t.Helper()
	if !errorsIs(err, kind) {
		t.Errorf("err = %v, want %v", err, kind)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("err = %v, want it to say %q", err, text)
		}
	}
}

func wantLines(t *testing.T, transport *wire, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, transport.lines()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
