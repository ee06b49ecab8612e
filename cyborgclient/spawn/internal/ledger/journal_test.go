package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
)

type contextKey struct{}

// A request is not canceled with its caller, a hook is.
func TestContextsOfRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  ledger.Kind
		limit time.Duration // 0: the caller's context
	}{
		{ledger.Create, time.Minute},
		{ledger.Binding, 5 * time.Minute},
		{ledger.Listed, time.Minute},
		{ledger.Guest, 0},
		{ledger.Mdev, 0},
	} {
		bubble(t, string(c.kind), func(t *testing.T) {
			j := open(t, ledger.NewBook(map[ledger.Kind]time.Duration{ledger.Binding: 5 * time.Minute}, nil), "i")
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "value"))
			began := time.Now()
			e := &ledger.Effect{Kind: c.kind, ID: "1"}
			err := j.Do(ctx, e, func(ctx context.Context) error {
				check(t, "state", e.State, ledger.Sent)
				check(t, "value", ctx.Value(contextKey{}), any("value"))
				cancel()
				<-ctx.Done()
				return ctx.Err()
			})
			check(t, "time", time.Since(began), c.limit)
			want := context.DeadlineExceeded
			if c.limit == 0 {
				want = context.Canceled
			}
			check(t, "error", err, want)
		})
	}
}

// An effect whose function does not return has an unknown outcome.
func TestRequestsThatDoNotReturn(t *testing.T) {
	t.Parallel()
	for way, leave := range departures() {
		j := open(t, ledger.NewBook(nil, nil), "i")
		sent, removed, released := newCreate(), j.Adopt(newARQ("1")), newClaim()
		depart(t, way, func() { _ = j.Do(t.Context(), sent, func(context.Context) error { leave(); return nil }) })
		depart(t, way, func() {
			j.Remove(t.Context(), []*ledger.Effect{removed}, func(context.Context) map[*ledger.Effect]error { leave(); return nil })
		})
		_ = j.Claim(t.Context(), released, on("a", 1), nil, answers(nil))
		depart(t, way, func() {
			j.Release(t.Context(), released, at(1), ledger.Undone, func(context.Context) error { leave(); return nil })
		})
		check(t, way, rows(j.Effects()), []row{
			{ledger.ARQ, "1", ledger.Left}, {ledger.Create, "profile", ledger.Unknown}, {ledger.Claim, "i", ledger.Undoing},
		})
		var final *ledger.Final
		if !errors.As(removed.Err, &final) || sent.Err == nil || sent.Err.Error() != removed.Err.Error() {
			t.Errorf("errors: %v, %v", removed.Err, sent.Err)
		}
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	j := open(t, ledger.NewBook(nil, nil), "i")
	effects := []*ledger.Effect{j.Adopt(newARQ("1")), j.Take(newARQ("2")), j.Adopt(newARQ("3"))}
	j.Remove(t.Context(), effects, func(context.Context) map[*ledger.Effect]error {
		check(t, "during the removal", rows(j.Effects()), []row{{ledger.ARQ, "1", ledger.Undoing}, {ledger.ARQ, "2", ledger.Undoing}, {ledger.ARQ, "3", ledger.Undoing}})
		return map[*ledger.Effect]error{effects[1]: errRemote, effects[2]: nil}
	})
	check(t, "effects", rows(j.Effects()), []row{{ledger.ARQ, "2", ledger.Left}})
	check(t, "error", effects[1].Err, errRemote)
	check(t, "removed", rows(j.Removed()), []row{{ledger.ARQ, "1", ledger.Undone}, {ledger.ARQ, "3", ledger.Undone}})
	j.Settle(effects[1], ledger.Undone, nil)
	check(t, "removed, and not what was found gone", len(j.Removed()), 2)
}

func TestRelease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		answer, err error
		next, state ledger.State
		late        *int
	}{
		{"applied", nil, nil, ledger.Undone, ledger.Undone, nil},
		{"applied, and a claim may arrive", nil, nil, ledger.Unknown, ledger.Unknown, nil},
		{"refused", refused(), refused(), ledger.Undone, ledger.Left, nil},
		{"lost", lost(), lost(), ledger.Undone, ledger.Undoing, at(8)},
	} {
		bubble(t, c.name, func(t *testing.T) {
			b := ledger.NewBook(nil, nil)
			j := open(t, b, "i")
			e := newClaim()
			_ = j.Claim(t.Context(), e, on("a", 1), at(7), answers(nil))
			for range 2 {
				time.Sleep(time.Second)
				j.Release(t.Context(), e, at(8), c.next, func(context.Context) error {
					check(t, "state", e.State, ledger.Undoing)
					check(t, "changed", e.Changed(), time.Now())
					return c.answer
				})
				check(t, "state", e.State, c.state)
				check(t, "has an error", e.Err != nil, c.err != nil)
				check(t, "late", b.LateChange("i"), c.late)
				if c.state == ledger.Undone {
					break
				}
			}
			check(t, "removed", len(j.Removed()), map[ledger.State]int{ledger.Undone: 1}[c.state])
		})
	}
}

