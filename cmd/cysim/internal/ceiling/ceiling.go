package ceiling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// ErrFull is the error of work that was given up because memory is used up.
var ErrFull = errors.New("the memory is used up")

// Ceiling is the memory that a process may take.
type Ceiling struct {
	size    Size
	bodies  *bodies
	control *bodies // of short requests to the control routes
	answers *answers
	late    *semaphore.Weighted // requests that are applied after their connection ended, by their memory
}

// New bounds the memory of the process: its garbage is collected in time for that.
func New(size Size) *Ceiling {
	if int64(size) < debug.SetMemoryLimit(-1) { // which GOMEMLIMIT may have set
		debug.SetMemoryLimit(int64(size))
	}
	return &Ceiling{size, newBodies(int64(size) / 8), newBodies(int64(size) / 64), newAnswers(int64(size)), semaphore.NewWeighted(int64(size) / 16)}
}

// The shares of the size.
func (c *Ceiling) streamBytes() int64 { return int64(c.size) / 16 }
func (c *Ceiling) answerBytes() int64 { return int64(c.size) / 16 }
func (c *Ceiling) liveBytes() int64   { return int64(c.size) / 4 * 3 }

// Bytes is the size.
func (c *Ceiling) Bytes() int64 { return int64(c.size) }

// Err is ErrFull while what is in use, as of the last garbage collection, takes more than three quarters of the memory.
func (c *Ceiling) Err() error {
	if live() <= c.liveBytes() {
		return nil
	}
	return fmt.Errorf("%w: more than three quarters of --max-memory %v are in use; raise --max-memory", ErrFull, c.size)
}

// live is the memory that was in use at the last garbage collection, in bytes.
func live() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// look is the time between two looks at the memory.
const look = 20 * time.Millisecond

// Within does work whose context ends when memory is used up. The error is then ErrFull, also if the work has
// succeeded in spite of that.
func (c *Ceiling) Within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-ticker.C:
				cancelIf(cancel, c.Err())
			}
		}
	})
	err := do(ctx)
	if err == nil {
		runtime.GC() // or what is in use is not known
		cancelIf(cancel, c.Err())
	}
	full := context.Cause(ctx)
	cancel(nil)
	watching.Wait()
	if errors.Is(full, ErrFull) {
		return full
	}
	return err
}

func cancelIf(cancel context.CancelCauseFunc, err error) {
	if err != nil {
		cancel(err)
	}
}

// The least that parts of a JSON document take when they are decoded, in bytes.
const (
	perObject  = 1 << 10
	perElement = 128
)

// Fits refuses a JSON document with more parts than there is memory for.
func (c *Ceiling) Fits(data []byte) error {
	objects, elements := int64(bytes.Count(data, []byte("{"))), int64(bytes.Count(data, []byte(",")))
	if objects*perObject <= int64(c.size) && elements*perElement <= int64(c.size) {
		return nil
	}
	return fmt.Errorf("%w: %d objects with %d members and elements need more than the --max-memory of %v", ErrFull, objects, elements, c.size)
}

// Transport returns a transport for answers of servers that are not trusted: each is read up to a sixteenth of the
// memory, unpacked, and none while memory is used up.
func (c *Ceiling) Transport(base http.RoundTripper) http.RoundTripper {
	return gated{httpbounds.Transport(base, c.answerBytes()), c}
}

type gated struct {
	base http.RoundTripper
	c    *Ceiling
}

// RoundTrip implements http.RoundTripper.
func (g gated) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := g.base.RoundTrip(r)
	if answer != nil && answer.Body != nil {
		answer.Body = gatedBody{answer.Body, g.c}
	}
	return answer, err
}
