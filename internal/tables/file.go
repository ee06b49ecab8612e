package tables

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gocyborg/gocyborg/sim"
)

// ErrEmpty is matched by the error about a state file that holds nothing yet.
var ErrEmpty = errors.New("the state file is empty")

// lockTimeout is how long OpenFile waits for another process that is ending, and closes the file.
const lockTimeout = 3 * time.Second

// The buckets of a state file. The header's and the sum's have one key of the same name, the rows'
// has a bucket for each table.
const (
	headerBucket = "header"
	rowsBucket   = "rows"
	sumBucket    = "sum"
	firstBucket  = "gocyborg state" // of schema version 1
)

// File is a state in a file, with a key for each row. One process has it open at a time.
type File struct{ db *bbolt.DB }

// OpenFile opens a state file, or makes one unless it is to be read only. A file that others may read is
// theirs no longer: passwords are in it. The error names the file and matches [sim.ErrRecords] if it is
// not a state file.
func OpenFile(path string, readOnly bool) (f *File, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil && (readOnly || !errors.Is(err, os.ErrNotExist)):
		return nil, err
	case err != nil:
	case !info.Mode().IsRegular(): // one could wait for ever
		return nil, fmt.Errorf("state file %s: not a regular file", path)
	case readOnly && info.Size() == 0: // bbolt would write to it
		return nil, fmt.Errorf("%w: %s", ErrEmpty, path)
	case !readOnly && info.Mode()&0o077 != 0:
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, fmt.Errorf("state file %s: others may read it: %w", path, err)
		}
	}
	defer guard(path, &err)()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("state file %s: another process has it open", path)
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(syscall.Errno)):
		return nil, fmt.Errorf("state file: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w: %s is not a state file: %w", sim.ErrRecords, path, err)
	}
	if err := checkMetas(path); err != nil {
		return nil, errors.Join(fmt.Errorf("state file %s: %w", path, err), db.Close())
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

// Read returns the model and the records. There is no model in a new file. The error matches
// [sim.ErrRecords] if anything is not as it was written.
func (f *File) Read() (model json.RawMessage, records []sim.Record, err error) {
	err = f.view(func(tx *bbolt.Tx) (err error) {
		if model, err = readModel(tx); err == nil && model != nil {
			records, err = readRows(tx)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return model, records, nil
}

// Model is [File.Read] without the records.
func (f *File) Model() (model json.RawMessage, err error) {
	err = f.view(func(tx *bbolt.Tx) (err error) {
		model, err = readModel(tx)
		return err
	})
	return model, err
}

// view reads a file whose pages are in order.
func (f *File) view(read func(tx *bbolt.Tx) error) (err error) {
	defer guard(f.db.Path(), &err)()
	err = f.db.View(func(tx *bbolt.Tx) error {
		if err := checkPages(f.db.Path(), f.db.Info().PageSize, uint64(tx.Cursor().Bucket().Root())); err != nil {
			return err
		}
		return read(tx)
	})
	if err != nil {
		return fmt.Errorf("state file %s: %w", f.db.Path(), err)
	}
	return nil
}

func readModel(tx *bbolt.Tx) (json.RawMessage, error) {
	if tx.Bucket([]byte(firstBucket)) != nil {
		return nil, Header{SchemaVersion: 1}.check()
	}
	bucket := tx.Bucket([]byte(headerBucket))
	if bucket == nil {
		return nil, checkUnwritten(tx)
	}
	return readHeader(bucket.Get([]byte(headerBucket)))
}

// checkUnwritten checks that a file without a header is one that [File.Init] has not completed.
func checkUnwritten(tx *bbolt.Tx) error {
	if sums := tx.Bucket([]byte(sumBucket)); sums != nil && sums.Get([]byte(sumBucket)) != nil {
		return sim.Record{Table: headerBucket}.Errorf("it is missing")
	}
	return nil
}

func readHeader(sealed []byte) (model json.RawMessage, err error) {
	at := place{headerBucket, headerBucket}
	data, _, err := at.open(sealed)
	if err == nil || json.Valid(sealed) {
		bare := err != nil
		if bare {
			data = sealed
		}
		var h Header
		if h, err = decodeHeader(sim.Record{Table: headerBucket, Row: data}); err == nil && bare {
			err = fmt.Errorf("%w: it has no checksums, the form of an earlier release", sim.ErrRecords)
		}
		model = h.Model
	}
	return model, err
}

func readRows(tx *bbolt.Tx) (records []sim.Record, err error) {
	rows := tx.Bucket([]byte(rowsBucket))
	if rows == nil {
		return nil, fmt.Errorf("%w: there are no rows", sim.ErrRecords)
	}
	want, err := readSum(tx)
	if err != nil {
		return nil, err
	}
	var got sum
	var memory arena
	err = rows.ForEachBucket(func(bucket []byte) error {
		table := string(bucket)
		return rows.Bucket(bucket).ForEach(func(key, sealed []byte) error {
			at := place{table, string(key)}
			row, check, err := at.open(sealed)
			if got.add(check); err != nil || got.Rows > want.Rows {
				return err
			}
			records = append(records, sim.Record{Table: table, Key: at.key, Row: memory.clone(row)})
			return nil
		})
	})
	if err == nil && got != want {
		err = fmt.Errorf("%w: the rows are not those that were written (%d of %d)", sim.ErrRecords, got.Rows, want.Rows)
	}
	return records, err
}

// batchBytes is about the length of the rows that Init writes in one transaction, which is in memory several times.
const batchBytes = 8 << 20

// Init writes a model and the records of a component to a new file. It writes the records in
// parts and the header last. If the process ends in between, the file has no header and is
// treated as new.
func (f *File) Init(model json.RawMessage, from sim.Recorded) error {
	header, err := json.Marshal(Header{SchemaVersion, model})
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(from.Records())
	defer stop()
	var total sum
	for first, more := true, true; more; first = false {
		err := f.update(func(tx *bbolt.Tx) (err error) {
			if first {
				err = newBuckets(tx)
			}
			if err == nil {
				more, err = total.putBatch(tx, next)
			}
			if err != nil || more {
				return err
			}
			return errors.Join(writeHeader(tx, header), total.write(tx))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// newBuckets makes the buckets of the rows, in place of those that an Init did not complete.
func newBuckets(tx *bbolt.Tx) error {
	for _, name := range []string{rowsBucket, sumBucket} {
		if err := tx.DeleteBucket([]byte(name)); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

func writeHeader(tx *bbolt.Tx, header []byte) error {
	bucket, err := tx.CreateBucket([]byte(headerBucket))
	if err != nil {
		return err
	}
	at := place{headerBucket, headerBucket}
	return bucket.Put([]byte(headerBucket), at.seal(header))
}

// write writes rows, nil for those to be deleted, and returns when they are on the disk.
func (f *File) write(rows map[place]any) error {
	return f.update(func(tx *bbolt.Tx) error {
		total, err := readSum(tx)
		if err != nil {
			return err
		}
		for at, row := range rows {
			if row == nil {
				err = total.delete(tx, at)
			} else {
				var data []byte
				if data, err = json.Marshal(row); err != nil {
					err = sim.Record{Table: at.table, Key: at.key}.Errorf("%w", err)
				} else {
					err = total.put(tx, at, data)
				}
			}
			if err != nil {
				return err
			}
		}
		return total.write(tx)
	})
}

func (f *File) update(do func(tx *bbolt.Tx) error) (err error) {
	defer guard(f.db.Path(), &err)()
	if err := f.db.Update(do); err != nil {
		return fmt.Errorf("state file %s: %w", f.db.Path(), err)
	}
	return nil
}
