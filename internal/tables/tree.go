package tables

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/tidwall/btree"
)

// key is a primary key: a number or a name.
type key struct {
	num  int64
	name string
}

// digest represents a value in an index. It has no pointer, which saves the garbage collector
// work for each entry of each index. Two values never have the same digest.
type digest struct{ high, low uint64 }

// digestOf is the digest of a value; the digest of an empty value is zero.
func digestOf(value string) digest {
	if value == "" {
		return digest{}
	}
	var room [64]byte // a conversion of more than 32 bytes would allocate
	sum := sha256.Sum256(append(room[:0], value...))
	return digest{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

func (d digest) before(other digest) bool {
	return d.high < other.high || d.high == other.high && d.low < other.low
}

// entry is an entry of a tree: a row of a table, or a value of an index.
type entry struct {
	value digest
	key   key
	row   any
}

// tree is the entries of a table or an index.
type tree interface {
	copy() tree // copies on write; nil for a hashed one
	empty() tree
	len() int
	get(entry) (entry, bool)
	set(entry) (replaced entry, ok bool)
	delete(entry)
}

// orderedTree is a tree with an order.
type orderedTree interface {
	tree
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
		value digest
		num   int64
	}
	namedValue struct {
		value digest
		name  string
	}
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

// newValues returns the tree of an index. In a unique one a value determines the entry.
func newValues(numbered, unique bool) tree {
	if numbered {
		return newPacked(func(e entry) numberedValue { return numberedValue{e.value, e.key.num} },
			func(v numberedValue) entry { return entry{value: v.value, key: key{num: v.num}} },
			func(a, b numberedValue) bool {
				return a.value.before(b.value) || !unique && a.value == b.value && a.num < b.num
			})
	}
	return newPacked(func(e entry) namedValue { return namedValue{e.value, e.key.name} },
		func(v namedValue) entry { return entry{value: v.value, key: key{name: v.name}} },
		func(a, b namedValue) bool {
			return a.value.before(b.value) || !unique && a.value == b.value && a.name < b.name
		})
}

// hashed is a unique index of rows with numbers. A look at a map touches a third of the memory that a
// way through the nodes of a tree does, which is most of its cost where there are millions of rows.
type hashed map[digest]int64

func (hashed) copy() tree       { return nil }
func (hashed) empty() tree      { return hashed{} }
func (h hashed) len() int       { return len(h) }
func (h hashed) delete(e entry) { delete(h, e.value) }

func (h hashed) set(e entry) (entry, bool) {
	replaced, ok := h.get(e)
	h[e.value] = e.key.num
	return replaced, ok
}

func (h hashed) get(e entry) (entry, bool) {
	num, ok := h[e.value]
	return entry{value: e.value, key: key{num: num}}, ok
}

// ascend calls yield with the entries of a tree from a pivot on, in order, until it returns
// false. If the tree is written to during the call, it continues after the last entry.
func ascend(tx *Tx, at int, pivot entry, yield func(entry) bool) {
	w := &walk{tx: tx, tree: tx.trees[at].(orderedTree), pivot: pivot, yield: yield}
	for again := true; again; again = w.outdated {
		w.version, w.outdated = tx.version, false
		w.tree.ascend(w.pivot, w.visit)
	}
}

// walk is an iteration over a tree.
type walk struct {
	tx       *Tx
	tree     orderedTree
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
