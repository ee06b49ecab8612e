package ordered_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/internal/ordered"
)

func TestAheadYieldsInOrder(t *testing.T) {
	for _, processors := range []int{1, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		for n := range 30 {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int64
				want := 0
				for i, square := range ordered.Ahead(n, func(i int) int {
					now := running.Add(1)
					defer running.Add(-1)
					most.Store(max(most.Load(), now))
					time.Sleep(time.Duration(n-i) * time.Second) // the last ends first
					return i * i
				}) {
					if i != want || square != i*i {
						t.Errorf("%d of %d: got %d, %d", want, n, i, square)
					}
					want++
				}
				if want != n || int(most.Load()) > processors || n >= processors && int(most.Load()) < processors {
					t.Errorf("%d results of %d, with %d calls at once on %d processors", want, n, most.Load(), processors)
				}
			})
		}
	}
}

func TestAheadEndsItsWork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for last := range 20 {
		synctest.Test(t, func(t *testing.T) {
			var began, ended atomic.Int64
			for i := range ordered.Ahead(1000, func(int) int {
				began.Add(1)
				time.Sleep(time.Second)
				return int(ended.Add(1))
			}) {
				if i == last {
					break
				}
			}
			if began.Load() != ended.Load() || began.Load() > int64(last)+20 {
				t.Errorf("after %d: %d calls began, %d ended", last, began.Load(), ended.Load())
			}
		})
	}
}

func TestQueue(t *testing.T) {
	for _, processors := range []int{1, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		synctest.Test(t, func(t *testing.T) {
			var got []int
			q := ordered.NewQueue()
			began := time.Now()
			for i := range 30 {
				q.Do(func() {
					time.Sleep(time.Second)
					got = append(got, i) // a race if two calls run at once
				})
				if i == 20 {
					q.Wait()
					if len(got) != i+1 {
						t.Errorf("on %d processors: %d calls have returned after Wait, want %d", processors, len(got), i+1)
					}
				}
				time.Sleep(time.Second) // the next call runs during the sleep
			}
			q.Close()
			if len(got) != 30 || !slices.IsSorted(got) {
				t.Errorf("on %d processors: calls returned in the order %d", processors, got)
			}
			if took := time.Since(began); (took < time.Minute) != (processors > 1) {
				t.Errorf("on %d processors: it took %s", processors, took)
			}
		})
	}
}