// A claim that was never seen was not removed, although its arrival was prevented.
func TestAClaimThatWasNotSeenIsNotAmongTheRemoved(t *testing.T) {
	t.Parallel()
	j := open(t, ledger.NewBook(nil, nil), "i")
	e, seen := newClaim(), newClaim()
	for _, claim := range []*ledger.Effect{e, seen} {
		_ = j.Claim(t.Context(), claim, on("a", 1), at(1), answers(lost()))
	}
	j.Release(t.Context(), e, at(1), ledger.Undone, answers(nil))
	check(t, "removed", len(j.Removed()), 0)
	j.Seen(seen, placement.Allocation{Resources: on("a", 1)})
	j.Release(t.Context(), seen, at(1), ledger.Undone, answers(nil))
	check(t, "removed", rows(j.Removed()), []row{{ledger.Claim, "i", ledger.Undone}})
}

// What a failing store prevents: requests, and changes of allocations. ARQs, mediated devices and guests are removed anyway, but not
// without the right to the journal.
func TestStoresThatFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		fail    func(s *journaltest.Shared)
		removes bool
	}{
		{"an error", func(s *journaltest.Shared) { s.Fail(errStore) }, true},
		{"an error after the effect", func(s *journaltest.Shared) { s.FailAfter(errStore) }, true},
		{"the right is lost", func(s *journaltest.Shared) { s.Lose("i") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := journaltest.NewShared(time.Hour)
			b := ledger.NewBook(nil, store.Agent("a"))
			j := open(t, b, "i")
			claim := newClaim()
			_ = j.Claim(t.Context(), claim, on("a", 1), nil, answers(nil))
			effects := []*ledger.Effect{j.Adopt(newARQ("1")), j.Adopt(newMdev("1")), j.Adopt(newGuest())}
			c.fail(store)
			sent := 0
			send := func(context.Context) error { sent++; return nil }
			create := newCreate()
			err := j.Do(t.Context(), create, send)
			if !errors.Is(err, ledger.ErrStore) || create.State != ledger.Refused || j.Find(ledger.Create, "profile") != nil {
				t.Errorf("Do: %v, %s", err, create.State)
			}
			check(t, "error of Claim", j.Claim(t.Context(), claim, on("b", 1), at(1), send), ledger.ErrStore)
			check(t, "amount", claim.Amount.Wanted(), on("a", 1))
			j.Release(t.Context(), claim, at(1), ledger.Undone, send)
			var final *ledger.Final
			if claim.State != ledger.Left || !errors.As(claim.Err, &final) || !errors.Is(claim.Err, ledger.ErrStore) {
				t.Errorf("claim: %s, %v", claim.State, claim.Err)
			}
			check(t, "late change", b.LateChange("i"), nil)
			check(t, "requests", sent, 0)
			removed := false
			j.Remove(t.Context(), effects, func(context.Context) map[*ledger.Effect]error { removed = true; return nil })
			check(t, "removed", removed, c.removes)
			for _, e := range effects {
				if c.removes {
					check(t, "state", e.State, ledger.Undone)
				} else if e.State != ledger.Left || !errors.As(e.Err, &final) {
					t.Errorf("%s: %s, %v", e.Kind, e.State, e.Err)
				}
			}
			for name, call := range map[string]func() error{
				"Commit": func() error { return j.Commit(t.Context()) }, "Record": func() error { return j.Record(t.Context()) },
				"HandOver": func() error { return j.HandOver(t.Context()) },
			} {
				check(t, "error of "+name, call(), ledger.ErrStore)
			}
			check(t, "busy", b.Busy("i"), true)
			j.End()
			check(t, "busy after the end", b.Busy("i"), false)
		})
	}
}
