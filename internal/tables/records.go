package tables

import (
	"iter"
	"reflect"
	"slices"

	"github.com/gocyborg/gocyborg/internal/ordered"
	"github.com/gocyborg/gocyborg/sim"
)

// Check adds a condition that the rows of [DB.Prepare] have to meet. Its error should be
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

// Prepare implements [sim.Recorded]. The error matches [sim.ErrRecords]: for a record whose
// table is unknown, whose row has unknown or repeated members or another key, for two
// records with the same key or unique value, and for rows that a check refuses.
func (db *DB) Prepare(records []sim.Record) (commit func(), err error) {
	tx := &Tx{trees: make([]tree, len(db.live.trees))}
	for i, t := range db.live.trees {
		tx.trees[i] = t.empty()
	}
	if err := db.load(tx, records); err != nil {
		return nil, err
	}
	for _, check := range db.checks {
		if err := check(tx); err != nil {
			return nil, err
		}
	}
	return func() { db.replace(tx) }, nil
}

// replace replaces the rows of the database with the rows of a transaction.
func (db *DB) replace(tx *Tx) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.publish(nil, func() (changes []sim.RecordChange) {
		for _, t := range db.tables {
			changes = append(changes, t.replaced(&db.live, tx)...)
		}
		return changes
	})
	db.live.trees = tx.trees
	db.live.loads++
	db.forgetPast()
}

type decoded struct {
	table *rows
	row   any
}

// load adds the rows of records.
func (db *DB) load(tx *Tx, records []sim.Record) error {
	i := 0
	for d, err := range Decoded(records, db.decode) {
		if err == nil {
			err = d.table.load(tx, records[i], d.row)
		}
		if err != nil {
			return err
		}
		i++
	}
	return nil
}

func (db *DB) decode(r sim.Record) (d decoded, err error) {
	i, ok := db.find(r.Table)
	if !ok {
		return d, r.Errorf("there is no such table")
	}
	d.table = db.tables[i]
	d.row, err = d.table.decode(r)
	return d, err
}

// pieceLen is the number of records in a piece.
const pieceLen = 256

// piece is what some records were decoded to, up to the first that cannot be.
type piece[T any] struct {
	rows []T
	err  error
}

// Decoded decodes records side by side, ahead of yielding the rows in order. The first error is the
// last that it yields. The records lose their rows: all texts and all that is made of them would need
// twice the memory.
func Decoded[T any](records []sim.Record, decode func(sim.Record) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		pieces := slices.Collect(slices.Chunk(records, pieceLen))
		for _, p := range ordered.Ahead(len(pieces), func(i int) piece[T] { return decodePiece(pieces[i], decode) }) {
			for _, row := range p.rows {
				if !yield(row, nil) {
					return
				}
			}
			if p.err != nil {
				var none T
				yield(none, p.err)
				return
			}
		}
	}
}

func decodePiece[T any](records []sim.Record, decode func(sim.Record) (T, error)) (p piece[T]) {
	p.rows = make([]T, 0, len(records))
	for i, r := range records {
		row, err := decode(r)
		if err != nil {
			p.err = err
			return p
		}
		p.rows = append(p.rows, row)
		records[i].Row = nil
	}
	return p
}

// maxNumber is the largest number of a row: keys have ten digits.
const maxNumber = 9_999_999_999

// load adds the row of a record.
func (r *rows) load(tx *Tx, record sim.Record, row any) error {
	k := r.key(row)
	if text := r.text(k); text != record.Key {
		return record.Errorf("the row's key is %s", text)
	}
	if k.num < 0 || k.num > maxNumber {
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
