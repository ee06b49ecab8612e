package ceiling

import (
	"context"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	// perAnswer is the memory for which there is a turn to make an answer, in bytes.
	perAnswer = 64 << 20
	// longPatience is how long a long answer waits for a part of the count. It keeps its turn
	// while it waits, which limits the number of waiting answers.
	longPatience = time.Second
)

// answers are the answers to requests that only read.
type answers struct {
	turns  *semaphore.Weighted // answers that are made now
	atOnce int64
	kept   *semaphore.Weighted // long ones until the client has read them, by their length
	bytes  int64
	stuck  atomic.Bool         // one has waited for its part in vain, and no other was read since: an answer that would have to wait is refused
	states *semaphore.Weighted // a state, which is written row by row: the data of an image is a row
}

func newAnswers(size int64) *answers {
	atOnce := max(1, min(2*int64(runtime.GOMAXPROCS(0)), size/perAnswer))
	return &answers{
		turns: semaphore.NewWeighted(atOnce), atOnce: atOnce, kept: semaphore.NewWeighted(size / 8), bytes: size / 8,
		states: semaphore.NewWeighted(1),
	}
}

// answer is one answer. While it is made it has a turn, and from its header on a part of the count.
type answer struct {
	http.ResponseWriter
	c       *Ceiling
	r       *http.Request
	endTurn func()
	length  int64 // that is counted
	began   bool
	refused bool
}

// serve serves a request. The answer to a request that only reads may be long.
func (c *Ceiling) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	r = simhttp.WithLateCount(r, c.countLate)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		next.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/_sim/state" {
		if !take(r.Context(), c.answers.states, 1, patience) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "another client reads the state", http.StatusServiceUnavailable)
			return
		}
		defer c.answers.states.Release(1)
	}
	a := &answer{ResponseWriter: w, c: c, r: r, endTurn: func() {}}
	defer a.release()
	next.ServeHTTP(a, simhttp.WithTurn(r, a.begin))
}

// countLate counts a request that waits to be applied after its connection ended.
func (c *Ceiling) countLate(bytes int64) (release func(), err error) {
	if !c.late.TryAcquire(bytes) {
		return nil, simhttp.Refuse(http.StatusInsufficientStorage, "the late requests that wait use the memory that is for them; raise --max-memory")
	}
	return func() { c.late.Release(bytes) }, nil
}

// begin waits for a turn: while half of the memory is allocated, one answer is made after the other.
func (a *answer) begin(ctx context.Context) (end func(), err error) {
	all, turns := a.c.answers, int64(1)
	if allocated() > int64(a.c.size)/2 {
		turns = all.atOnce
	}
	if err := all.turns.Acquire(ctx, turns); err != nil {
		return nil, simhttp.Refuse(http.StatusServiceUnavailable, "%v", err) // the client has disconnected
	}
	a.endTurn = sync.OnceFunc(func() { all.turns.Release(turns) })
	return a.endTurn, nil
}

// allocated is the memory in use with the garbage that is not collected yet, in bytes.
func allocated() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// WriteHeader implements http.ResponseWriter. A client may read the answer slowly, so the turn ends here.
func (a *answer) WriteHeader(status int) {
	if a.began {
		if !a.refused {
			a.ResponseWriter.WriteHeader(status)
		}
		return
	}
	a.began = status >= http.StatusOK
	length, _ := strconv.ParseInt(a.Header().Get("Content-Length"), 10, 64)
	kept := length <= short || a.keep(length)
	a.endTurn()
	if !kept {
		a.refused = true
		a.Header().Del("Content-Length")
		a.Header().Set("Retry-After", "1")
		http.Error(a.ResponseWriter, "the answers that other clients read use the memory that is for them", http.StatusServiceUnavailable)
	} else {
		a.ResponseWriter.WriteHeader(status)
	}
}

// keep counts a long answer.
func (a *answer) keep(length int64) bool {
	all, wait := a.c.answers, longPatience
	if all.stuck.Load() {
		wait = 0
	}
	n := min(length, all.bytes)
	if !take(a.r.Context(), all.kept, n, wait) {
		all.stuck.Store(true)
		return false
	}
	a.length = n
	return true
}

// release ends the answer, which was read or given up.
func (a *answer) release() {
	if a.length > 0 {
		a.c.answers.kept.Release(a.length)
		a.c.answers.stuck.Store(false)
	}
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if !a.began {
		a.WriteHeader(http.StatusOK)
	}
	if a.refused {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
