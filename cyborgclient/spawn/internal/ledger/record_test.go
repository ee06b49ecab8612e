package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
)

// damages are records that no operation has written.
var damages = []string{
	``, `{`, `[]`, `1`, `"x"`, `{} {}`, "\x00", `{"effects":{}}`, `{"effects":[null]}`, `{"effects":[1]}`, `{"mark":"later"}`, `{"mark":1}`,
	`{"effects":[{}]}`,
	`{"effects":[{"seq":1,"kind":"guest","id":"i","state":"gone"}]}`,
	`{"effects":[{"seq":1,"kind":"guest","id":"i","state":"none"}]}`,
	`{"effects":[{"seq":1,"kind":"guest","id":"i"}]}`,
	`{"effects":[{"seq":0,"kind":"guest","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":-1,"kind":"guest","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"volume","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"claim","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"part","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"consumer","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"claim","id":"i","state":"done","amount":null}]}`,
	`{"effects":[{"seq":1,"kind":"claim","id":"i","state":"done","amount":{},"arq":{}}]}`,
	`{"effects":[{"seq":1,"kind":"arq","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"mdev","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"arq","id":"i","state":"done","arq":{},"guard":3}]}`,
	`{"effects":[{"seq":1,"kind":"arq","id":"i","state":"done","arq":{},"guard":-1}]}`,
	`{"effects":[{"seq":1,"kind":"create","id":"i","state":"done"}]}`,
	`{"effects":[{"seq":1,"kind":"guest","id":"i","state":"done","origin":{}}]}`,
	`{"effects":[{"seq":1,"kind":"guest","id":"i","state":"done","changed":"today"}]}`,
	`{"effects":[{"seq":1,"kind":"binding","id":"i","state":"done","amount":{}}]}`,
}

