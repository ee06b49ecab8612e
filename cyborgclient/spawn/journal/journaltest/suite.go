package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

// Subject is the store that [Run] tests.
type Subject struct {
	// Open returns a store without journals.
	Open func(t *testing.T) journal.Store
	// Restart ends the process that uses the store, without a Release of what it holds, and returns the store as a
	// new process sees it. It is nil for a store that does not survive its process.
	Restart func(t *testing.T, store journal.Store) journal.Store
	// Join returns the store as another process sees it at the same time. It is nil for a store of one process.
	Join func(t *testing.T, store journal.Store) journal.Store
	// In runs a test, for example synctest.Test if the store can run in a bubble. It is nil for a store that needs
	// the real time; its leases should be short then.
	In func(t *testing.T, test func(*testing.T))
}

// patience is the maximum duration of a call that does not wait for another caller, and of a lease.
const patience = time.Minute

// shortly is how long a test waits to see that something does not happen.
const shortly = 20 * time.Millisecond

// Run tests that a store satisfies the contract of [journal.Store] and [journal.Journal].
func Run(t *testing.T, s Subject) {
	if s.In == nil {
		s.In = func(t *testing.T, test func(*testing.T)) { test(t) }
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, Subject)
	}{
		{"records in order", testOrder},
		{"records are copied", testCopies},
		{"large and empty records", testLarge},
		{"clear", testClear},
		{"unfinished", testUnfinished},
		{"names of instances", testNames},
		{"one holder", testExclusion},
		{"lock waits until its context ends", testLockContext},
		{"no change after release", testAfterRelease},
		{"renew during append", testRenew},
		{"many instances at once", testMany},
		{"a holder that ends without release", testRestart},
		{"a lease that runs out", testLease},
	} {
		t.Run(c.name, func(t *testing.T) { s.In(t, func(t *testing.T) { c.test(t, s) }) })
	}
}

// stores returns views of a new store: one, or two of different processes.
func (s Subject) stores(t *testing.T) []journal.Store {
	t.Helper()
	stores := []journal.Store{s.Open(t)}
	if s.Join != nil {
		stores = append(stores, s.Join(t, stores[0]))
	}
	return stores
}

func lock(t *testing.T, store journal.Store, instance string) journal.Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	j, err := store.Lock(ctx, instance)
	if err != nil {
		t.Fatalf("Lock of %q: %v", instance, err)
	}
	return j
}

func add(t *testing.T, j journal.Journal, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := j.Append(t.Context(), []byte(r)); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
}

func clearAll(t *testing.T, j journal.Journal) {
	t.Helper()
	if err := j.Clear(t.Context()); err != nil {
		t.Fatalf("Clear: %v", err)
	}
}

// write locks a journal, adds records and releases it.
func write(t *testing.T, store journal.Store, instance string, records ...string) {
	t.Helper()
	j := lock(t, store, instance)
	defer j.Release()
	add(t, j, records...)
}

func texts(records [][]byte) []string {
	list := []string{}
	for _, r := range records {
		list = append(list, string(r))
	}
	return list
}

func checkRecords(t *testing.T, j journal.Journal, want ...string) {
	t.Helper()
	if got := texts(j.Records()); !slices.Equal(got, want) {
		t.Errorf("records: got %s, want %s", brief(got), brief(want))
	}
}

// brief is a list of records for a message.
func brief(records []string) string {
	const most = 40
	var b bytes.Buffer
	for _, r := range records {
		if len(r) > most {
			fmt.Fprintf(&b, "%q... (%d bytes) ", r[:most], len(r))
		} else {
			fmt.Fprintf(&b, "%q ", r)
		}
	}
	return "[" + string(bytes.TrimSpace(b.Bytes())) + "]"
}

