package tables

// sequenceRow is a counter.
type sequenceRow struct {
	Name string `json:"name"`
	Last int64  `json:"last"`
}

// Sequence gives the numbers 1, 2, 3, ... It is a row of the table SERVICE.sequences. A
// transaction that writes to nothing else is not published: its numbers are published with
// the next transaction that takes one, and are given again if the process ends before.
type Sequence struct {
	table *Table[string, sequenceRow]
	name  string
}

// Sequence returns the sequence with a name.
func (db *DB) Sequence(name string) Sequence {
	if db.sequences == nil {
		db.sequences = Add(db, Spec[string, sequenceRow]{Name: "sequences", Key: func(r sequenceRow) string { return r.Name }})
		db.Check(checkSequences(db.sequences))
	}
	return Sequence{db.sequences, name}
}

// maxLast is the largest number that a loaded sequence may be at: a billion below the largest
// number of a row, which the sequence of a table's keys would reach.
const maxLast = maxNumber - 1_000_000_000

func checkSequences(t *Table[string, sequenceRow]) func(*Tx) error {
	return func(tx *Tx) error {
		for r := range t.All(tx) {
			if r.Last < 0 || r.Last > maxLast {
				return t.Errorf(r.Name, "it is at %d, want 0 to %d", r.Last, maxLast)
			}
		}
		return nil
	}
}

// KeySequence returns the sequence of a table's keys, which has the table's name. A key
// above its last number is an error of [DB.Prepare].
func KeySequence[R any](t *Table[int64, R]) Sequence {
	return t.rows.keySequence()
}

func (r *rows) keySequence() Sequence {
	s := r.db.Sequence(r.name)
	r.db.Check(func(tx *Tx) (err error) {
		r.from(tx, key{num: s.Last(tx) + 1}, func(row any) bool {
			err = r.errorf(r.key(row), "the sequence %s is at %d only", s.name, s.Last(tx))
			return false
		})
		return err
	})
	return s
}

// Next returns the next number.
func (s Sequence) Next(tx *Tx) int64 {
	n := s.Last(tx) + 1
	s.table.Put(tx, sequenceRow{s.name, n})
	return n
}

// Last returns the last number that was given, or 0.
func (s Sequence) Last(tx *Tx) int64 {
	row, _ := s.table.Get(tx, s.name)
	return row.Last
}

// Set makes n the last number that was given.
func (s Sequence) Set(tx *Tx, n int64) { s.table.Put(tx, sequenceRow{s.name, n}) }
