package simcloud

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// ErrEmptyState is matched, beside [ErrState], by the error about a state file that holds
// nothing yet.
var ErrEmptyState = errors.New("simcloud: the state file is empty")

// lockTimeout is how long a state file is waited for that another process has.
const lockTimeout = 100 * time.Millisecond

// stateBucket holds the parts of a state, by name, and the schema's version.
const (
	stateBucket = "gocyborg state"
	schemaKey   = "schema_version"
)

// stateFile is a state in a file. One process has it at a time.
type stateFile struct{ db *bbolt.DB }

// openStateFile opens or makes the file. The error names it and matches [ErrState] when it
// is none.
func openStateFile(path string, readOnly bool) (f *stateFile, err error) {
	defer func() {
		if cause := recover(); cause != nil { // bbolt's way to say that pages are broken
			f, err = nil, fmt.Errorf("%w: %s: %v", ErrState, path, cause)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("simcloud: state file %s: another process has it open", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %s is no state file: %w", ErrState, path, err)
	case err != nil:
		return nil, fmt.Errorf("simcloud: state file: %w", err)
	}
	return &stateFile{db}, nil
}

// read returns the parts; there are none in a new file.
func (f *stateFile) read() (parts map[string][]byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			parts, err = nil, fmt.Errorf("%w: %s: %v", ErrState, f.db.Path(), cause)
		}
	}()
	parts = make(map[string][]byte)
	err = f.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(stateBucket))
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(k, v []byte) error {
			parts[string(k)] = bytes.Clone(v)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("simcloud: read the state file: %w", err)
	}
	version, ok := parts[schemaKey]
	delete(parts, schemaKey)
	if ok != (len(parts) > 0) || ok && string(version) != fmt.Sprint(simhttp.DumpSchema) {
		return nil, fmt.Errorf("%w: %s: schema_version %q, want %d", ErrState, f.db.Path(), version, simhttp.DumpSchema)
	}
	return parts, nil
}

// write replaces parts, all or none of them, and returns when they are on the disk.
func (f *stateFile) write(parts map[string][]byte) error {
	if len(parts) == 0 {
		return nil
	}
	err := f.db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte(stateBucket))
		if err != nil {
			return err
		}
		for name, data := range parts {
			if err := bucket.Put([]byte(name), data); err != nil {
				return err
			}
		}
		return bucket.Put([]byte(schemaKey), fmt.Append(nil, simhttp.DumpSchema))
	})
	if err != nil {
		return fmt.Errorf("simcloud: write the state file: %w", err)
	}
	return nil
}

func (f *stateFile) close() error { return f.db.Close() }

// ReadStateFile returns the state in a file of [WithStateFile] as [Cloud.Dump] gives it.
// The error matches [ErrState] for a file that holds none, and names a file that another
// process has open.
func ReadStateFile(path string) (data []byte, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("simcloud: state file: %w", err)
	case info.Size() == 0:
		return nil, fmt.Errorf("%w: %w: %s", ErrState, ErrEmptyState, path)
	}
	f, err := openStateFile(path, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	parts, err := f.read()
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: %w: %s", ErrState, ErrEmptyState, path)
	}
	return joinState(parts)
}
