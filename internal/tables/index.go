package tables

import "iter"

// index finds rows by a value of theirs. Rows with an empty value are not in it.
type index struct {
	rows   *rows
	tree   int
	unique bool
	value  func(row any) string
	key    func(value string) string // nil: values are compared byte by byte
}

func (r *rows) addIndex(unique bool, value func(row any) string) *index {
	t := newValues(r.numbered, unique)
	if unique && r.numbered {
		t = hashed{}
	}
	x := &index{rows: r, tree: r.db.addTree(t), unique: unique, value: value}
	r.indexes = append(r.indexes, x)
	return x
}

// keyOf is the key of a value.
func (x *index) keyOf(value string) string {
	if x.key == nil {
		return value
	}
	return x.key(value)
}

// taken is a value of a unique index that another row has.
type taken struct {
	value string
	by    key
}

// set replaces one row by another with the same key. Either may be nil. Nothing is replaced if another
// row has the value in a unique index, which is returned.
func (x *index) set(tx *Tx, k key, before, after any) *taken {
	var from, to string
	if before != nil {
		from = x.keyOf(x.value(before))
	}
	if after != nil {
		to = x.keyOf(x.value(after))
	}
	if from == to {
		return nil
	}
	t := tx.trees[x.tree]
	if to != "" {
		if other, replaced := t.set(entry{value: digestOf(to), key: k}); replaced && other.key != k {
			t.set(other)
			return &taken{x.value(after), other.key}
		}
	}
	if from != "" {
		t.delete(entry{value: digestOf(from), key: k})
	}
	return nil
}

// get returns the row with a value of a unique index.
func (x *index) get(tx *Tx, value string) (row any, ok bool) {
	value = x.keyOf(value)
	e, ok := tx.trees[x.tree].get(entry{value: digestOf(value)})
	if !ok || value == "" {
		return nil, false
	}
	return x.rows.get(tx, e.key)
}

func (x *index) all(tx *Tx, value string, yield func(row any) bool) {
	of := digestOf(x.keyOf(value))
	ascend(tx, x.tree, entry{value: of}, func(e entry) bool {
		if e.value != of {
			return false
		}
		row, _ := x.rows.get(tx, e.key)
		return yield(row)
	})
}

// Unique is an index in which no two rows have the same value.
type Unique[K Key, R any] struct{ index *index }

// Unique adds an index of values that no two rows share, except that any number may have
// the empty one, which is not indexed.
func (t *Table[K, R]) Unique(value func(R) string) Unique[K, R] {
	return Unique[K, R]{t.rows.addIndex(true, textOf(value))}
}

// Collate makes the index compare values by their keys. It is called before there are rows.
func (x Unique[K, R]) Collate(key func(value string) string) Unique[K, R] {
	x.index.key = key
	return x
}

// Get returns the row with a value.
func (x Unique[K, R]) Get(tx *Tx, value string) (row R, ok bool) {
	if found, ok := x.index.get(tx, value); ok {
		return *found.(*R), true
	}
	return row, false
}

// Index is an index in which any number of rows have the same value.
type Index[K Key, R any] struct{ index *index }

// Index adds an index of values. The empty value is not indexed.
func (t *Table[K, R]) Index(value func(R) string) Index[K, R] {
	return Index[K, R]{t.rows.addIndex(false, textOf(value))}
}

// Collate makes the index compare values by their keys. It is called before there are rows.
func (x Index[K, R]) Collate(key func(value string) string) Index[K, R] {
	x.index.key = key
	return x
}

// All iterates over the rows with a value, in the order of their keys.
func (x Index[K, R]) All(tx *Tx, value string) iter.Seq[R] {
	return func(yield func(R) bool) {
		x.index.all(tx, value, func(row any) bool { return yield(*row.(*R)) })
	}
}

// Len is the number of rows in the index, with any value.
func (x Index[K, R]) Len(tx *Tx) int { return tx.trees[x.index.tree].len() }

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
	addReference(from.rows, field, textOf(ref), to.index)
}

func addReference(from *rows, field string, ref func(row any) string, to *index) {
	from.db.Check(func(tx *Tx) (err error) {
		from.from(tx, key{}, func(row any) bool {
			value := ref(row)
			if _, ok := to.get(tx, value); !ok && value != "" {
				err = from.errorf(from.key(row), "%s: there is no %s %s", field, to.rows.title, value)
			}
			return err == nil
		})
		return err
	})
}
