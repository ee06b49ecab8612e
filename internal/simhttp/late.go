package simhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// Close drops the requests that are still to be applied (fault.Late), and waits for requests that
// are being applied.
func (s *Service) Close() { s.late.Close() }

// Recorded is the state of a service. Requests that are still to be applied to it (fault.Late) are
// dropped when it is replaced.
type Recorded struct {
	sim.Recorded
	Service *Service
}

// Prepare implements [sim.Recorded].
func (r Recorded) Prepare(records []sim.Record) (commit func(), err error) {
	replace, err := r.Recorded.Prepare(records)
	if err != nil {
		return nil, err
	}
	return func() {
		r.Service.DropLate()
		replace()
	}, nil
}

// DropLate drops the requests that are still to be applied.
func (s *Service) DropLate() { s.late.Cancel() }

type lateKey struct{}

// WithLateCount returns a request that calls count with its approximate memory, in bytes, before
// it is kept to be applied after its connection ended (fault.Late). The error of count is
// answered instead.
func WithLateCount(r *http.Request, count func(bytes int64) (release func(), err error)) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), lateKey{}, count))
}

// countLate calls the count of a request's context, if it has one.
func countLate(r *http.Request, body int) (release func(), err error) {
	count, ok := r.Context().Value(lateKey{}).(func(int64) (func(), error))
	if !ok {
		return func() {}, nil
	}
	size := perLate + body + 2*len(r.URL.Path) + 2*len(r.URL.RawQuery) // which the line of the request has, too
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return count(int64(size))
}

// perLate is the memory of a request that waits to be applied, without its texts, in bytes.
const perLate = 16 << 10

// serveLate closes the connection, or answers as a proxy that waits no longer, and applies the
// call later, even if its client disconnects; end is called after that.
func (s *Service) serveLate(c *Call, rule fault.Rule, end func(answer http.Header)) {
	body, err := keepBody(c.Request)
	release, refused := countLate(c.Request, body)
	if refused != nil {
		s.WriteError(c, refused)
		end(c.W.Header())
		return
	}
	if rule.Status != 0 {
		writeProxyError(c.W, rule)
	}
	answer := newBuffer(new(bytes.Buffer))
	c.W = answer
	if err != nil {
		release()
		end(answer.header) // the request did not arrive
	} else {
		ctx, done := s.late.Detach(c.Context())
		s.late.Start(func(context.Context) {
			defer release()
			defer done()
			if s.Clock.Wait(ctx, rule.Delay) == nil {
				c.Request = c.WithContext(ctx)
				s.handle(c)
			}
			end(answer.header)
		})
	}
	if rule.Status == 0 {
		panic(http.ErrAbortHandler)
	}
}

// keepBody reads the body of a request that outlives its connection, and returns its length.
func keepBody(r *http.Request) (length int, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return 0, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxData))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return len(body), err
}
