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
	// Before is called before the state is replaced, unless it is nil.
	Before func()
}

// Prepare implements [sim.Recorded].
func (r Recorded) Prepare(records []sim.Record) (commit func(), err error) {
	replace, err := r.Recorded.Prepare(records)
	if err != nil {
		return nil, err
	}
	return func() {
		if r.Before != nil {
			r.Before()
		}
		r.Service.DropLate()
		replace()
	}, nil
}

// DropLate drops the requests that are still to be applied.
func (s *Service) DropLate() { s.late.Cancel() }

// serveLate closes the connection, or answers as a proxy that waits no longer, and applies the
// call later, even if its client disconnects; end is called after that.
func (s *Service) serveLate(c *Call, rule fault.Rule, end func(answer http.Header)) {
	err := keepBody(c.Request)
	if rule.Status != 0 {
		writeProxyError(c.W, rule)
	}
	answer := newBuffer(new(bytes.Buffer))
	c.W = answer
	if err != nil {
		end(answer.header) // the request did not arrive
	} else {
		ctx, done := s.late.Detach(c.Context())
		s.late.Start(func(context.Context) {
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

// keepBody reads the body of a request that outlives its connection.
func keepBody(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxData))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err
}
