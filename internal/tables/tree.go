package tables

import (
	"encoding/binary"
	"strings"

	"github.com/tidwall/btree"
)

// key is a primary key: a number or a name.
type key struct {
	num  int64
	name string
}

// entry is an entry of a tree: a row of a table, or a value of an index.
type entry struct {
	value string
	key   key
	row   any
}

// tree is a copy-on-write tree of entries.
type tree interface {
	copy() tree
	empty() tree
	len() int
	get(entry) (entry, bool)
	set(entry) (replaced entry, ok bool)
	delete(entry)
	before(a, b entry) bool
	ascend(pivot entry, yield func(entry) bool)
}

// packed is a tree whose entries take no more room than they need. The rows of all types share
// four kinds of it, so that a table costs its users little to compile.
type packed[E any] struct {
	btree.BTreeG[E]
	less   func(a, b E) bool
	pack   func(entry) E
	unpack func(E) entry
}

func newPacked[E any](pack func(entry) E, unpack func(E) entry, less func(a, b E) bool) tree {
	return &packed[E]{*btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}), less, pack, unpack}
}

func (t *packed[E]) copy() tree             { return &packed[E]{*t.Copy(), t.less, t.pack, t.unpack} }
func (t *packed[E]) empty() tree            { return newPacked(t.pack, t.unpack, t.less) }
func (t *packed[E]) len() int               { return t.Len() }
func (t *packed[E]) delete(e entry)         { t.Delete(t.pack(e)) }
func (t *packed[E]) before(a, b entry) bool { return t.less(t.pack(a), t.pack(b)) }

func (t *packed[E]) set(e entry) (entry, bool) {
	replaced, ok := t.Set(t.pack(e))
	if !ok {
		return entry{}, false
	}
	return t.unpack(replaced), true
}

func (t *packed[E]) get(e entry) (entry, bool) {
	found, ok := t.Get(t.pack(e))
	if !ok {
		return entry{}, false
	}
	return t.unpack(found), true
}

func (t *packed[E]) ascend(pivot entry, yield func(entry) bool) {
	t.Ascend(t.pack(pivot), func(e E) bool { return yield(t.unpack(e)) })
}

type (
	numberedRow struct {
		num int64
		row any
	}
	namedRow struct {
		name string
		row  any
	}
	numberedValue struct {
		prefix uint64 // of the value: most comparisons end with it, and need not look at the text
		value  string
		num    int64
	}
	namedValue struct{ value, name string }
)

// newRows returns the tree of a table.
func newRows(numbered bool) tree {
	if numbered {
		return newPacked(func(e entry) numberedRow { return numberedRow{e.key.num, e.row} },
			func(r numberedRow) entry { return entry{key: key{num: r.num}, row: r.row} },
			func(a, b numberedRow) bool { return a.num < b.num })
	}
	return newPacked(func(e entry) namedRow { return namedRow{e.key.name, e.row} },
		func(r namedRow) entry { return entry{key: key{name: r.name}, row: r.row} },
		func(a, b namedRow) bool { return a.name < b.name })
}

// prefixOf is the beginning of a text as a number, in the order of the texts.
func prefixOf(text string) uint64 {
	var first [8]byte
	copy(first[:], text)
	return binary.BigEndian.Uint64(first[:])
}

// newValues returns the tree of an index. In a unique one a value determines the entry.
func newValues(numbered, unique bool) tree {
	if numbered {
		return newPacked(func(e entry) numberedValue { return numberedValue{prefixOf(e.value), e.value, e.key.num} },
			func(v numberedValue) entry { return entry{value: v.value, key: key{num: v.num}} },
			func(a, b numberedValue) bool {
				if a.prefix != b.prefix {
					return a.prefix < b.prefix
				}
				order := strings.Compare(a.value, b.value)
				return order < 0 || !unique && order == 0 && a.num < b.num
			})
	}
	return newPacked(func(e entry) namedValue { return namedValue{e.value, e.key.name} },
		func(v namedValue) entry { return entry{value: v.value, key: key{name: v.name}} },
		func(a, b namedValue) bool {
			order := strings.Compare(a.value, b.value)
			return order < 0 || !unique && order == 0 && a.name < b.name
		})
}

// ascend calls yield with the entries of a tree from a pivot on, in order, until it returns
// false. It goes on behind the last entry where the tree was written to meanwhile.
func ascend(tx *Tx, at int, pivot entry, yield func(entry) bool) {
	w := &walk{tx: tx, tree: tx.trees[at], pivot: pivot, yield: yield}
	for again := true; again; again = w.outdated {
		w.version, w.outdated = tx.version, false
		w.tree.ascend(w.pivot, w.visit)
	}
}

// walk is an iteration over a tree.
type walk struct {
	tx       *Tx
	tree     tree
	yield    func(entry) bool
	pivot    entry // the last one that was visited, or where to begin
	visited  bool
	version  int
	outdated bool // the tree was written to
}

func (w *walk) visit(e entry) bool {
	if w.visited && !w.tree.before(w.pivot, e) {
		return true
	}
	w.pivot, w.visited = e, true
	if !w.yield(e) {
		return false
	}
	w.outdated = w.tx.version != w.version
	return !w.outdated
}
