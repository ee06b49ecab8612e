package tables

import (
	"testing"
	"time"
)

// However much is written while a clock stands, two views are kept: that of before, and the last one.
func TestViewsOfAClockThatStands(t *testing.T) {
	db, now := New("test"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db.KeepPast(time.Second, func() time.Time { return now })
	for range 1000 {
		db.Update(nil, func(*Tx) {})
	}
	if n := len(db.past.views); n != 2 {
		t.Errorf("%d views are kept, want 2", n)
	}
}