// stored returns a store with a journal of the given records.
func stored(t testing.TB, records ...string) *journal.Memory {
	t.Helper()
	store := journal.NewMemory()
	held, err := store.Lock(t.Context(), "i")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	for _, r := range records {
		if err := held.Append(t.Context(), []byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

const intact = `{"effects":[{"seq":3,"kind":"guest","id":"i","state":"done","changed":"2026-01-02T03:04:05Z"}]}`

func TestADamagedRecordIsAnError(t *testing.T) {
	t.Parallel()
	for _, damaged := range damages {
		for _, records := range [][]string{{damaged}, {intact, damaged}, {damaged, intact}} {
			store := stored(t, records...)
			b := ledger.NewBook(nil, store)
			j, err := b.Open(t.Context(), "i")
			if !errors.Is(err, ledger.ErrStore) {
				t.Errorf("%s: %v", damaged, err)
				j.Leave()
				continue
			}
			check(t, "effects", rows(j.Effects()), nil)
			if b.Busy("i") {
				t.Error("the operation did not end")
			}
			held, err := store.Lock(t.Context(), "i") // the right was released, and nothing changed
			if err != nil {
				t.Fatal(err)
			}
			check(t, "records", len(held.Records()), len(records))
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, seed := range append(damages, intact, `{}`, `{"mark":"committed"}`, `{"effects":null,"mark":"ended"}`,
		`{"effects":[{"seq":2,"kind":"claim","id":"i","state":"sent","amount":{"sent":{"a":{"VCPU":1}},"generation":4},"late":3}]}`,
		`{"effects":[{"seq":2,"kind":"create","id":"p","state":"unknown","error":"x","origin":{"missing":2}}],"mark":"handed over"}`,
		`{"effects":[{"seq":9,"kind":"arq","id":"p","state":"undoing","arq":{"uuid":"1"},"holds":[1,9]},{"seq":9,"kind":"mdev","id":"p","state":"left","arq":null}]}`,
	) {
		f.Add([]byte(seed), []byte(intact))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		store := stored(t, string(first), string(second))
		j, err := ledger.NewBook(nil, store).Open(t.Context(), "i")
		if err != nil {
			if !errors.Is(err, ledger.ErrStore) {
				t.Errorf("got %v", err)
			}
			return
		}
		if j.Mark() == ledger.Ended || j.Mark() == ledger.HandedOver {
			j.Continue()
		}
		for _, e := range j.Effects() {
			if e.State != ledger.Foreign {
				j.Settle(e, ledger.Undone, nil)
			}
		}
		j.End()
		if _, err := ledger.NewBook(nil, store).Open(t.Context(), "i"); err != nil {
			t.Errorf("a journal that was written again: %v", err)
		}
	})
}

// kill ends a process without its release of the instance.
func kill(s *journaltest.Shared, agent string) {
	s.Kill(agent)
	s.Lose("i")
}

// effects draws what operations record.
func drawEffect(t *rapid.T) *ledger.Effect {
	resources := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.MapOfN(rapid.SampledFrom([]string{"VCPU", "PGPU"}), rapid.IntRange(1, 9), 1, 2), 1, 2)
	text := rapid.SampledFrom([]string{"i", "1", "é \"x\"\n", "世"})
	e := &ledger.Effect{
		Kind: rapid.SampledFrom([]ledger.Kind{
			ledger.Claim, ledger.Part, ledger.Consumer, ledger.Create, ledger.ARQ, ledger.Listed, ledger.Binding, ledger.Mdev, ledger.NovaMdev, ledger.Guest, ledger.Program, ledger.Power,
		}).Draw(t, "kind"),
		ID:    text.Draw(t, "id"),
		Host:  rapid.SampledFrom([]string{"", "h"}).Draw(t, "host"),
		Holds: rapid.SliceOfN(rapid.IntRange(1, 9), 0, 3).Draw(t, "holds"),
	}
	switch e.Kind {
	case ledger.Claim, ledger.Part, ledger.Consumer:
		e.Amount = &ledger.Amount{Project: text.Draw(t, "project"), User: text.Draw(t, "user"), Before: resources.Draw(t, "before"), Added: resources.Draw(t, "added")}
		if rapid.Bool().Draw(t, "generation") {
			e.Amount.Generation = at(rapid.IntRange(0, 9).Draw(t, "n"))
		}
		if rapid.Bool().Draw(t, "sent") {
			e.Amount.Sent = resources.Draw(t, "sent")
		}
	case ledger.ARQ, ledger.Mdev:
		e.Guard = ledger.Guard(rapid.IntRange(0, 2).Draw(t, "guard"))
		e.ARQ = &cyborgclient.ARQ{
			UUID: text.Draw(t, "uuid"), State: cyborgclient.State(text.Draw(t, "state")), Hostname: text.Draw(t, "host"),
			AttachHandleType: cyborgclient.HandleMDEV, AttachHandleUUID: text.Draw(t, "handle"),
		}
	case ledger.Create:
		e.Origin = &ledger.Origin{Project: text.Draw(t, "project"), Missing: rapid.IntRange(0, 3).Draw(t, "missing"), Began: time.Unix(int64(rapid.IntRange(1, 1e9).Draw(t, "began")), 5).UTC()}
		if rapid.Bool().Draw(t, "since") {
			e.Origin.Since = time.Unix(3, 0).UTC()
		}
	case ledger.Guest:
		if rapid.Bool().Draw(t, "saved") {
			e.Saved = &ledger.Saved{Domain: []byte(text.Draw(t, "domain")), Running: rapid.Bool().Draw(t, "running")}
		}
	}
	return e
}

// What is written is read: the effects that exist or may exist, in their states.
func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		store := journaltest.NewShared(time.Hour)
		b := ledger.NewBook(nil, store.Agent("a"))
		j, err := b.Open(context.Background(), "i")
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "effects") {
			e := drawEffect(t)
			if rapid.Bool().Draw(t, "adopted") {
				j.Adopt(e)
			} else {
				j.Take(e)
			}
			state := rapid.SampledFrom([]ledger.State{e.State, ledger.Unknown, ledger.Undoing, ledger.Left, ledger.Foreign, ledger.Undone}).Draw(t, "state")
			if state != e.State {
				j.Settle(e, state, rapid.SampledFrom([]error{nil, errors.New("a text\n\"quoted\"")}).Draw(t, "err"))
			}
			if rapid.Bool().Draw(t, "record") {
				if err := j.Record(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := j.Record(context.Background()); err != nil {
			t.Fatal(err)
		}
		want := j.Effects()
		kill(store, "a")
		next, err := ledger.NewBook(nil, store.Agent("b")).Open(context.Background(), "i")
		if err != nil {
			t.Fatal(err)
		}
		got := next.Effects()
		sameText := cmp.Comparer(func(x, y error) bool { return (x == nil) == (y == nil) && (x == nil || x.Error() == y.Error()) })
		opts := []cmp.Option{ignoreLate, sameText, cmpopts.EquateEmpty(), cmp.Comparer(func(x, y time.Time) bool { return x.Equal(y) })}
		if diff := cmp.Diff(want, got, opts...); diff != "" {
			t.Fatalf("effects (-want +got):\n%s", diff)
		}
		for i, e := range got {
			if e.State != ledger.Undoing && !e.Changed().Equal(want[i].Changed()) {
				t.Errorf("changed: %v, want %v", e.Changed(), want[i].Changed())
			}
		}
		if got := next.Unfinished(); got != (len(want) > 0) {
			t.Errorf("Unfinished is %t", got)
		}
	})
}

// The process ends before, during or after each request of an operation.
func TestStatesAfterAnInterruption(t *testing.T) {
	t.Parallel()
	const never = 99
	operation := func(ctx context.Context, j *ledger.Journal, die func(n int)) {
		during := func(n int) func(context.Context) error {
			return func(context.Context) error { die(n); return nil }
		}
		claim := newClaim()
		_ = j.Claim(ctx, claim, on("a", 1), at(3), during(1))
		die(2)
		create := newCreate()
		_ = j.Do(ctx, create, func(context.Context) error {
			die(3)
			j.Adopt(newARQ("1"))
			return nil
		})
		j.Settle(create, ledger.Undone, nil)
		die(4)
		_ = j.Do(ctx, newGuest(2), during(5))
		die(6)
		_ = j.Commit(ctx)
		die(7)
		arq := j.Find(ledger.ARQ, "1")
		j.Remove(ctx, []*ledger.Effect{arq}, func(context.Context) map[*ledger.Effect]error { die(8); return nil })
		die(9)
		j.Release(ctx, claim, at(4), ledger.Undone, during(10))
		die(11)
		j.End()
		die(12)
	}
	claimed := func(s ledger.State) row { return row{ledger.Claim, "i", s} }
	guest := func(s ledger.State) row { return row{ledger.Guest, "i", s} }
	arq := func(s ledger.State) row { return row{ledger.ARQ, "1", s} }
	for _, c := range []struct {
		at   int
		want []row
		late *int
	}{
		{1, []row{claimed(ledger.Unknown)}, at(3)},
		{2, []row{claimed(ledger.Unknown)}, at(3)}, // the answer is recorded with the next request
		{3, []row{claimed(ledger.Done), {ledger.Create, "profile", ledger.Unknown}}, nil},
		{4, []row{claimed(ledger.Done), {ledger.Create, "profile", ledger.Unknown}}, nil},
		{5, []row{claimed(ledger.Done), arq(ledger.Done), guest(ledger.Unknown)}, nil},
		{6, []row{claimed(ledger.Done), arq(ledger.Done), guest(ledger.Unknown)}, nil},
		{7, nil, nil},
		{8, []row{arq(ledger.Undoing)}, nil},
		{9, []row{arq(ledger.Undoing)}, nil},
		{10, []row{claimed(ledger.Undoing)}, at(4)},
		{11, []row{claimed(ledger.Undoing)}, at(4)},
		{12, nil, nil},
		{never, nil, nil},
	} {
		t.Run(fmt.Sprint(c.at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := journaltest.NewShared(time.Hour)
				j := open(t, ledger.NewBook(nil, store.Agent("a")), "i")
				done := make(chan struct{})
				go func() {
					defer close(done)
					operation(t.Context(), j, func(n int) {
						if time.Sleep(time.Second); n == c.at {
							kill(store, "a")
							runtime.Goexit()
						}
					})
				}()
				<-done
				j.End()
				b, next := restart(t, store.Agent("b"))
				check(t, "effects", rows(next.Effects()), c.want)
				check(t, "late change", b.LateChange("i"), c.late)
				check(t, "unfinished", next.Unfinished(), len(c.want) > 0)
				abandoned := time.Now().Add(-time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) + time.Duration(c.at)*time.Second)
				for _, e := range next.Effects() {
					if e.State == ledger.Unknown || e.State == ledger.Undoing {
						check(t, "changed", e.Changed(), abandoned)
					}
				}
				next.End()
			})
		})
	}
}

