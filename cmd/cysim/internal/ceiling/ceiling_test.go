package ceiling

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, want string // want is empty for a text that is refused
		size       Size
	}{
		{"1GiB", "1GiB", 1 << 30}, {"2G", "2GiB", 2 << 30}, {"1536M", "1536MiB", 1536 << 20}, {"65536K", "64MiB", 64 << 20},
		{"1073741824", "1GiB", 1 << 30}, {"1073741824B", "1GiB", 1 << 30}, {"1T", "1024GiB", 1 << 40},
		{"63MiB", "", 0}, {"0", "", 0}, {"-1GiB", "", 0}, {"1.5GiB", "", 0}, {"GiB", "", 0}, {"", "", 0}, {"1gib", "", 0}, {"1 GiB", "", 0},
		{"1MB", "", 0}, {"9999999T", "", 0}, {"99999999999999999999", "", 0},
	}
	for _, tt := range tests {
		var size Size
		err := size.UnmarshalText([]byte(tt.text))
		if (err != nil) != (tt.want == "") || size != tt.size {
			t.Errorf("%q: got %d, %v; want %d", tt.text, size, err, tt.size)
		} else if err == nil && size.String() != tt.want {
			t.Errorf("%q: got %v, want %s", tt.text, size, tt.want)
		}
	}
}

// full is a ceiling whose memory is used up.
func full() *Ceiling {
	runtime.GC() // until the first one nothing is known to be in use
	return &Ceiling{size: 1, bodies: newBodies(64 << 20), control: newBodies(8 << 20), answers: newAnswers(512 << 20), late: semaphore.NewWeighted(32 << 20)}
}

func spacious() *Ceiling {
	return &Ceiling{size: math.MaxInt64 / 4, bodies: newBodies(64 << 20), control: newBodies(8 << 20), answers: newAnswers(512 << 20), late: semaphore.NewWeighted(32 << 20)}
}

// echo answers with the body, and counts the requests that it serves at once.
type echo struct {
	mu         sync.Mutex
	now, most  int
	hold       chan struct{} // nil: requests are not held
	readErrors []error
}

// ServeHTTP implements http.Handler.
func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.now++
	e.most = max(e.most, e.now)
	e.mu.Unlock()
	if e.hold != nil {
		<-e.hold
	}
	data, err := io.ReadAll(r.Body)
	e.mu.Lock()
	e.now--
	e.readErrors = append(e.readErrors, err)
	e.mu.Unlock()
	_, _ = w.Write(data)
}

func TestBodiesArriveWhole(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, short - 1, short, short + 1, simhttp.MaxBody, simhttp.MaxBody + 1} {
		for _, chunked := range []bool{false, true} {
			body := bytes.Repeat([]byte("a"), n)
			var from io.Reader = bytes.NewReader(body)
			if chunked {
				from = struct{ io.Reader }{from}
			}
			w := httptest.NewRecorder()
			c := spacious()
			c.Handler(&echo{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", from))
			if !bytes.Equal(w.Body.Bytes(), body) {
				t.Errorf("%d bytes, chunked %t: %d arrived", n, chunked, w.Body.Len())
			}
			if !c.bodies.received.TryAcquire(32<<20) || !c.bodies.decoded.TryAcquire(32<<20) || !c.bodies.long.TryAcquire(1) {
				t.Errorf("%d bytes, chunked %t: shares are not released", n, chunked)
			}
		}
	}
}

// Requests wait for each other where their bodies take more than there is, those without bodies never do.
func TestBodiesWaitForMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		length, most int
	}{
		{"short", 1 << 10, 40},
		{"medium", 128 << 10, 8},
		{"longest of JSON", simhttp.MaxBody, 1},
		{"long", simhttp.MaxBody + 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &echo{hold: make(chan struct{})}
				handler := spacious().Handler(e)
				codes := make(chan int, 40)
				for range cap(codes) {
					go func() {
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", bytes.NewReader(make([]byte, tt.length))))
						codes <- w.Code
					}()
				}
				synctest.Wait()
				if e.most != tt.most {
					t.Errorf("%d requests are served at once, want %d", e.most, tt.most)
				}
				time.Sleep(2 * patience) // of those that wait, for either count
				synctest.Wait()
				close(e.hold)
				refused := 0
				for range cap(codes) {
					if code := <-codes; code == http.StatusServiceUnavailable {
						refused++
					}
				}
				if want := cap(codes) - tt.most; refused != want {
					t.Errorf("%d requests are refused, want %d", refused, want)
				}
			})
		})
	}
}

