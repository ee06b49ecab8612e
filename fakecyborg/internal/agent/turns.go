package agent

import (
	"context"
	"sync"
	"time"
)

// join adds work that is due at an instant. Timers, those of virtual time, too, wake work of one instant in any order: wait
// returns when the work that joined before has called done.
func (c *Conductor) join(due time.Time) (wait func(context.Context) error, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instant, mine := due.UnixNano(), make(chan struct{})
	before := c.due[instant]
	c.due[instant] = mine
	wait = func(ctx context.Context) error {
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	return wait, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(mine)
		if c.due[instant] == mine {
			delete(c.due, instant)
		}
	})
}
