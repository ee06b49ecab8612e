package ordered

import "runtime"

// queued is how many calls may wait in a Queue.
const queued = 4

// Queue calls functions one after another while its caller continues. With a nil Queue the caller
// waits for each.
type Queue struct{ calls chan func() }

// NewQueue returns a queue, which has to be closed. It is nil where there is one processor.
func NewQueue() *Queue {
	if runtime.GOMAXPROCS(0) < 2 {
		return nil
	}
	q := &Queue{make(chan func(), queued)}
	go func() {
		for call := range q.calls {
			call()
		}
	}()
	return q
}

// Do calls f after the functions of earlier calls. It waits while there are many of them.
func (q *Queue) Do(f func()) {
	if q == nil {
		f()
		return
	}
	q.calls <- f
}

// Wait waits until all functions have returned.
func (q *Queue) Wait() {
	if q == nil {
		return
	}
	done := make(chan struct{})
	q.calls <- func() { close(done) }
	<-done
}

// Close waits until all functions have returned, and ends the queue.
func (q *Queue) Close() {
	if q != nil {
		q.Wait()
		close(q.calls)
	}
}
