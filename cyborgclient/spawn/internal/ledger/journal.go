package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Journal has the effects of one operation on an instance. Its methods are called from one goroutine.
type Journal struct {
	Instance string

	book    *Book
	effects []*Effect
	removed []*Effect     // in the order of their removal
	ended   chan struct{} // closed when the operation ends
}

// errNoReturn is the outcome of a request whose function panicked or ended the goroutine.
var errNoReturn = errors.New("the call did not return")

// Do records an effect as Sent and runs the function that sends its request. The state of the effect is afterwards what the
// answer proves. A request is not canceled with the context, because its outcome would be unknown: it has Book.Limit for the
// kind. If the context has ended before, nothing is sent.
func (j *Journal) Do(ctx context.Context, e *Effect, send func(ctx context.Context) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.add(e)
	j.set(e, Sent, nil)
	state, result := Unknown, errNoReturn
	defer func() { j.answered(e, state, result) }()
	limited, cancel := j.book.limit(ctx, e.Kind)
	defer cancel()
	result = send(limited)
	state = outcome(e.Kind, result)
	return result
}

// Claim is Do for a claim that is to add resources to what the instance held before, sent with the generation of the consumer.
func (j *Journal) Claim(ctx context.Context, e *Effect, added placement.Resources, generation *int, send func(ctx context.Context) error) error {
	j.Change(func() { e.Amount.send(added, generation) })
	return j.Do(ctx, e, send)
}

func (j *Journal) answered(e *Effect, state State, err error) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	if e.Amount != nil {
		state = e.Amount.answered(state)
	}
	e.to(state, err)
}

// Adopt adds an effect that exists: an answer has shown it, or another process has made it.
func (j *Journal) Adopt(e *Effect) *Effect {
	j.add(e)
	j.set(e, Done, nil)
	return e
}

// Remove records effects as Undoing and runs the function that sends the request to remove them. The function returns an
// error for each that remains.
func (j *Journal) Remove(ctx context.Context, effects []*Effect, send func(ctx context.Context) map[*Effect]error) {
	failed := make(map[*Effect]error, len(effects))
	for _, e := range effects {
		j.set(e, Undoing, nil)
		failed[e] = &Final{errNoReturn}
	}
	defer func() {
		for _, e := range effects {
			if err := failed[e]; err != nil {
				j.set(e, Left, err)
			} else {
				j.set(e, Undone, nil)
			}
		}
	}()
	failed = send(ctx)
}

// Release records a claim or a part of an allocation as Undoing and runs the function that sends the allocation without it, with the
// generation that was read. Next is the state after an answer that it was applied. Without an answer the effect stays Undoing.
func (j *Journal) Release(ctx context.Context, e *Effect, generation *int, next State, send func(ctx context.Context) error) {
	j.set(e, Undoing, nil)
	err := send(ctx)
	switch outcome(e.Kind, err) {
	case Done:
		j.set(e, next, nil)
	case Refused:
		j.set(e, Left, err)
	default:
		j.Change(func() { e.Amount.mayArrive(generation) })
		j.set(e, Undoing, err)
	}
}

// Seen notes that a read of the allocation has shown a claim: the one that was sent last, or else the one before.
func (j *Journal) Seen(e *Effect, held placement.Allocation) {
	j.Change(func() {
		m := e.Amount
		if m.Sent != nil && placement.Equal(held.Resources, m.Wanted()) {
			m.Added = m.Sent
		}
		m.Sent = nil
	})
}

// Note adds an effect of another client, which is only named.
func (j *Journal) Note(e *Effect, err error) {
	j.add(e)
	j.Change(func() { e.State, e.Err, e.changed = Foreign, err, time.Now() })
}

// Settle changes the state of an effect to what a read has shown.
func (j *Journal) Settle(e *Effect, state State, err error) { j.set(e, state, err) }

// Removed returns the effects that were removed, in this order.
func (j *Journal) Removed() []*Effect { return j.removed }

// Effects returns the effects of the given kinds that exist or may exist, oldest first; of all kinds without one.
func (j *Journal) Effects(kinds ...Kind) []*Effect {
	var found []*Effect
	for _, e := range j.effects {
		if e.Pending() && (len(kinds) == 0 || slices.Contains(kinds, e.Kind)) {
			found = append(found, e)
		}
	}
	return found
}

// Numbers returns the numbers of the effects of the given kinds that exist or may exist; of all kinds without one.
func (j *Journal) Numbers(kinds ...Kind) []int {
	var numbers []int
	for _, e := range j.Effects(kinds...) {
		numbers = append(numbers, e.Seq)
	}
	return numbers
}

// Find returns the newest effect of a kind with an ID, also one that was removed, or nil.
func (j *Journal) Find(kind Kind, id string) *Effect {
	for _, e := range slices.Backward(j.effects) {
		if e.Kind == kind && e.ID == id {
			return e
		}
	}
	return nil
}

// End ends the operation. What exists now belongs to the instance; the book remembers what is not known.
func (j *Journal) End() { j.book.end(j) }

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

func (j *Journal) set(e *Effect, state State, err error) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	isSeen := e.Kind != Claim || e.Amount.Added != nil
	if e.State == Undoing && state == Undone && isSeen {
		j.removed = append(j.removed, e)
	}
	e.to(state, err)
	if e.Kind == ARQ && state == Done {
		j.book.arqs[e.ID] = e
	}
}

// Change changes the content of an effect.
func (j *Journal) Change(change func()) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	change()
}
