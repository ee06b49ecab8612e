package ledger_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
)

// A claim whose context has ended is not an effect: it is not sent, and there is nothing to undo.
func TestAClaimAfterTheEndOfItsContextIsNotRecorded(t *testing.T) {
	t.Parallel()
	j := open(t, ledger.NewBook(nil, nil), "i")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e := newClaim()
	if err := j.Claim(ended, e, on("a", 1), nil, answers(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	check(t, "effects", rows(j.Effects()), nil)
	if err := j.Claim(t.Context(), e, on("a", 1), nil, answers(nil)); err != nil {
		t.Fatal(err)
	}
	if err := j.Claim(ended, e, on("b", 1), at(1), answers(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	check(t, "amount", *e.Amount, ledger.Amount{Added: on("a", 1), Generation: at(1), Project: "p", User: "u"}, ignoreLate)
}

// A claim that the store prevents does not change the earlier claim.
func TestAClaimThatIsNotRecordedChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer error
		state  ledger.State
		want   ledger.Amount
	}{
		{"accepted", nil, ledger.Done, ledger.Amount{Added: on("a", 1), Generation: at(1)}},
		{"refused", refused(), ledger.Refused, ledger.Amount{Generation: nil}},
		{"lost", lost(), ledger.Unknown, ledger.Amount{Sent: on("a", 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := journaltest.NewShared(time.Hour)
			j := open(t, ledger.NewBook(nil, store.Agent("a")), "i")
			e := newClaim()
			_ = j.Claim(t.Context(), e, on("a", 1), nil, answers(c.answer))
			store.Fail(errStore)
			sent := false
			err := j.Claim(t.Context(), e, on("b", 1), at(7), func(context.Context) error { sent = true; return nil })
			if !errors.Is(err, ledger.ErrStore) || !errors.Is(err, errStore) || sent {
				t.Errorf("sent %t, error %v", sent, err)
			}
			c.want.Project, c.want.User = "p", "u"
			check(t, "amount", *e.Amount, c.want, ignoreLate)
			check(t, "state", e.State, c.state)
		})
	}
}

// The content of a record that could not be written is in the next one.
func TestAFailedRecordIsWrittenWithTheNextOne(t *testing.T) {
	t.Parallel()
	store := journaltest.NewShared(time.Hour)
	j := open(t, ledger.NewBook(nil, store.Agent("a")), "i")
	guest, arq := j.Take(newGuest()), j.Take(newARQ("1"))
	j.Take(&ledger.Effect{Kind: ledger.Consumer, ID: "i", Amount: &ledger.Amount{Added: on("a", 1), Generation: at(3)}})
	store.Fail(errStore)
	j.Remove(t.Context(), []*ledger.Effect{guest}, removes(nil))
	store.Fail(nil)
	j.Remove(t.Context(), []*ledger.Effect{arq}, func(context.Context) map[*ledger.Effect]error {
		store.Kill("a")
		return nil
	})
	store.Lose("i")
	_, next := restart(t, store.Agent("b"))
	check(t, "effects", rows(next.Effects()), []row{{ledger.ARQ, "1", ledger.Undoing}, {ledger.Consumer, "i", ledger.Found}})
}

// The next process remembers a write of an allocation that may still take effect, even if its outcome is known by
// now.
func TestALateChangeIsRememberedAfterARestart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, s *journaltest.Shared, j *ledger.Journal, e *ledger.Effect)
	}{
		{"the reply was lost", func(ctx context.Context, _ *journaltest.Shared, j *ledger.Journal, e *ledger.Effect) {
			j.Release(ctx, e, at(4), ledger.Undone, answers(lost()))
			j.Settle(e, ledger.Undone, nil)
			j.End()
		}},
		{"the process was killed", func(ctx context.Context, s *journaltest.Shared, j *ledger.Journal, e *ledger.Effect) {
			j.Release(ctx, e, at(4), ledger.Undone, func(context.Context) error {
				s.Kill("a")
				s.Lose("i")
				return nil
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := journaltest.NewShared(time.Hour)
			j := open(t, ledger.NewBook(nil, store.Agent("a")), "i")
			e := newClaim()
			_ = j.Claim(t.Context(), e, on("a", 1), at(3), answers(nil))
			c.run(t.Context(), store, j, e)
			b, next := restart(t, store.Agent("b"))
			check(t, "late change", b.LateChange("i"), at(4))
			next.End()
			check(t, "late change after the next operation", b.LateChange("i"), at(4))
		})
	}
	t.Run("the reply came", func(t *testing.T) {
		t.Parallel()
		store := journaltest.NewShared(time.Hour)
		b := ledger.NewBook(nil, store.Agent("a"))
		j := open(t, b, "i")
		for _, answer := range []error{refused(), nil} {
			e := newClaim()
			_ = j.Claim(t.Context(), e, on("a", 1), at(3), answers(nil))
			j.Release(t.Context(), e, at(4), ledger.Undone, answers(answer))
		}
		check(t, "late change", b.LateChange("i"), nil)
	})
}

// An operation that can yield yields to one that already waits, and to a later one.
func TestAnOperationYields(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]string{"before": {"yield", "open"}, "after": {"open", "yield"}} {
		bubble(t, name, func(t *testing.T) {
			b := ledger.NewBook(nil, nil)
			j := open(t, b, "i")
			yields := 0
			for _, step := range order {
				if step == "yield" {
					j.Yield(func() { yields++ })
					continue
				}
				go func() {
					if next, err := b.Open(t.Context(), "i"); err == nil {
						next.End()
					}
				}()
				synctest.Wait()
			}
			check(t, "yields", yields, 1)
			j.End()
		})
	}
}

// An operation does not yield to a caller that has given up.
func TestAnOperationDoesNotYieldToACallerThatGaveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		j := open(t, b, "i")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Open(ctx, "i"); !errors.Is(err, ledger.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		j.Yield(func() { t.Error("yields") })
	})
}