// A body is refused if what is made of it takes more than there is, and not for its length alone.
func TestBodiesOfManyPartsAreRefused(t *testing.T) {
	t.Parallel()
	list := func(one string, length int) string {
		return "[" + strings.Repeat(one+",", length/(len(one)+1)-1) + one + "]"
	}
	nested := strings.Repeat(`{"":`, 2000) + "0" + strings.Repeat("}", 2000)
	for _, tt := range []struct {
		name, body string
		want       int
	}{
		{"nested objects", list(nested, 1<<20), 413},
		{"objects", list(`{"":0}`, 1<<20), 413},
		{"empty lists", list("[]", 1<<20), 413},
		{"longest", list(nested, simhttp.MaxBody), 413},
		{"few nested objects", list(nested, 128<<10), 200},
		{"one long name", `{"name":"` + strings.Repeat("a", 3<<20) + `"}`, 200},
		{"allocations", list(`{"allocations":{"2f7d3a52-0000-4000-8000-000000000000":{"resources":{"VCPU":1,"MEMORY_MB":512}}}}`, 512<<10), 200},
		{"longer than services decode", list(nested, 5<<20), 200},
	} {
		for _, chunked := range []bool{false, true} {
			c, w := spacious(), httptest.NewRecorder()
			c.bodies = newBodies(64 << 20 / 8)
			var from io.Reader = strings.NewReader(tt.body)
			if chunked {
				from = struct{ io.Reader }{from}
			}
			c.Handler(&echo{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v3/auth/tokens", from))
			if w.Code != tt.want || tt.want == 200 && w.Body.String() != tt.body || tt.want != 200 && !strings.Contains(w.Body.String(), "--max-memory") {
				t.Errorf("%s, chunked %t: %d %.200s, want %d", tt.name, chunked, w.Code, w.Body, tt.want)
			}
			if !c.bodies.received.TryAcquire(c.bodies.half) || !c.bodies.decoded.TryAcquire(c.bodies.half) || !c.bodies.long.TryAcquire(1) {
				t.Errorf("%s, chunked %t: shares are not released", tt.name, chunked)
			}
		}
	}
}

// Requests that are delayed keep their shares; a request that ends the delay is served anyway.
func TestControlRequestsWaitForNoOthers(t *testing.T) {
	t.Parallel()
	c := spacious()
	for _, count := range []*semaphore.Weighted{c.bodies.received, c.bodies.decoded} {
		if !count.TryAcquire(c.bodies.half) {
			t.Fatal("a count is not empty")
		}
	}
	w := httptest.NewRecorder()
	c.Handler(&echo{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_sim/clock", strings.NewReader(`{"advance":"1m"}`)))
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !c.control.received.TryAcquire(c.control.half) || !c.control.decoded.TryAcquire(c.control.half) {
		t.Error("shares are not released")
	}
}

// What is kept of requests after their connections ended is bounded, whether or not they have a body.
func TestLateRequestsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet("things.delete")
		if err := faults.Set(fault.Rule{Operation: "things.delete", Action: fault.Late, Status: http.StatusBadGateway, Delay: time.Hour, Times: -1}); err != nil {
			t.Fatal(err)
		}
		var applied atomic.Int64
		service := &simhttp.Service{
			Name: "test", Clock: simhttp.Wall{}, IDs: simhttp.NewIDs(1, "test"), Faults: faults,
			Router:     simhttp.NewRouter(simhttp.Route{Operation: "things.delete", Method: "DELETE", Pattern: "/things"}),
			Handler:    func(c *simhttp.Call) error { applied.Add(1); return c.Empty(http.StatusNoContent) },
			WriteError: func(c *simhttp.Call, err error) { http.Error(c.W, err.Error(), simhttp.AsError(err).Status) },
		}
		defer service.Close()
		for _, tt := range []struct{ header, query, body int }{{header: 60 << 10}, {query: 60 << 10}, {body: 60 << 10}, {}} {
			c, kept := spacious(), 0
			send := func() int {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/things?a="+strings.Repeat("a", tt.query), strings.NewReader(strings.Repeat("a", tt.body)))
				r.Header.Set("X-Long", strings.Repeat("a", tt.header))
				w := httptest.NewRecorder()
				c.Handler(service).ServeHTTP(w, r)
				return w.Code
			}
			for kept < 10_000 && send() == http.StatusBadGateway {
				kept++
			}
			if most := (32 << 20) / (tt.header + tt.query + tt.body + 1<<10); kept < most/20 || kept > most {
				t.Errorf("%+v: %d requests wait, want at most %d", tt, kept, most)
			}
			if code := send(); code != http.StatusInsufficientStorage {
				t.Errorf("%+v: one more got %d", tt, code)
			}
			applied.Store(0)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if applied.Load() != int64(kept) || !c.late.TryAcquire(32<<20) {
				t.Errorf("%+v: %d of %d are applied, or a share is not released", tt, applied.Load(), kept)
			}
		}
	})
}

func TestADisconnectedClientDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := spacious()
		c.bodies.received = semaphore.NewWeighted(0)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		begin, w := time.Now(), httptest.NewRecorder()
		c.Handler(&echo{}).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPut, "/", strings.NewReader("a")))
		if waited := time.Since(begin); w.Code != http.StatusServiceUnavailable || waited != 0 {
			t.Errorf("it got %d after %v", w.Code, waited)
		}
		if !c.bodies.decoded.TryAcquire(32 << 20) {
			t.Error("what it did not get is held")
		}
	})
}

