package tables_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

func TestDecodedYieldsInOrderUpToTheFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, n := range []int{0, 1, 255, 256, 257, 3000} {
		records := make([]sim.Record, n)
		for i := range records {
			records[i].Key = strconv.Itoa(i)
		}
		for _, bad := range []int{-1, 0, 255, 256, 2999} {
			synctest.Test(t, func(t *testing.T) {
				next := 0
				for row, err := range tables.Decoded(records, func(r sim.Record) (int, error) {
					i, err := strconv.Atoi(r.Key)
					if i%256 == 0 {
						time.Sleep(time.Duration(n-i) * time.Second) // later pieces are done first
					}
					if i == bad {
						err = broken
					}
					return i, err
				}) {
					if errors.Is(err, broken) != (next == bad) || err == nil && row != next {
						t.Fatalf("row %d of %d: %d, %v", next, n, row, err)
					}
					next++
				}
				want := n
				if bad >= 0 && bad < n {
					want = bad + 1
				}
				if next != want {
					t.Errorf("%d rows of %d with an error at %d, want %d", next, n, bad, want)
				}
			})
		}
	}
}

func TestDecodedEndsWithItsReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which waits for every goroutine
		calls := 0
		for range tables.Decoded(make([]sim.Record, 100_000), func(sim.Record) (int, error) { return 0, nil }) {
			if calls++; calls == 300 {
				break
			}
		}
	})
}
