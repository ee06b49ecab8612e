package tables

import "iter"

// index finds rows by a value of theirs. Rows with an empty value are not in it.
type index[K Key, R any] struct {
	table  *Table[K, R]
	tree   int
	unique bool
	value  func(R) string
}

type indexEntry[K Key] struct {
	value string
	key   K
}

func (t *Table[K, R]) addIndex(unique bool, value func(R) string) *index[K, R] {
	less := func(a, b indexEntry[K]) bool { return a.value < b.value || a.value == b.value && a.key < b.key }
	if unique {
		less = func(a, b indexEntry[K]) bool { return a.value < b.value }
	}
	x := &index[K, R]{t, t.db.addTree(newTree(less)), unique, value}
	t.indexes = append(t.indexes, x)
	return x
}

func (x *index[K, R]) entries(tx *Tx) *cow[indexEntry[K]] {
	return tx.trees[x.tree].(*cow[indexEntry[K]])
}

// set replaces one row by another with the same key. Either may be nil.
func (x *index[K, R]) set(tx *Tx, key K, before, after *R) {
	var from, to string
	if before != nil {
		from = x.value(*before)
	}
	if after != nil {
		to = x.value(*after)
	}
	if from == to {
		return
	}
	if from != "" {
		x.entries(tx).Delete(indexEntry[K]{from, key})
	}
	if to != "" {
		x.entries(tx).Set(indexEntry[K]{to, key})
	}
}

// Unique is an index in which no two rows have the same value.
type Unique[K Key, R any] struct{ *index[K, R] }

// Unique adds an index of values that no two rows share, except that any number may have
// the empty one, which is not indexed.
func (t *Table[K, R]) Unique(value func(R) string) Unique[K, R] {
	return Unique[K, R]{t.addIndex(true, value)}
}

// Get returns the row with a value.
func (x Unique[K, R]) Get(tx *Tx, value string) (row R, ok bool) {
	e, ok := x.entries(tx).Get(indexEntry[K]{value: value})
	if !ok || value == "" {
		return row, false
	}
	return x.table.Get(tx, e.key)
}

// Index is an index in which any number of rows have the same value.
type Index[K Key, R any] struct{ *index[K, R] }

// Index adds an index of values. The empty value is not indexed.
func (t *Table[K, R]) Index(value func(R) string) Index[K, R] {
	return Index[K, R]{t.addIndex(false, value)}
}

// All iterates over the rows with a value, in the order of their keys.
func (x Index[K, R]) All(tx *Tx, value string) iter.Seq[R] {
	return func(yield func(R) bool) {
		ascend(tx, x.tree, indexEntry[K]{value: value}, func(e indexEntry[K]) bool {
			if e.value != value {
				return false
			}
			row, _ := x.table.Get(tx, e.key)
			return yield(row)
		})
	}
}

// First returns the row with a value that has the lowest key.
func (x Index[K, R]) First(tx *Tx, value string) (row R, ok bool) {
	for row := range x.All(tx, value) {
		return row, true
	}
	return row, false
}

// References adds the check that each row of a table refers to an existing row: ref is a
// value in the other table's unique index, or empty. The field names it in errors.
func References[K, K2 Key, R, R2 any](from *Table[K, R], field string, ref func(R) string, to Unique[K2, R2]) {
	from.db.Check(func(tx *Tx) error {
		for row := range from.All(tx) {
			value := ref(row)
			if _, ok := to.Get(tx, value); !ok && value != "" {
				return from.Errorf(from.spec.Key(row), "%s: there is no %s %s", field, to.table.title, value)
			}
		}
		return nil
	})
}