func TestUsedUpMemoryRefusesWhatAddsToIt(t *testing.T) {
	t.Parallel()
	runtime.GC() // what is in use is known only after a collection
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/placement/resource_providers", "", 200},
		{"POST", "/placement/resource_providers", "{}", 507},
		{"PUT", "/_sim/faults", "[]", 200},
		{"POST", "/_sim/faults", "[]", 507},
		{"POST", "/_sim/clock", "{}", 200},
		{"PUT", "/_sim/guests/51e314cb-59ee-4896-8b40-54953ee00227", "{}", 507},
		{"PUT", "/_sim/state", strings.Repeat("a", simhttp.MaxBody+1), 507},
		{"DELETE", "/accelerator/v2/accelerator_requests", "", 200},
		{"DELETE", "/accelerator/v2/accelerator_requests", "{}", 200},
		{"POST", "/v3/auth/tokens", "{}", 200},
	} {
		w := httptest.NewRecorder()
		full().Handler(&echo{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body)))
		if w.Code != tt.want || tt.want == 507 && !strings.Contains(w.Body.String(), "--max-memory") {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, w.Code, w.Body, tt.want)
		}
	}
}

func TestAnswersAreReadUpToAShare(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5<<20)) }))
	defer server.Close()
	for _, tt := range []struct {
		name string
		c    *Ceiling
		want error
	}{{"spacious", spacious(), nil}, {"small", &Ceiling{size: 64 << 20}, httpbounds.ErrTooLarge}, {"used up", full(), ErrFull}} {
		if tt.name == "small" && live() > tt.c.liveBytes() {
			continue // other tests of this process have used it up
		}
		answer, err := (&http.Client{Transport: tt.c.Transport(nil)}).Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(answer.Body)
		answer.Body.Close()
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestWorkEndsWhenMemoryIsUsedUp(t *testing.T) {
	t.Parallel()
	err := full().Within(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if !errors.Is(err, ErrFull) {
		t.Errorf("work that waits for its context: got %v", err)
	}
	if err := full().Within(t.Context(), func(context.Context) error { return nil }); !errors.Is(err, ErrFull) {
		t.Errorf("work that succeeds: got %v", err)
	}
	if err := spacious().Within(t.Context(), func(context.Context) error { return io.ErrNoProgress }); err != io.ErrNoProgress {
		t.Errorf("an error of the work: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := spacious().Within(ctx, func(ctx context.Context) error { return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a signal: got %v", err)
	}
}

// A server with as many connections as it may have takes others when one ends or has no request.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4
	c := &Ceiling{size: 16 * most * perConnection, bodies: newBodies(1 << 20)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			_ = http.NewResponseController(w).Flush() // the client has the header
			<-r.Context().Done()
		}
	}))
	server.Listener = c.Listen(server.Listener, server.Config)
	server.Start()
	defer server.Close()
	get := func(path string) *http.Response { // over a connection of its own
		answer, err := (&http.Client{Transport: new(http.Transport)}).Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for range 3 * most { // each leaves a connection without a request
		get("/").Body.Close()
	}
	var streams []*http.Response
	for range most {
		streams = append(streams, get("/stream"))
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Fatalf("connection %d is served: %d, %v", most+1, n, err)
	}
	streams[0].Body.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("after a stream has ended: %v", err)
	}
	for _, stream := range streams {
		stream.Body.Close()
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
