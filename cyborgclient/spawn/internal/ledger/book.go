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
	defaultLimit = time.Minute // timeout of a request of Do

	lifetime  = time.Hour        // how long the book remembers an effect
	arqsKnown = 10 * time.Minute // how long it remembers ARQs of ended operations: a replica of Cyborg's database may lag behind
	maxKnown  = 4096
)

// Book has the journals of a process, and remembers for an hour the effects of ended operations with unknown outcome.
type Book struct {
	limits map[Kind]time.Duration
	store  journal.Store // nil: the journals are in memory only

	mu    sync.Mutex
	last  int                 // Seq of the newest effect
	open  map[string]*Journal // by instance
	past  []*Effect           // uncertain effects of ended operations
	arqs  map[string]*Effect  // by UUID: ARQs of open journals and in ended
	ended []endedARQ          // in the order of their end
}

type endedARQ struct {
	*Effect
	at time.Time
}

// NewBook returns a book without journals. Limits are the timeouts of requests of Do by kind; the default is a
// minute. With a store the journals survive the process.
func NewBook(limits map[Kind]time.Duration, store journal.Store) *Book {
	return &Book{limits: limits, store: store, open: map[string]*Journal{}, arqs: map[string]*Effect{}}
}

// limit returns the context of a request. Hooks get the caller's context.
func (b *Book) limit(ctx context.Context, kind Kind) (context.Context, context.CancelFunc) {
	if kind == Guest || kind == Mdev || kind == Power {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), b.limitOf(kind))
}

// limitOf returns the timeout of a request of Do.
func (b *Book) limitOf(kind Kind) time.Duration { return cmp.Or(b.limits[kind], defaultLimit) }

// ErrBusy is the error of a call for an instance from inside a hook of another operation on it.
var ErrBusy = errors.New("another operation on the instance is running")

type operationKey struct{}

// operation is the operation that a context belongs to, and the enclosing one.
type operation struct {
	*Journal
	outer *operation
}

// Inside returns the context for a hook of the operation. Open with it, for the same instance, returns ErrBusy.
func (j *Journal) Inside(ctx context.Context) context.Context {
	return context.WithValue(ctx, operationKey{}, &operation{j, around(ctx)})
}

// around returns the operation that a context belongs to, or nil.
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

// Open begins the journal of an operation. It waits while another operation on the instance is running. The error
// matches ErrBusy, at once inside that operation or when the context ends, or ErrStore. If Journal.Unfinished reports
// true, the journal belongs to an operation that another process did not end.
func (b *Book) Open(ctx context.Context, instance string) (*Journal, error) {
	j := &Journal{Instance: instance, book: b}
	return j, j.Reopen(ctx)
}

// Reopen continues an ended operation; it waits and fails as Open does. It does nothing if the operation is running.
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

// wait waits until an operation ends. If the operation has a yield function, it is called.
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

// lock locks the stored journal. A running operation already holds the lock.
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
	if len(j.effects) == 0 { // not continued
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

// renew extends a lock until the operation ends, so that it does not expire during a wait.
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

// loaded adds the effects of a stored journal to the book.
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

// Continue takes over the effects of an operation that was handed over, or that remained when it ended.
func (j *Journal) Continue() {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	isContinued := func(e *Effect) bool {
		return e.Instance == j.Instance && slices.ContainsFunc(j.ofOthers, func(other *Effect) bool { return other.Seq == e.Seq })
	}
	j.book.past = slices.DeleteFunc(j.book.past, isContinued)
	j.effects, j.ofOthers = j.ofOthers, nil
}

// begin opens a journal, unless another journal of the instance is open, and returns the open one.
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

// end ends an operation and returns the effects to keep in the stored journal.
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

// isUncertain reports whether the book must remember an effect.
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

// of returns the effects of an instance: the remembered ones, and the ones of its running operation.
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

// Uncertain returns copies of the effects that may not exist, or may belong to another client, oldest first.
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

// InUse reports whether an ARQ belongs to a running operation.
func (b *Book) InUse(arq string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.arqs[arq]
	return e != nil && b.open[e.Instance] == e.journal && e.Pending()
}

// Knows reports whether an ARQ belongs, or belonged, to an operation of the last minutes.
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

// Newest returns the sequence number of the newest effect.
func (b *Book) Newest() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Creating reports whether a create up to the given sequence number is in progress. Its ARQs may already be listed.
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

// LateChange returns the greatest generation of a change of an instance's allocation that may still be applied, or
// nil.
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

// LostClaim reports whether the allocation of an instance is the result of a claim of an earlier operation with an
// unknown outcome, and returns what the instance held before that claim.
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

// Forget settles effects of ended operations: they have been removed, or now belong to a later operation.
func (b *Book) Forget(settled func(Effect) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.past {
		if (e.State == Unknown || e.State == Foreign) && settled(*e) {
			e.to(Undone, nil)
		}
	}
}
