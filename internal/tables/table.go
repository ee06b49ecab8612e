package tables

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/gocyborg/gocyborg/sim"
)

// Key is the type of a primary key: a number in the order of creation, from 0 to
// 9,999,999,999, or a name.
type Key interface{ int64 | string }

// Spec declares a table.
type Spec[K Key, R any] struct {
	// Name is unique in the service.
	Name string
	// Key is the primary key of a row.
	Key func(R) K
	// Kind, ID, Label and Hidden describe a row's change, see [sim.RecordChange]. Without
	// ID, the primary key is used.
	Kind   string
	ID     func(R) string
	Label  func(R) string
	Hidden []string
	// Check refuses a row of [DB.Prepare] for what is in it.
	Check func(R) error
}

// Table is the rows of one type.
type Table[K Key, R any] struct{ rows *rows }

// Add adds a table to a DB.
func Add[K Key, R any](db *DB, spec Spec[K, R]) *Table[K, R] {
	var zero K
	_, numbered := any(zero).(int64)
	r := &rows{
		db: db, name: spec.Name, title: db.service + "." + spec.Name, numbered: numbered, kind: spec.Kind, hidden: spec.Hidden,
		key:    func(row any) key { return keyOf(spec.Key(*row.(*R))) },
		id:     textOf(spec.ID),
		label:  textOf(spec.Label),
		check:  func(any) error { return nil },
		decode: func(r sim.Record) (any, error) { row := new(R); return row, r.Decode(row) },
	}
	if spec.Check != nil {
		r.check = func(row any) error { return spec.Check(*row.(*R)) }
	}
	r.tree = db.addTree(newRows(numbered))
	db.addTable(r)
	return &Table[K, R]{r}
}

func keyOf[K Key](k K) key {
	if n, ok := any(k).(int64); ok {
		return key{num: n}
	}
	name, _ := any(k).(string)
	return key{name: name}
}

// textOf makes a function of rows of any type; nil stays nil.
func textOf[R any](text func(R) string) func(any) string {
	if text == nil {
		return nil
	}
	return func(row any) string { return text(*row.(*R)) }
}

// Get returns the row with a key.
func (t *Table[K, R]) Get(tx *Tx, key K) (row R, ok bool) {
	if found, ok := t.rows.get(tx, keyOf(key)); ok {
		return *found.(*R), true
	}
	return row, false
}

// Len is the number of rows.
func (t *Table[K, R]) Len(tx *Tx) int { return t.rows.len(tx) }

// All iterates over the rows in the order of their keys. Like every iteration it allows writes to
// the tables: later rows are visited in their state at that time.
func (t *Table[K, R]) All(tx *Tx) iter.Seq[R] {
	return func(yield func(R) bool) {
		t.rows.from(tx, key{}, func(row any) bool { return yield(*row.(*R)) })
	}
}

// Put writes a row, in place of the one with its key. It panics if another row has the same
// value in a unique index: the caller looks for it before.
func (t *Table[K, R]) Put(tx *Tx, row R) { t.rows.put(tx, &row) }

// Delete removes the row with a key, if there is one.
func (t *Table[K, R]) Delete(tx *Tx, key K) { t.rows.remove(tx, keyOf(key)) }

// Errorf returns an error about a row that matches [sim.ErrRecords] and names table and key. It
// is for checks.
func (t *Table[K, R]) Errorf(key K, format string, args ...any) error {
	return t.rows.errorf(keyOf(key), format, args...)
}

// rows is a table without the type of its rows, which are pointers.
type rows struct {
	db          *DB
	name, title string // NAME and SERVICE.NAME
	numbered    bool
	tree        int // its position
	indexes     []*index
	kind        string
	hidden      []string
	key         func(row any) key
	id, label   func(row any) string // may be nil
	check       func(row any) error
	decode      func(sim.Record) (row any, err error)
}

// text is the key of a record.
func (r *rows) text(k key) string {
	if r.numbered {
		return fmt.Sprintf("%010d", k.num)
	}
	return k.name
}

func (r *rows) errorf(k key, format string, args ...any) error {
	return sim.Record{Table: r.title, Key: r.text(k)}.Errorf(format, args...)
}

func (r *rows) get(tx *Tx, k key) (row any, ok bool) {
	e, ok := tx.trees[r.tree].get(entry{key: k})
	return e.row, ok
}

func (r *rows) len(tx *Tx) int { return tx.trees[r.tree].len() }

func (r *rows) from(tx *Tx, k key, yield func(row any) bool) {
	ascend(tx, r.tree, entry{key: k}, func(e entry) bool { return yield(e.row) })
}

func (r *rows) put(tx *Tx, row any) {
	k := r.key(row)
	old, _ := r.get(tx, k)
	tx.mayWrite(r)
	if err := r.set(tx, k, old, row); err != nil {
		panic(err)
	}
	tx.add(r, old, row)
}

func (r *rows) remove(tx *Tx, k key) {
	if old, ok := r.get(tx, k); ok {
		tx.mayWrite(r)
		_ = r.set(tx, k, old, nil) // no error without a row
		tx.add(r, old, nil)
	}
}

// set replaces one row by another in the table and its indexes. Either may be nil. Nothing is
// replaced if another row has the same value in a unique index, which is the error.
func (r *rows) set(tx *Tx, k key, before, after any) error {
	for i, x := range r.indexes {
		other := x.set(tx, k, before, after)
		if other == nil {
			continue
		}
		for _, done := range r.indexes[:i] {
			done.set(tx, k, after, before)
		}
		return r.errorf(k, "row %s has the same %q", r.text(other.by), other.value)
	}
	if after == nil {
		tx.trees[r.tree].delete(entry{key: k})
	} else {
		tx.trees[r.tree].set(entry{key: k, row: after})
	}
	return nil
}

// restore undoes a write.
func (r *rows) restore(tx *Tx, before, after any) {
	row := before
	if row == nil {
		row = after
	}
	_ = r.set(tx, r.key(row), after, before) // its values were there before
}

func (r *rows) change(before, after any) sim.RecordChange {
	row := after
	if row == nil {
		row = before
	}
	c := sim.RecordChange{Table: r.title, Key: r.text(r.key(row)), Before: before, After: after, Kind: r.kind, Hidden: r.hidden}
	c.ID = c.Key
	if r.id != nil {
		c.ID = r.id(row)
	}
	if r.label != nil {
		c.Label = r.label(row)
	}
	return c
}

// records calls yield with each row and reports whether it always returned true.
func (r *rows) records(tx *Tx, yield func(sim.Record, error) bool) bool {
	more := true
	r.from(tx, key{}, func(row any) bool {
		data, err := json.Marshal(row)
		if err != nil {
			yield(sim.Record{}, r.errorf(r.key(row), "%w", err))
			more = false
		} else {
			more = yield(sim.Record{Table: r.title, Key: r.text(r.key(row)), Row: data}, nil)
		}
		return more
	})
	return more
}
