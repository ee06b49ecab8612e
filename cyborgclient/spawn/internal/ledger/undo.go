package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// The pauses between two tries, and how long to look for the effect of a request with an unknown outcome.
const (
	FirstPause = 200 * time.Millisecond
	MaxPause   = 2 * time.Second
	LateWindow = 10 * time.Second
)

// Final is an error after which the removal is not retried before the next Undo.
type Final struct{ Err error }

// Error returns the text of the error.
func (f *Final) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f *Final) Unwrap() error { return f.Err }

// The reasons for keeping an effect that another one holds.
var (
	ErrGuestStays = errors.New("the guest, which could not be destroyed, may use it")
	ErrARQsStay   = errors.New("the ARQs of its devices could not be deleted")
)

// Undoer removes the effects of one kind. Only undoers remove effects. An undoer of effects that can be read also has
// the method Look.
type Undoer interface {
	// Undo tries once: it removes effects with Journal.Remove, and settles what a read has shown. An effect that
	// stays Unknown is looked for until LateWindow has passed.
	Undo(ctx context.Context, effects []*Effect)
}

type looker interface {
	// Look reports whether an effect exists, as read from the service.
	Look(ctx context.Context, e *Effect) (exists bool, err error)
}

// Unwinding is one run of Journal.Undo.
type Unwinding struct {
	// Undoers has an undoer for each kind that may occur.
	Undoers map[Kind]Undoer
	// Chosen selects the effects; nil selects all.
	Chosen func(*Effect) bool
	// Patience is how long a failed removal is retried; 0 means one try. Limit is the timeout of one try.
	Patience, Limit time.Duration
	// Begin is called before the first try of a kind, and Pause before each pause, with the last error.
	Begin func(Kind)
	Pause func(time.Duration, error)

	journal *Journal
	began   time.Time
	tried   map[*Effect]bool // in this pass
	kinds   map[Kind]bool    // of all passes
}

// Undo removes the chosen effects, newest first, but none before the effects that hold it. Failed removals are
// retried. If an undoer panics or ends the goroutine, the others still run.
func (j *Journal) Undo(ctx context.Context, u Unwinding) {
	u.journal, u.began, u.kinds = j, time.Now(), map[Kind]bool{}
	for _, e := range u.chosen() {
		j.Settle(e, e.State, nil)
	}
	u.run(ctx)
	u.look(ctx)
}

func (u *Unwinding) run(ctx context.Context) {
	ended := false
	defer func() {
		if !ended {
			u.run(ctx)
		}
	}()
	for pause := FirstPause; ; pause = min(2*pause, MaxPause) {
		u.pass(ctx)
		left, err := u.left()
		if pause = min(pause, left); pause <= 0 || ctx.Err() != nil {
			break
		}
		u.pause(ctx, pause, err)
	}
	ended = true
}

// pause waits, even if Pause panics.
func (u *Unwinding) pause(ctx context.Context, pause time.Duration, err error) {
	defer func() {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}()
	u.Pause(pause, err)
}

// pass tries each effect once.
func (u *Unwinding) pass(ctx context.Context) {
	u.tried = map[*Effect]bool{}
	for group := u.next(); len(group) > 0; group = u.next() {
		kind := group[0].Kind
		if !u.kinds[kind] {
			u.kinds[kind] = true
			u.Begin(kind)
		}
		limit := u.Limit
		if kind == Guest { // its hook may wait
			limit = max(limit, u.Patience-time.Since(u.began))
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		u.try(limited, group)
		cancel()
	}
}

// try runs an undoer. If it does not return, one effect is not retried: the effect of Remove, or else the first that
// remains.
func (u *Unwinding) try(ctx context.Context, group []*Effect) {
	ended := false
	defer func() {
		if ended || slices.ContainsFunc(group, func(e *Effect) bool { return isFinal(e.Err) }) {
			return
		}
		if i := slices.IndexFunc(group, (*Effect).Pending); i >= 0 {
			u.journal.Settle(group[i], group[i].State, &Final{errNoReturn})
		}
	}()
	u.Undoers[group[0].Kind].Undo(ctx, group)
	ended = true
}

// next returns the newest effects of one kind that were not tried in this pass.
func (u *Unwinding) next() (group []*Effect) {
	for _, e := range slices.Backward(u.chosen()) {
		if u.tried[e] || isFinal(e.Err) {
			continue
		}
		if len(group) > 0 && group[0].Kind != e.Kind {
			break
		}
		u.tried[e] = true
		if err := u.holder(e); err != nil {
			u.journal.Settle(e, Left, err)
			continue
		}
		group = append(group, e)
	}
	slices.Reverse(group)
	return group
}

// chosen returns the effects to remove. Guests come last, because they use the others; next takes effects from the
// end.
func (u *Unwinding) chosen() []*Effect {
	effects := slices.DeleteFunc(u.journal.Effects(), func(e *Effect) bool { return !u.isChosen(e) })
	slices.SortStableFunc(effects, func(x, y *Effect) int { return rank(x) - rank(y) })
	return effects
}

func rank(e *Effect) int {
	if e.Kind == Guest {
		return 1
	}
	return 0
}

func (u *Unwinding) isChosen(e *Effect) bool {
	return e.State != Foreign && u.Undoers[e.Kind] != nil && (u.Chosen == nil || u.Chosen(e))
}

// holder returns why an effect must be kept, if another effect holds it.
func (u *Unwinding) holder(e *Effect) error {
	for _, h := range u.journal.Effects() {
		isGuests := h.Kind == Guest && e.Kind != Guest && e.Seq > h.Seq // made while it existed
		if !slices.Contains(h.Holds, e.Seq) && !isGuests || h.State == Done && !u.isChosen(h) {
			continue
		}
		switch {
		case h.Kind == Guest && u.isChosen(h):
			return ErrGuestStays
		case h.Kind == Guest && slices.Contains(h.Holds, e.Seq):
			return fmt.Errorf("the guest on host %s may use it", h.Host)
		case h.Kind == Guest:
		case h.Kind == ARQ:
			return ErrARQsStay
		default:
			return h.Err
		}
	}
	return nil
}

// left returns how long the effects may still be retried, and the last error.
func (u *Unwinding) left() (left time.Duration, last error) {
	elapsed := time.Since(u.began)
	for _, e := range u.chosen() {
		limit := u.Patience
		switch {
		case isFinal(e.Err), u.holder(e) != nil:
			continue
		case e.State == Unknown && e.Err == nil, errors.Is(e.Err, cyborgclient.ErrUnauthorized): // a token may be renewed by then
			limit = min(limit, LateWindow)
		}
		if e.Err != nil {
			last = e.Err
		}
		left = max(left, limit-elapsed)
	}
	return left, last
}

func isFinal(err error) bool {
	var final *Final
	return errors.As(err, &final) || errors.Is(err, cyborgclient.ErrForbidden)
}

// look reads which effects that could not be removed exist, and sets the others, and those that cannot be read, to
// Unknown. After a failed read all effects of that kind become Unknown.
func (u *Unwinding) look(ctx context.Context) {
	unread := map[Kind]bool{}
	for _, e := range u.chosen() {
		if e.State == Unknown {
			continue
		}
		exists := false
		if undoer, reads := u.Undoers[e.Kind].(looker); reads && !unread[e.Kind] {
			limited, cancel := context.WithTimeout(ctx, u.Limit)
			found, err := undoer.Look(limited, e)
			cancel()
			unread[e.Kind] = err != nil
			exists = found && err == nil
		}
		state := Unknown
		if exists {
			state = Left
		}
		u.journal.Settle(e, state, e.Err)
	}
}
