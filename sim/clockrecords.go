package sim

import (
	"encoding/json"
	"iter"
	"time"
)

// clockTable is the table of a ManualClock's one record, clockKey its key.
const (
	clockTable = "sim.clock"
	clockKey   = "now"
)

type clockRow struct {
	Now time.Time `json:"now"`
}

var _ Recorded = (*ManualClock)(nil)

// Records implements [Recorded].
func (c *ManualClock) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		row, err := json.Marshal(clockRow{c.Now().UTC()})
		yield(Record{clockTable, clockKey, row}, err)
	}
}

// Prepare implements [Recorded]. Callers in Wait still wait for as long as before. Without
// a record the time stays what it is.
func (c *ManualClock) Prepare(records []Record) (commit func(), err error) {
	var row clockRow
	for i, r := range records {
		if i > 0 || r.Table != clockTable || r.Key != clockKey {
			return nil, r.Errorf("a clock has one record, %s %s", clockTable, clockKey)
		}
		if err := r.Decode(&row); err != nil {
			return nil, err
		}
		if err := checkManual(row.Now); err != nil {
			return nil, r.Errorf("%w", err)
		}
	}
	return func() {
		if len(records) == 0 {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.jump(row.Now)
	}, nil
}

// OnCommit implements [Recorded].
func (c *ManualClock) OnCommit(listener func([]RecordChange)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, listener)
}

// setNow is called under the lock.
func (c *ManualClock) setNow(now time.Time) {
	change := RecordChange{Table: clockTable, Key: clockKey, Before: clockRow{c.now.UTC()}, After: clockRow{now.UTC()}}
	c.now = now
	for _, listener := range c.listeners {
		listener([]RecordChange{change})
	}
}
