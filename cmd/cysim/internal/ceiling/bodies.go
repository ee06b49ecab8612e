package ceiling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	// decoded is how many times its length a body takes in memory while it is served, as far as it has no objects: lists
	// of empty lists as JSON, above all.
	decoded = 32
	// short is the length up to which bodies of unknown length are read before they are counted, in bytes.
	short = 64 << 10
	// patience is how long a request waits for a part of each count.
	patience = 10 * time.Second
)

// bodies are the bodies of requests that are in memory, in three counts, so that one that comes slowly holds up no other.
type bodies struct {
	half     int64               // the size of each of the first two counts, in bytes
	most     int64               // what a single body may take, in bytes, one at a time beyond half
	received *semaphore.Weighted // their lengths
	decoded  *semaphore.Weighted // decoded bodies of requests that are served
	long     *semaphore.Weighted // one longer than services read as JSON: the data of an image, or a state
}

func newBodies(bytes int64) *bodies {
	half := bytes / 2
	return &bodies{half, 2 * bytes, semaphore.NewWeighted(half), semaphore.NewWeighted(half), semaphore.NewWeighted(1)}
}

// Handler serves requests while there is memory for their bodies and their answers. Others wait, and get 503 after a
// while, or 413 if the body alone takes too much. While memory is used up it refuses what could
// add to it with 507, but not logins: a client that frees memory needs one.
func (c *Ceiling) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			c.serve(w, r, next)
			return
		}
		counts := c.bodies
		if controls(r) {
			counts = c.control
		}
		if err := c.Err(); err != nil && !frees(r) {
			refuse(w, r, http.StatusInsufficientStorage, err.Error())
			return
		}
		release, status := counts.admit(r, c)
		defer release()
		switch status {
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "1")
			refuse(w, r, status, "the bodies of other requests use the memory that is for them")
		case http.StatusRequestEntityTooLarge:
			refuse(w, r, status, fmt.Sprintf("the body has more parts than the --max-memory of %v allows; raise it", c.size))
		default:
			c.serve(w, r, next)
		}
	})
}

// refuse answers when the client has sent its body: a connection that is closed before that is reset, which takes the
// answer from a client that has not read it yet.
func refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	_, _ = io.Copy(io.Discard, r.Body)
	http.Error(w, text, status)
}

// frees reports whether a request is accepted while memory is used up. A change of the clock
// completes waiting requests, and replacing all fault rules ends their effects.
func frees(r *http.Request) bool {
	return r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/auth/tokens") ||
		r.URL.Path == "/_sim/clock" || r.URL.Path == "/_sim/faults" && r.Method == http.MethodPut
}

// controls reports whether a request controls the simulator. Such requests have their own counts,
// so that changes of the clock and the fault rules can complete waiting requests.
func controls(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/_sim/") && r.ContentLength > 0 && r.ContentLength <= short
}

// admit counts the body of a request until it is released, and reads it unless it is long. The status is 0 if the request
// can be served.
func (b *bodies) admit(r *http.Request, c *Ceiling) (release func(), status int) {
	release = func() {}
	take := func(from *semaphore.Weighted, n int64) bool {
		if !take(r.Context(), from, n, patience) {
			return false
		}
		before := release
		release = func() { before(); from.Release(n) }
		return true
	}
	length, read := r.ContentLength, int64(simhttp.MaxBody+1)
	if length < 0 {
		data, err := io.ReadAll(io.LimitReader(r.Body, short))
		if err == nil && len(data) < short {
			length = int64(len(data))
		}
		r.Body = joined{io.MultiReader(bytes.NewReader(data), &rest{r.Body, err}), r.Body}
	}
	switch {
	case length < 0 || length > simhttp.MaxBody:
		if !take(b.long, 1) {
			return release, http.StatusServiceUnavailable
		}
		r.Body = gatedBody{r.Body, c}
		if length >= 0 {
			return release, 0
		}
	case !take(b.received, length):
		return release, http.StatusServiceUnavailable
	default:
		read = length + 1
	}
	data, err := httpbounds.ReadAll(io.LimitReader(r.Body, read), length)
	if err != nil || len(data) > simhttp.MaxBody {
		r.Body = joined{io.MultiReader(bytes.NewReader(data), &rest{r.Body, err}), r.Body}
	} else {
		r.Body = simhttp.Received(data, r.Body)
	}
	switch need := decodedSize(data); {
	case len(data) > simhttp.MaxBody:
		return release, 0 // no service decodes it
	case need > b.most:
		return release, http.StatusRequestEntityTooLarge
	case !take(b.decoded, min(max(need, decoded*int64(len(data))), b.half)):
		return release, http.StatusServiceUnavailable
	}
	return release, 0
}

// The least that parts of a body take when it is decoded as JSON into maps and lists, in bytes.
const (
	perMap   = 384
	perValue = 48
	perByte  = 4
)

// decodedSize is about how much memory a body takes when it is decoded as JSON, in bytes.
func decodedSize(data []byte) int64 {
	count := func(part string) int { return bytes.Count(data, []byte(part)) }
	return int64(perMap*count("{") + perValue*(count("[")+count(",")) + perByte*len(data))
}

// joined is a body whose begin was read.
type joined struct {
	io.Reader
	io.Closer
}

// rest is the remainder of a body: its end, or the error with which it ended.
type rest struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *rest) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return r.Reader.Read(p)
}

// gatedBody cannot be read on while memory is used up.
type gatedBody struct {
	io.ReadCloser
	c *Ceiling
}

// Read implements io.Reader.
func (b gatedBody) Read(p []byte) (int, error) {
	if err := b.c.Err(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, httpbounds.ErrTooLarge) {
		err = fmt.Errorf("%w, a sixteenth of --max-memory %v; raise --max-memory", err, b.c.size)
	}
	return n, err
}

// take waits for n units of a shared amount until the patience or the context ends. Waiters are
// served in order.
func take(ctx context.Context, from *semaphore.Weighted, n int64, patience time.Duration) bool {
	if from.TryAcquire(n) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return from.Acquire(ctx, n) == nil
}
