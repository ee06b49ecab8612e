package tables

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gocyborg/gocyborg/sim"
)

// ErrEmpty is matched by the error about a state file that holds nothing yet.
var ErrEmpty = errors.New("the state file is empty")

// lockTimeout is how long OpenFile waits for another process to close the file.
const lockTimeout = 100 * time.Millisecond

// The buckets of a state file. The header's has one key of the same name, the rows' has a
// bucket for each table.
const (
	headerBucket = "header"
	rowsBucket   = "rows"
	firstBucket  = "gocyborg state" // of schema version 1
)

// File is a state in a file, with a key for each row. One process has it open at a time.
type File struct{ db *bbolt.DB }

// OpenFile opens a state file, or makes one unless it is to be read only. The error names
// the file and matches [sim.ErrRecords] if it is not a state file.
func OpenFile(path string, readOnly bool) (f *File, err error) {
	if readOnly {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.Size() == 0: // bbolt would write to it
			return nil, fmt.Errorf("%w: %s", ErrEmpty, path)
		}
	}
	defer guard(path, &err)()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("state file %s: another process has it open", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %s is not a state file: %w", sim.ErrRecords, path, err)
	case err != nil:
		return nil, fmt.Errorf("state file: %w", err)
	}
	return &File{db}, nil
}

// guard turns the panics and page faults with which bbolt meets broken pages into an error.
// It is deferred, after a call that returns what to defer.
func guard(path string, err *error) func() {
	faults := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(faults)
		if cause := recover(); cause != nil {
			*err = fmt.Errorf("%w: state file %s is broken: %v", sim.ErrRecords, path, cause)
		}
	}
}

// Close closes the file.
func (f *File) Close() error { return f.db.Close() }

// Read returns the model and the records. There is no model in a new file.
func (f *File) Read() (model json.RawMessage, records []sim.Record, err error) {
	defer guard(f.db.Path(), &err)()
	err = f.db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte(firstBucket)) != nil {
			return Header{SchemaVersion: 1}.check()
		}
		bucket := tx.Bucket([]byte(headerBucket))
		if bucket == nil {
			return nil
		}
		var h Header
		if err := (sim.Record{Table: headerBucket, Row: bucket.Get([]byte(headerBucket))}).Decode(&h); err != nil {
			return err
		}
		if err := h.check(); err != nil {
			return err
		}
		model = h.Model
		rows := tx.Bucket([]byte(rowsBucket))
		if rows == nil {
			return fmt.Errorf("%w: there are no rows", sim.ErrRecords)
		}
		var memory arena
		return rows.ForEachBucket(func(bucket []byte) error {
			table := string(bucket)
			return rows.Bucket(bucket).ForEach(func(key, row []byte) error {
				records = append(records, sim.Record{Table: table, Key: string(key), Row: memory.clone(row)})
				return nil
			})
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("state file %s: %w", f.db.Path(), err)
	}
	return model, records, nil
}

// Init makes a new file that of a model, with the records of a component.
func (f *File) Init(model json.RawMessage, from sim.Recorded) error {
	header, err := json.Marshal(Header{SchemaVersion, model})
	if err != nil {
		return err
	}
	return f.update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucket([]byte(headerBucket))
		if err != nil {
			return err
		}
		if err := bucket.Put([]byte(headerBucket), header); err != nil {
			return err
		}
		if _, err := tx.CreateBucket([]byte(rowsBucket)); err != nil {
			return err
		}
		for r, err := range from.Records() {
			if err != nil {
				return err
			}
			if err := put(tx, place{r.Table, r.Key}, r.Row); err != nil {
				return err
			}
		}
		return nil
	})
}

// place is where a row stands.
type place struct{ table, key string }

// write writes rows, nil for those to be deleted, and returns when they are on the disk.
func (f *File) write(rows map[place]any) error {
	return f.update(func(tx *bbolt.Tx) error {
		for at, row := range rows {
			if row == nil {
				if bucket := tx.Bucket([]byte(rowsBucket)).Bucket([]byte(at.table)); bucket != nil {
					if err := bucket.Delete([]byte(at.key)); err != nil {
						return err
					}
				}
				continue
			}
			data, err := json.Marshal(row)
			if err != nil {
				return sim.Record{Table: at.table, Key: at.key}.Errorf("%w", err)
			}
			if err := put(tx, at, data); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *File) update(do func(tx *bbolt.Tx) error) (err error) {
	defer guard(f.db.Path(), &err)()
	if err := f.db.Update(do); err != nil {
		return fmt.Errorf("state file %s: %w", f.db.Path(), err)
	}
	return nil
}

func put(tx *bbolt.Tx, at place, row []byte) error {
	bucket, err := tx.Bucket([]byte(rowsBucket)).CreateBucketIfNotExists([]byte(at.table))
	if err != nil {
		return err
	}
	return bucket.Put([]byte(at.key), row)
}
