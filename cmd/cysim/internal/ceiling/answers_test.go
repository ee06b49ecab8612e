package ceiling

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// service is a simulated service with one route.
func service(handler simhttp.Handler) *simhttp.Service {
	return &simhttp.Service{
		Router:  simhttp.NewRouter(simhttp.Route{Operation: "op", Method: http.MethodGet, Pattern: "/list", Handler: handler}),
		Handler: (*simhttp.Call).Dispatch, Clock: simhttp.Wall{}, IDs: simhttp.NewIDs(0, "request"),
		WriteError: func(c *simhttp.Call, err error) { http.Error(c.W, err.Error(), simhttp.AsError(err).Status) },
	}
}

// list sends a request for a list.
func list(ctx context.Context, handler http.Handler, w http.ResponseWriter) {
	handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/list", http.NoBody))
}

func TestAnswersAreMadeInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := spacious()
		hold, now, most := make(chan struct{}), 0, 0
		var mu sync.Mutex
		handler := c.Handler(service(func(call *simhttp.Call) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-hold
			mu.Lock()
			now--
			mu.Unlock()
			return call.Empty(http.StatusOK)
		}))
		var running sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		for i := range 40 {
			running.Go(func() {
				ctx := t.Context()
				if i == 39 {
					ctx = gone
				}
				list(ctx, handler, httptest.NewRecorder())
			})
		}
		synctest.Wait()
		leave()
		close(hold)
		running.Wait()
		if int64(most) != c.answers.atOnce {
			t.Errorf("%d answers are made at once, want %d", most, c.answers.atOnce)
		}
		if !c.answers.turns.TryAcquire(c.answers.atOnce) {
			t.Error("turns are not released")
		}
	})
}

// slowReader is a client that begins to read late.
type slowReader struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

// Write implements io.Writer.
func (s slowReader) Write(p []byte) (int, error) {
	<-s.read
	return s.ResponseRecorder.Write(p)
}

// Slow readers of long answers keep their share of the memory, but no turn.
func TestSlowReadersOfLongAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		length  int
		refused int // of 40
	}{
		{"short", short, 0}, {"long", 2 * short, 32}, {"longer than the share", 16*short + 1, 39},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := spacious()
				c.answers.kept, c.answers.bytes = semaphore.NewWeighted(16*short), 16*short
				body := make([]byte, tt.length)
				handler := c.Handler(service(func(call *simhttp.Call) error { return call.Raw(http.StatusOK, body) }))
				var readers []*httptest.ResponseRecorder
				read := make(chan struct{})
				var running sync.WaitGroup
				for range 40 {
					w := httptest.NewRecorder()
					readers = append(readers, w)
					running.Go(func() { list(t.Context(), handler, slowReader{w, read}) })
				}
				synctest.Wait()
				beside, began := httptest.NewRecorder(), time.Now()
				list(t.Context(), c.Handler(service(func(call *simhttp.Call) error { return call.Empty(http.StatusOK) })), beside)
				if waited := time.Since(began); beside.Code != http.StatusOK || waited > longPatience {
					t.Errorf("a short answer at the same time: %d %s after %s", beside.Code, beside.Body, waited)
				}
				time.Sleep(2 * longPatience) // of the last that wait
				close(read)
				running.Wait()
				refused := 0
				for _, w := range readers {
					if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" && w.Body.Len() < short {
						refused++
					} else if w.Code != http.StatusOK || w.Body.Len() != tt.length {
						t.Errorf("%d with %d bytes", w.Code, w.Body.Len())
					}
				}
				if refused != tt.refused {
					t.Errorf("%d are refused, want %d", refused, tt.refused)
				}
				if !c.answers.kept.TryAcquire(c.answers.bytes) {
					t.Error("shares are not released")
				}
			})
		})
	}
}

// While memory is scarce, answers are made one after another: a client that frees memory needs lists.
func TestScarceMemoryLeavesOneTurn(t *testing.T) {
	t.Parallel()
	c := full()
	a := &answer{ResponseWriter: httptest.NewRecorder(), c: c, r: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/list", http.NoBody)}
	end, err := a.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.answers.turns.TryAcquire(1) {
		t.Error("there is room for a second answer")
	}
	end()
	end()
	if !c.answers.turns.TryAcquire(c.answers.atOnce) {
		t.Error("turns are not released")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("left"))
	if _, err := a.begin(ctx); simhttp.AsError(err).Status != http.StatusServiceUnavailable {
		t.Errorf("a client that has disconnected: %v", err)
	}
}

// One state is read at a time: its rows may be large, and a slow reader keeps one of them in memory.
func TestOneStateIsReadAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := spacious()
		handler := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("row")) }))
		get := func(w http.ResponseWriter, path string) {
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		}
		read := make(chan struct{})
		var running sync.WaitGroup
		readers := make([]*httptest.ResponseRecorder, 40)
		for i := range readers {
			readers[i] = httptest.NewRecorder()
			running.Go(func() { get(slowReader{readers[i], read}, "/_sim/state") })
		}
		beside := httptest.NewRecorder()
		get(beside, "/_sim/health")
		if beside.Body.String() != "row" {
			t.Errorf("at the same time: %d %s", beside.Code, beside.Body)
		}
		time.Sleep(2 * patience) // of those that wait
		close(read)
		running.Wait()
		refused := 0
		for _, w := range readers {
			if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" {
				refused++
			}
		}
		if refused != len(readers)-1 {
			t.Errorf("%d are refused, want all but one", refused)
		}
		afterwards := httptest.NewRecorder()
		get(afterwards, "/_sim/state")
		if afterwards.Code != http.StatusOK {
			t.Errorf("afterwards: %d", afterwards.Code)
		}
	})
}
