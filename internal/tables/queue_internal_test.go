package tables

import (
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/sim"
)

func TestSyncsThatWaitForAWriteShareTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, err := OpenFile(filepath.Join(t.TempDir(), "state"), false)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := file.Init([]byte("{}"), New("test")); err != nil {
			t.Fatal(err)
		}
		q := NewQueue(file)
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
