package simhttp

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

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
	maxBytes int64 // beyond which the changes of the oldest are dropped, and then the oldest themselves
	started  uint64
	revision uint64       // see Revision
	unknown  uint64       // also, of exchanges with unrecognized input
	pages    [][]numbered // of equal length but for the last
	dropped  int          // from the first page
	spare    []numbered   // memory for a page; nil: none
	count    int          // of the exchanges on all pages
	bytes    int64        // that they take
}

// maxRecord is about how much memory the exchanges of a recorder may take, in bytes.
const maxRecord = 128 << 20

// pageLength is how many exchanges a page has, unless fewer are kept. An exchange is not moved:
// the copies of a growing list would be most of the memory that a record costs.
const pageLength = 256

// numbered is an exchange with its place in the order of starts, which times do
// not give: in virtual time a request and those it causes start at once.
type numbered struct {
	number uint64
	sim.Exchange
	log      *tables.ChangeLog // describes the changes when they are read; nil: Changes has them
	touched  int               // what log says
	secrets  secrets           // that are masked in the changes of log
	logBytes int64             // that log and secrets take
}

// described is the exchange with its changes.
func (e *numbered) described() sim.Exchange {
	exchange := e.Exchange
	if e.log != nil {
		exchange.Changes = e.secrets.changes(e.log.Changes())
	}
	return exchange
}

// size is about how much memory an exchange takes, in bytes.
func (e *numbered) size() int64 {
	n := int(e.logBytes) + int(unsafe.Sizeof(*e)) + len(e.From) + len(e.Method) + len(e.Path) + len(e.Query) + len(e.Subject) + len(e.RequestID) + len(e.GlobalRequestID) + len(e.Microversion) + len(e.Deviation)
	for _, what := range e.Unrecognized {
		n += int(unsafe.Sizeof(what)) + len(what)
	}
	return int64(n)
}

// NewRecorder returns a recorder that keeps the newest limit exchanges.
func NewRecorder(limit int) *Recorder { return &Recorder{limit: max(limit, 1), maxBytes: maxRecord} }

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

// add keeps an exchange. It is called when a request ends, so nested requests arrive before their
// cause; Exchanges sorts by start.
func (r *Recorder) add(number uint64, e sim.Exchange, log *tables.ChangeLog, hidden secrets) {
	touched, logBytes := log.End()
	if r == nil {
		return
	}
	if logBytes += hidden.size(); touched == 0 {
		log, hidden, logBytes = nil, nil, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revision++
	if len(e.Unrecognized) > 0 {
		r.unknown++
	}
	page := r.room()
	*page = append(*page, numbered{number, e, log, touched, hidden, logBytes})
	r.bytes += (*page)[len(*page)-1].size()
	if r.count++; r.count > r.limit {
		r.dropOldest()
	}
	if r.bytes > r.maxBytes {
		r.trim(r.maxBytes / 4 * 3)
	}
}

// room returns a page that is not full.
func (r *Recorder) room() *[]numbered {
	length, last := min(pageLength, r.limit), len(r.pages)-1
	if last < 0 || len(r.pages[last]) == length {
		if r.spare == nil {
			r.spare = make([]numbered, 0, length)
		}
		r.pages, r.spare = append(r.pages, r.spare), nil
		last++
	}
	return &r.pages[last]
}

// dropOldest drops an exchange, with what it refers to.
func (r *Recorder) dropOldest() {
	oldest := r.pages[0]
	r.bytes -= oldest[r.dropped].size()
	oldest[r.dropped] = numbered{}
	r.count--
	if r.dropped++; r.dropped == len(oldest) && len(r.pages) > 1 {
		r.pages, r.dropped, r.spare = append(r.pages[:0], r.pages[1:]...), 0, oldest[:0]
	}
}

// trim drops the changes of the oldest exchanges, and then the oldest exchanges, until the others take no more than a
// number of bytes. The newest stays. It is called under the lock.
func (r *Recorder) trim(target int64) {
	for e := range r.kept() {
		if r.bytes <= target {
			return
		}
		if e.log != nil {
			e.Changes, e.log, e.secrets = []sim.Change{tables.MoreChanges(e.touched)}, nil, nil
			r.bytes -= e.logBytes
			e.logBytes = 0
		}
	}
	for r.bytes > target && r.count > 1 {
		r.dropOldest()
	}
}

// kept are the exchanges in the order in which they ended. It reads the recorder's pages.
func (r *Recorder) kept() iter.Seq[*numbered] {
	return func(yield func(*numbered) bool) {
		begin := r.dropped
		for _, page := range r.pages {
			for i := begin; i < len(page); i++ {
				if !yield(&page[i]) {
					return
				}
			}
			begin = 0
		}
	}
}

// Exchanges returns the newest exchanges, at most the recorder's limit, sorted
// by when they started.
func (r *Recorder) Exchanges() []sim.Exchange {
	list, _ := r.Page(math.MaxUint64, math.MaxInt)
	return list
}

// Page returns the newest of the exchanges whose number is below one, at most a limit, and the
// number below which there are older exchanges, or 0.
func (r *Recorder) Page(before uint64, limit int) (list []sim.Exchange, older uint64) {
	numbers, older := r.numbers(before, limit)
	list = make([]sim.Exchange, 0, len(numbers))
	for _, e := range r.each(numbers, len(numbers)) {
		list = append(list, e)
	}
	return list, older
}

// All yields the exchanges with their numbers, in the order in which they started, a few at a time.
func (r *Recorder) All() iter.Seq2[uint64, sim.Exchange] {
	numbers, _ := r.numbers(math.MaxUint64, math.MaxInt)
	return r.each(numbers, atOnce)
}

// numbers are those of Page's exchanges, in order.
func (r *Recorder) numbers(before uint64, limit int) (list []uint64, older uint64) {
	if r == nil {
		return nil, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.kept() {
		if e.number < before {
			list = append(list, e.number)
		}
	}
	slices.Sort(list)
	begin := max(0, len(list)-limit)
	if begin > 0 {
		older = list[begin]
	}
	return list[begin:], older
}

// each yields the exchanges with these numbers, which are in order, with their numbers, as far as they are still kept. It holds
// only so many of them at once.
func (r *Recorder) each(numbers []uint64, atOnce int) iter.Seq2[uint64, sim.Exchange] {
	return func(yield func(uint64, sim.Exchange) bool) {
		for some := range slices.Chunk(numbers, max(atOnce, 1)) {
			for _, e := range r.with(some) {
				if !yield(e.number, e.described()) {
					return
				}
			}
		}
	}
}

// with returns the exchanges with these numbers.
func (r *Recorder) with(numbers []uint64) []numbered {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]numbered, 0, len(numbers))
	first, last := numbers[0], numbers[len(numbers)-1]
	for e := range r.kept() {
		if e.number < first || e.number > last {
			continue
		}
		if _, found := slices.BinarySearch(numbers, e.number); found {
			list = append(list, *e)
		}
	}
	slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	return list
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

// Unrecognized returns the exchanges with unrecognized input, in the order in which they started, without their changes.
func (r *Recorder) Unrecognized() (list []sim.Exchange) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []numbered
	for e := range r.kept() {
		if len(e.Unrecognized) > 0 {
			found = append(found, *e)
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	for i := range found {
		list = append(list, found[i].Exchange)
	}
	return list
}

// UnrecognizedRevision changes when an exchange with unrecognized input ends, and when all are forgotten.
func (r *Recorder) UnrecognizedRevision() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown
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
	r.unknown++
	r.pages, r.dropped, r.count, r.bytes = nil, 0, 0, 0
	r.paused.Store(false)
}
