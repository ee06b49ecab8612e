package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
)

func TestOneOperationAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		first := open(t, b, "i")
		var running, most int
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				j := open(t, b, "i")
				defer j.End()
				running++
				most = max(most, running)
				time.Sleep(time.Second)
				running--
			})
		}
		synctest.Wait()
		check(t, "running beside the first", most, 0)
		check(t, "busy", []bool{b.Busy("i"), b.Busy("other")}, []bool{true, false})
		other := open(t, b, "other") // does not wait
		other.End()
		check(t, "Reopen of one that is running", first.Reopen(t.Context()), nil)
		first.End()
		all.Wait()
		check(t, "running at once", most, 1)
		check(t, "busy", b.Busy("i"), false)
	})
}

func TestAnOperationWaitsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		j := open(t, b, "i")
		cause := errors.New("the caller left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		var err error
		check(t, "time", elapsed(func() { _, err = b.Open(ctx, "i") }), time.Second)
		if !errors.Is(err, ledger.ErrBusy) || !errors.Is(err, cause) || err.Error() != "instance i: another operation on the instance is running: the caller left" {
			t.Errorf("got %v", err)
		}
		j.End()
		open(t, b, "i").End()
	})
}

func TestOperationsInsideHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		outer := open(t, b, "outer")
		inOuter := outer.Inside(t.Context())
		inner, err := b.Open(inOuter, "inner")
		if err != nil {
			t.Fatal(err)
		}
		inInner := inner.Inside(inOuter)
		for _, c := range []struct {
			name     string
			ctx      context.Context
			instance string
			busy     bool
		}{
			{"its own", inOuter, "outer", true},
			{"its own, below", inInner, "inner", true},
			{"that around it", inInner, "outer", true},
			{"another one", inInner, "third", false},
		} {
			var j *ledger.Journal
			var err error
			check(t, c.name+": time", elapsed(func() { j, err = b.Open(c.ctx, c.instance) }), 0)
			if got := errors.Is(err, ledger.ErrBusy); got != c.busy || !c.busy && err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if err == nil {
				j.End()
			}
		}
		go func() { // the inner operation is not around the outer one: it is waited for
			time.Sleep(time.Minute)
			inner.End()
		}()
		check(t, "time of a wait for the inner operation", elapsed(func() {
			j, err := b.Open(inOuter, "inner")
			check(t, "error", err, nil)
			j.End()
		}), time.Minute)
		outer.End()
		again, err := b.Open(inOuter, "outer") // of a hook that runs on after its operation
		check(t, "error after the end", err, nil)
		again.End()
	})
}

// A journal that has ended goes on when it is opened again: the book remembers what is not known only in between.
func TestReopen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		j := open(t, b, "i")
		_ = j.Claim(t.Context(), newClaim(), on("a", 1), at(4), answers(lost()))
		j.End()
		other := open(t, b, "i")
		check(t, "uncertain", len(b.Uncertain()), 1)
		other.End()
		other.End() // ends nothing
		check(t, "error", j.Reopen(t.Context()), nil)
		other.End()
		check(t, "busy", b.Busy("i"), true)
		check(t, "uncertain", len(b.Uncertain()), 1)
		check(t, "late change", b.LateChange("i"), at(4))
		j.Settle(j.Effects()[0], ledger.Undone, nil)
		check(t, "uncertain", len(b.Uncertain()), 0)
		j.End()
		check(t, "late change", b.LateChange("i"), at(4))
	})
}

func TestNumbersOfEffects(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook(nil, nil)
	i, k := open(t, b, "i"), open(t, b, "k")
	check(t, "newest of none", b.Newest(), 0)
	first := i.Adopt(newARQ("1"))
	second := k.Take(newARQ("2"))
	third := i.Take(newGuest())
	i.Adopt(first)
	check(t, "numbers", []int{first.Seq, second.Seq, third.Seq, b.Newest()}, []int{1, 2, 3, 3})
	check(t, "instances", []string{first.Instance, second.Instance}, []string{"i", "k"})
	check(t, "of the journal", i.Numbers(), []int{1, 3})
	check(t, "of a kind", i.Numbers(ledger.Guest), []int{3})
	check(t, "of two kinds", rows(i.Effects(ledger.Guest, ledger.ARQ)), []row{{ledger.ARQ, "1", ledger.Done}, {ledger.Guest, "i", ledger.Found}})
	again := i.Adopt(newARQ("1"))
	check(t, "found", []bool{i.Find(ledger.ARQ, "1") == again, i.Find(ledger.Guest, "i") == third}, []bool{true, true})
	i.Settle(again, ledger.Undone, nil)
	check(t, "found when removed", i.Find(ledger.ARQ, "1"), again, ignoreLate)
	check(t, "not found", []bool{i.Find(ledger.Mdev, "1") == nil, i.Find(ledger.ARQ, "2") == nil}, []bool{true, true})
}

func TestARQsOfOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		j := open(t, b, "i")
		made, taken, noted := j.Adopt(newARQ("made")), j.Take(newARQ("taken")), newARQ("noted")
		j.Note(noted, nil)
		j.Adopt(newMdev("mdev"))
		state := func() (list []string) {
			for _, arq := range []string{"made", "taken", "noted", "mdev"} {
				text := arq
				if b.InUse(arq) {
					text += " in use"
				}
				if b.Knows(arq) {
					text += " known"
				}
				if b.Removed(arq) {
					text += " removed"
				}
				list = append(list, text)
			}
			return list
		}
		check(t, "during the operation", state(), []string{"made in use known", "taken in use known", "noted", "mdev"})
		j.Settle(made, ledger.Undone, nil)
		check(t, "once one was removed", state(), []string{"made known removed", "taken in use known", "noted", "mdev"})
		j.End()
		check(t, "after the operation", state(), []string{"made known removed", "taken known", "noted", "mdev"})
		time.Sleep(5 * time.Minute)
		later := open(t, b, "i")
		later.Take(newARQ("taken"))
		check(t, "of a later operation", state(), []string{"made known removed", "taken in use known", "noted", "mdev"})
		time.Sleep(5*time.Minute - 1)
		check(t, "before ten minutes", state(), []string{"made known removed", "taken in use known", "noted", "mdev"})
		time.Sleep(time.Nanosecond)
		check(t, "after ten minutes", state(), []string{"made", "taken in use known", "noted", "mdev"})
		later.End()
		time.Sleep(10*time.Minute - 1)
		check(t, "before ten minutes of the later one", state(), []string{"made", "taken known", "noted", "mdev"})
		time.Sleep(time.Nanosecond)
		check(t, "after ten minutes of the later one", state(), []string{"made", "taken", "noted", "mdev"})
		_ = taken
	})
}

func TestCreating(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook(nil, nil)
	j := open(t, b, "i")
	j.Adopt(newARQ("1"))
	before := b.Newest()
	e := newCreate()
	_ = j.Do(t.Context(), e, func(context.Context) error {
		check(t, "under way", []bool{b.Creating(before), b.Creating(e.Seq), b.Creating(e.Seq + 1)}, []bool{false, true, true})
		return nil
	})
	check(t, "when it was answered", b.Creating(e.Seq), false)
	_ = j.Do(t.Context(), newMdev("1"), func(context.Context) error {
		check(t, "another request", b.Creating(b.Newest()), false)
		return nil
	})
}

func TestLostClaims(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook(nil, nil)
	j := open(t, b, "i")
	e := newClaim()
	e.Amount.Before = on("node", 1)
	_ = j.Claim(t.Context(), e, on("a", 1), at(3), answers(lost()))
	both := on("a", 1)
	both["node"] = map[string]int{"VCPU": 1}
	for n := range 2 { // during the operation, and after it
		before, found := b.LostClaim("i", both)
		check(t, fmt.Sprint("before ", n), before, on("node", 1))
		check(t, "found", found, true)
		_, found = b.LostClaim("i", on("a", 1))
		check(t, "found for other resources", found, false)
		_, found = b.LostClaim("k", both)
		check(t, "found for another instance", found, false)
		j.End()
	}
	empty := open(t, b, "k")
	_ = empty.Claim(t.Context(), newClaim(), nil, nil, answers(lost()))
	_, found := b.LostClaim("k", nil)
	check(t, "found for nothing", found, false)
	part := &ledger.Effect{Kind: ledger.Part, ID: "k", Amount: &ledger.Amount{Added: on("b", 1)}}
	empty.Settle(empty.Take(part), ledger.Unknown, nil)
	_, found = b.LostClaim("k", on("b", 1))
	check(t, "found for a part", found, false)
	accepted := open(t, b, "m")
	_ = accepted.Claim(t.Context(), newClaim(), on("a", 1), nil, answers(nil))
	_, found = b.LostClaim("m", on("a", 1))
	check(t, "found for an accepted claim", found, false)
}

