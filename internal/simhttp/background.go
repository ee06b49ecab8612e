package simhttp

import (
	"context"
	"sync"
)

// Background is the work that continues after the answer to its request, and the work that must
// not end with the client's connection. Both end with Close.
type Background struct {
	mu      sync.Mutex
	closed  bool
	last    int
	cancels map[int]context.CancelFunc
	group   sync.WaitGroup
}

// Start runs a function in the background, unless Close was called.
func (b *Background) Start(run func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.group.Go(func() {
		ctx, end := b.Detach(context.Background())
		defer end()
		run(ctx)
	})
}

// Detach returns a context with the values of ctx that only Close cancels. Close waits until end is called.
func (b *Background) Detach(ctx context.Context) (detached context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		cancel()
		return ctx, cancel
	}
	if b.cancels == nil {
		b.cancels = make(map[int]context.CancelFunc)
	}
	b.last++
	id := b.last
	b.cancels[id] = cancel
	b.group.Add(1)
	return ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.cancels, id)
		cancel()
		b.group.Done()
	}
}

// Ended reports whether Close was called.
func (b *Background) Ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Cancel cancels the work that was started so far.
func (b *Background) Cancel() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel()
}

func (b *Background) cancel() {
	for _, cancel := range b.cancels {
		cancel()
	}
}

// Close cancels the work and waits for its end.
func (b *Background) Close() {
	b.mu.Lock()
	b.closed = true
	b.cancel()
	b.mu.Unlock()
	b.group.Wait()
}