// A claim that was under way is Unknown, with what was accepted before it.
func TestAnInterruptedClaim(t *testing.T) {
	t.Parallel()
	store := journaltest.NewShared(time.Hour)
	j := open(t, ledger.NewBook(nil, store.Agent("a")), "i")
	e := newClaim()
	_ = j.Claim(t.Context(), e, on("a", 1), nil, answers(nil))
	_ = j.Claim(t.Context(), e, on("b", 1), at(1), func(context.Context) error { kill(store, "a"); return nil })
	_, next := restart(t, store.Agent("b"))
	found := next.Effects()
	check(t, "effects", rows(found), []row{{ledger.Claim, "i", ledger.Unknown}})
	check(t, "amount", *found[0].Amount, ledger.Amount{Added: on("a", 1), Sent: on("b", 1), Generation: at(1), Project: "p", User: "u"}, ignoreLate)
}

func TestMarks(t *testing.T) {
	t.Parallel()
	claimed := row{ledger.Claim, "i", ledger.Done}
	foreign := row{ledger.ARQ, "foreign", ledger.Foreign}
	left := row{ledger.ARQ, "left", ledger.Left}
	unknown := row{ledger.Guest, "i", ledger.Unknown}
	claim := func(t *testing.T, j *ledger.Journal) *ledger.Effect {
		e := newClaim()
		_ = j.Claim(t.Context(), e, on("a", 1), nil, answers(nil))
		return e
	}
	start := func(t *testing.T, j *ledger.Journal) { _ = j.Do(t.Context(), newGuest(), answers(errHook)) }
	for _, c := range []struct {
		name       string
		run        func(t *testing.T, j *ledger.Journal)
		mark       ledger.Mark
		unfinished bool
		effects    []row
		continued  []row
		uncertain  int
		stored     bool
	}{
		{"nothing", func(*testing.T, *ledger.Journal) {}, "", false, nil, nil, 0, false},
		{"committed", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			j.Note(newARQ("foreign"), nil)
			check(t, "error", j.Commit(t.Context()), nil)
		}, "", false, nil, nil, 0, false},
		{"committed with what is not certain", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			start(t, j)
			check(t, "error", j.Commit(t.Context()), nil)
		}, ledger.Committed, true, []row{unknown}, nil, 0, true},
		{"after a commit", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			start(t, j)
			_ = j.Commit(t.Context())
			j.Adopt(newARQ("1"))
			_ = j.Record(t.Context())
		}, "", true, []row{unknown, {ledger.ARQ, "1", ledger.Done}}, nil, 0, true},
		{"handed over", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			j.Note(newARQ("foreign"), nil)
			check(t, "error", j.HandOver(t.Context()), nil)
		}, ledger.HandedOver, false, nil, []row{claimed, foreign}, 0, true},
		{"handed over and continued", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			_ = j.HandOver(t.Context())
			check(t, "error", j.Reopen(t.Context()), nil)
			j.Adopt(newARQ("1"))
			_ = j.Record(t.Context())
		}, "", true, []row{{ledger.ARQ, "1", ledger.Done}}, nil, 0, true},
		{"ended", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			j.End()
		}, "", false, nil, nil, 0, false},
		{"ended with what remains", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			start(t, j)
			j.Settle(j.Adopt(newARQ("left")), ledger.Left, errRemote)
			j.Note(newARQ("foreign"), nil)
			j.End()
		}, ledger.Ended, false, nil, []row{unknown, left, foreign}, 2, true},
		{"ended twice", func(t *testing.T, j *ledger.Journal) {
			start(t, j)
			j.End()
			_ = j.Reopen(t.Context())
			j.Settle(j.Effects()[0], ledger.Undone, nil)
			j.End()
		}, "", false, nil, nil, 0, false},
		{"left alone", func(t *testing.T, j *ledger.Journal) {
			claim(t, j)
			_ = j.Record(t.Context())
			j.Leave()
			j.Leave()
		}, "", true, []row{claimed}, nil, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := journaltest.NewShared(time.Hour)
			j := open(t, ledger.NewBook(nil, store.Agent("a")), "i")
			check(t, "mark at first", j.Mark(), "")
			c.run(t, j)
			kill(store, "a")
			b, next := restart(t, store.Agent("b"))
			check(t, "mark", next.Mark(), c.mark)
			check(t, "unfinished", next.Unfinished(), c.unfinished)
			check(t, "effects", rows(next.Effects()), c.effects)
			uncertain := 0
			for _, e := range b.Uncertain() {
				if e.Seq != 0 && !next.Unfinished() {
					uncertain++
				}
			}
			check(t, "uncertain", uncertain, c.uncertain)
			next.Leave()
			unfinished, _ := store.Agent("b").Unfinished(t.Context())
			check(t, "stored", len(unfinished) > 0, c.stored)
			_, third := restart(t, store.Agent("c"))
			third.Continue()
			if c.continued != nil {
				check(t, "continued", rows(third.Effects()), c.continued)
			}
			if e := third.Adopt(newARQ("new")); len(c.continued) > 0 && e.Seq <= third.Effects()[len(c.continued)-1].Seq {
				t.Errorf("number %d of a new effect", e.Seq)
			}
		})
	}
}

