package simhttp

import (
	"cmp"
	"math"
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

	paused   atomic.Bool
	mu       sync.Mutex
	limit    int
	started  uint64
	revision uint64       // see Revision
	pages    [][]numbered // of equal length but for the last
	changes  int          // at least how many the exchanges have in all
}

// pageLength is how many exchanges a page has, unless fewer are kept. An exchange is not moved:
// the copies of a growing list would be most of the memory that a record costs.
const pageLength = 256

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
	r.revision++
	page := r.room()
	*page = append(*page, numbered{number, e, log, touched})
	r.trimChanges(touched)
}

// room returns a page that is not full. The oldest page becomes the newest once it is not needed.
func (r *Recorder) room() *[]numbered {
	length, last := min(pageLength, r.limit), len(r.pages)-1
	switch {
	case last >= 0 && len(r.pages[last]) < length:
		return &r.pages[last]
	case last*length >= r.limit:
		oldest := r.pages[0]
		clear(oldest) // or what the exchanges refer to would stay
		r.pages = append(append(r.pages[:0], r.pages[1:]...), oldest[:0])
	default:
		r.pages = append(r.pages, make([]numbered, 0, length))
	}
	return &r.pages[len(r.pages)-1]
}

// kept are the newest exchanges, at most the limit, in the order in which they ended. The list
// is that of the recorder's pages.
func (r *Recorder) kept() []*numbered {
	var list []*numbered
	for _, page := range r.pages {
		for i := range page {
			list = append(list, &page[i])
		}
	}
	return list[max(0, len(list)-r.limit):]
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
	found := slices.DeleteFunc(r.kept(), func(e *numbered) bool { return e.number >= before })
	slices.SortFunc(found, func(a, b *numbered) int { return cmp.Compare(a.number, b.number) })
	begin := max(0, len(found)-limit)
	if begin > 0 {
		older = found[begin].number
	}
	chosen := make([]numbered, 0, len(found)-begin)
	for _, e := range found[begin:] {
		chosen = append(chosen, *e)
	}
	r.mu.Unlock()
	list = make([]sim.Exchange, 0, len(chosen))
	for _, e := range chosen {
		list = append(list, e.described())
	}
	return list, older
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
	r.pages, r.changes = nil, 0
	r.paused.Store(false)
}

// maxKeptChanges is how many changes of all exchanges a recorder keeps.
const maxKeptChanges = 100000

// trimChanges drops the changes of the oldest exchanges when there are too many in all. It
// is called under the lock.
func (r *Recorder) trimChanges(added int) {
	if r.changes += added; r.changes <= maxKeptChanges {
		return
	}
	r.changes = 0
	kept := r.kept()
	for _, e := range kept {
		r.changes += e.touched
	}
	for i := 0; i < len(kept) && r.changes > maxKeptChanges/2; i++ {
		e := kept[i]
		if n := e.touched; n > 1 {
			e.Changes, e.log, e.touched = []sim.Change{tables.MoreChanges(n)}, nil, 1
			r.changes -= n - 1
		}
	}
}
