package journal

import "context"

// Memory is a store in the memory of this process. Rights last until Release.
type Memory struct{ table table }

// NewMemory returns an empty store in memory.
func NewMemory() *Memory {
	return &Memory{table{entries: make(map[string]*entry)}}
}

// Lock implements [Store].
func (m *Memory) Lock(ctx context.Context, instance string) (Journal, error) {
	h, err := m.table.lock(ctx, instance, nil)
	if err != nil {
		return nil, err
	}
	return memoryJournal{h}, nil
}

// Unfinished implements [Store]. It returns no error.
func (m *Memory) Unfinished(context.Context) ([]string, error) { return m.table.unfinished(), nil }

type memoryJournal struct{ *holding }

func (j memoryJournal) Append(ctx context.Context, record []byte) error {
	return j.change(ctx, clone(record))
}

func (j memoryJournal) Clear(ctx context.Context) error { return j.change(ctx, nil) }

func (j memoryJournal) change(ctx context.Context, record []byte) error {
	e, err := j.held(ctx)
	if err == nil {
		j.table.change(e, record)
	}
	return err
}

func (j memoryJournal) Release() { j.release() }

// clone returns a copy, which is not nil.
func clone(record []byte) []byte { return append(make([]byte, 0, len(record)), record...) }
