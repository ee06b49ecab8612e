package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

func succeeds(*ledger.Effect) error { return nil }

// fails returns a removal that fails for the given effects.
func fails(err error, effects ...*ledger.Effect) func(*ledger.Effect) error {
	return func(e *ledger.Effect) error {
		if slices.Contains(effects, e) {
			return err
		}
		return nil
	}
}

// inBubble runs a test of a journal in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, j *ledger.Journal)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, open(t, ledger.NewBook(nil, nil), "i")) })
}

// elapsed is how long a function takes.
func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func TestUndoOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		claim := j.Adopt(newClaim())
		j.Adopt(newARQ("1"))
		j.Adopt(newARQ("2"))
		guest := j.Adopt(newGuest())
		j.Adopt(newMdev("1"))
		j.Adopt(newMdev("2"))
		j.Note(newARQ("3"), errRemote)
		claim.Amount.Added = on("a", 1)
		u := newUnwinding(j, succeeds)
		check(t, "time", elapsed(func() { j.Undo(t.Context(), u.Unwinding) }), 0)
		check(t, "calls", u.calls, [][]string{{"guest i"}, {"mdev 1", "mdev 2"}, {"arq 1", "arq 2"}, {"claim i"}})
		check(t, "kinds", u.kinds, []ledger.Kind{ledger.Guest, ledger.Mdev, ledger.ARQ, ledger.Claim})
		check(t, "pauses", u.pauses, nil)
		check(t, "effects", rows(j.Effects()), []row{{ledger.ARQ, "3", ledger.Foreign}})
		check(t, "removed", rows(j.Removed()), []row{
			{ledger.Guest, "i", ledger.Undone},
			{ledger.Mdev, "1", ledger.Undone}, {ledger.Mdev, "2", ledger.Undone},
			{ledger.ARQ, "1", ledger.Undone}, {ledger.ARQ, "2", ledger.Undone},
			{ledger.Claim, "i", ledger.Undone},
		})
		check(t, "number of the guest", guest.Seq, 4)
	})
}

// Undo removes the selected effects of kinds with an undoer, grouped from the newest on.
func TestUndoOfTheChosen(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		j.Adopt(newARQ("1"))
		j.Adopt(newMdev("1"))
		j.Adopt(newARQ("2"))
		j.Adopt(&ledger.Effect{Kind: ledger.NovaMdev, ID: "m"})
		j.Adopt(newARQ("3"))
		u := newUnwinding(j, succeeds)
		delete(u.Undoers, ledger.NovaMdev)
		u.Chosen = func(e *ledger.Effect) bool { return e.ID != "3" }
		j.Undo(t.Context(), u.Unwinding)
		check(t, "calls", u.calls, [][]string{{"arq 2"}, {"mdev 1"}, {"arq 1"}})
		check(t, "kinds", u.kinds, []ledger.Kind{ledger.ARQ, ledger.Mdev})
		check(t, "effects", rows(j.Effects()), []row{{ledger.NovaMdev, "m", ledger.Done}, {ledger.ARQ, "3", ledger.Done}})
	})
}

func TestUndoHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// make makes effects and returns those that cannot be removed, and what selects those to remove.
		make  func(j *ledger.Journal) (failing []*ledger.Effect, chosen func(*ledger.Effect) bool)
		calls [][]string
		want  []row
		errs  []error
	}{
		{"the guest stays, with what was made before and since", func(j *ledger.Journal) ([]*ledger.Effect, func(*ledger.Effect) bool) {
			claim, arq := j.Adopt(newClaim()), j.Adopt(newARQ("1"))
			j.Adopt(newARQ("2"))
			guest := j.Adopt(newGuest(claim.Seq, arq.Seq))
			j.Adopt(newMdev("1"))
			return []*ledger.Effect{guest}, nil
		}, [][]string{{"guest i"}, {"arq 2"}}, []row{
			{ledger.Claim, "i", ledger.Left}, {ledger.ARQ, "1", ledger.Left}, {ledger.Guest, "i", ledger.Left}, {ledger.Mdev, "1", ledger.Left},
		}, []error{ledger.ErrGuestStays, ledger.ErrGuestStays, errHook, ledger.ErrGuestStays}},
		{"a second guest", func(j *ledger.Journal) ([]*ledger.Effect, func(*ledger.Effect) bool) {
			guest := j.Adopt(newGuest())
			j.Adopt(newGuest())
			return []*ledger.Effect{guest}, nil
		}, [][]string{{"guest i", "guest i"}}, []row{{ledger.Guest, "i", ledger.Left}}, []error{errHook}},
		{"the guest is not chosen", func(j *ledger.Journal) ([]*ledger.Effect, func(*ledger.Effect) bool) {
			arq := j.Adopt(newARQ("1"))
			guest := j.Adopt(newGuest(arq.Seq))
			j.Adopt(newMdev("1"))
			return nil, func(e *ledger.Effect) bool { return e != guest }
		}, [][]string{{"mdev 1"}, {"arq 1"}}, []row{{ledger.Guest, "i", ledger.Done}}, []error{nil}},
		{"the guest is not chosen, and is not certain", func(j *ledger.Journal) ([]*ledger.Effect, func(*ledger.Effect) bool) {
			arq := j.Adopt(newARQ("1"))
			guest := j.Adopt(newGuest(arq.Seq))
			j.Settle(guest, ledger.Left, errHook)
			j.Adopt(newMdev("1"))
			return nil, func(e *ledger.Effect) bool { return e != guest }
		}, [][]string{{"mdev 1"}}, []row{{ledger.ARQ, "1", ledger.Left}, {ledger.Guest, "i", ledger.Left}},
			[]error{errText("the guest on host h may use it"), errHook}},
		{"the definition of the mediated device", func(j *ledger.Journal) ([]*ledger.Effect, func(*ledger.Effect) bool) {
			arq := j.Adopt(newARQ("1"))
			j.Adopt(newARQ("2"))
			mdev := j.Adopt(newMdev("1", arq.Seq))
			return []*ledger.Effect{mdev}, nil
		}, [][]string{{"mdev 1"}, {"arq 2"}}, []row{{ledger.ARQ, "1", ledger.Left}, {ledger.Mdev, "1", ledger.Left}}, []error{errHook, errHook}},
		{"the ARQs of a part", func(j *ledger.Journal) ([]*ledger.Effect, func(*ledger.Effect) bool) {
			part := j.Take(&ledger.Effect{Kind: ledger.Part, ID: "i", Amount: &ledger.Amount{Added: on("a", 1)}})
			arq := newARQ("1")
			arq.Holds = []int{part.Seq}
			return []*ledger.Effect{j.Take(arq)}, nil
		}, [][]string{{"arq 1"}}, []row{{ledger.Part, "i", ledger.Left}, {ledger.ARQ, "1", ledger.Left}}, []error{ledger.ErrARQsStay, errHook}},
		{"an ARQ that the instance keeps", func(j *ledger.Journal) ([]*ledger.Effect, func(*ledger.Effect) bool) {
			part := j.Take(&ledger.Effect{Kind: ledger.Part, ID: "i", Amount: &ledger.Amount{Added: on("a", 1)}})
			arq := newARQ("1")
			arq.Holds = []int{part.Seq}
			j.Adopt(arq)
			return nil, func(e *ledger.Effect) bool { return e == part }
		}, [][]string{{"part i"}}, []row{{ledger.ARQ, "1", ledger.Done}}, []error{nil}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			j := open(t, ledger.NewBook(nil, nil), "i")
			failing, chosen := c.make(j)
			u := newUnwinding(j, fails(errHook, failing...))
			u.Chosen, u.Patience = chosen, 0
			u.fake.look = func(*ledger.Effect) (bool, error) { return true, nil }
			j.Undo(t.Context(), u.Unwinding)
			check(t, "calls", u.calls, c.calls)
			check(t, "effects", rows(j.Effects()), c.want)
			for i, e := range j.Effects() {
				if want, ok := c.errs[i].(errText); ok && e.Err != nil && e.Err.Error() == string(want) {
					continue
				}
				check(t, fmt.Sprintf("error of %s %s", e.Kind, e.ID), e.Err, c.errs[i])
			}
		})
	}
}

var errHook = errors.New("libvirt does not answer")

// errText is an error that has this text.
type errText string

func (e errText) Error() string { return string(e) }

// An effect that blocks others is tried again, and then they are removed.
func TestUndoOfTheHeldFollows(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		arq := j.Adopt(newARQ("1"))
		j.Adopt(newGuest(arq.Seq))
		tries := 0
		u := newUnwinding(j, func(e *ledger.Effect) error {
			if e.Kind == ledger.Guest {
				if tries++; tries < 3 {
					return errHook
				}
			}
			return nil
		})
		check(t, "time", elapsed(func() { j.Undo(t.Context(), u.Unwinding) }), 600*time.Millisecond)
		check(t, "calls", u.calls, [][]string{{"guest i"}, {"guest i"}, {"guest i"}, {"arq 1"}})
		check(t, "kinds", u.kinds, []ledger.Kind{ledger.Guest, ledger.ARQ})
		check(t, "errors before pauses", u.errs, []error{errHook, errHook})
		check(t, "effects", rows(j.Effects()), nil)
	})
}

