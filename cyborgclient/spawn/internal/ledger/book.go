package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

const (
	defaultLimit = time.Minute // of a request of Do

	lifetime  = time.Hour        // of what the book remembers
	arqsKnown = 10 * time.Minute // of the ARQs of operations that have ended: a replica of Cyborg's database may lag behind
	maxKnown  = 4096
)

// Book has the journals of a process, and remembers for an hour what those that have ended do not know.
type Book struct {
	limits map[Kind]time.Duration
	store  journal.Store // nil: the journals are in memory only

	mu    sync.Mutex
	last  int                 // Seq of the newest effect
	open  map[string]*Journal // by instance
	past  []*Effect           // not known, of operations that have ended
	arqs  map[string]*Effect  // by UUID: of open journals and of pastARQs
	ended []endedARQ          // in the order of their end
}

type endedARQ struct {
	*Effect
	at time.Time
}

// NewBook returns a book without journals. Limits bound the requests of Do, in place of a minute. With a store the journals survive
// the process.
func NewBook(limits map[Kind]time.Duration, store journal.Store) *Book {
	return &Book{limits: limits, store: store, open: map[string]*Journal{}, arqs: map[string]*Effect{}}
}

// limit returns the context of a request. Hooks have the caller's.
func (b *Book) limit(ctx context.Context, kind Kind) (context.Context, context.CancelFunc) {
	if kind == Guest || kind == Mdev || kind == Power {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), b.limitOf(kind))
}

// limitOf is how long a request of Do may take.
func (b *Book) limitOf(kind Kind) time.Duration { return cmp.Or(b.limits[kind], defaultLimit) }

// ErrBusy is the error of a call for an instance from inside a hook of another operation on it.
var ErrBusy = errors.New("another operation on the instance is running")

type operationKey struct{}

// operation is an operation that a context belongs to, and the one around it.
type operation struct {
	*Journal
	outer *operation
}

// Inside returns the context of a hook of the operation: Open with it, for the same instance, is ErrBusy.
func (j *Journal) Inside(ctx context.Context) context.Context {
	return context.WithValue(ctx, operationKey{}, &operation{j, around(ctx)})
}

// around returns the operation that a context belongs to; nil if it belongs to no operation.
func around(ctx context.Context) *operation {
	o, _ := ctx.Value(operationKey{}).(*operation)
	return o
}

func isInside(ctx context.Context, j *Journal) bool {
	for o := around(ctx); o != nil; o = o.outer {
		if o.Journal == j {
			return true
		}
	}
	return false
}

// Open begins the journal of an operation. It waits while another operation on the instance is running, until the context ends.
// The error matches ErrBusy: at once inside that operation, or when the context ends; or ErrStore. If Journal.Unfinished, it is the
// journal of an operation that another process did not end.
func (b *Book) Open(ctx context.Context, instance string) (*Journal, error) {
	j := &Journal{Instance: instance, book: b}
	return j, j.Reopen(ctx)
}

// Reopen continues an operation that has ended, as Open. It does nothing for one that is running.
func (j *Journal) Reopen(ctx context.Context) error {
	for {
		other := j.book.begin(j)
		switch {
		case other == j:
			return j.lock(ctx)
		case isInside(ctx, other):
			return fmt.Errorf("instance %s: %w", j.Instance, ErrBusy)
		}
		if err := other.wait(ctx); err != nil {
			return fmt.Errorf("instance %s: %w: %w", j.Instance, ErrBusy, err)
		}
	}
}

