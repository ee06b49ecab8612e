package tables

import (
	"slices"
	"time"
)

// past are the views of a DB that another reader may still see.
type past struct {
	lag   time.Duration // 0: none are kept
	now   func() time.Time
	views []pastView // oldest first
}

type pastView struct {
	since time.Time
	tx    *Tx
}

// KeepPast makes ViewPast show the rows as they were a time ago on a clock. It is called
// once, before the first transaction.
func (db *DB) KeepPast(lag time.Duration, now func() time.Time) {
	db.past = past{lag: lag, now: now}
	for _, t := range db.tables {
		for _, x := range t.indexes {
			db.live.trees[x.tree] = newValues(t.numbered, x.unique) // which can be copied
		}
	}
	db.forgetPast()
}

// forgetPast makes the present view the only one. The mutex is held.
func (db *DB) forgetPast() {
	if db.past.lag > 0 {
		db.past.views = []pastView{{db.past.now(), db.snapshot()}}
	}
}

// ViewPast is View with the rows as they were a time ago, if KeepPast was called.
func (db *DB) ViewPast(read func(tx *Tx)) {
	if db.past.lag == 0 {
		db.View(read)
		return
	}
	db.mu.Lock()
	db.past.trim()
	tx := db.past.views[0].tx
	db.mu.Unlock()
	read(tx)
}

// keep adds the present view. The mutex is held.
func (db *DB) keep() {
	if db.past.lag == 0 {
		return
	}
	db.past.trim()
	p, view := &db.past, pastView{db.past.now(), db.snapshot()}
	if last := len(p.views) - 1; last > 0 && p.views[last].since.Equal(view.since) { // it would never be visible
		p.views[last] = view
		return
	}
	p.views = append(p.views, view)
}

// trim drops the views that are no longer visible.
func (p *past) trim() {
	now := p.now()
	for i := len(p.views) - 1; i >= 0 && p.views[i].since.After(now); i-- { // the clock was set back
		p.views[i].since = now
	}
	seen := now.Add(-p.lag)
	first := slices.IndexFunc(p.views, func(v pastView) bool { return v.since.After(seen) })
	if first < 0 {
		first = len(p.views)
	}
	p.views = slices.Delete(p.views, 0, max(first-1, 0)) // the last of the old ones is what is seen
}