func TestUndoTriesAgain(t *testing.T) {
	t.Parallel()
	const s = time.Second
	unauthorized := fmt.Errorf("delete: %w", cyborgclient.ErrUnauthorized)
	long := []time.Duration{s / 5, s * 2 / 5, s * 4 / 5, s * 8 / 5}
	pauses := func(total time.Duration) []time.Duration {
		list := append([]time.Duration{}, long...)
		for total -= 3 * s; total > 0; total -= 2 * s {
			list = append(list, min(2*s, total))
		}
		return list
	}
	for _, c := range []struct {
		name     string
		patience time.Duration
		err      error // of the removal
		want     time.Duration
		pauses   []time.Duration
	}{
		{"once", 0, errRemote, 0, nil},
		{"an error", 20 * s, errRemote, 20 * s, pauses(20 * s)},
		{"a short time", s, errRemote, s, []time.Duration{s / 5, s * 2 / 5, s * 2 / 5}},
		{"no token", 20 * s, unauthorized, 10 * s, pauses(10 * s)},
		{"no token for a short time", s, unauthorized, s, []time.Duration{s / 5, s * 2 / 5, s * 2 / 5}},
		{"not allowed", 20 * s, fmt.Errorf("delete: %w", cyborgclient.ErrForbidden), 0, nil},
		{"final", 20 * s, fmt.Errorf("delete: %w", &ledger.Final{Err: errRemote}), 0, nil},
	} {
		bubble(t, c.name, func(t *testing.T) {
			j := open(t, ledger.NewBook(nil, nil), "i")
			e := j.Adopt(newARQ("1"))
			u := newUnwinding(j, fails(c.err, e))
			u.Patience = c.patience
			for n := range 2 { // a second Undo does the same
				u.calls, u.pauses, u.errs = nil, nil, nil
				check(t, "time", elapsed(func() { j.Undo(t.Context(), u.Unwinding) }), c.want)
				check(t, "pauses", u.pauses, c.pauses)
				check(t, "calls", len(u.calls), len(c.pauses)+1)
				for _, err := range u.errs {
					check(t, "error before a pause", err, c.err)
				}
				check(t, fmt.Sprint("effects of run ", n), rows(j.Effects()), []row{{ledger.ARQ, "1", ledger.Unknown}})
				check(t, "error", e.Err, c.err)
			}
			check(t, "kinds", u.kinds, []ledger.Kind{ledger.ARQ, ledger.ARQ})
		})
	}
}

// Undo searches an effect that stays Unknown until the end of LateWindow, and no longer than it tries the others.
func TestUndoLooksForTheUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		patience, appears time.Duration
		err               error
		want              time.Duration
		state             ledger.State
	}{
		{"never", 20 * time.Second, time.Hour, nil, ledger.LateWindow, ledger.Unknown},
		{"never, with little patience", 3 * time.Second, time.Hour, nil, 3 * time.Second, ledger.Unknown},
		{"never, with an error", 20 * time.Second, time.Hour, errRemote, 20 * time.Second, ledger.Unknown},
		{"late", 20 * time.Second, 5 * time.Second, nil, 5 * time.Second, ledger.Undone},
		{"after the window", 20 * time.Second, 11 * time.Second, nil, ledger.LateWindow, ledger.Unknown},
	} {
		bubble(t, c.name, func(t *testing.T) {
			j := open(t, ledger.NewBook(nil, nil), "i")
			e := newClaim()
			_ = j.Claim(t.Context(), e, on("a", 1), nil, answers(lost()))
			began := time.Now()
			u := newUnwinding(j, succeeds)
			u.Patience = c.patience
			u.fake.undo = func(_ context.Context, effects []*ledger.Effect) {
				if time.Since(began) >= c.appears {
					j.Settle(effects[0], ledger.Undone, nil)
				} else {
					j.Settle(effects[0], ledger.Unknown, c.err)
				}
			}
			u.fake.look = func(*ledger.Effect) (bool, error) {
				t.Error("Look of an effect that is not known")
				return false, nil
			}
			check(t, "time", elapsed(func() { j.Undo(t.Context(), u.Unwinding) }), c.want)
			check(t, "state", e.State, c.state)
			for _, err := range u.errs {
				check(t, "error before a pause", err, c.err)
			}
		})
	}
}