// wait waits until an operation ends. One that can yield is asked to.
func (j *Journal) wait(ctx context.Context) error {
	var yield func()
	var ended chan struct{}
	j.change(func() {
		j.waiting++
		yield, ended = j.yield, j.ended
	})
	defer j.change(func() { j.waiting-- })
	if yield != nil {
		yield()
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lock gets the right to the stored journal. A running operation has it.
func (j *Journal) lock(ctx context.Context) error {
	if j.book.store == nil || j.stored != nil {
		return nil
	}
	stored, err := j.book.store.Lock(ctx, j.Instance)
	if err != nil {
		j.book.end(j)
		return fmt.Errorf("%w: instance %s: %w", ErrStore, j.Instance, err)
	}
	j.stored, j.written = stored, len(stored.Records())
	if len(j.effects) == 0 { // it is not continued
		found, err := j.read(stored)
		if err != nil {
			j.Leave()
			return err
		}
		j.book.loaded(j, found)
	}
	if !stored.Until().IsZero() {
		go renew(stored, j.ended)
	}
	return nil
}

// Yield sets a function that is called when another operation on the instance waits, at once if one does.
func (j *Journal) Yield(yield func()) {
	isAwaited := false
	j.change(func() { j.yield, isAwaited = yield, j.waiting > 0 })
	if isAwaited {
		yield()
	}
}

// renew extends a right until the operation ends, so that it is not lost during a wait.
func renew(stored journal.Journal, ended <-chan struct{}) {
	for {
		timer := time.NewTimer(max(time.Until(stored.Until())/3, FirstPause))
		select {
		case <-ended:
			timer.Stop()
			return
		case <-timer.C:
		}
		ctx, cancel := context.WithDeadline(context.Background(), stored.Until())
		err := stored.Renew(ctx)
		cancel()
		if errors.Is(err, journal.ErrLost) {
			return
		}
	}
}

// loaded adds what a stored journal says of an operation that has ended to what the book remembers.
func (b *Book) loaded(j *Journal, found []*Effect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range found {
		b.last = max(b.last, e.Seq)
	}
	if j.mark == Ended {
		for _, e := range found {
			isKnown := slices.ContainsFunc(b.past, func(known *Effect) bool { return known.Instance == e.Instance && known.Seq == e.Seq })
			if !isKnown && e.isUncertain() {
				b.past = append(b.past, e)
			}
		}
	}
	if j.mark == Ended || j.mark == HandedOver {
		j.ofOthers = found
	} else {
		j.effects = found
	}
}

// Continue makes the effects of an operation that was handed over, or that remained at its end, those of this one.
func (j *Journal) Continue() {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	isContinued := func(e *Effect) bool {
		return e.Instance == j.Instance && slices.ContainsFunc(j.ofOthers, func(other *Effect) bool { return other.Seq == e.Seq })
	}
	j.book.past = slices.DeleteFunc(j.book.past, isContinued)
	j.effects, j.ofOthers = j.ofOthers, nil
}

// begin opens a journal, unless another one of the instance is open, and returns the open one.
func (b *Book) begin(j *Journal) *Journal {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other := b.open[j.Instance]; other != nil {
		return other
	}
	b.open[j.Instance], j.ended = j, make(chan struct{})
	b.past = slices.DeleteFunc(b.past, func(e *Effect) bool { return e.journal == j })
	return j
}

// end ends an operation and returns what is to stay in the stored journal.
func (b *Book) end(j *Journal) (remaining []*Effect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[j.Instance] != j {
		return nil
	}
	delete(b.open, j.Instance)
	close(j.ended)
	now := time.Now()
	for _, e := range j.effects {
		if e.isUncertain() {
			b.past = append(b.past, e)
		}
		if e.State == Left {
			remaining = append(remaining, e)
		}
		if e.Kind == ARQ {
			b.ended = append(b.ended, endedARQ{e, now})
		}
	}
	b.expire()
	for _, e := range b.past {
		if e.Instance == j.Instance {
			remaining = append(remaining, e)
		}
	}
	return remaining
}

// isUncertain reports whether the book has to remember an effect.
func (e *Effect) isUncertain() bool {
	return e.State == Unknown || e.State == Foreign || e.Amount != nil && e.Amount.late != nil
}

func (b *Book) expire() {
	b.past = slices.DeleteFunc(b.past, func(e *Effect) bool { return time.Since(e.changed) >= lifetime || !e.isUncertain() })
	b.past = b.past[max(0, len(b.past)-maxKnown):]
	for len(b.ended) > maxKnown || len(b.ended) > 0 && time.Since(b.ended[0].at) >= arqsKnown {
		if old := b.ended[0].Effect; b.arqs[old.ID] == old {
			delete(b.arqs, old.ID)
		}
		b.ended = b.ended[1:]
	}
}

// of returns the effects of an instance that are remembered or of an operation that is running.
func (b *Book) of(instance string) []*Effect {
	b.expire()
	var found []*Effect
	for _, e := range b.past {
		if e.Instance == instance {
			found = append(found, e)
		}
	}
	if j := b.open[instance]; j != nil {
		found = append(found, j.effects...)
	}
	return found
}

// Busy reports whether an operation on an instance is running.
func (b *Book) Busy(instance string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[instance] != nil
}

// Uncertain returns copies of the effects that are not known to exist, or to be this process's, oldest first.
func (b *Book) Uncertain() []Effect {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	var found []Effect
	add := func(effects []*Effect) {
		for _, e := range effects {
			if e.State == Unknown || e.State == Foreign {
				found = append(found, *e)
			}
		}
	}
	add(b.past)
	for _, j := range b.open {
		add(j.effects)
	}
	slices.SortFunc(found, func(x, y Effect) int { return cmp.Compare(x.Seq, y.Seq) })
	return found
}

// InUse reports whether an operation that is running has an ARQ.
func (b *Book) InUse(arq string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.arqs[arq]
	return e != nil && b.open[e.Instance] == e.journal && e.Pending()
}

// Knows reports whether an operation of the last minutes has, or had, an ARQ.
func (b *Book) Knows(arq string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	return b.arqs[arq] != nil
}

// Removed reports whether an operation of the last minutes has deleted an ARQ: a replica of Cyborg's database may still list it.
func (b *Book) Removed(arq string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	e := b.arqs[arq]
	return e != nil && e.State == Undone
}

// Newest returns the number of the newest effect.
func (b *Book) Newest() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Creating reports whether a create up to the given effect is under way: its ARQs may be listed already.
func (b *Book) Creating(newest int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.open {
		for _, e := range j.effects {
			if e.Kind == Create && e.State == Sent && e.Seq <= newest {
				return true
			}
		}
	}
	return false
}

// LateChange returns the newest generation of a change of an instance's allocation that may still arrive, or nil.
func (b *Book) LateChange(instance string) *int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var late *int
	for _, e := range b.of(instance) {
		if e.Amount != nil && e.Amount.late != nil && (late == nil || *late < *e.Amount.late) {
			late = e.Amount.late
		}
	}
	return late
}

// LostClaim returns what the instance held before, and holds with, a claim of an earlier operation with an unknown outcome, if that
// is what it holds now.
func (b *Book) LostClaim(instance string, held placement.Resources) (before placement.Resources, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.of(instance) {
		if e.Kind == Claim && e.State == Unknown && len(held) > 0 && placement.Equal(held, e.Amount.Wanted()) {
			return e.Amount.Before, true
		}
	}
	return nil, false
}

// Forget settles effects of operations that have ended: they were removed since, or have become those of a later operation.
func (b *Book) Forget(settled func(Effect) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.past {
		if (e.State == Unknown || e.State == Foreign) && settled(*e) {
			e.to(Undone, nil)
		}
	}
}
