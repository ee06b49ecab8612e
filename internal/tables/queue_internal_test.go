package tables

import (
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// newKeeper has a new file.
func newKeeper(t *testing.T) *Keeper {
	t.Helper()
	file, err := OpenFile(filepath.Join(t.TempDir(), "state"), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if err := file.Init([]byte("{}"), New("test")); err != nil {
		t.Fatal(err)
	}
	return &Keeper{file, NewQueue(file)}
}

func TestSyncsThatWaitForAWriteShareTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newKeeper(t).Queue
		commit := func() { q.Append([]sim.RecordChange{{Table: "test.rows", Key: "k", After: "row"}}) }
		commit()
		q.mu.Lock()
		rows, head := q.take() // a write is under way
		q.mu.Unlock()
		var waiting sync.WaitGroup
		returned := 0
		for range 50 {
			waiting.Go(func() {
				commit()
				err := q.Sync()
				q.mu.Lock()
				defer q.mu.Unlock()
				if returned++; err != nil || q.tried != 51 {
					t.Errorf("error %v after a write of %d commits, want 51", err, q.tried)
				}
			})
		}
		synctest.Wait()
		q.mu.Lock()
		if returned > 0 {
			t.Errorf("%d returned by a write that began before their commits", returned)
		}
		q.end(rows, head, nil)
		q.mu.Unlock()
		waiting.Wait()
	})
}

// A write that nothing waits for ends before Close returns.
func TestCloseWaitsForAWriteThatHasBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(nil)
		_, _ = q.take() // as the timer does
		closed := make(chan error, 1)
		go func() { closed <- q.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("closed with %v while a write goes on", err)
		default:
		}
		q.mu.Lock()
		q.end(nil, 0, nil)
		q.mu.Unlock()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// The file gets commits that belong together at once, however long they take.
func TestCommitsThatBelongTogetherAreWrittenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t)
		commit := func(key string) {
			k.Queue.Append([]sim.RecordChange{{Table: "test.rows", Key: key, After: struct{}{}}})
		}
		written := func() int {
			_, records, err := k.File.Read()
			if err != nil {
				t.Fatal(err)
			}
			return len(records)
		}
		var synced sync.WaitGroup
		k.Together(func() {
			commit("a")
			synced.Go(func() {
				if err := k.Sync(); err != nil || written() != 2 {
					t.Errorf("Sync: %v, %d rows are written", err, written())
				}
			})
			time.Sleep(time.Minute) // also the timer's write waits
			if n := written(); n != 0 {
				t.Errorf("%d rows are written before the last is committed", n)
			}
			commit("b")
		})
		synced.Wait()
	})
}