// A process that opens a journal again knows already what its own operation has left.
func TestWhatRemainsIsKnownOnce(t *testing.T) {
	t.Parallel()
	store := journal.NewMemory()
	b := ledger.NewBook(nil, store)
	for n := range 3 {
		j := open(t, b, "i")
		if n == 0 {
			_ = j.Do(t.Context(), newGuest(), answers(errHook))
			j.Note(newARQ("foreign"), nil)
			k := open(t, b, "k")
			k.Note(newARQ("other"), nil)
			k.End()
		}
		j.End()
		check(t, "uncertain", len(b.Uncertain()), 3)
	}
	_, j := restart(t, store)
	j.Continue()
	check(t, "remaining", rows(j.Effects()), []row{{ledger.Guest, "i", ledger.Unknown}, {ledger.ARQ, "foreign", ledger.Foreign}})
}

// A journal that is opened again after its end goes on with its own effects.
func TestReopenOfAStoredJournal(t *testing.T) {
	t.Parallel()
	store := journaltest.NewShared(time.Hour)
	b := ledger.NewBook(nil, store.Agent("a"))
	j := open(t, b, "i")
	e := newClaim()
	_ = j.Claim(t.Context(), e, on("a", 1), nil, answers(lost()))
	j.End()
	check(t, "error", j.Reopen(t.Context()), nil)
	check(t, "effects", j.Effects(), []*ledger.Effect{e}, ignoreLate)
	if j.Effects()[0] != e {
		t.Error("the effect was read again")
	}
	check(t, "error", j.Reopen(t.Context()), nil)
	j.Settle(e, ledger.Undone, nil)
	j.End()
	unfinished, err := store.Agent("b").Unfinished(t.Context())
	check(t, "unfinished", unfinished, nil)
	check(t, "error", err, nil)
}