// The newest of several late changes is that which has to be outdated.
func TestLateChanges(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook(nil, nil)
	check(t, "none", b.LateChange("i"), nil)
	for n, generation := range []*int{nil, at(4), at(7), at(2), at(0)} {
		j := open(t, b, "i")
		_ = j.Claim(t.Context(), newClaim(), on("a", 1), generation, answers(lost()))
		want := []*int{nil, at(4), at(7), at(7), at(7)}[n]
		check(t, "during the operation", b.LateChange("i"), want)
		j.End()
		check(t, "after the operation", b.LateChange("i"), want)
	}
	check(t, "another instance", b.LateChange("k"), nil)
	j := open(t, b, "k")
	e := newClaim()
	_ = j.Claim(t.Context(), e, on("a", 1), at(0), answers(nil))
	for _, c := range []struct{ sent, want *int }{{at(5), at(5)}, {at(3), at(5)}, {nil, at(5)}, {at(6), at(6)}} {
		j.Release(t.Context(), e, c.sent, ledger.Undone, answers(lost()))
		check(t, "of one effect", b.LateChange("k"), c.want)
	}
}

func TestUncertain(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook(nil, nil)
	first, second := open(t, b, "i"), open(t, b, "k")
	_ = first.Claim(t.Context(), newClaim(), on("a", 1), nil, answers(lost()))
	second.Note(newARQ("foreign"), nil)
	_ = first.Do(t.Context(), newGuest(), answers(errHook))
	first.Adopt(newARQ("done"))
	first.Settle(first.Adopt(newARQ("left")), ledger.Left, errRemote)
	for range 2 {
		found := b.Uncertain()
		var list []*ledger.Effect
		for i := range found {
			list = append(list, &found[i])
		}
		check(t, "uncertain", rows(list), []row{{ledger.Claim, "i", ledger.Unknown}, {ledger.ARQ, "foreign", ledger.Foreign}, {ledger.Guest, "i", ledger.Unknown}})
		found[0].ID = "changed" // a copy
		first.End()
	}
	b.Forget(func(e ledger.Effect) bool { return e.Kind == ledger.Claim || e.ID == "foreign" })
	check(t, "uncertain after Forget", len(b.Uncertain()), 2) // the foreign one is of an operation that is running
	second.End()
	b.Forget(func(e ledger.Effect) bool { return e.ID == "foreign" })
	check(t, "uncertain after a second Forget", len(b.Uncertain()), 1)
}

// What was forgotten, but may still arrive, is not asked about again.
func TestForgetAsksAboutTheUncertain(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook(nil, nil)
	j := open(t, b, "i")
	_ = j.Claim(t.Context(), newClaim(), on("a", 1), at(3), answers(lost()))
	j.End()
	for n := range 2 {
		asked := 0
		b.Forget(func(ledger.Effect) bool { asked++; return true })
		check(t, "asked", asked, 1-n)
		check(t, "late change", b.LateChange("i"), at(3))
	}
}

func TestTheBookForgetsAfterAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		j := open(t, b, "i")
		_ = j.Claim(t.Context(), newClaim(), on("a", 1), at(3), answers(lost()))
		time.Sleep(10 * time.Minute)
		j.Note(newARQ("foreign"), nil)
		j.End()
		time.Sleep(50*time.Minute - 1)
		check(t, "before an hour", len(b.Uncertain()), 2)
		check(t, "late change before an hour", b.LateChange("i"), at(3))
		time.Sleep(time.Nanosecond)
		check(t, "late change after an hour", b.LateChange("i"), nil)
		check(t, "after an hour", len(b.Uncertain()), 1)
		time.Sleep(10 * time.Minute)
		check(t, "at last", len(b.Uncertain()), 0)
	})
}

func TestTheBookIsBounded(t *testing.T) {
	t.Parallel()
	const most = 4096
	b := ledger.NewBook(nil, nil)
	for n := range most + 2 {
		j := open(t, b, fmt.Sprint("i", n))
		j.Adopt(newARQ(fmt.Sprint(n)))
		j.Note(newARQ(fmt.Sprint("foreign ", n)), nil)
		j.End()
	}
	found := b.Uncertain()
	check(t, "uncertain", len(found), most)
	check(t, "the oldest", found[0].ID, "foreign 2")
	// Each operation has two ARQs, and the book knows the last 4096 of them.
	check(t, "known", []bool{b.Knows(fmt.Sprint(most/2 + 1)), b.Knows(fmt.Sprint(most/2 + 2)), b.Knows(fmt.Sprint(most + 1))}, []bool{false, true, true})
}

