package tables

import (
	"encoding/json"
	"iter"
	"reflect"

	"github.com/gocyborg/gocyborg/sim"
)

// Errorf returns an error about a row that matches [sim.ErrRecords] and names table and key. It
// is for checks.
func (t *Table[K, R]) Errorf(key K, format string, args ...any) error {
	return sim.Record{Table: t.title, Key: keyText(key)}.Errorf(format, args...)
}

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

func (t *Table[K, R]) records(tx *Tx, yield func(sim.Record, error) bool) bool {
	more := true
	t.rows(tx).Scan(func(e entry[K, R]) bool {
		row, err := json.Marshal(e.row)
		if err != nil {
			yield(sim.Record{}, t.Errorf(e.key, "%w", err))
			more = false
		} else {
			more = yield(sim.Record{Table: t.title, Key: keyText(e.key), Row: row}, nil)
		}
		return more
	})
	return more
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

func (t *Table[K, R]) load(tx *Tx, r sim.Record) error {
	row := new(R)
	if err := r.Decode(row); err != nil {
		return err
	}
	key := t.spec.Key(*row)
	if text := keyText(key); text != r.Key {
		return r.Errorf("the row's key is %s", text)
	}
	if n, isNumber := any(key).(int64); isNumber && (n < 0 || n > 9_999_999_999) {
		return t.Errorf(key, "the number is out of range")
	}
	if _, exists := t.Get(tx, key); exists {
		return t.Errorf(key, "there are two rows")
	}
	if t.spec.Check != nil {
		if err := t.spec.Check(*row); err != nil {
			return t.Errorf(key, "%w", err)
		}
	}
	if err := t.unique(tx, key, row); err != nil {
		return err
	}
	t.set(tx, key, nil, row)
	return nil
}

func (t *Table[K, R]) replaced(from, to *Tx) (changes []sim.RecordChange) {
	t.rows(from).Scan(func(e entry[K, R]) bool {
		if _, stays := t.rows(to).Get(e); !stays {
			changes = append(changes, t.change(e.row, nil))
		}
		return true
	})
	t.rows(to).Scan(func(e entry[K, R]) bool {
		old, existed := t.rows(from).Get(e)
		switch {
		case !existed:
			changes = append(changes, t.change(nil, e.row))
		case !reflect.DeepEqual(old.row, e.row):
			changes = append(changes, t.change(old.row, e.row))
		}
		return true
	})
	return changes
}