// A right is renewed as long as the operation runs, also while it waits for long, and is not renewed after its end.
func TestRightsAreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		store := journaltest.NewShared(lease)
		b := ledger.NewBook(nil, store.Agent("a"))
		j := open(t, b, "i")
		time.Sleep(time.Hour)
		sent := false
		check(t, "error", j.Do(t.Context(), newGuest(), func(context.Context) error { sent = true; time.Sleep(time.Hour); return nil }), nil)
		check(t, "sent", sent, true)
		store.Fail(errStore) // shorter than the lease
		time.Sleep(lease / 2)
		store.Fail(nil)
		time.Sleep(time.Hour)
		check(t, "error", j.Record(t.Context()), nil)
		store.Kill("a")
		began := time.Now()
		_, next := restart(t, store.Agent("b"))
		defer next.End()
		if elapsed := time.Since(began); elapsed > lease || elapsed < lease/2 {
			t.Errorf("another process had the right after %v", elapsed)
		}
		synctest.Wait()
		j.End()
	})
}

// Before a request the right is renewed if it could end during the request.
func TestARightIsRenewedBeforeARequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease, wait time.Duration
		renewed     bool
	}{
		{time.Hour, 10 * time.Minute, false},
		{3 * time.Minute, 59 * time.Second, true}, // 2:01 remain, renewed by the goroutine at 1:00
		{119 * time.Second, 0, true},
		{2 * time.Minute, 0, false},
	} {
		bubble(t, fmt.Sprint(c.lease, c.wait), func(t *testing.T) {
			store := &countingStore{Store: journaltest.NewShared(c.lease).Agent("a")}
			j := open(t, ledger.NewBook(nil, store), "i")
			defer j.End()
			time.Sleep(c.wait)
			before := store.renewals.Load()
			_ = j.Record(t.Context())
			time.Sleep(0)
			if got := store.renewals.Load() > before; got != c.renewed && c.wait == 0 || c.wait == 10*time.Minute && got {
				t.Errorf("renewed %t", got)
			}
		})
	}
}

