package tables_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

const lag = 5 * time.Second

// lagging is a fixture whose past is kept, with its clock.
func lagging() (fixture, *sim.ManualClock) {
	clock := sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := newFixture()
	f.db.KeepPast(lag, clock.Now)
	return f, clock
}

func (f fixture) add(uuid string) {
	f.db.Update(nil, func(tx *tables.Tx) { f.rows.Put(tx, row{ID: f.ids.Next(tx), UUID: uuid}) })
}

func wantPast(t *testing.T, f fixture, want ...string) {
	t.Helper()
	var got []string
	f.db.ViewPast(func(tx *tables.Tx) {
		for r := range f.rows.All(tx) {
			got = append(got, r.UUID)
		}
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the past (-want +got):\n%s", diff)
	}
}

func advance(t *testing.T, clock *sim.ManualClock, d time.Duration) {
	t.Helper()
	if err := clock.Set(clock.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
}

func TestPast(t *testing.T) {
	f, clock := lagging()
	f.add("a")
	f.add("b")
	wantPast(t, f)
	advance(t, clock, time.Second)
	f.add("c")
	advance(t, clock, lag-time.Second)
	wantPast(t, f, "a", "b")
	advance(t, clock, time.Second)
	wantPast(t, f, "a", "b", "c")
}

// What was there before others took the place of all rows is no past of these.
func TestPastOfReplacedRows(t *testing.T) {
	f, clock := lagging()
	f.add("a")
	before := collect(t, f.db)
	advance(t, clock, time.Minute)
	f.add("b")
	advance(t, clock, time.Minute)
	wantPast(t, f, "a", "b")
	advance(t, clock, -2*time.Minute) // as a state is loaded with its time
	if err := sim.Replace(t.Context(), f.db, before); err != nil {
		t.Fatal(err)
	}
	wantPast(t, f, "a")
	f.add("c")
	wantPast(t, f, "a")
	advance(t, clock, lag)
	wantPast(t, f, "a", "c")
}

// Rows that were written before the clock was set back are not in the future.
func TestPastAfterTheClockIsSetBack(t *testing.T) {
	f, clock := lagging()
	advance(t, clock, time.Minute)
	f.add("a")
	advance(t, clock, -time.Hour)
	f.add("b")
	wantPast(t, f)
	advance(t, clock, lag)
	wantPast(t, f, "a", "b")
}
