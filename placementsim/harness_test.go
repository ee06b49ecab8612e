package placementsim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

const (
	rp1  = "11111111-1111-4111-8111-111111111111"
	rp2  = "22222222-2222-4222-8222-222222222222"
	rp3  = "33333333-3333-4333-8333-333333333333"
	con  = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
	con2 = "dddddddd-dddd-4ddd-8ddd-dddddddddddd"
	agg  = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
)

// must ends a test whose set-up fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newServer(t testing.TB, cfg Config, opts ...Option) *Server {
	t.Helper()
	s, err := New(cfg, opts...)
	must(t, err)
	return s
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

// at reads a value out of a JSON body by keys and indexes.
func (a answer) at(t testing.TB, steps ...string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(a.body), &value); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return lookup(value, steps)
}

// send makes a request as an administrator; header pairs come last, and an
// empty value removes a header.
func send(t testing.TB, s http.Handler, version, method, path, body string, header ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, "http://placement.example"+path, reader)
	must(t, err)
	r.Header.Set("X-Auth-Token", "admin")
	if version != "" {
		r.Header.Set("OpenStack-API-Version", "placement "+version)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	resp, err := simhttp.NewTransport(s).RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	return answer{resp.StatusCode, resp.Header, string(data)}
}

// turn is one request of a conversation with what it must get.
type turn struct {
	version, method, path, body string
	status                      int
	contains                    []string // parts of the body
	code                        string   // of the error
}

// converse sends requests in order and stops the test at the first wrong
// answer.
func converse(t *testing.T, s http.Handler, turns ...turn) {
	t.Helper()
	for i, turn := range turns {
		got := send(t, s, turn.version, turn.method, turn.path, turn.body)
		if got.status != turn.status {
			t.Fatalf("turn %d: %s %s %s: got status %d, want %d: %s", i, turn.method, turn.path, turn.body, got.status, turn.status, got.body)
		}
		for _, part := range turn.contains {
			if !strings.Contains(got.body, part) {
				t.Fatalf("turn %d: %s %s: the answer lacks %q: %s", i, turn.method, turn.path, part, got.body)
			}
		}
		if turn.code != "" && got.at(t, "errors", "0", "code") != turn.code {
			t.Fatalf("turn %d: %s %s: the answer lacks code %s: %s", i, turn.method, turn.path, turn.code, got.body)
		}
	}
}

// seeded returns a server with a root rp1 (VCPU 8) and its child rp2 (FPGA 2).
func seeded(t testing.TB, cfg Config, opts ...Option) *Server {
	t.Helper()
	s := newServer(t, cfg, opts...)
	for _, n := range []ResourceProvider{
		{UUID: rp1, Name: "cn0", Inventories: map[string]Inventory{"VCPU": {Total: 8}}, Traits: []string{"COMPUTE_ACCELERATORS"}},
		{UUID: rp2, Name: "cn0_fpga", Parent: rp1, Inventories: map[string]Inventory{"FPGA": {Total: 2}}, Traits: []string{"CUSTOM_FPGA_INTEL"}},
	} {
		addProvider(t, s, n)
	}
	return s
}

func addProvider(t testing.TB, s *Server, p ResourceProvider) ResourceProvider {
	t.Helper()
	added, err := s.CreateProvider(p)
	must(t, err)
	return added
}

// record is a TB that keeps what a check says.
type record struct {
	sim.TB
	texts []string
}

func (*record) Helper() {}

func (r *record) Errorf(format string, args ...any) {
	r.texts = append(r.texts, fmt.Sprintf(format, args...))
}

// live serves the handler on a loopback socket.
func live(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// lookup finds a value in a document.
func lookup(value any, steps []string) any {
	for _, step := range steps {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		}
	}
	return value
}

// fields returns the fields of an object of [encoding/json], or of a request body.
func fields(value any) map[string]any {
	if m, ok := value.(map[string]any); ok {
		return m
	}
	found := make(map[string]any)
	for key, item := range object(value).All() {
		found[key] = item
	}
	return found
}