// A request that may take longer than the others needs a right that lasts longer.
func TestARightIsRenewedBeforeALongRequest(t *testing.T) {
	t.Parallel()
	for kind, want := range map[ledger.Kind]int32{ledger.Binding: 1, ledger.Create: 0} {
		synctest.Test(t, func(t *testing.T) {
			store := &countingStore{Store: journaltest.NewShared(359 * time.Second).Agent("a")}
			j := open(t, ledger.NewBook(map[ledger.Kind]time.Duration{ledger.Binding: 5 * time.Minute}, store), "i")
			defer j.End()
			e := newCreate()
			if e.Kind = kind; kind == ledger.Binding {
				e.Origin = nil
			}
			check(t, "error", j.Do(t.Context(), e, func(context.Context) error {
				check(t, "renewals before a "+string(kind), store.renewals.Load(), want)
				return nil
			}), nil)
		})
	}
}

// countingStore counts renewals, and fails them with an error.
type countingStore struct {
	journal.Store
	renewals atomic.Int32
	err      error
}

func (s *countingStore) Lock(ctx context.Context, instance string) (journal.Journal, error) {
	held, err := s.Store.Lock(ctx, instance)
	return countingJournal{held, s}, err
}

type countingJournal struct {
	journal.Journal
	store *countingStore
}

func (j countingJournal) Renew(ctx context.Context) error {
	if j.store.renewals.Add(1); j.store.err != nil {
		return j.store.err
	}
	return j.Journal.Renew(ctx)
}

// A right that is lost is not renewed, and one whose renewal fails prevents a request.
func TestRenewalsThatFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err      error
		min, max int32
	}{{journal.ErrLost, 1, 1}, {errStore, 10, 300}} {
		bubble(t, c.err.Error(), func(t *testing.T) {
			store := &countingStore{Store: journaltest.NewShared(30 * time.Second).Agent("a"), err: c.err}
			j := open(t, ledger.NewBook(nil, store), "i")
			time.Sleep(time.Minute)
			if n := store.renewals.Load(); n < c.min || n > c.max {
				t.Errorf("%d renewals", n)
			}
			sent := false
			err := j.Do(t.Context(), newCreate(), func(context.Context) error { sent = true; return nil })
			if !errors.Is(err, ledger.ErrStore) || !errors.Is(err, c.err) || sent {
				t.Errorf("sent %t, error %v", sent, err)
			}
			j.End()
			time.Sleep(time.Second)
			n := store.renewals.Load()
			time.Sleep(time.Hour)
			check(t, "renewals after the end", store.renewals.Load(), n)
		})
	}
}

