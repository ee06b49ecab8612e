package simhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/testrun"
	"github.com/gocyborg/gocyborg/sim"
)

// heap is the memory of what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// sampler is a client that reads an answer and watches the memory while it does.
type sampler struct {
	header   http.Header
	n, most  int64
	nextLook int64
}

// Header implements http.ResponseWriter.
func (s *sampler) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *sampler) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (s *sampler) Write(p []byte) (int, error) {
	if s.n += int64(len(p)); s.n >= s.nextLook {
		s.most, s.nextLook = max(s.most, heap()), s.n+4<<20
	}
	return len(p), nil
}

// The memory of the record is bounded for all requests, and so is the memory of an answer with
// the whole record. These tests are not parallel: they watch the memory of the process.
func TestTheRecordHasABoundInBytes(t *testing.T) {
	const limit, slack = 16 << 20, 4 << 20
	long := strings.Repeat("\x01", 60<<10) // six times as long in JSON
	for _, tt := range []struct {
		name string
		send func(handler http.Handler, n int)
		do   func(ctx context.Context, n int)
	}{
		{"User-Agents", func(h http.Handler, n int) {
			r := httptest.NewRequest(http.MethodPost, "/do", nil)
			r.Header.Set("User-Agent", fmt.Sprint(n, long))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}, func(context.Context, int) {}},
		{"queries", func(h http.Handler, n int) {
			r := httptest.NewRequest(http.MethodPost, fmt.Sprint("/do?", n, "=", strings.Repeat("a", 60<<10)), nil)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}, func(context.Context, int) {}},
		{"tokens of changes", func(h http.Handler, n int) {
			r := httptest.NewRequest(http.MethodPost, "/do", nil)
			r.Header.Set("X-Auth-Token", fmt.Sprint(n, long))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}, func(ctx context.Context, _ int) {
			ChangeLogOf(ctx).Add(sim.Change{Kind: "thing", Action: sim.Created, ID: "1"})
		}},
		{"changes of long rows", func(h http.Handler, _ int) { post(h) }, func(ctx context.Context, n int) {
			row := struct{ Name, Text string }{fmt.Sprint(n), strings.Repeat("a", 1<<20)}
			ChangeLogOf(ctx).Record([]sim.RecordChange{{Table: "t", Key: "k", Kind: "thing", Before: row}})
		}},
		{"many changes", func(h http.Handler, _ int) { post(h) }, func(ctx context.Context, n int) {
			for i := range 2000 {
				ChangeLogOf(ctx).Add(sim.Change{Kind: "thing", Action: sim.Created, ID: fmt.Sprint(n, "/", i), What: strings.Repeat("a", 500)})
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			service, recorder := notingService(func(ctx context.Context) { tt.do(ctx, n) }), NewRecorder(20000)
			recorder.maxBytes = limit
			handler := Recording(service, recorder)
			before := heap()
			for n = range testrun.Of(600, 200) {
				tt.send(handler, n)
				if n%200 == 199 {
					if grown := heap() - before; grown > limit+slack {
						t.Fatalf("after %d requests the record takes %d MiB, want at most %d", n+1, grown>>20, limit>>20)
					}
				}
			}
			newest := uint64(0)
			for e := range recorder.kept() {
				newest = e.number
			}
			if newest != recorder.started || recorder.count < 100 {
				t.Errorf("%d requests are kept, the last is number %d of %d", recorder.count, newest, recorder.started)
			}
			answer := &sampler{header: make(http.Header)}
			Control{Recorder: recorder}.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/_sim/requests", nil))
			if grown := answer.most - before; grown > 2*limit || answer.n < 8<<10 {
				t.Errorf("an answer of %d MiB takes %d MiB, want at most %d", answer.n>>20, grown>>20, 2*limit>>20)
			}
			runtime.KeepAlive(recorder)
		})
	}
}
