package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gocyborg/gocyborg/internal/boltfile"
)

// lockTimeout is how long Open waits, twice, for another process.
const lockTimeout = 400 * time.Millisecond

// File is a store in a file, for one process. Rights last until Release or the end of the process. A record is on the
// disk when Append returns; one write and flush of the disk serves all records that wait for it.
type File struct {
	path   string
	info   fs.FileInfo
	table  table
	db     *bbolt.DB
	closed chan struct{}
	close  func() error

	mu     sync.Mutex
	queue  []*change // a goroutine writes them while there are any
	broken error     // the file cannot be used after it
}

// Open opens a journal file, or creates it with mode 0600. It contains every record that Append acknowledged; Open
// fails if one cannot be read. The error names the file. It matches [ErrInUse], after less than a second, if another
// process has the file open, and [ErrDamaged] if the file is damaged or not a journal file; a program may then rename
// the file, report that, and look for resources of its operations without a journal.
//
// The directory should be on a local disk.
func Open(path string) (*File, error) {
	f, err := open(path)
	if at := new(fs.PathError); errors.As(err, &at) && at.Path == path {
		return nil, fmt.Errorf("journal file: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("journal file %s: %w", path, err)
	}
	return f, nil
}

func open(path string) (*File, error) {
	found, err := read(path)
	if err != nil {
		return nil, err
	}
	entries, err := found.entries(time.Now())
	if err != nil {
		return nil, err
	}
	// The list of free pages is not stored: a damaged one would make bbolt write over pages in use.
	db, err := openBolt(path, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		if found.transaction == boltfile.FirstTransaction && !errors.Is(err, ErrInUse) {
			os.Truncate(path, 0) // on a full disk, the truncated new file would look damaged
		}
		return nil, err
	}
	f := &File{path: path, table: table{entries: entries}, db: db, closed: make(chan struct{})}
	f.close = sync.OnceValue(f.end)
	if err := f.begin(found.transaction); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// read reads a file under a shared lock, by which bbolt keeps other processes from writing it.
func read(path string) (content, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{transaction: boltfile.FirstTransaction}, nil
	case err != nil:
		return content{}, err
	case !info.Mode().IsRegular(): // opening one could wait for ever
		return content{}, errors.New("not a regular file")
	case info.Size() == 0:
		return content{transaction: boltfile.FirstTransaction}, nil
	}
	var file *os.File
	db, err := openBolt(path, &bbolt.Options{ReadOnly: true, OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}})
	if err != nil {
		return content{}, err
	}
	defer db.Close()
	return readContent(file)
}

// openBolt opens a file with bbolt.
func openBolt(path string, options *bbolt.Options) (db *bbolt.DB, err error) {
	defer guard(&err)()
	options.Timeout = lockTimeout
	db, err = bbolt.Open(path, 0o600, options)
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrInUse
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(syscall.Errno)):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
}

// guard turns the panics and page faults with which bbolt reacts to damage into an error. It returns a function to defer.
func guard(err *error) func() {
	faults := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(faults)
		if cause := recover(); cause != nil {
			*err = fmt.Errorf("%w: %v", ErrDamaged, cause)
		}
	}
}

// begin prepares the file for changes, if it has not changed since it was read: transaction is the last one that was
// read.
func (f *File) begin(transaction uint64) error {
	now, err := f.transaction()
	if err == nil && now != transaction {
		err = ErrInUse // another process has written it since
	}
	if err == nil {
		f.path, err = filepath.Abs(f.path)
	}
	if err == nil {
		f.info, err = os.Stat(f.path)
	}
	if err != nil || now != boltfile.FirstTransaction {
		return err
	}
	if err := syncDirectory(filepath.Dir(f.path)); err != nil {
		return err
	}
	return f.update(create)
}

// syncDirectory flushes a directory, so that a new file is in it after a failure of the power.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // this file system has no flush of directories
	}
	return err
}

// Lock implements [Store].
func (f *File) Lock(ctx context.Context, instance string) (Journal, error) {
	h, err := f.table.lock(ctx, instance, f.closed)
	if err != nil {
		return nil, err
	}
	return &fileJournal{holding: h, file: f}, nil
}

// Unfinished implements [Store]. It returns no error except [ErrClosed].
func (f *File) Unfinished(context.Context) ([]string, error) {
	select {
	case <-f.closed:
		return nil, fmt.Errorf("journal file %s: %w", f.path, ErrClosed)
	default:
		return f.table.unfinished(), nil
	}
}

// Close ends all rights and closes the file, after the changes that wait to be written.
func (f *File) Close() error { return f.close() }

func (f *File) end() error {
	f.mu.Lock()
	close(f.closed)
	queue := f.queue
	f.mu.Unlock()
	if len(queue) > 0 {
		<-queue[len(queue)-1].done
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken // bbolt may wait for ever for a transaction that panicked
	}
	return f.db.Close()
}

type fileJournal struct {
	*holding
	file *File
	last *change
}

func (j *fileJournal) Append(ctx context.Context, record []byte) error {
	return j.write(ctx, clone(record))
}

func (j *fileJournal) Clear(ctx context.Context) error { return j.write(ctx, nil) }

// write enqueues a change and waits until it is written, or ctx ends.
func (j *fileJournal) write(ctx context.Context, record []byte) error {
	e, err := j.held(ctx)
	if err != nil {
		return err
	}
	c := &change{instance: j.instance, entry: e, record: record, done: make(chan struct{})}
	if err := j.file.enqueue(c); err != nil {
		return err
	}
	j.last = c
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("journal file %s: instance %s: not yet written: %w", j.file.path, j.instance, ctx.Err())
	}
}

// Release ends the right after a change that is still being written.
func (j *fileJournal) Release() {
	if j.last == nil {
		j.release()
		return
	}
	select {
	case <-j.last.done:
		j.release()
	default:
		go func() {
			<-j.last.done
			j.release()
		}()
	}
}
