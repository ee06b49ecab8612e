package tables

import (
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/sim"
)

// DB is the tables of one service.
type DB struct {
	service   string
	mu        sync.RWMutex
	live      Tx      // of the current trees
	tables    []*rows // ordered by name
	sequences *Table[string, sequenceRow]
	checks    []func(*Tx) error
	listeners []func([]sim.RecordChange)
	past      past
}

var _ sim.Recorded = (*DB)(nil)

// Tx is a transaction, or a view of the rows at one moment. A transaction belongs to one
// goroutine; any number of goroutines may read a view.
type Tx struct {
	trees    []tree // of tables and indexes
	writable bool
	aborted  bool
	version  int // increases with each write
	loads    int // increases with each commit of DB.Prepare
	writes   []write
}

// write is a row before and after it was written.
type write struct {
	table         *rows
	before, after any
}

// New returns a DB without tables. In records the names of its tables begin with the name of the service.
func New(service string) *DB { return &DB{service: service} }

// addTree adds the tree of a table or an index and returns its position.
func (db *DB) addTree(t tree) int {
	db.live.trees = append(db.live.trees, t)
	return len(db.live.trees) - 1
}

func (db *DB) addTable(t *rows) {
	i, exists := db.find(t.title)
	if exists {
		panic("tables: there are two tables " + t.title)
	}
	db.tables = slices.Insert(db.tables, i, t)
}

func (db *DB) find(name string) (int, bool) {
	return slices.BinarySearchFunc(db.tables, name, func(t *rows, name string) int { return strings.Compare(t.title, name) })
}

// View calls read with a view of the current rows, which is valid until read returns.
// Transactions wait during the call.
func (db *DB) View(read func(tx *Tx)) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	read(&db.live)
}

// Snapshot returns a view of the current rows that stays valid. Its cost does not depend on
// the number of rows. Unless the database keeps its past, it has no unique indexes.
func (db *DB) Snapshot() *Tx {
	db.mu.Lock() // copying marks the nodes of the live trees as shared
	defer db.mu.Unlock()
	return db.snapshot()
}

func (db *DB) snapshot() *Tx {
	tx := &Tx{trees: make([]tree, len(db.live.trees))}
	for i, t := range db.live.trees {
		tx.trees[i] = t.copy()
	}
	return tx
}

// Update calls do with a transaction and commits it, unless do panics or calls
// [Tx.Rollback]. That a service refuses the request does not matter. The changes are added
// to the log, which may be nil.
func (db *DB) Update(log *ChangeLog, do func(tx *Tx)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	tx := &db.live
	tx.writable, tx.aborted = true, false
	committed := false
	defer func() { tx.end(committed) }()
	do(tx)
	if !tx.aborted {
		db.publish(log, tx.changes)
		committed = true
		db.keep()
	}
}

// Loads counts how often the rows were replaced by others, see [DB.Prepare].
func (tx *Tx) Loads() int { return tx.loads }

// Version increases with each write and each load.
func (tx *Tx) Version() int { return tx.version + tx.loads }

// Rollback makes Update undo the transaction's writes when it ends.
func (tx *Tx) Rollback() { tx.aborted = true }

func (tx *Tx) end(committed bool) {
	if !committed {
		for _, w := range slices.Backward(tx.writes) {
			w.table.restore(tx, w.before, w.after)
		}
	}
	clear(tx.writes)
	tx.writes, tx.writable = tx.writes[:0], false
}

func (tx *Tx) mayWrite(t *rows) {
	if !tx.writable {
		panic("tables: write to " + t.title + " outside of an Update")
	}
}

func (tx *Tx) add(t *rows, before, after any) {
	tx.version++
	tx.writes = append(tx.writes, write{t, before, after})
}

// changes returns the writes as changes of records, or none if only sequences were written:
// those go with the next change of another row.
func (tx *Tx) changes() []sim.RecordChange {
	isSequence := func(w write) bool { return w.table.db.sequences != nil && w.table == w.table.db.sequences.rows }
	if !slices.ContainsFunc(tx.writes, func(w write) bool { return !isSequence(w) }) {
		return nil
	}
	changes := make([]sim.RecordChange, len(tx.writes))
	for i, w := range tx.writes {
		changes[i] = w.table.change(w.before, w.after)
	}
	return changes
}

// publish passes changes on, if something listens.
func (db *DB) publish(log *ChangeLog, changes func() []sim.RecordChange) {
	if log == nil && len(db.listeners) == 0 {
		return
	}
	list := changes()
	if len(list) == 0 {
		return
	}
	for _, listener := range db.listeners {
		listener(list)
	}
	log.Record(list)
}

// OnCommit implements [sim.Recorded]. A row that a transaction wrote twice is in its
// changes twice.
func (db *DB) OnCommit(listener func(changes []sim.RecordChange)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.listeners = append(db.listeners, listener)
}
