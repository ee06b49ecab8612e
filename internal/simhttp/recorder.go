package simhttp

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// Recorder keeps the newest exchanges of a simulated cloud, in the order in
// which they started. A nil Recorder records nothing.
type Recorder struct {
	// RefusesUnrecognized lets every Service refuse requests with unrecognized query keys
	// or members of the body. It is set before the first request.
	RefusesUnrecognized bool

	paused    atomic.Bool
	mu        sync.Mutex
	limit     int
	started   uint64
	revision  uint64 // see Revision
	exchanges []numbered
	changes   int // at least how many the exchanges have in all
}

// numbered is an exchange with its place in the order of starts, which times do
// not give: in virtual time a request and those it causes start at once.
type numbered struct {
	number uint64
	sim.Exchange
	log     *tables.ChangeLog // describes the changes when they are read; nil: Changes has them
	touched int               // what log says, or 1 for Changes
}

// described is the exchange with its changes.
func (e numbered) described() sim.Exchange {
	if e.log != nil {
		e.Changes = e.log.Changes()
	}
	return e.Exchange
}

// NewRecorder returns a recorder that keeps the newest limit exchanges.
func NewRecorder(limit int) *Recorder { return &Recorder{limit: max(limit, 1)} }

type recorderKey struct{}

// Recording lets the recorder keep the exchanges of every Service below the handler.
func Recording(h http.Handler, r *Recorder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.paused.Load() && !r.RefusesUnrecognized {
			h.ServeHTTP(w, req)
			return
		}
		h.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), recorderKey{}, r)))
	})
}

func recorderOf(ctx context.Context) *Recorder {
	r, _ := ctx.Value(recorderKey{}).(*Recorder)
	return r
}

// begin numbers an exchange that starts.
func (r *Recorder) begin() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
	return r.started
}

// add keeps an exchange. It is called when a request ends, so nested requests
// arrive before the one that caused them; Exchanges sorts by start.
func (r *Recorder) add(number uint64, e sim.Exchange, log *tables.ChangeLog) {
	touched := log.End()
	if r == nil {
		return
	}
	if touched == 0 {
		log = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.exchanges) >= 2*r.limit {
		kept := append(r.exchanges[:0], r.exchanges[len(r.exchanges)-r.limit:]...)
		clear(r.exchanges[len(kept):]) // or what they refer to would stay
		r.exchanges = kept
	}
	r.revision++
	r.exchanges = append(r.exchanges, numbered{number, e, log, touched})
	r.trimChanges(touched)
}

// Exchanges returns the newest exchanges, at most the recorder's limit, sorted
// by when they started.
func (r *Recorder) Exchanges() []sim.Exchange {
	list, _ := r.Page(math.MaxUint64, math.MaxInt)
	return list
}

// Page returns the newest of the exchanges whose number is below one, at most a limit, and
// the number below which the older ones are, 0 if there are none.
func (r *Recorder) Page(before uint64, limit int) (list []sim.Exchange, older uint64) {
	if r == nil {
		return nil, 0
	}
	r.mu.Lock()
	kept := r.exchanges[max(0, len(r.exchanges)-r.limit):]
	places := make([]place, 0, len(kept))
	for i := range kept {
		if kept[i].number < before {
			places = append(places, place{kept[i].number, i})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.number, b.number) })
	begin := max(0, len(places)-limit)
	if begin > 0 {
		older = places[begin].number
	}
	chosen := make([]numbered, 0, len(places)-begin)
	for _, p := range places[begin:] {
		chosen = append(chosen, kept[p.at])
	}
	r.mu.Unlock()
	list = make([]sim.Exchange, 0, len(chosen))
	for _, e := range chosen {
		list = append(list, e.described())
	}
	return list, older
}

// place is where an exchange is that has a number.
type place struct {
	number uint64
	at     int
}

// Revision changes with what the recorder keeps.
func (r *Recorder) Revision() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

// Pause makes the recorder keep nothing, nor collect what requests change, until Reset.
func (r *Recorder) Pause() { r.paused.Store(true) }

// Reset forgets everything.
func (r *Recorder) Reset() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revision++
	r.exchanges, r.changes = nil, 0
	r.paused.Store(false)
}

// maxKeptChanges is how many changes of all exchanges a recorder keeps.
const maxKeptChanges = 100000

type changeLogKey struct{}

// ChangeLogOf returns the log of the exchange that is being served under ctx, or nil if
// nothing records it.
func ChangeLogOf(ctx context.Context) *tables.ChangeLog {
	log, _ := ctx.Value(changeLogKey{}).(*tables.ChangeLog)
	return log
}

// WithoutChangeLog is ctx for work that belongs to no exchange, or to one of another
// service.
func WithoutChangeLog(ctx context.Context) context.Context {
	if ChangeLogOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, changeLogKey{}, (*tables.ChangeLog)(nil))
}

// withChangeLog gives an exchange a log. There is none if nothing would read it, and the
// log of an exchange that this one serves is out of reach.
func (s *Service) withChangeLog(ctx context.Context) (context.Context, *tables.ChangeLog) {
	if s.Observe == nil && recorderOf(ctx) == nil {
		return WithoutChangeLog(ctx), nil
	}
	log := new(tables.ChangeLog)
	return context.WithValue(ctx, changeLogKey{}, log), log
}

// trimChanges drops the changes of the oldest exchanges when there are too many in all. It
// is called under the lock.
func (r *Recorder) trimChanges(added int) {
	if r.changes += added; r.changes <= maxKeptChanges {
		return
	}
	r.changes = 0
	for i := range r.exchanges {
		r.changes += r.exchanges[i].touched
	}
	for i := 0; i < len(r.exchanges) && r.changes > maxKeptChanges/2; i++ {
		e := &r.exchanges[i]
		if n := e.touched; n > 1 {
			e.Changes, e.log, e.touched = []sim.Change{tables.MoreChanges(n)}, nil, 1
			r.changes -= n - 1
		}
	}
}
