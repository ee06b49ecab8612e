package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

// Journal records the effects of one operation on an instance. Its methods are called from one goroutine.
type Journal struct {
	Instance string

	book    *Book
	effects []*Effect
	removed []*Effect     // in the order of their removal
	ended   chan struct{} // closed when the operation ends

	stored  journal.Journal // nil: in memory only
	written int             // number of its records
	changed []*Effect       // since it was last written
	mark    Mark            // stored by another process

	ofOthers []*Effect // of an operation that has ended or was handed over
	yield    func()
	waiting  int // operations
}

// errNoReturn is the outcome of a request whose function panicked or ended the goroutine.
var errNoReturn = errors.New("the call did not return")

// Do records an effect as Sent and calls send. Afterwards the state of the effect is what the response proves. The
// request is not canceled with the context, because its outcome would be unknown; its timeout is the limit of the
// kind, see NewBook. If the context has already ended, nothing is sent.
func (j *Journal) Do(ctx context.Context, e *Effect, send func(ctx context.Context) error) error {
	return j.do(ctx, e, e.Amount, send)
}

// Claim is Do for a claim that adds resources to what the instance held before, sent with the consumer generation.
func (j *Journal) Claim(ctx context.Context, e *Effect, added placement.Resources, generation *int, send func(ctx context.Context) error) error {
	claimed := *e.Amount
	claimed.Sent, claimed.Generation = added, generation
	return j.do(ctx, e, &claimed, send)
}

// do is Do for an effect with the given amount.
func (j *Journal) do(ctx context.Context, e *Effect, amount *Amount, send func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.add(e)
	earlier := *e
	j.change(func() { e.Amount = amount })
	j.Settle(e, Sent, nil)
	if err := j.writeBefore(ctx, "", j.book.limitOf(e.Kind)); err != nil {
		j.revert(e, earlier)
		return err
	}
	state, result := Unknown, errNoReturn
	defer func() { j.answered(e, state, result) }()
	limited, cancel := j.book.limit(ctx, e.Kind)
	defer cancel()
	result = send(limited)
	state = outcome(e.Kind, result)
	return result
}

func (j *Journal) answered(e *Effect, state State, err error) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	if e.Amount != nil {
		state = e.Amount.answered(state)
	}
	j.note(e, state, err)
}

// revert restores an effect whose request was not sent.
func (j *Journal) revert(e *Effect, earlier Effect) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	state := Refused
	if e.Amount = earlier.Amount; e.Amount != nil {
		state = e.Amount.state()
	}
	j.note(e, state, earlier.Err)
	if earlier.State == none {
		j.effects = slices.DeleteFunc(j.effects, func(other *Effect) bool { return other == e })
	}
}

// Adopt adds an existing effect of an operation: a response has shown it, or another process has created it.
func (j *Journal) Adopt(e *Effect) *Effect {
	j.add(e)
	j.Settle(e, Done, nil)
	return e
}

// Take adds a resource of the instance that the operation is to remove.
func (j *Journal) Take(e *Effect) *Effect {
	j.add(e)
	j.Settle(e, Found, nil)
	return e
}

// Remove records effects as Undoing and calls send, which sends the request to remove them and returns an error for
// each that remains.
func (j *Journal) Remove(ctx context.Context, effects []*Effect, send func(ctx context.Context) map[*Effect]error) {
	failed := make(map[*Effect]error, len(effects))
	for _, e := range effects {
		j.Settle(e, Undoing, nil)
		failed[e] = &Final{errNoReturn}
	}
	if err := j.write(ctx, ""); errors.Is(err, journal.ErrLost) { // without the lock nothing is sent; other store errors do not prevent the removal
		for _, e := range effects {
			j.Settle(e, Left, &Final{err})
		}
		return
	}
	defer func() {
		for _, e := range effects {
			if err := failed[e]; err != nil {
				j.Settle(e, Left, err)
			} else {
				j.Settle(e, Undone, nil)
			}
		}
	}()
	failed = send(ctx)
}

// Release records a claim or a part of an allocation as Undoing and calls send, which sends the allocation without
// it, with the generation that was read. If the response says that it was applied, the state becomes next. Without a
// response the effect stays Undoing, and the change may still be applied, also if the process is killed before the
// response.
func (j *Journal) Release(ctx context.Context, e *Effect, generation *int, next State, send func(ctx context.Context) error) {
	j.Settle(e, Undoing, nil)
	late := e.Amount.late
	j.change(func() {
		e.changed = time.Now()
		e.Amount.mayArrive(generation)
	})
	settle := func(state State, err error) {
		j.change(func() { e.Amount.late = late })
		j.Settle(e, state, err)
	}
	if err := j.write(ctx, ""); err != nil { // a change that arrives late could fit the next consumer of the instance
		settle(Left, &Final{err})
		return
	}
	err := send(ctx)
	switch outcome(e.Kind, err) {
	case Done:
		settle(next, nil)
	case Refused:
		settle(Left, err)
	default:
		j.Settle(e, Undoing, err)
	}
}

