package tables

import (
	"iter"
	"reflect"

	"github.com/gocyborg/gocyborg/sim"
)

// Check adds a condition that the rows of [DB.Replace] have to meet. Its error should be
// one of [Table.Errorf].
func (db *DB) Check(check func(tx *Tx) error) { db.checks = append(db.checks, check) }

// Records implements [sim.Recorded].
func (db *DB) Records() iter.Seq2[sim.Record, error] {
	return func(yield func(sim.Record, error) bool) {
		tx := db.Snapshot()
		for _, t := range db.tables {
			if !t.records(tx, yield) {
				return
			}
		}
	}
}

// Replace implements [sim.Recorded]. The error matches [sim.ErrRecords]: for a record whose
// table is unknown, whose row has unknown or repeated members or another key, for two
// records with the same key or unique value, and for rows that a check refuses.
func (db *DB) Replace(records []sim.Record) error {
	tx := &Tx{trees: make([]tree, len(db.live.trees))}
	for i, t := range db.live.trees {
		tx.trees[i] = t.empty()
	}
	for _, r := range records {
		i, ok := db.find(r.Table)
		if !ok {
			return r.Errorf("there is no such table")
		}
		if err := db.tables[i].load(tx, r); err != nil {
			return err
		}
	}
	for _, check := range db.checks {
		if err := check(tx); err != nil {
			return err
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.publish(nil, func() (changes []sim.RecordChange) {
		for _, t := range db.tables {
			changes = append(changes, t.replaced(&db.live, tx)...)
		}
		return changes
	})
	db.live.trees = tx.trees
	return nil
}

// load adds the row of a record.
func (r *rows) load(tx *Tx, record sim.Record) error {
	row, err := r.decode(record)
	if err != nil {
		return err
	}
	k := r.key(row)
	if text := r.text(k); text != record.Key {
		return record.Errorf("the row's key is %s", text)
	}
	if k.num < 0 || k.num > 9_999_999_999 {
		return record.Errorf("the number is out of range")
	}
	if _, exists := r.get(tx, k); exists {
		return record.Errorf("there are two rows")
	}
	if err := r.check(row); err != nil {
		return record.Errorf("%w", err)
	}
	return r.set(tx, k, nil, row)
}

// replaced returns the changes that lead from one transaction's rows to another's.
func (r *rows) replaced(from, to *Tx) (changes []sim.RecordChange) {
	r.from(from, key{}, func(row any) bool {
		if _, stays := r.get(to, r.key(row)); !stays {
			changes = append(changes, r.change(row, nil))
		}
		return true
	})
	r.from(to, key{}, func(row any) bool {
		old, _ := r.get(from, r.key(row))
		if !reflect.DeepEqual(old, row) {
			changes = append(changes, r.change(old, row))
		}
		return true
	})
	return changes
}