// Effects that an operation continues belong to it: other operations no longer settle them, and they are not named
// twice.
func TestContinuedEffectsAreOfOneOperation(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"in a new process": true, "in the same process": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := journal.NewMemory()
			b := ledger.NewBook(nil, store)
			j := open(t, b, "i")
			_ = j.Claim(t.Context(), newClaim(), on("a", 1), nil, answers(lost()))
			j.End()
			if again {
				b = ledger.NewBook(nil, store)
			}
			j = open(t, b, "i")
			j.Continue()
			b.Forget(func(ledger.Effect) bool { return true })
			check(t, "effects", rows(j.Effects()), []row{{ledger.Claim, "i", ledger.Unknown}})
			check(t, "uncertain", len(b.Uncertain()), 1)
			j.Settle(j.Effects()[0], ledger.Undone, nil)
			j.End()
			check(t, "uncertain at the end", len(b.Uncertain()), 0)
		})
	}
}

// The unwinding undoes the other effects and ends, even if an undoer or a callback never returns.
func TestAnUnwindingEndsWithCallsThatNeverReturn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(u *unwinding, leave func())
	}{
		{"an undoer", func(u *unwinding, leave func()) {
			u.Undoers[ledger.ARQ] = fakeUndoer{undo: func(context.Context, []*ledger.Effect) { leave() }}
		}},
		{"Pause", func(u *unwinding, leave func()) { u.Pause = func(time.Duration, error) { leave() } }},
		{"Begin", func(u *unwinding, leave func()) { u.Begin = func(ledger.Kind) { leave() } }},
	} {
		for way, leave := range departures() {
			bubble(t, c.name+" "+way, func(t *testing.T) {
				j := open(t, ledger.NewBook(nil, nil), "i")
				claim := newClaim()
				_ = j.Claim(t.Context(), claim, on("a", 1), nil, answers(nil))
				arq := j.Adopt(newARQ("1"))
				fails := c.name == "Pause"
				u := newUnwinding(j, func(e *ledger.Effect) error {
					if e == arq && fails {
						return errRemote
					}
					return nil
				})
				c.set(u, leave)
				began := time.Now()
				depart(t, way, func() { j.Undo(t.Context(), u.Unwinding) })
				if elapsed := time.Since(began); elapsed > u.Patience {
					t.Errorf("it took %v", elapsed)
				}
				check(t, "state of the claim", claim.State, ledger.Undone)
			})
		}
	}
}
