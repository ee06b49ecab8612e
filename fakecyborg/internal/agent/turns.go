package agent

import (
	"context"
	"sync"
	"time"
)

// turns orders work that is due at the same instant. Timers, those of virtual time, too, wake it in any order.
type turns struct {
	mu   sync.Mutex
	last map[int64]chan struct{} // ends with the work that joined last, by instant
}

// join adds work that is due at an instant. Wait returns when the work that joined before has called done.
func (t *turns) join(due time.Time) (wait func(context.Context) error, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	instant, mine := due.UnixNano(), make(chan struct{})
	before := t.last[instant]
	if t.last == nil {
		t.last = make(map[int64]chan struct{})
	}
	t.last[instant] = mine
	wait = func(ctx context.Context) error {
		if before == nil {
			return ctx.Err()
		}
		select {
		case <-before:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return wait, sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(mine)
		if t.last[instant] == mine {
			delete(t.last, instant)
		}
	})
}