// A store that does not answer is waited for a minute.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, ledger.NewBook(nil, silentStore{journal.NewMemory()}), "i")
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		check(t, "time of Record", elapsed(func() {
			cancel()
			err = j.Record(ctx)
		}), time.Minute)
		check(t, "error", err, ledger.ErrStore)
		e := newClaim()
		check(t, "time of Claim", elapsed(func() { err = j.Claim(t.Context(), e, on("a", 1), nil, answers(nil)) }), time.Minute)
		check(t, "time of End", elapsed(j.End), 0)
	})
}

// silentStore never answers to Append and Clear.
type silentStore struct{ journal.Store }

func (s silentStore) Lock(ctx context.Context, instance string) (journal.Journal, error) {
	held, err := s.Store.Lock(ctx, instance)
	return silentJournal{held}, err
}

type silentJournal struct{ journal.Journal }

func (silentJournal) Append(ctx context.Context, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}

func (silentJournal) Clear(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A change of the content of an effect is in the next record, and a record has each effect once.
func TestChangesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	store := journal.NewMemory()
	j := open(t, ledger.NewBook(nil, store), "i")
	e := newCreate()
	_ = j.Do(t.Context(), e, answers(cyborgclient.ErrReplyLost))
	check(t, "error", j.Record(t.Context()), nil)
	for _, missing := range []int{5, 7} {
		j.Change(e, func() { e.Origin.Missing = missing })
	}
	check(t, "error", j.Record(t.Context()), nil)
	j.Leave()
	held, err := store.Lock(t.Context(), "i")
	if err != nil {
		t.Fatal(err)
	}
	var last struct{ Effects []ledger.Effect }
	check(t, "error", json.Unmarshal(held.Records()[2], &last), nil)
	check(t, "effects of the last record", len(last.Effects), 1)
	check(t, "missing", last.Effects[0].Origin.Missing, 7)
	check(t, "records", len(held.Records()), 3)
}

func TestAHandoverEndsTheOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := journaltest.NewShared(time.Hour)
		b := ledger.NewBook(nil, store.Agent("a"))
		j := open(t, b, "i")
		check(t, "error", j.HandOver(t.Context()), nil)
		check(t, "busy", b.Busy("i"), false)
		check(t, "time until another process has the right", elapsed(func() {
			_, next := restart(t, store.Agent("b"))
			next.End()
		}), 0)
	})
}

// The hour for which a late change is remembered does not begin again when a process that has read it is killed.
func TestTheHourOfALateChangeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := journaltest.NewShared(time.Hour)
		j := open(t, ledger.NewBook(nil, store.Agent("a")), "i")
		e := newClaim()
		_ = j.Claim(t.Context(), e, on("a", 1), nil, answers(nil))
		j.Release(t.Context(), e, at(1), ledger.Undone, answers(lost()))
		j.End()
		for _, want := range []*int{at(1), nil} {
			time.Sleep(31 * time.Minute)
			b, j := restart(t, store.Agent("b"))
			check(t, "late change", b.LateChange("i"), want)
			kill(store, "b")
			j.End()
		}
	})
}

// An operation that goes on with a stored journal clears it at its end, and its ARQs are in use.
func TestAStoredJournalIsContinued(t *testing.T) {
	t.Parallel()
	store := journal.NewMemory()
	j := open(t, ledger.NewBook(nil, store), "i")
	j.Adopt(newARQ("1"))
	check(t, "error", j.Record(t.Context()), nil)
	j.Leave()
	b, next := restart(t, store)
	u := newUnwinding(next, func(*ledger.Effect) error {
		check(t, "in use", b.InUse("1"), true)
		return nil
	})
	next.Undo(t.Context(), u.Unwinding)
	check(t, "calls", u.calls, [][]string{{"arq 1"}})
	next.End()
	unfinished, err := store.Unfinished(t.Context())
	check(t, "error", err, nil)
	check(t, "unfinished", unfinished, nil)
}

func TestTheErrorOfARecordSaysWhichOne(t *testing.T) {
	t.Parallel()
	_, err := ledger.NewBook(nil, stored(t, intact, `{"mark":"later"}`)).Open(t.Context(), "i")
	if got, want := fmt.Sprint(err), `the journal of the operation failed: instance i: record 2: unknown mark "later"`; got != want {
		t.Errorf("got %s", got)
	}
}
