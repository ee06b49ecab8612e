package simhttp

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// buffer is an http.ResponseWriter that keeps the answer in memory.
type buffer struct {
	header http.Header
	status int
	body   *bytes.Buffer
}

func newBuffer(body *bytes.Buffer) *buffer { return &buffer{header: make(http.Header), body: body} }

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter; only the first call counts.
func (b *buffer) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

// Write implements http.ResponseWriter.
func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

// copyTo sends the kept headers and status with the given body.
func (b *buffer) copyTo(w http.ResponseWriter, body []byte) {
	maps.Copy(w.Header(), b.header)
	b.WriteHeader(http.StatusOK)
	w.WriteHeader(b.status)
	_, _ = w.Write(body) // the caller may be gone
}

// truncateTo promises the whole body, sends half and closes the connection.
func (b *buffer) truncateTo(w http.ResponseWriter) {
	body := b.body.Bytes()
	if len(body) == 0 {
		panic(http.ErrAbortHandler) // nothing to cut: no answer at all
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	b.header.Del("Content-Length")
	b.copyTo(w, body[:len(body)/2])
	_ = http.NewResponseController(w).Flush() // not needed, nor possible, in process
	panic(http.ErrAbortHandler)
}

// slowSteps is in how many pieces a slow body is sent.
const slowSteps = 10

// trickle sends status and headers at once and the body in pieces, the last of them after
// the given time. An answer without a body comes late as a whole. In process, where the
// handler runs on the caller's goroutine, the caller notices nothing before the end.
func (s *Service) trickle(w http.ResponseWriter, r *http.Request, answer *buffer, total time.Duration) {
	body := answer.body.Bytes()
	steps := min(len(body), slowSteps)
	if steps == 0 {
		s.pause(r, total)
		answer.copyTo(w, nil)
		return
	}
	answer.header.Set("Content-Length", strconv.Itoa(len(body))) // so that a client notices an early end
	maps.Copy(w.Header(), answer.header)
	answer.WriteHeader(http.StatusOK)
	w.WriteHeader(answer.status)
	connection := http.NewResponseController(w)
	for i := range steps {
		_ = connection.Flush() // not possible in process
		s.pause(r, total*time.Duration(i+1)/time.Duration(steps)-total*time.Duration(i)/time.Duration(steps))
		_, _ = w.Write(body[len(body)*i/steps : len(body)*(i+1)/steps]) // the caller may be gone
	}
}

// Wait waits on the service's clock within a request, whether or not its client is still there. It returns an error if
// the service was closed or its state was replaced.
func (s *Service) Wait(ctx context.Context, d time.Duration) error {
	ctx, end := s.late.Detach(ctx)
	defer end()
	return s.Clock.Wait(ctx, d)
}

// pause waits on the service's clock. If the caller disconnects, the answer ends.
func (s *Service) pause(r *http.Request, d time.Duration) {
	if s.Clock.Wait(r.Context(), d) != nil {
		panic(http.ErrAbortHandler)
	}
}
