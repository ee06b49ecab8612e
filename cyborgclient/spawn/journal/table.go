package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxName is the length of the longest name of an instance, in bytes.
const maxName = 255

// table has the journals of one process and their locks.
type table struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is the journal of one instance. It is in the table while there are records, a holder or a waiting caller.
type entry struct {
	right     chan struct{} // has one element while no caller holds the right
	callers   int           // the holder and waiting callers
	records   [][]byte
	abandoned time.Time
}

// lock waits for the right to a journal, until ctx ends or closed is closed.
func (t *table) lock(ctx context.Context, instance string, closed <-chan struct{}) (*holding, error) {
	if n := len(instance); n == 0 || n > maxName {
		return nil, fmt.Errorf("journal: the name of the instance has %d bytes, not 1 to %d", n, maxName)
	}
	e := t.enter(instance)
	err := e.wait(ctx, closed)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.leave(instance, e)
		return nil, fmt.Errorf("journal: lock instance %s: %w", instance, err)
	}
	return &holding{table: t, instance: instance, records: slices.Clip(e.records), abandoned: e.abandoned, closed: closed, entry: e}, nil
}

// wait waits for the right and takes it.
func (e *entry) wait(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case <-closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case <-e.right:
		return nil
	}
}

func (t *table) enter(instance string) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[instance]
	if e == nil {
		e = newEntry()
		t.entries[instance] = e
	}
	e.callers++
	return e
}

func newEntry() *entry {
	e := &entry{right: make(chan struct{}, 1)}
	e.right <- struct{}{}
	return e
}

// leave is called with the table locked.
func (t *table) leave(instance string, e *entry) {
	if e.callers--; e.callers == 0 && len(e.records) == 0 {
		delete(t.entries, instance)
	}
}

// change adds a record, or removes all for a nil record.
func (t *table) change(e *entry, record []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if record == nil {
		e.records, e.abandoned = nil, time.Time{}
	} else {
		e.records = append(e.records, record)
	}
}

func (t *table) unfinished() (instances []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for instance, e := range t.entries {
		if len(e.records) > 0 && len(e.right) == 1 {
			instances = append(instances, instance)
		}
	}
	slices.Sort(instances)
	return instances
}

// holding is a right to a journal of a table. It implements the methods of [Journal] that are the same in each store.
type holding struct {
	table     *table
	instance  string
	records   [][]byte
	abandoned time.Time
	closed    <-chan struct{}
	entry     *entry // nil after release; the table's mutex guards it
}

func (h *holding) Records() [][]byte    { return h.records }
func (h *holding) Abandoned() time.Time { return h.abandoned }
func (h *holding) Until() time.Time     { return time.Time{} }

func (h *holding) Renew(ctx context.Context) error {
	_, err := h.held(ctx)
	return err
}

// held returns the entry, unless the right or ctx has ended.
func (h *holding) held(ctx context.Context) (*entry, error) {
	h.table.mu.Lock()
	e := h.entry
	h.table.mu.Unlock()
	err := ctx.Err()
	select {
	case <-h.closed:
		err = ErrClosed
	default:
		if e == nil {
			err = ErrLost
		}
	}
	if err != nil {
		return nil, fmt.Errorf("journal of instance %s: %w", h.instance, err)
	}
	return e, nil
}

func (h *holding) release() {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	if e := h.entry; e != nil {
		h.entry = nil
		e.right <- struct{}{}
		h.table.leave(h.instance, e)
	}
}
