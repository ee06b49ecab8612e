package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/gocyborg/gocyborg/sim"
)

// ErrRecords is matched by the error about records that are no state of the component that
// they are given to.
var ErrRecords = errors.New("bad records")

// Errorf returns an error about a row that matches [ErrRecords] and names table and key. It
// is for checks.
func (t *Table[K, R]) Errorf(key K, format string, args ...any) error {
	return recordError(t.title, keyText(key), fmt.Errorf(format, args...))
}

func recordError(table, key string, cause error) error {
	return fmt.Errorf("%w: %s %s: %w", ErrRecords, table, key, cause)
}

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

func (t *Table[K, R]) records(tx *Tx, yield func(sim.Record, error) bool) bool {
	more := true
	t.rows(tx).Scan(func(e entry[K, R]) bool {
		row, err := json.Marshal(e.row)
		if err != nil {
			yield(sim.Record{}, recordError(t.title, keyText(e.key), err))
			more = false
		} else {
			more = yield(sim.Record{Table: t.title, Key: keyText(e.key), Row: row}, nil)
		}
		return more
	})
	return more
}

// Replace implements [sim.Recorded]. The error matches [ErrRecords]: for a record whose
// table is unknown, whose row has unknown or repeated members or another key, for two
// records with the same key or unique value, and for rows that a check refuses.
func (db *DB) Replace(records []sim.Record) error {
	tx := &Tx{trees: make([]tree, len(db.live.trees))}
	for i, t := range db.live.trees {
		tx.trees[i] = t.empty()
	}
	for _, r := range records {
		i, ok := db.find(r.Table)
		if !ok {
			return recordError(r.Table, r.Key, errors.New("there is no such table"))
		}
		if err := db.tables[i].load(tx, r); err != nil {
			return err
		}
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

func (t *Table[K, R]) load(tx *Tx, r sim.Record) error {
	row := new(R)
	if err := DecodeRow(r.Row, row); err != nil {
		return recordError(r.Table, r.Key, err)
	}
	key := t.spec.Key(*row)
	if text := keyText(key); text != r.Key {
		return recordError(r.Table, r.Key, fmt.Errorf("the row's key is %s", text))
	}
	if n, isNumber := any(key).(int64); isNumber && (n < 0 || n > 9_999_999_999) {
		return t.Errorf(key, "the number is out of range")
	}
	if _, exists := t.Get(tx, key); exists {
		return t.Errorf(key, "there are two rows")
	}
	if t.spec.Check != nil {
		if err := t.spec.Check(*row); err != nil {
			return t.Errorf(key, "%w", err)
		}
	}
	if err := t.unique(tx, key, row); err != nil {
		return err
	}
	t.set(tx, key, nil, row)
	return nil
}

func (t *Table[K, R]) replaced(from, to *Tx) (changes []sim.RecordChange) {
	t.rows(from).Scan(func(e entry[K, R]) bool {
		if _, stays := t.rows(to).Get(e); !stays {
			changes = append(changes, t.change(e.row, nil))
		}
		return true
	})
	t.rows(to).Scan(func(e entry[K, R]) bool {
		old, existed := t.rows(from).Get(e)
		switch {
		case !existed:
			changes = append(changes, t.change(nil, e.row))
		case !reflect.DeepEqual(old.row, e.row):
			changes = append(changes, t.change(old.row, e.row))
		}
		return true
	})
	return changes
}

// DecodeRow decodes the row of a record, which must be one JSON object without unknown or
// repeated members.
func DecodeRow(data json.RawMessage, row any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(row); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	if again, err := json.Marshal(row); err == nil && bytes.Equal(again, data) {
		return nil
	}
	dec = json.NewDecoder(bytes.NewReader(data))
	if bytes.TrimLeft(data, " \t\r\n")[0] != '{' {
		return errors.New("it is not a JSON object")
	}
	return noRepeatedMembers(dec)
}

// noRepeatedMembers reads one JSON value and refuses an object that has a member twice.
func noRepeatedMembers(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	open, _ := token.(json.Delim)
	if open == 0 {
		return nil
	}
	members := make(map[string]bool)
	for dec.More() {
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			if members[name.(string)] {
				return fmt.Errorf("member %q is repeated", name)
			}
			members[name.(string)] = true
		}
		if err := noRepeatedMembers(dec); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}
