package tables

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// flushDelay is how long a commit may wait in a queue without waiters.
const flushDelay = 10 * time.Millisecond

// Queue writes the commits of components to a file, in the order of the commits. A commit
// only appends to the queue. Waiters share the writes.
type Queue struct {
	file *File
	// Before is called before a write, to commit what is written only along with commits.
	// It is set before the queue is used.
	Before func()

	mu      sync.Mutex
	ended   *sync.Cond    // a write, or a Hold
	pending map[place]any // the latest row of each that has changed; nil if it was deleted
	head    int           // number of commits
	written int           // commits in the file
	tried   int           // commits in the last write
	err     error         // of the last write
	writing bool
	held    bool
	closed  bool
	timer   *time.Timer // to the next write that nothing waits for
}

// NewQueue returns a queue that writes to a file.
func NewQueue(file *File) *Queue {
	q := &Queue{file: file, pending: make(map[place]any)}
	q.ended = sync.NewCond(&q.mu)
	return q
}

// Append adds a commit. It is a listener for OnCommit of [sim.Recorded].
func (q *Queue) Append(changes []sim.RecordChange) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	for _, c := range changes {
		q.pending[place{c.Table, c.Key}] = c.After
	}
	q.head++
	if q.timer == nil {
		q.timer = time.AfterFunc(flushDelay, func() { _ = q.Sync() }) // the next Sync returns its error
	}
}

// Sync returns when all commits so far are on the disk, or with the error of the write that
// they were part of; they stay in the queue then.
func (q *Queue) Sync() error {
	if q.Before != nil && q.behind() {
		q.Before()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for want := q.head; q.written < want; {
		switch {
		case q.closed:
			return errors.New("the state file is closed")
		case q.writing, q.held:
			q.ended.Wait()
		default:
			rows, head := q.take()
			q.mu.Unlock()
			err := q.file.write(rows)
			q.mu.Lock()
			q.end(rows, head, err)
		}
		if q.written < want && q.tried >= want {
			return q.err
		}
	}
	return nil
}

// Hold waits for a write that has begun, and for other holders of the queue. No other write begins before
// release is called.
func (q *Queue) Hold() (release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing || q.held {
		q.ended.Wait()
	}
	q.held = true
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.held = false
		q.ended.Broadcast()
	}
}

// behind reports whether a commit is not written.
func (q *Queue) behind() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.written < q.head
}

// take begins a write of all that is pending.
func (q *Queue) take() (rows map[place]any, head int) {
	if q.timer != nil {
		q.timer.Stop()
	}
	rows, q.pending, q.timer, q.writing = q.pending, make(map[place]any), nil, true
	return rows, q.head
}

// end ends a write of rows up to a number of commits.
func (q *Queue) end(rows map[place]any, head int, err error) {
	q.writing, q.tried, q.err = false, head, err
	if err == nil {
		q.written = head
	} else {
		maps.Copy(rows, q.pending) // which are later
		q.pending = rows
	}
	q.ended.Broadcast()
}

// Close writes what is pending, waits for a write that has begun, and discards later commits.
// The file may be closed then.
func (q *Queue) Close() error {
	err := q.Sync()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for q.writing {
		q.ended.Wait()
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	return err
}