func checkUnfinished(t *testing.T, store journal.Store, want ...string) {
	t.Helper()
	got, err := store.Unfinished(t.Context())
	if err != nil {
		t.Fatalf("Unfinished: %v", err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Unfinished: got %q, want %q", got, want)
	}
}

func testOrder(t *testing.T, s Subject) {
	store := s.Open(t)
	first := lock(t, store, "i")
	checkRecords(t, first)
	if at := first.Abandoned(); !at.IsZero() {
		t.Errorf("Abandoned of a new journal: %v", at)
	}
	var want []string
	for n := range 20 {
		want = append(want, fmt.Sprint("record ", n))
	}
	add(t, first, want[:12]...)
	checkRecords(t, first) // still those that Lock found
	first.Release()
	second := lock(t, store, "i")
	checkRecords(t, second, want[:12]...)
	add(t, second, want[12:]...)
	checkRecords(t, second, want[:12]...)
	second.Release()
	third := lock(t, store, "i")
	defer third.Release()
	checkRecords(t, third, want...)
	if at := third.Abandoned(); !at.IsZero() {
		t.Errorf("Abandoned after Release: %v", at)
	}
}

func testCopies(t *testing.T, s Subject) {
	store := s.Open(t)
	j := lock(t, store, "i")
	record := []byte("one")
	for _, text := range []string{"one", "two", "six"} {
		copy(record, text)
		if err := j.Append(t.Context(), record); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
	copy(record, "xxx")
	j.Release()
	second := lock(t, store, "i")
	mine := append(second.Records(), []byte("mine")) // must not reach the store
	add(t, second, "seven")
	if got := string(mine[3]); got != "mine" {
		t.Errorf("an element behind the records became %q", got)
	}
	second.Release()
	third := lock(t, store, "i")
	defer third.Release()
	checkRecords(t, third, "one", "two", "six", "seven")
}

func testLarge(t *testing.T, s Subject) {
	store := s.Open(t)
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(i * i >> 8)
	}
	want := []string{"", string(large), "\x00\xff", string(large[1:]), ""}
	write(t, store, "i", want...)
	j := lock(t, store, "i")
	defer j.Release()
	checkRecords(t, j, want...)
}

func testClear(t *testing.T, s Subject) {
	store := s.Open(t)
	j := lock(t, store, "i")
	clearAll(t, j) // an empty one
	add(t, j, "a", "b", "c")
	clearAll(t, j)
	add(t, j, "d")
	j.Release()
	j = lock(t, store, "i")
	checkRecords(t, j, "d")
	clearAll(t, j)
	checkRecords(t, j, "d")
	j.Release()
	checkUnfinished(t, store)
	j = lock(t, store, "i")
	defer j.Release()
	checkRecords(t, j)
}

func testUnfinished(t *testing.T, s Subject) {
	stores := s.stores(t)
	store, other := stores[0], stores[len(stores)-1]
	checkUnfinished(t, other)
	for _, instance := range []string{"b", "c", "a"} {
		write(t, store, instance, "record of "+instance)
	}
	j := lock(t, store, "d")
	j.Release() // without records
	checkUnfinished(t, other, "a", "b", "c")
	j = lock(t, store, "b")
	checkUnfinished(t, other, "a", "c")
	clearAll(t, j)
	j.Release()
	checkUnfinished(t, other, "a", "c")
}

func testNames(t *testing.T, s Subject) {
	names := []string{
		" ", "%", "%2F", "'", "..", "/", "/a", "A", "a", "a ", "a%", "a/", "a/0", "a/00000001", "aa", "b_b", "bxb", "\\", "\n", "\x01", "\x7f",
		"é", "e\u0301", "世界", "5e0f2f2d-7a0a-4a37-9a53-0c6a3a3f8f51", "5E0F2F2D-7A0A-4A37-9A53-0C6A3A3F8F51",
		string(bytes.Repeat([]byte("x"), 254)), string(bytes.Repeat([]byte("x"), 255)),
	}
	store := s.Open(t)
	for _, name := range names {
		write(t, store, name, "1 of "+name, "2 of "+name)
	}
	for i, name := range names {
		j := lock(t, store, name)
		checkRecords(t, j, "1 of "+name, "2 of "+name)
		if i%2 == 0 {
			clearAll(t, j)
		}
		j.Release()
	}
	var rest []string
	for i, name := range names {
		if i%2 == 1 {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	checkUnfinished(t, store, rest...)
}

// testExclusion counts in records: two holders at a time would write the same number.
func testExclusion(t *testing.T, s Subject) {
	const workers, rounds = 8, 10
	stores := s.stores(t)
	var all sync.WaitGroup
	var holders int // the race detector finds two holders, too
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := range workers {
		all.Go(func() {
			for range rounds {
				j, err := stores[n%len(stores)].Lock(ctx, "i")
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				if holders++; holders != 1 {
					t.Errorf("%d holders at once", holders)
				}
				if err := j.Append(t.Context(), fmt.Append(nil, len(j.Records()))); err != nil {
					t.Errorf("Append: %v", err)
				}
				holders--
				j.Release()
			}
		})
	}
	all.Wait()
	j := lock(t, stores[0], "i")
	defer j.Release()
	for i, r := range j.Records() {
		if string(r) != fmt.Sprint(i) {
			t.Fatalf("record %d is %q", i, r)
		}
	}
	if got, want := len(j.Records()), workers*rounds; got != want {
		t.Errorf("%d records, want %d", got, want)
	}
}

func testLockContext(t *testing.T, s Subject) {
	for _, waiting := range s.stores(t) {
		held := lock(t, waiting, "held")
		ctx, cancel := context.WithTimeout(t.Context(), shortly)
		defer cancel()
		if _, err := waiting.Lock(ctx, "held"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock of a journal that another has: %v, want the error of the context", err)
		}
		if _, err := waiting.Lock(ctx, "held"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock with an ended context: %v, want the error of the context", err)
		}
		free := lock(t, waiting, "another instance") // is not held up
		free.Release()
		held.Release()
		lock(t, waiting, "held").Release() // the callers that gave up do not hold it
	}
}

func testAfterRelease(t *testing.T, s Subject) {
	store := s.Open(t)
	old := lock(t, store, "i")
	add(t, old, "a")
	old.Release()
	next := lock(t, store, "i")
	defer next.Release()
	checkLost(t, store, old, next).Release()
}

// checkLost checks that a holder that has lost its right neither changes the journal nor ends the right of the next
// holder. It locks the journal again.
func checkLost(t *testing.T, store journal.Store, old, next journal.Journal) (last journal.Journal) {
	t.Helper()
	for name, call := range map[string]func() error{
		"Append": func() error { return old.Append(t.Context(), []byte("late")) },
		"Clear":  func() error { return old.Clear(t.Context()) },
		"Renew":  func() error { return old.Renew(t.Context()) },
	} {
		if err := call(); !errors.Is(err, journal.ErrLost) {
			t.Errorf("%s after the end of the right: %v, want ErrLost", name, err)
		}
	}
	old.Release()
	add(t, next, "b")
	next.Release()
	last = lock(t, store, "i")
	checkRecords(t, last, "a", "b")
	return last
}

func testRenew(t *testing.T, s Subject) {
	store := s.Open(t)
	j := lock(t, store, "i")
	defer j.Release()
	first := j.Until()
	if !first.IsZero() && !first.After(time.Now()) {
		t.Errorf("Until: %v, and it is %v", first, time.Now())
	}
	var renewals sync.WaitGroup
	renewals.Go(func() {
		for range 20 {
			if err := j.Renew(t.Context()); err != nil {
				t.Errorf("Renew: %v", err)
			}
			if j.Until().Before(first) {
				t.Errorf("Until after Renew: %v, before: %v", j.Until(), first)
			}
		}
	})
	for n := range 20 {
		add(t, j, fmt.Sprint(n))
	}
	renewals.Wait()
}

func testMany(t *testing.T, s Subject) {
	const instances = 64
	stores := s.stores(t)
	var all sync.WaitGroup
	for n := range instances {
		all.Go(func() {
			store, instance := stores[n%len(stores)], fmt.Sprintf("i%02d", n)
			j, err := store.Lock(t.Context(), instance)
			if err != nil {
				t.Errorf("Lock: %v", err)
				return
			}
			defer j.Release()
			for k := range 8 {
				if err := j.Append(t.Context(), fmt.Appendf(nil, "%s %d", instance, k)); err != nil {
					t.Errorf("Append: %v", err)
				}
				if n%2 == 0 && k == 4 {
					if err := j.Clear(t.Context()); err != nil {
						t.Errorf("Clear: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	for n := range instances {
		instance, from := fmt.Sprintf("i%02d", n), 0
		if n%2 == 0 {
			from = 5
		}
		var want []string
		for k := from; k < 8; k++ {
			want = append(want, fmt.Sprintf("%s %d", instance, k))
		}
		j := lock(t, stores[0], instance)
		checkRecords(t, j, want...)
		j.Release()
	}
}

func testRestart(t *testing.T, s Subject) {
	if s.Restart == nil {
		t.Skip("the store does not survive its process")
	}
	store := s.Open(t)
	write(t, store, "released", "a", "b")
	held := lock(t, store, "held")
	add(t, held, "c")
	cleared := lock(t, store, "cleared")
	add(t, cleared, "d")
	clearAll(t, cleared)
	before := time.Now()
	store = s.Restart(t, store)

	j := lock(t, store, "held") // after its lease, if there are leases
	checkRecords(t, j, "c")
	checkAbandoned(t, j, before)
	add(t, j, "e")
	j.Release()
	j = lock(t, store, "held")
	checkRecords(t, j, "c", "e")
	checkAbandoned(t, j, before) // until the records go
	clearAll(t, j)
	add(t, j, "f")
	j.Release()
	j = lock(t, store, "held")
	checkRecords(t, j, "f")
	if at := j.Abandoned(); !at.IsZero() {
		t.Errorf("Abandoned after Clear: %v", at)
	}
	j.Release()

	j = lock(t, store, "cleared")
	checkRecords(t, j)
	if at := j.Abandoned(); !at.IsZero() {
		t.Errorf("Abandoned of a journal without records: %v", at)
	}
	j.Release()
	checkUnfinished(t, store, "held", "released")
	store = s.Restart(t, store)
	j = lock(t, store, "released")
	defer j.Release()
	checkRecords(t, j, "a", "b")
}

// checkAbandoned checks when the right of a holder ended that existed before a time.
func checkAbandoned(t *testing.T, j journal.Journal, before time.Time) {
	t.Helper()
	if at := j.Abandoned(); at.Before(before) || at.After(time.Now()) {
		t.Errorf("Abandoned: %v, want a time from %v to %v", at, before, time.Now())
	}
}

func testLease(t *testing.T, s Subject) {
	stores := s.stores(t)
	store, other := stores[0], stores[len(stores)-1]
	old := lock(t, store, "i")
	if old.Until().IsZero() { // the store has no leases
		old.Release()
		return
	}
	add(t, old, "a")
	if err := old.Renew(t.Context()); err != nil {
		t.Fatalf("Renew: %v", err)
	}
	until := old.Until()
	next := lock(t, other, "i") // when the lease has run out
	if now := time.Now(); now.Before(until) {
		t.Errorf("Lock at %v, before the right of the first holder ended at %v", now, until)
	}
	checkRecords(t, next, "a")
	checkAbandoned(t, next, until)
	last := checkLost(t, store, old, next)
	defer last.Release()
	checkAbandoned(t, last, until)
}
