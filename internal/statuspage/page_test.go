package statuspage_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

func world() statuspage.World {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	return statuspage.World{
		Now: start,
		Providers: []placementsim.ResourceProvider{
			{Name: "cn0", UUID: "u0", Inventories: map[string]placementsim.Inventory{"MEMORY_MB": {Total: 4096}}},
			{Name: "cn1", UUID: "u2"},
			{Name: "cn0_<script>alert(1)</script>", UUID: "u1", Parent: "u0", Traits: []string{"CUSTOM_A"}, Inventories: map[string]placementsim.Inventory{"PGPU": {Reserved: 1, Total: 3}}},
		},
		Allocations: []placementsim.Allocation{{Consumer: "91aa", Provider: "u0", Class: "MEMORY_MB", Used: 512}, {Consumer: "91aa", Provider: "u1", Class: "PGPU", Used: 1}},
		Guests:      []sim.Guest{{UUID: "91aa", Host: "cn0"}},
		ARQs:        []fakecyborg.ARQ{{UUID: "3f", State: "Bound", DeviceProfileName: "gpu", InstanceUUID: "91aa", Hostname: "cn0"}, {UUID: "40", State: "Deleting"}},
		Leaks:       []string{`ARQ "3f" isn't bound`},
		Faults:      []fault.State{{Rule: fault.Rule{Operation: "a.b", Action: fault.Drop}, Hits: 2}},
		Requests: []sim.Exchange{
			{Service: "identity", Method: "POST", Path: "/identity/v3/auth/tokens", Status: 201, Started: start, Changes: []sim.Change{{Action: "created", Kind: "token", ID: "<b>"}}},
			{Service: "accelerator", Method: "PATCH", Path: "/accelerator/v2/accelerator_requests", Fault: "drop", Started: start.Add(time.Minute)},
			{From: "cyborg-conductor", Service: "compute", Method: "POST", Path: "/compute/v2.1/os-server-external-events", Status: 200, Started: start.Add(time.Minute)},
		},
	}
}

func render(t *testing.T, name string) string {
	t.Helper()
	var b bytes.Buffer
	if err := statuspage.Render(&b, name, world()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageShowsTheStateInWords(t *testing.T) {
	t.Parallel()
	text := render(t, "page.html.tmpl")
	for _, want := range []string{
		"2026-01-01 12:00:00 UTC", "1 guest <code>91aa</code>", "PGPU 1 of 3 used, 1 reserved", "MEMORY_MB 512 of 4096 used",
		`<meter min="0" max="4096" value="512">`, "Bound: 1", "Deleting: 1", "0 guests", "ARQ &#34;3f&#34; isn&#39;t bound",
		"client to Cyborg: PATCH /accelerator_requests: no answer, fault drop",
		"Cyborg to Nova: POST /os-server-external-events: 200", "<td>2</td>", `<li class="depth1">`,
		"POST /auth/tokens: 201<ul><li>created token &lt;b&gt;</li></ul></li>", "events: 200</li>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for what, n := range map[string]int{`class="used" x="1" y="1" width="12" height="12"/><path`: 2, `class="free"`: 2, `class="reserved"`: 2} { // with the legend
		if got := strings.Count(text, what); got != n {
			t.Errorf("%d times %s, want %d", got, what, n)
		}
	}
	if strings.Index(text, "client to Cyborg") > strings.Index(text, "client to Keystone") {
		t.Error("the newest flow is not the first")
	}
}

func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"page.html.tmpl", "content"} {
		text := render(t, name)
		if strings.Contains(text, "<script>alert") || !strings.Contains(text, "cn0_&lt;script&gt;alert(1)&lt;/script&gt;") {
			t.Errorf("%s: a device's name is not escaped", name)
		}
	}
}

// serve answers one request of a page.
func serve(t *testing.T, p *statuspage.Page, path string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, handler := range p.Routes() {
		mux.HandleFunc(pattern, handler)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func TestThePageLoadsNothingFromOtherSites(t *testing.T) {
	t.Parallel()
	p := statuspage.New(world, func() string { return "" })
	for _, path := range []string{"/_sim/", "/_sim/?part=content", "/_sim/page.css", "/_sim/page.js"} {
		w := serve(t, p, path)
		if w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d", path, w.Code)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if strings.Contains(w.Body.String(), "http://") || strings.Contains(w.Body.String(), "https://") {
			t.Errorf("%s names another place", path)
		}
	}
	if w := serve(t, p, "/_sim/page.html.tmpl"); w.Code != http.StatusNotFound {
		t.Errorf("a file that is no route: %d", w.Code)
	}
}

// follow opens the stream; the channel has a value for each event.
func follow(ctx context.Context, t *testing.T, p *statuspage.Page) (events <-chan struct{}, status *atomic.Int32) {
	t.Helper()
	read, write := io.Pipe()
	found, status := make(chan struct{}, 100), new(atomic.Int32)
	go func() {
		defer write.Close()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/_sim/stream", nil)
		p.Routes()["GET /_sim/stream"](&streamed{Writer: write, header: make(http.Header), status: status}, r)
	}()
	go func() {
		defer close(found)
		var line [len("event: change\ndata:\n\n")]byte
		for {
			if _, err := io.ReadFull(read, line[:]); err != nil {
				return
			}
			found <- struct{}{}
		}
	}()
	return found, status
}

type streamed struct {
	io.Writer
	header http.Header
	status *atomic.Int32
}

// Header implements http.ResponseWriter.
func (s *streamed) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *streamed) WriteHeader(status int) { s.status.Store(int32(status)) }

// Flush implements http.Flusher.
func (s *streamed) Flush() {}

func TestTheStreamReportsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var version atomic.Int32
		done := make(chan struct{})
		p := statuspage.New(world, func() string { return fmt.Sprint(version.Load()) })
		p.Done = done
		events, _ := follow(t.Context(), t, p)
		got := []int{}
		for _, change := range []int32{0, 0, 3, 0, 1} { // in the last period
			version.Add(change)
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			got = append(got, len(events))
		}
		if diff := cmp.Diff([]int{1, 1, 2, 2, 3}, got); diff != "" {
			t.Errorf("events after each half second (-want +got):\n%s", diff)
		}
		close(done)
		synctest.Wait()
		for range 3 {
			<-events
		}
		if _, open := <-events; open {
			t.Error("the stream continues after the server has ended")
		}
	})
}

func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := statuspage.New(world, func() string { return "" })
		ctx, cancel := context.WithCancel(t.Context())
		for range 16 {
			follow(ctx, t, p)
		}
		synctest.Wait()
		_, status := follow(ctx, t, p)
		synctest.Wait()
		if status.Load() != http.StatusServiceUnavailable {
			t.Errorf("one more: %d", status.Load())
		}
		time.Sleep(11 * time.Minute) // no connection lasts so long
		events, status := follow(ctx, t, p)
		synctest.Wait()
		if status.Load() != 0 {
			t.Errorf("after their lifetime: %d", status.Load())
		}
		cancel()
		synctest.Wait()
		if _, open := <-events; open {
			t.Error("an event of a version that never changed")
		}
	})
}
