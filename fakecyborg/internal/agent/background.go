package agent

import (
	"context"
	"sync"
)

// background is the work that continues after the answer to its request, and the work that must
// not end with the client's connection. Both end with close.
type background struct {
	mu      sync.Mutex
	closed  bool
	last    int
	cancels map[int]context.CancelFunc
	group   sync.WaitGroup
}

// start runs a function in the background, unless close was called.
func (b *background) start(run func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.group.Go(func() {
		ctx, end := b.detach(context.Background())
		defer end()
		run(ctx)
	})
}

// detach returns a context with the values of ctx that only close cancels.
func (b *background) detach(ctx context.Context) (detached context.Context, end func()) {
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
	return ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.cancels, id)
		cancel()
	}
}

func (b *background) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// close cancels the work and waits for its end.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	for _, cancel := range b.cancels {
		cancel()
	}
	b.mu.Unlock()
	b.group.Wait()
}
