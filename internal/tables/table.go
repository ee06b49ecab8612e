package tables

import (
	"fmt"
	"iter"

	"github.com/tidwall/btree"

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
	// Check refuses a row of [DB.Replace] for what is in it.
	Check func(R) error
}

// Table is the rows of one type.
type Table[K Key, R any] struct {
	spec    Spec[K, R]
	db      *DB
	title   string // SERVICE.NAME
	tree    int    // its position
	indexes []*index[K, R]
}

// entry is an entry of a table's tree.
type entry[K Key, R any] struct {
	key K
	row *R
}

// cow is a tree with entries of type E.
type cow[E any] struct {
	btree.BTreeG[E]
	less func(a, b E) bool
}

func newTree[E any](less func(a, b E) bool) *cow[E] {
	return &cow[E]{*btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}), less}
}

func (t *cow[E]) copy() tree  { return &cow[E]{*t.Copy(), t.less} }
func (t *cow[E]) empty() tree { return newTree(t.less) }

// ascend calls yield with the entries from a pivot on, in order, until it returns false. It
// goes on behind the last entry where the tree was written to meanwhile.
func ascend[E any](tx *Tx, at int, pivot E, yield func(E) bool) {
	t := tx.trees[at].(*cow[E])
	for visited, again := false, true; again; {
		again = false
		version := tx.version
		t.Ascend(pivot, func(e E) bool {
			if visited && !t.less(pivot, e) {
				return true
			}
			pivot, visited = e, true
			if !yield(e) {
				return false
			}
			again = tx.version != version
			return !again
		})
	}
}

// Add adds a table to a DB.
func Add[K Key, R any](db *DB, spec Spec[K, R]) *Table[K, R] {
	t := &Table[K, R]{spec: spec, db: db, title: db.service + "." + spec.Name}
	t.tree = db.addTree(newTree(func(a, b entry[K, R]) bool { return a.key < b.key }))
	db.addTable(t)
	return t
}

func (t *Table[K, R]) name() string { return t.title }

func (t *Table[K, R]) rows(tx *Tx) *cow[entry[K, R]] { return tx.trees[t.tree].(*cow[entry[K, R]]) }

// keyText is the key of a record.
func keyText[K Key](key K) string {
	if n, ok := any(key).(int64); ok {
		return fmt.Sprintf("%010d", n)
	}
	return fmt.Sprint(key)
}

// Get returns the row with a key.
func (t *Table[K, R]) Get(tx *Tx, key K) (row R, ok bool) {
	e, ok := t.rows(tx).Get(entry[K, R]{key: key})
	if ok {
		row = *e.row
	}
	return row, ok
}

// Len is the number of rows.
func (t *Table[K, R]) Len(tx *Tx) int { return t.rows(tx).Len() }

// All iterates over the rows in the order of their keys. Like every iteration it may write
// to the tables: rows ahead of it are visited as they are when it gets there.
func (t *Table[K, R]) All(tx *Tx) iter.Seq[R] {
	var first K
	return t.From(tx, first)
}

// From iterates over the rows from a key on.
func (t *Table[K, R]) From(tx *Tx, key K) iter.Seq[R] {
	return func(yield func(R) bool) {
		ascend(tx, t.tree, entry[K, R]{key: key}, func(e entry[K, R]) bool { return yield(*e.row) })
	}
}

// Put writes a row, in place of the one with its key. It panics if another row has the same
// value in a unique index: the caller looks for it before.
func (t *Table[K, R]) Put(tx *Tx, row R) {
	key := t.spec.Key(row)
	if err := t.unique(tx, key, &row); err != nil {
		panic(err)
	}
	old, existed := t.rows(tx).Get(entry[K, R]{key: key})
	if !existed {
		tx.add(t, nil, &row)
	} else {
		tx.add(t, old.row, &row)
	}
	t.set(tx, key, old.row, &row)
}

// Delete removes the row with a key, if there is one.
func (t *Table[K, R]) Delete(tx *Tx, key K) {
	if old, ok := t.rows(tx).Get(entry[K, R]{key: key}); ok {
		tx.add(t, old.row, nil)
		t.set(tx, key, old.row, nil)
	}
}

// set replaces one row by another in the table and its indexes. Either may be nil.
func (t *Table[K, R]) set(tx *Tx, key K, before, after *R) {
	if after == nil {
		t.rows(tx).Delete(entry[K, R]{key: key})
	} else {
		t.rows(tx).Set(entry[K, R]{key, after})
	}
	for _, x := range t.indexes {
		x.set(tx, key, before, after)
	}
}

// unique refuses a row if another one has the same value in a unique index.
func (t *Table[K, R]) unique(tx *Tx, key K, row *R) error {
	for _, x := range t.indexes {
		if !x.unique {
			continue
		}
		value := x.value(*row)
		if other, ok := x.entries(tx).Get(indexEntry[K]{value: value}); ok && other.key != key {
			return t.Errorf(key, "row %s has the same %q", keyText(other.key), value)
		}
	}
	return nil
}

func (t *Table[K, R]) restore(tx *Tx, before, after any) {
	b, _ := before.(*R)
	a, _ := after.(*R)
	row := b
	if row == nil {
		row = a
	}
	t.set(tx, t.spec.Key(*row), a, b)
}

func (t *Table[K, R]) change(before, after any) sim.RecordChange {
	row, ok := after.(*R)
	if !ok {
		row = before.(*R)
	}
	c := sim.RecordChange{
		Table: t.title, Key: keyText(t.spec.Key(*row)), Before: before, After: after, Kind: t.spec.Kind, Hidden: t.spec.Hidden,
	}
	c.ID = c.Key
	if t.spec.ID != nil {
		c.ID = t.spec.ID(*row)
	}
	if t.spec.Label != nil {
		c.Label = t.spec.Label(*row)
	}
	return c
}