// Readers of the book, and operations that begin and end, run at the same time.
func TestTheBookIsSafeForParallelUse(t *testing.T) {
	t.Parallel()
	store := journal.NewMemory()
	for range 3 {
		b := ledger.NewBook(nil, store)
		var all sync.WaitGroup
		for n := range 4 {
			instance := fmt.Sprint("i", n%2)
			all.Go(func() {
				for range 20 {
					j := open(t, b, instance)
					if j.Mark() == ledger.Ended {
						j.Continue()
					}
					j.Yield(func() {})
					_ = j.Claim(t.Context(), newClaim(), on("a", 1), at(3), answers(lost()))
					j.Adopt(newARQ("1"))
					j.Settle(j.Effects()[0], ledger.Undone, nil)
					_ = j.Commit(t.Context())
					j.End()
				}
			})
			all.Go(func() {
				for range 20 {
					b.Uncertain()
					b.Forget(func(e ledger.Effect) bool { return e.Seq%2 == 0 })
					b.LateChange(instance)
					b.Creating(9)
					b.InUse("1")
				}
			})
		}
		all.Wait()
	}
}

func TestTheErrorOfAStoreEndsAnOperation(t *testing.T) {
	t.Parallel()
	shared := journaltest.NewShared(time.Hour)
	b := ledger.NewBook(nil, shared.Agent("a"))
	shared.Fail(errStore)
	_, err := b.Open(t.Context(), "i")
	if !errors.Is(err, ledger.ErrStore) || !errors.Is(err, errStore) || b.Busy("i") {
		t.Errorf("busy %t, error %v", b.Busy("i"), err)
	}
	shared.Fail(nil)
	open(t, b, "i").End()
}

// Another process is waited for as another operation is.
func TestAnOperationWaitsForAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := journaltest.NewShared(time.Hour)
		j := open(t, ledger.NewBook(nil, shared.Agent("a")), "i")
		b := ledger.NewBook(nil, shared.Agent("b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Open(ctx, "i"); !errors.Is(err, ledger.ErrStore) || !errors.Is(err, context.DeadlineExceeded) || b.Busy("i") {
			t.Errorf("busy %t, error %v", b.Busy("i"), err)
		}
		time.AfterFunc(time.Minute, j.End)
		check(t, "time", elapsed(func() { open(t, b, "i").End() }), time.Minute)
	})
}

// Uncertain effects of operations that run are in the order of their numbers, too.
func TestUncertainIsSorted(t *testing.T) {
	t.Parallel()
	b := ledger.NewBook(nil, nil)
	for n := range 20 {
		open(t, b, fmt.Sprint(n)).Note(newARQ(fmt.Sprint(n)), nil)
	}
	found := b.Uncertain()
	if !slices.IsSortedFunc(found, func(x, y ledger.Effect) int { return x.Seq - y.Seq }) || len(found) != 20 {
		t.Errorf("%d effects, or not sorted", len(found))
	}
}

// Processes number their effects alike: what is continued is of one instance.
func TestContinuedEffectsAreOfOneInstance(t *testing.T) {
	t.Parallel()
	store := journal.NewMemory()
	for _, instance := range []string{"i", "k"} {
		j := open(t, ledger.NewBook(nil, store), instance)
		j.Note(newARQ(instance), nil)
		j.End()
	}
	b := ledger.NewBook(nil, store)
	open(t, b, "k").Leave()
	j := open(t, b, "i")
	check(t, "uncertain", len(b.Uncertain()), 2)
	j.Continue()
	check(t, "uncertain after Continue", len(b.Uncertain()), 2)
	j.Settle(j.Effects()[0], ledger.Undone, nil)
	check(t, "uncertain of the other instance", b.Uncertain()[0].Instance, "k")
}

// What is older than an hour is no longer stored.
func TestTheStoreForgetsAfterAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := journal.NewMemory()
		b := ledger.NewBook(nil, store)
		j := open(t, b, "i")
		j.Note(newARQ("foreign"), nil)
		j.End()
		for _, want := range [][]string{{"i"}, nil} {
			time.Sleep(time.Hour - 1)
			open(t, b, "i").End()
			unfinished, err := store.Unfinished(t.Context())
			check(t, "error", err, nil)
			check(t, "unfinished", unfinished, want)
		}
	})
}

func TestRemovedARQsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewBook(nil, nil)
		j := open(t, b, "i")
		j.Settle(j.Adopt(newARQ("1")), ledger.Undone, nil)
		j.End()
		check(t, "removed", b.Removed("1"), true)
		time.Sleep(10 * time.Minute)
		check(t, "removed ten minutes ago", b.Removed("1"), false)
	})
}