// A final effect does not stop the tries of the others.
func TestUndoTriesWhatIsNotFinal(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		part := j.Take(&ledger.Effect{Kind: ledger.Part, ID: "i", Amount: &ledger.Amount{Added: on("a", 1)}})
		first := newARQ("1")
		first.Holds = []int{part.Seq}
		j.Take(first)
		second := j.Take(newARQ("2"))
		u := newUnwinding(j, func(e *ledger.Effect) error {
			if e == first {
				return &ledger.Final{Err: errHook}
			}
			return errRemote
		})
		check(t, "time", elapsed(func() { j.Undo(t.Context(), u.Unwinding) }), u.Patience)
		check(t, "first calls", u.calls[:2], [][]string{{"arq 1", "arq 2"}, {"arq 2"}})
		check(t, "error of the held", part.Err, ledger.ErrARQsStay)
		check(t, "error of the final", first.Err, errHook)
		check(t, "error of the other", second.Err, errRemote)
		for _, err := range u.errs {
			check(t, "error before a pause", err, errRemote)
		}
	})
}

func TestUndoLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind                  ledger.Kind
		patience, limit, want time.Duration
	}{
		{ledger.ARQ, 20 * time.Second, 7 * time.Second, 7 * time.Second},
		{ledger.Guest, 20 * time.Second, 7 * time.Second, 20 * time.Second},
		{ledger.Guest, 3 * time.Second, 7 * time.Second, 7 * time.Second},
	} {
		bubble(t, fmt.Sprint(c.kind, c.patience), func(t *testing.T) {
			j := open(t, ledger.NewBook(nil, nil), "i")
			e := newARQ("1")
			if c.kind == ledger.Guest {
				e = newGuest()
			}
			j.Adopt(e)
			u := newUnwinding(j, succeeds)
			u.Patience, u.Limit = c.patience, c.limit
			u.fake.undo = func(ctx context.Context, _ []*ledger.Effect) {
				began := time.Now()
				<-ctx.Done()
				check(t, "limit", time.Since(began), c.want)
				j.Settle(e, ledger.Left, &ledger.Final{Err: ctx.Err()})
			}
			j.Undo(t.Context(), u.Unwinding)
		})
	}
}

// The next try of a guest gets the rest of the time.
func TestTheLimitOfAGuestShrinks(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		e := j.Adopt(newGuest())
		u := newUnwinding(j, succeeds)
		var limits []time.Duration
		u.Patience, u.Limit = 10*time.Second, time.Second
		u.fake.undo = func(ctx context.Context, _ []*ledger.Effect) {
			deadline, _ := ctx.Deadline()
			limits = append(limits, time.Until(deadline))
			time.Sleep(4 * time.Second)
			j.Settle(e, ledger.Left, errHook)
		}
		j.Undo(t.Context(), u.Unwinding)
		check(t, "limits", limits, []time.Duration{10 * time.Second, 5800 * time.Millisecond, 1400 * time.Millisecond})
	})
}

// The end of the context ends the tries and the pauses.
func TestUndoEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		e := j.Adopt(newARQ("1"))
		u := newUnwinding(j, fails(errRemote, e))
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		u.fake.look = func(*ledger.Effect) (bool, error) { return true, nil }
		check(t, "time", elapsed(func() { j.Undo(ctx, u.Unwinding) }), 700*time.Millisecond)
		check(t, "calls", len(u.calls), 4)
		check(t, "pauses", u.pauses, []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond})
		check(t, "state", e.State, ledger.Left)
	})
}

func TestUndoLooks(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		lostClaim := newClaim()
		_ = j.Claim(t.Context(), lostClaim, on("a", 1), nil, answers(lost()))
		there, gone := j.Adopt(newARQ("there")), j.Adopt(newARQ("gone"))
		mdevs := []*ledger.Effect{j.Adopt(newMdev("1")), j.Adopt(newMdev("2")), j.Adopt(newMdev("3"))}
		u := newUnwinding(j, fails(errRemote, there, gone, mdevs[0], mdevs[1], mdevs[2]))
		u.Undoers[ledger.Claim] = fakeUndoer{undo: func(context.Context, []*ledger.Effect) {}}
		u.Patience = 0
		var looked []string
		u.fake.look = func(e *ledger.Effect) (bool, error) {
			looked = append(looked, e.ID)
			if e.ID == "2" {
				return true, errRemote
			}
			return e.ID != "gone", nil
		}
		j.Undo(t.Context(), u.Unwinding)
		check(t, "looked for", looked, []string{"there", "gone", "1", "2"})
		check(t, "effects", rows(j.Effects()), []row{
			{ledger.Claim, "i", ledger.Unknown},
			{ledger.ARQ, "there", ledger.Left}, {ledger.ARQ, "gone", ledger.Unknown},
			{ledger.Mdev, "1", ledger.Left}, {ledger.Mdev, "2", ledger.Unknown}, {ledger.Mdev, "3", ledger.Unknown},
		})
		for _, e := range j.Effects(ledger.ARQ, ledger.Mdev) {
			check(t, "error", e.Err, errRemote)
		}
		u2 := newUnwinding(j, succeeds)
		u2.Undoers[ledger.Claim] = fakeUndoer{undo: func(_ context.Context, effects []*ledger.Effect) { j.Settle(effects[0], ledger.Undone, nil) }}
		j.Undo(t.Context(), u2.Unwinding)
		check(t, "effects after a second Undo", rows(j.Effects()), nil)
	})
}

func TestLookHasALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ledger.Journal) {
		e := j.Adopt(newARQ("1"))
		u := newUnwinding(j, succeeds)
		u.Undoers[ledger.ARQ] = slowUndoer{}
		u.Patience = 0
		check(t, "time", elapsed(func() { j.Undo(t.Context(), u.Unwinding) }), u.Limit)
		check(t, "state", e.State, ledger.Left)
	})
}

// slowUndoer removes nothing, and reads until its context ends.
type slowUndoer struct{}

func (slowUndoer) Undo(context.Context, []*ledger.Effect) {}

func (slowUndoer) Look(ctx context.Context, _ *ledger.Effect) (bool, error) {
	<-ctx.Done()
	return true, nil
}

// If an undoer does not return, the others still run, and each of its effects is reported once.
func TestUndoersThatDoNotReturn(t *testing.T) {
	t.Parallel()
	for way, leave := range departures() {
		bubble(t, way, func(t *testing.T) {
			j := open(t, ledger.NewBook(nil, nil), "i")
			j.Adopt(newClaim())
			arqs := []*ledger.Effect{j.Adopt(newARQ("1")), j.Adopt(newARQ("2"))}
			tries := map[string]int{}
			u := newUnwinding(j, succeeds)
			u.Undoers[ledger.ARQ] = fakeUndoer{undo: func(ctx context.Context, effects []*ledger.Effect) {
				for _, e := range effects {
					tries[e.ID]++
					j.Remove(ctx, []*ledger.Effect{e}, func(context.Context) map[*ledger.Effect]error { leave(); return nil })
				}
			}}
			depart(t, way, func() { j.Undo(t.Context(), u.Unwinding) })
			check(t, "tries", tries, map[string]int{"1": 1, "2": 1})
			check(t, "effects", rows(j.Effects()), []row{{ledger.ARQ, "1", ledger.Left}, {ledger.ARQ, "2", ledger.Left}})
			for _, e := range arqs {
				if e.Err == nil || e.Err.Error() != "the call did not return" {
					t.Errorf("error: %v", e.Err)
				}
			}
			check(t, "calls", u.calls, [][]string{{"claim i"}})
		})
	}
}

// If an undoer fails before it begins, each of its effects is reported once, and effects that it removed before stay
// removed.
func TestUndoersThatDoNotBegin(t *testing.T) {
	t.Parallel()
	for way, leave := range departures() {
		bubble(t, way, func(t *testing.T) {
			j := open(t, ledger.NewBook(nil, nil), "i")
			j.Adopt(newARQ("1"))
			j.Adopt(newARQ("2"))
			last := j.Adopt(newARQ("3"))
			u := newUnwinding(j, succeeds)
			var tries []string
			u.Undoers[ledger.ARQ] = fakeUndoer{undo: func(ctx context.Context, effects []*ledger.Effect) {
				for _, e := range effects {
					if tries = append(tries, e.ID); e.ID == "2" {
						leave()
					}
					j.Remove(ctx, []*ledger.Effect{e}, removes(nil))
				}
			}}
			depart(t, way, func() { j.Undo(t.Context(), u.Unwinding) })
			check(t, "tries", tries, []string{"1", "2", "3"})
			check(t, "effects", rows(j.Effects()), []row{{ledger.ARQ, "2", ledger.Done}})
			check(t, "state of the last", last.State, ledger.Undone)
		})
	}
}

func TestFinal(t *testing.T) {
	t.Parallel()
	final := &ledger.Final{Err: errRemote}
	if final.Error() != errRemote.Error() || !errors.Is(final, errRemote) {
		t.Errorf("got %v", final)
	}
}