// Seen records that a read of the allocation has shown a claim: the last one sent, or the one before.
func (j *Journal) Seen(e *Effect, held placement.Allocation) {
	j.Change(e, func() {
		m := e.Amount
		if m.Sent != nil && placement.Equal(held.Resources, m.Wanted()) {
			m.Added = m.Sent
		}
		m.Sent = nil
	})
}

// Note adds an effect that may belong to another client. It is reported but not removed.
func (j *Journal) Note(e *Effect, err error) {
	j.add(e)
	j.Settle(e, Foreign, err)
}

// Removed returns the removed effects, in the order of their removal.
func (j *Journal) Removed() []*Effect { return j.removed }

// Effects returns the effects of the given kinds that exist or may exist, oldest first. Without kinds it returns all.
func (j *Journal) Effects(kinds ...Kind) []*Effect {
	var found []*Effect
	for _, e := range j.effects {
		if e.Pending() && (len(kinds) == 0 || slices.Contains(kinds, e.Kind)) {
			found = append(found, e)
		}
	}
	return found
}

// Numbers returns the sequence numbers of the effects of the given kinds that exist or may exist. Without kinds it
// returns all.
func (j *Journal) Numbers(kinds ...Kind) []int {
	var numbers []int
	for _, e := range j.Effects(kinds...) {
		numbers = append(numbers, e.Seq)
	}
	return numbers
}

// Find returns the newest effect of a kind with an ID, including removed effects, or nil.
func (j *Journal) Find(kind Kind, id string) *Effect {
	for _, e := range slices.Backward(j.effects) {
		if e.Kind == kind && e.ID == id {
			return e
		}
	}
	return nil
}

// Commit records that the effects belong to the instance: a later process does not undo them. After an error it
// would.
func (j *Journal) Commit(ctx context.Context) error {
	isMade := func(e *Effect) bool { return e.State == Done || e.State == Foreign }
	if len(slices.DeleteFunc(j.Effects(), isMade)) > 0 {
		return j.write(ctx, Committed)
	}
	return j.clear(ctx)
}

// clear removes the stored records.
func (j *Journal) clear(ctx context.Context) error {
	if j.stored == nil || j.written == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultLimit)
	defer cancel()
	if err := j.stored.Clear(ctx); err != nil {
		return fmt.Errorf("%w: instance %s: %w", ErrStore, j.Instance, err)
	}
	j.written, j.changed = 0, nil
	return nil
}

// Record writes the changed effects to the store.
func (j *Journal) Record(ctx context.Context) error { return j.write(ctx, "") }

// HandOver records that another process continues the operation, and ends it in this process.
func (j *Journal) HandOver(ctx context.Context) error {
	if err := j.write(ctx, HandedOver); err != nil {
		return err
	}
	j.Leave()
	return nil
}

// End ends the operation. The book remembers effects with unknown outcome. Errors of the store are ignored: a later
// process finds what was recorded, and that it was removed.
func (j *Journal) End() {
	remaining := j.book.end(j)
	if j.changed = remaining; len(remaining) == 0 {
		_ = j.clear(context.Background())
	} else {
		_ = j.write(context.Background(), Ended)
	}
	j.release()
}

// Leave ends the operation and keeps the stored journal unchanged.
func (j *Journal) Leave() {
	j.book.end(j)
	j.release()
}

func (j *Journal) release() {
	if j.stored != nil {
		j.stored.Release()
		j.stored = nil
	}
}

// Mark returns the mark of the stored operation of another process.
func (j *Journal) Mark() Mark { return j.mark }

// Unfinished reports whether the journal belongs to an operation that another process did not end.
func (j *Journal) Unfinished() bool {
	return len(j.effects) > 0 && j.mark != Ended && j.mark != HandedOver
}

func (j *Journal) add(e *Effect) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	if e.Seq != 0 {
		return
	}
	j.book.last++
	e.Seq, e.Instance, e.journal = j.book.last, j.Instance, j
	j.effects = append(j.effects, e)
}

// Settle sets the state of an effect, for example to what a read has shown.
func (j *Journal) Settle(e *Effect, state State, err error) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	isSeen := e.Kind != Claim || e.Amount.Added != nil
	if e.State == Undoing && state == Undone && isSeen {
		j.removed = append(j.removed, e)
	}
	j.note(e, state, err)
	if e.Kind == ARQ && (state == Done || state == Found) {
		j.book.arqs[e.ID] = e
	}
}

func (j *Journal) note(e *Effect, state State, err error) {
	e.to(state, err)
	if j.stored != nil && !slices.Contains(j.changed, e) {
		j.changed = append(j.changed, e)
	}
}

func (j *Journal) change(change func()) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	change()
}

// Change changes the content of an effect. The change is recorded with the next request.
func (j *Journal) Change(e *Effect, change func()) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	change()
	j.note(e, e.State, e.Err)
}
