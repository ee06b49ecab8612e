package tables

import (
	"iter"
	"reflect"
	"slices"

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
	if err := db.load(tx, records); err != nil {
		return err
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

// piece is the rows of some records, up to the first that cannot be decoded.
type piece struct {
	rows []decoded
	err  error
}

type decoded struct {
	table *rows
	row   any
}

// pieceLen is the number of records in a piece.
const pieceLen = 256

// load adds the rows of records. They are decoded by another goroutine, ahead of being added.
func (db *DB) load(tx *Tx, records []sim.Record) error {
	pieces, stop := make(chan piece, 4), make(chan struct{})
	go func() {
		defer close(pieces)
		for some := range slices.Chunk(records, pieceLen) {
			select {
			case pieces <- db.decode(some):
			case <-stop:
				return
			}
		}
	}()
	defer func() {
		close(stop)
		for range pieces { // until the goroutine has ended
		}
	}()
	for p := range pieces {
		for i, d := range p.rows {
			if err := d.table.load(tx, records[i], d.row); err != nil {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
		records = records[len(p.rows):]
	}
	return nil
}

func (db *DB) decode(records []sim.Record) (p piece) {
	p.rows = make([]decoded, 0, len(records))
	for _, r := range records {
		i, ok := db.find(r.Table)
		if !ok {
			p.err = r.Errorf("there is no such table")
			return p
		}
		row, err := db.tables[i].decode(r)
		if err != nil {
			p.err = err
			return p
		}
		p.rows = append(p.rows, decoded{db.tables[i], row})
	}
	return p
}

// load adds the row of a record.
func (r *rows) load(tx *Tx, record sim.Record, row any) error {
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
